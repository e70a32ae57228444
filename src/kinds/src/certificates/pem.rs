//! Reads PEM as Go does: blocks are found anywhere in a text, what is between them is passed over.

#![cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use base64::{Engine as _, engine::general_purpose::STANDARD};

/// A well-formed block.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PemBlock<'a> {
    /// Such as `CERTIFICATE`.
    pub(crate) kind: &'a str,
    /// Lines such as `Proc-Type: 4,ENCRYPTED` stand before what it holds.
    pub(crate) has_headers: bool,
    /// The decoded bytes.
    pub(crate) content: Vec<u8>,
}

/// The well-formed blocks in their order.
pub(crate) fn blocks(text: &str) -> Vec<PemBlock<'_>> {
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
        let (has_headers, body) = without_headers(body);
        let content: String = body.split_whitespace().collect();
        if let Ok(content) = STANDARD.decode(content) {
            blocks.push(PemBlock {
                kind,
                has_headers,
                content,
            });
            rest = after_block;
        }
    }
    blocks
}

/// Takes the lines with a colon from the beginning.
fn without_headers(body: &str) -> (bool, &str) {
    let mut rest = body.trim_start();
    let mut has_headers = false;
    while let Some((line, after)) = rest.split_once('\n')
        && line.contains(':')
    {
        has_headers = true;
        rest = after;
    }
    (has_headers, rest)
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
                .map(|block| block.kind.to_owned())
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

    #[test]
    fn headers_are_no_content() {
        let text = "-----BEGIN A-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: x\n\nAAAA\n-----END A-----";
        let found = blocks(text);
        assert_eq!(found.len(), 1);
        assert!(
            found
                .iter()
                .all(|block| block.has_headers && block.content == [0, 0, 0])
        );
    }
}
