//! Classes in brackets.

#![cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use super::{
    RegexError, RegexErrorKind, before,
    escapes::{self, Rune, first, push_literal},
    unicode,
};

/// The names of POSIX, of ASCII as in the `regex` crate.
const POSIX: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper", "word",
    "xdigit",
];

const FIRST_SURROGATE: Rune = 0xD800;
const LAST_SURROGATE: Rune = 0xDFFF;

/// Reads a class from its bracket on, and returns it as the `regex` crate writes it and what follows.
pub(super) fn class(whole: &str) -> Result<(String, &str), RegexError> {
    let mut rest = whole.strip_prefix('[').unwrap_or(whole);
    let mut out = String::from("[");
    if let Some(negated) = rest.strip_prefix('^') {
        out.push('^');
        rest = negated;
    }
    let members = out.len();
    // A bracket that closes stands for itself if it comes first.
    let mut is_first = true;
    loop {
        if let Some(after) = rest.strip_prefix(']').filter(|_| !is_first) {
            if out.len() == members {
                out.push_str(unicode::NOTHING);
            }
            out.push(']');
            return Ok((out, after));
        }
        is_first = false;
        rest = member(&mut out, rest, whole)?;
    }
}

fn member<'p>(out: &mut String, text: &'p str, whole: &str) -> Result<&'p str, RegexError> {
    if let Some((class, rest)) = posix(text)? {
        out.push_str(class);
        return Ok(rest);
    }
    if let Some((class, rest)) = unicode::class_escape(text)? {
        out.push_str(&class);
        return Ok(rest);
    }
    if let Some((class, rest)) = escapes::perl_class(text) {
        out.push_str(class);
        return Ok(rest);
    }
    range(out, text, whole)
}

/// Reads `[:name:]`. Without its end, the bracket stands for itself.
fn posix(text: &str) -> Result<Option<(&str, &str)>, RegexError> {
    let Some((inner, rest)) = text.strip_prefix("[:").and_then(|text| text.split_once(":]")) else {
        return Ok(None);
    };
    let class = before(text, rest);
    if POSIX.contains(&inner.strip_prefix('^').unwrap_or(inner)) {
        return Ok(Some((class, rest)));
    }
    Err(RegexError::new(RegexErrorKind::ClassRange, class))
}

/// Reads one character or a range. A hyphen may stand anywhere, and for itself where it makes no range.
fn range<'p>(out: &mut String, text: &'p str, whole: &str) -> Result<&'p str, RegexError> {
    let (low, mut rest) = character(text, whole)?;
    let mut high = low;
    let after_hyphen = rest.strip_prefix('-');
    if let Some(after) = after_hyphen.filter(|after| !after.is_empty() && !after.starts_with(']')) {
        (high, rest) = character(after, whole)?;
        if high < low {
            return Err(RegexError::new(RegexErrorKind::ClassRange, before(text, rest)));
        }
    }
    push_range(out, low, high);
    Ok(rest)
}

fn character<'p>(text: &'p str, whole: &str) -> Result<(Rune, &'p str), RegexError> {
    if text.starts_with('\\') {
        return escapes::escaped(text);
    }
    let (found, rest) = first(text).ok_or_else(|| RegexError::new(RegexErrorKind::MissingBracket, whole))?;
    Ok((found.into(), rest))
}

/// Writes a range without the surrogates in it, which the `regex` crate has no way to name.
fn push_range(out: &mut String, low: Rune, high: Rune) {
    let is_surrogate = |rune| (FIRST_SURROGATE..=LAST_SURROGATE).contains(&rune);
    let low = if is_surrogate(low) {
        LAST_SURROGATE.saturating_add(1)
    } else {
        low
    };
    let high = if is_surrogate(high) {
        FIRST_SURROGATE.saturating_sub(1)
    } else {
        high
    };
    if low > high {
        return;
    }
    push_literal(out, low);
    if low < high {
        out.push('-');
        push_literal(out, high);
    }
}
