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

const BEGIN: &str = "-----BEGIN ";
const END: &str = "-----END ";
const END_LINE: &str = "\n-----END ";
const DASHES: &str = "-----";

/// The well-formed blocks in their order, as Go's `encoding/pem` finds them: `BEGIN` and `END` stand at the beginnings of lines
/// that end with the dashes.
pub(crate) fn blocks(text: &str) -> Vec<PemBlock<'_>> {
    let mut blocks = Vec::new();
    let mut rest = text;
    while let Some((block, after)) = next_block(rest) {
        blocks.push(block);
        rest = after;
    }
    blocks
}

/// The first well-formed block and what comes after it.
fn next_block(text: &str) -> Option<(PemBlock<'_>, &str)> {
    let mut rest = text;
    let mut next_end = text;
    loop {
        rest = after_line_begin(rest, BEGIN)?;
        let (kind, after) = line(rest);
        rest = after;
        let Some(kind) = kind.strip_suffix(DASHES) else {
            continue;
        };
        let (has_headers, body) = without_headers(rest)?;
        rest = body;
        let (encoded, trailer) = match body.strip_prefix(END).filter(|_| !has_headers) {
            Some(trailer) => ("", trailer),
            None => split_at_end(body, &mut next_end)?,
        };
        if let Some((content, after)) = content_of_block(encoded, trailer, kind) {
            let block = PemBlock {
                kind,
                has_headers,
                content,
            };
            return Some((block, after));
        }
    }
}

/// The rest of a text after a mark that begins the text or one of its lines.
fn after_line_begin<'a>(text: &'a str, mark: &str) -> Option<&'a str> {
    text.strip_prefix(mark).or_else(|| {
        let mut found = text.match_indices(mark);
        let (at, _) = found.find(|(at, _)| text.get(..*at).is_some_and(|before| before.ends_with('\n')))?;
        text.get(at..)?.strip_prefix(mark)
    })
}

/// The first line without blanks at its end, and the lines after it.
fn line(text: &str) -> (&str, &str) {
    let (line, rest) = text.split_once('\n').unwrap_or((text, ""));
    let line = line
        .strip_suffix('\r')
        .filter(|_| line.len() < text.len())
        .unwrap_or(line);
    (line.trim_end_matches([' ', '\t']), rest)
}

/// Takes the lines with a colon from the beginning; none if nothing is left.
fn without_headers(body: &str) -> Option<(bool, &str)> {
    let mut rest = body;
    let mut has_headers = false;
    while !rest.is_empty() {
        let (first, after) = line(rest);
        if !first.contains(':') {
            return Some((has_headers, rest));
        }
        has_headers = true;
        rest = after;
    }
    None
}

/// Splits a body at the first end of a block, without the mark; none if the body has no end, and then no later body has
/// one. `next_end` is where the search for an earlier body ended: it is not searched again.
fn split_at_end<'a>(body: &'a str, next_end: &mut &'a str) -> Option<(&'a str, &'a str)> {
    if next_end.len() > body.len() {
        *next_end = body.get(body.find(END_LINE)?..)?;
    }
    let encoded = body.get(..body.len().checked_sub(next_end.len())?)?;
    Some((encoded, next_end.strip_prefix(END_LINE)?))
}

/// The decoded bytes of a block of a kind, and what comes after its last line; `trailer` begins with the kind that ends.
fn content_of_block<'a>(encoded: &str, trailer: &'a str, kind: &str) -> Option<(Vec<u8>, &'a str)> {
    let after = trailer.strip_prefix(kind)?.strip_prefix(DASHES)?;
    let (left, after) = line(after);
    if encoded.contains('-') {
        return None;
    }
    let encoded: String = encoded
        .chars()
        .filter(|c| !matches!(c, ' ' | '\t' | '\r' | '\n'))
        .collect();
    let content = STANDARD.decode(encoded).ok()?;
    left.is_empty().then_some((content, after))
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
    fn a_block_is_one_that_go_reads() {
        let count = |text: &str| blocks(text).len();
        let block = "-----BEGIN A-----\nAAAA\n-----END A-----";
        for text in [
            block.to_owned(),
            block.replace('\n', "\r\n"),
            format!("x\n{block} \t\nx"),
            "-----BEGIN A-----\n-----END A-----".to_owned(),
            format!("-----BEGIN B-----\n{block}"),
            block.replace("AAAA", "AA AA\t"),
        ] {
            assert_eq!(count(&text), 1, "{text:?}");
        }
        for text in [
            format!("x {block}"),
            block.replace("\n-----END", "-----END"),
            format!("{block}x"),
            block.replacen("A-----", "A-----x", 1),
            block.replace("END A", "END B"),
            block.replace("AAAA", "AAA"),
            "-----BEGIN A-----\nx: y".to_owned(),
            "-----BEGIN A-----".to_owned(),
        ] {
            assert_eq!(count(&text), 0, "{text:?}");
        }
        assert_eq!(count(&format!("{block}\n{block}")), 2);
    }

    #[test]
    fn blocks_without_an_end_take_no_long_time() {
        let begins = "-----BEGIN A-----\nx\n".repeat(100_000);
        for (end, count) in [
            ("", 0),
            ("-----END A-----", 0),
            ("-----END B-----", 0),
            ("-----END B-----\n-----BEGIN A-----\nAAAA\n-----END A-----", 1),
        ] {
            assert_eq!(blocks(&format!("{begins}{end}")).len(), count, "{end:?}");
        }
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
