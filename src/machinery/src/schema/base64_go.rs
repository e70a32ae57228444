//! Base64 as Go's `encoding/base64` reads it: line breaks are skipped, stray bits in the last character forgiven,
//! and an error is reported by the position that Go reports.

use base64::{Engine as _, engine::general_purpose::STANDARD};

/// The canonical form of `text` if it is not `text` itself.
///
/// # Errors
/// The position of the first byte that is wrong.
pub(super) fn canonical(text: &str) -> Result<Option<String>, usize> {
    if is_canonical(text.as_bytes()) {
        return Ok(None);
    }
    let canonical = STANDARD.encode(decode(text.as_bytes())?);
    Ok((canonical != text).then_some(canonical))
}

/// Returns true if Go would decode and encode the text to itself: full quanta, and padding only at the end over zero bits.
fn is_canonical(text: &[u8]) -> bool {
    let body = match text {
        [body @ .., b'=', b'='] => body,
        [body @ .., b'='] => body,
        body => body,
    };
    let spare_bits = match text.len() - body.len() {
        0 => 0,
        1 => 0b11,
        _ => 0b1111,
    };
    let last_is_clean = spare_bits == 0
        || body
            .last()
            .and_then(|byte| sextet(*byte))
            .is_some_and(|bits| bits & spare_bits == 0);
    text.len().is_multiple_of(4) && last_is_clean && body.iter().all(|byte| sextet(*byte).is_some())
}

fn sextet(byte: u8) -> Option<u8> {
    match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}

/// The bytes of `text` with their positions, without line breaks.
fn significant(text: &[u8]) -> impl Iterator<Item = (usize, u8)> {
    text.iter()
        .copied()
        .enumerate()
        .filter(|(_, byte)| !matches!(byte, b'\n' | b'\r'))
}

fn decode(text: &[u8]) -> Result<Vec<u8>, usize> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let mut bytes = significant(text);
    let (mut quantum, mut filled) = (0_u32, 0_usize);
    while let Some((at, byte)) = bytes.next() {
        if let Some(bits) = sextet(byte) {
            quantum = quantum << 6 | u32::from(bits);
            filled += 1;
            if filled == 4 {
                out.extend_from_slice(quantum.to_be_bytes().get(1..).unwrap_or_default());
                (quantum, filled) = (0, 0);
            }
            continue;
        }
        if byte != b'=' || filled < 2 {
            return Err(at);
        }
        if filled == 2 {
            match bytes.next() {
                Some((_, b'=')) => {}
                Some((next, _)) => return Err(next),
                None => return Err(text.len()),
            }
        }
        if let Some((garbage, _)) = bytes.next() {
            return Err(garbage);
        }
        let padded = quantum << (6 * (4 - filled));
        out.extend_from_slice(padded.to_be_bytes().get(1..filled).unwrap_or_default());
        return Ok(out);
    }
    if filled == 0 { Ok(out) } else { Err(text.len() - filled) }
}

#[cfg(test)]
mod tests {
    use super::canonical;

    #[test]
    fn reads_as_go_does() {
        for text in ["", "YQ==", "YWI=", "YWJj", "YWJjZA=="] {
            assert_eq!(canonical(text), Ok(None), "{text:?}");
        }
        for (text, want) in [("YW\nJj\r\n", "YWJj"), ("YR==", "YQ=="), ("YWI=\n", "YWI=")] {
            assert_eq!(canonical(text), Ok(Some(want.to_owned())), "{text:?}");
        }
        for (text, at) in [
            ("!", 0),
            ("%%%", 0),
            ("not base64!", 3),
            ("YQ", 0),
            ("YWJjYQ", 4),
            ("YQ=", 3),
            ("YQ=x", 3),
            ("YQ==YQ==", 4),
            ("=", 0),
            ("Y===", 1),
            ("YWJjY", 4),
        ] {
            assert_eq!(canonical(text), Err(at), "{text:?}");
        }
    }
}
