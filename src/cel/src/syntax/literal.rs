//! Literals: numbers, and text with its escapes.

use super::ast::Literal;

/// A number's value from its text; none if it does not fit.
pub(crate) fn int(text: &str, is_negative: bool) -> Option<Literal> {
    let magnitude = magnitude(text)?;
    let value = i128::from(magnitude).saturating_mul(if is_negative { -1 } else { 1 });
    i64::try_from(value).ok().map(Literal::Int)
}

pub(crate) fn uint(text: &str) -> Option<Literal> {
    magnitude(text.trim_end_matches(['u', 'U'])).map(Literal::Uint)
}

pub(crate) fn double(text: &str, is_negative: bool) -> Option<Literal> {
    let value: f64 = text.parse().ok()?;
    // Go refuses what is out of range instead of rounding it to infinity.
    value
        .is_finite()
        .then_some(Literal::Double(if is_negative { -value } else { value }))
}

fn magnitude(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// The value of quoted text or bytes; none if an escape in it is none.
pub(crate) fn text(token: &str) -> Option<Literal> {
    let quote_at = token.find(['"', '\''])?;
    let (marks, quoted) = token.split_at_checked(quote_at)?;
    let marks = marks.to_ascii_lowercase();
    let len = if quoted.len() >= 6 && (quoted.starts_with("'''") || quoted.starts_with("\"\"\"")) {
        3
    } else {
        1
    };
    let body = quoted.get(len..quoted.len().checked_sub(len)?)?;
    let body = body.replace("\r\n", "\n").replace('\r', "\n");
    let is_bytes = marks.contains('b');
    let value = if marks.contains('r') || !body.contains('\\') {
        body.into_bytes()
    } else {
        unescape(&body, is_bytes)?
    };
    if is_bytes {
        return Some(Literal::Bytes(value));
    }
    String::from_utf8(value).ok().map(Literal::String)
}

fn unescape(body: &str, is_bytes: bool) -> Option<Vec<u8>> {
    let mut value = Vec::with_capacity(body.len());
    let mut rest = body;
    while let Some(at) = rest.find('\\') {
        value.extend_from_slice(rest.get(..at)?.as_bytes());
        let escape = rest.get(at.saturating_add(1)..)?;
        let mark = escape.chars().next()?;
        rest = escape.get(mark.len_utf8()..)?;
        let simple = match mark {
            'a' => Some(0x07),
            'b' => Some(0x08),
            'f' => Some(0x0c),
            'n' => Some(b'\n'),
            'r' => Some(b'\r'),
            't' => Some(b'\t'),
            'v' => Some(0x0b),
            '\\' | '\'' | '"' | '`' | '?' => u8::try_from(u32::from(mark)).ok(),
            _ => None,
        };
        if let Some(byte) = simple {
            value.push(byte);
            continue;
        }
        let (digits, base, code) = match mark {
            'x' | 'X' => (rest.get(..2)?, 16, None),
            'u' if !is_bytes => (rest.get(..4)?, 16, None),
            'U' if !is_bytes => (rest.get(..8)?, 16, None),
            '0'..='3' => (rest.get(..2)?, 8, mark.to_digit(8)),
            _ => return None,
        };
        if !digits.bytes().all(|byte| char::from(byte).is_digit(base)) {
            return None;
        }
        rest = rest.get(digits.len()..)?;
        let number = u32::from_str_radix(digits, base)
            .ok()?
            .saturating_add(code.unwrap_or(0).saturating_mul(64));
        match is_bytes {
            true => value.push(u8::try_from(number).ok()?),
            false => {
                let character = char::from_u32(number)?;
                value.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            }
        }
    }
    value.extend_from_slice(rest.as_bytes());
    Some(value)
}
