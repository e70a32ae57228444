//! Reads PEM as Go does: blocks are found anywhere in a text, what is between them is passed over.

#![cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use base64::{Engine as _, engine::general_purpose::STANDARD};

/// The well-formed blocks in their order: their kind, such as `CERTIFICATE`, and what they hold.
pub(crate) fn blocks(text: &str) -> Vec<(&str, Vec<u8>)> {
    let mut blocks = Vec::new();
    let mut rest = text;
    while let Some((_, after)) = rest.split_once("-----BEGIN ") {
        rest = after;
        let Some((kind, body)) = after.split_once("-----") else {
            break;
        };
        let Some((body, after_block)) = body.split_once(&format!("-----END {kind}-----")) else {
            continue;
        };
        let content: String = body.split_whitespace().collect();
        if let Ok(bytes) = STANDARD.decode(content) {
            blocks.push((kind, bytes));
            rest = after_block;
        }
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_found_in_any_text() {
        let block = |kind: &str| format!("-----BEGIN {kind}-----\nAAAA\nAAAA\n-----END {kind}-----\n");
        let block_types = |text| {
            blocks(text)
                .into_iter()
                .map(|(kind, _)| kind.to_owned())
                .collect::<Vec<_>>()
        };
        let text = format!("hello\n{}{}", block("A"), block("B C"));
        assert_eq!(block_types(&text), ["A", "B C"]);
        assert_eq!(block_types("no pem"), Vec::<String>::new());
        assert_eq!(
            block_types("-----BEGIN A-----\n!\n-----END A-----"),
            Vec::<String>::new()
        );
    }
}
