//! Escape sequences, and how characters are written for the `regex` crate.

#![cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use std::fmt::Write as _;

use super::{RegexError, RegexErrorKind, before};

/// A code point, which unlike a `char` may be a surrogate: Go's patterns name them, although no text has one.
pub(super) type Rune = u32;
const MAX_RUNE: Rune = 0x10_FFFF;

/// Splits off the first character.
pub(super) fn first(text: &str) -> Option<(char, &str)> {
    let mut characters = text.chars();
    Some((characters.next()?, characters.as_str()))
}

/// Writes a character that stands for itself, within a class or outside.
pub(super) fn push_literal(out: &mut String, rune: Rune) {
    match char::from_u32(rune) {
        Some(plain) if plain.is_ascii_alphanumeric() => out.push(plain),
        _ => _ = write!(out, "\\x{{{rune:X}}}"),
    }
}

/// The class of Perl's escape, as the `regex` crate writes it: Go's are of ASCII.
pub(super) fn perl_class(text: &str) -> Option<(&'static str, &str)> {
    let (letter, rest) = first(text.strip_prefix('\\')?)?;
    let class = match letter {
        'd' => "[0-9]",
        'D' => "[^0-9]",
        's' => r"[\t\n\x0C\r\x20]",
        'S' => r"[^\t\n\x0C\r\x20]",
        'w' => "[0-9A-Za-z_]",
        'W' => "[^0-9A-Za-z_]",
        _ => return None,
    };
    Some((class, rest))
}

/// Reads the escape of one character, from the backslash on.
pub(super) fn escaped(text: &str) -> Result<(Rune, &str), RegexError> {
    let after = text.strip_prefix('\\').unwrap_or(text);
    let Some((letter, rest)) = first(after) else {
        return Err(RegexError::new(RegexErrorKind::TrailingBackslash, ""));
    };
    let error = |rest| Err(RegexError::new(RegexErrorKind::Escape, before(text, rest)));
    let control = match letter {
        '0'..='7' => match octal(after) {
            Some(found) => return Ok(found),
            None => return error(rest),
        },
        'x' => return hexadecimal(rest).or_else(error),
        'a' => 0x07,
        'f' => 0x0C,
        'n' => 0x0A,
        'r' => 0x0D,
        't' => 0x09,
        'v' => 0x0B,
        other if other.is_ascii() && !other.is_ascii_alphanumeric() => other.into(),
        _ => return error(rest),
    };
    Ok((control, rest))
}

/// Reads up to three octal digits. One that is not zero would be a reference to a group, which there is not.
fn octal(text: &str) -> Option<(Rune, &str)> {
    let digits = text.bytes().take(3).take_while(|digit| matches!(digit, b'0'..=b'7'));
    let digits = text.get(..digits.count())?;
    let is_one = digits.len() == 1 && digits != "0";
    let value = Rune::from_str_radix(digits, 8).ok().filter(|_| !is_one)?;
    Some((value, text.get(digits.len()..)?))
}

/// Reads two hexadecimal digits, or any number of them in braces. An error is what follows where Go stopped reading.
fn hexadecimal(text: &str) -> Result<(Rune, &str), &str> {
    let Some((first_digit, rest)) = first(text) else {
        return Err(text);
    };
    if first_digit == '{' {
        return braced(rest);
    }
    let (second_digit, rest) = first(rest).ok_or(rest)?;
    match (first_digit.to_digit(16), second_digit.to_digit(16)) {
        (Some(high), Some(low)) => Ok((high.saturating_mul(16).saturating_add(low), rest)),
        _ => Err(rest),
    }
}

fn braced(text: &str) -> Result<(Rune, &str), &str> {
    let mut value: Rune = 0;
    let mut rest = text;
    while let Some((digit, after)) = first(rest) {
        if digit == '}' {
            let is_empty = rest.len() == text.len();
            return if is_empty { Err(after) } else { Ok((value, after)) };
        }
        let digit = digit.to_digit(16).ok_or(after)?;
        value = value.saturating_mul(16).saturating_add(digit);
        if value > MAX_RUNE {
            return Err(after);
        }
        rest = after;
    }
    Err(rest)
}
