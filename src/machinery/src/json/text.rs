//! Strings: escapes, and what is no Unicode.

use super::{JsonError, decode::unexpected};

const IN_STRING: &str = "in string literal";
const IN_ESCAPE: &str = "in string escape code";
const IN_HEX: &str = r"in \u hexadecimal character escape";

/// Reads a string up to its closing quote; `input` begins after the opening one. Returns the string and how many
/// bytes it took, with the closing quote.
pub(super) fn read(input: &[u8]) -> Result<(String, usize), JsonError> {
    let plain = plain_length(input);
    let head = input.get(..plain).unwrap_or_default();
    let mut out = match std::str::from_utf8(head) {
        Ok(text) => text.to_owned(),
        Err(_) => {
            let mut out = String::with_capacity(head.len().saturating_add(8));
            push_lossy(&mut out, head);
            out
        }
    };
    let mut at = plain;
    loop {
        match input.get(at) {
            None => return Err(JsonError::UnexpectedEnd),
            Some(b'"') => return Ok((out, at.saturating_add(1))),
            Some(b'\\') => {
                let rest = input.get(at.saturating_add(1)..).unwrap_or_default();
                at = at.saturating_add(escape(rest, &mut out)?).saturating_add(1);
            }
            Some(&byte) if byte < b' ' => return Err(unexpected(byte, IN_STRING)),
            Some(_) => {
                let rest = input.get(at..).unwrap_or_default();
                let length = plain_length(rest);
                push_lossy(&mut out, rest.get(..length).unwrap_or_default());
                at = at.saturating_add(length);
            }
        }
    }
}

/// Bytes that are scanned together: one step of vector instructions, or two.
const CHUNK: usize = 32;
/// Bytes that are scanned together in what is shorter than a chunk, as most strings are.
const WORD: usize = 8;

/// The number of leading bytes that stand for themselves.
pub(super) fn plain_length(input: &[u8]) -> usize {
    let is_special = |b: u8| (b == b'"') | (b == b'\\') | (b < b' ');
    let mut plain = 0_usize;
    // Most strings end within one or two words.
    for _ in 0..CHUNK.div_ceil(WORD) {
        let Some(word) = input.get(plain..).and_then(|rest| rest.first_chunk()) else {
            break;
        };
        match first_special(u64::from_le_bytes(*word)) {
            WORD => plain = plain.saturating_add(WORD),
            found => return plain.saturating_add(found),
        }
    }
    let rest = input.get(plain..).unwrap_or_default();
    // Without an early end within a chunk, which would keep the compiler from using vector instructions.
    let is_plain = |chunk: &&[u8]| !chunk.iter().fold(false, |any, &b| any | is_special(b));
    let chunks = rest.chunks_exact(CHUNK).take_while(is_plain).count();
    plain = plain.saturating_add(CHUNK.saturating_mul(chunks));
    let rest = input.get(plain..).unwrap_or_default();
    plain.saturating_add(rest.iter().position(|&b| is_special(b)).unwrap_or(rest.len()))
}

/// The place of the first byte of a word, least significant first, that does not stand for itself, or [`WORD`].
fn first_special(word: u64) -> usize {
    const EACH: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x80 * EACH;
    // A byte is zero if taking one from it borrows; only bytes above one that is found may be found in error.
    let zeroes = |word: u64| word.wrapping_sub(EACH) & !word;
    let each = |byte: u8| EACH.wrapping_mul(u64::from(byte));
    let controls = word.wrapping_sub(each(b' ')) & !word;
    let found = (zeroes(word ^ each(b'"')) | zeroes(word ^ each(b'\\')) | controls) & HIGH;
    (found.trailing_zeros() / 8) as usize
}

/// Appends bytes, each one that is no UTF-8 as U+FFFD.
fn push_lossy(out: &mut String, bytes: &[u8]) {
    for chunk in bytes.utf8_chunks() {
        out.push_str(chunk.valid());
        out.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
}

/// Reads what follows a backslash; returns how many bytes that was.
fn escape(input: &[u8], out: &mut String) -> Result<usize, JsonError> {
    let c = match input.first() {
        None => return Err(JsonError::UnexpectedEnd),
        Some(b'u') => return unicode(input.get(1..).unwrap_or_default(), out).map(|length| length.saturating_add(1)),
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'n') => '\n',
        Some(b'r') => '\r',
        Some(b't') => '\t',
        Some(&byte @ (b'"' | b'\\' | b'/')) => char::from(byte),
        Some(&byte) => return Err(unexpected(byte, IN_ESCAPE)),
    };
    out.push(c);
    Ok(1)
}

/// Reads the digits after `\u`, and a second escape if the two make a pair.
fn unicode(input: &[u8], out: &mut String) -> Result<usize, JsonError> {
    let first = hex(input)?;
    if let Some(c) = char::from_u32(first) {
        out.push(c);
        return Ok(4);
    }
    let second = match input.get(4..6) {
        Some(br"\u") => input.get(6..).and_then(|digits| hex(digits).ok()),
        _ => None,
    };
    match second {
        Some(low @ 0xDC00..=0xDFFF) if first < 0xDC00 => {
            let code = 0x10000_u32.saturating_add((first & 0x3FF) << 10 | (low & 0x3FF));
            out.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
            Ok(10)
        }
        _ => {
            out.push(char::REPLACEMENT_CHARACTER);
            Ok(4)
        }
    }
}

fn hex(input: &[u8]) -> Result<u32, JsonError> {
    let mut code = 0;
    for at in 0..4 {
        let byte = *input.get(at).ok_or(JsonError::UnexpectedEnd)?;
        let digit = char::from(byte).to_digit(16).ok_or_else(|| unexpected(byte, IN_HEX))?;
        code = code << 4 | digit;
    }
    Ok(code)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::plain_length;

    fn byte() -> impl Strategy<Value = u8> {
        prop_oneof![8 => Just(b'a'), 4 => any::<u8>(), 1 => Just(b'!'), 1 => Just(b'#'), 1 => Just(b'['), 1 => Just(b']')]
    }

    proptest! {
        #[test]
        fn plain_bytes_are_counted(bytes in prop::collection::vec(byte(), 0..100)) {
            let expected = bytes.iter().position(|&byte| matches!(byte, b'"' | b'\\' | 0..b' '));
            prop_assert_eq!(plain_length(&bytes), expected.unwrap_or(bytes.len()));
        }
    }
}
