//! Numbers: their grammar, their values, and how Go prints doubles.

use serde_json::{Number, Value};

use crate::go_text::go_float;

use super::{JsonError, decode::unexpected};

/// The number of bytes the number at the start of the input has, and whether it is written as an integer.
pub(super) fn scan(input: &[u8]) -> Result<(usize, bool), JsonError> {
    let byte = |at: usize| input.get(at).copied();
    let digits = |mut at: usize| {
        while byte(at).is_some_and(|b| b.is_ascii_digit()) {
            at = at.saturating_add(1);
        }
        at
    };
    let digit_at = |at: usize, place: &'static str| match byte(at) {
        Some(b) if b.is_ascii_digit() => Ok(()),
        Some(b) => Err(unexpected(b, place)),
        None => Err(JsonError::UnexpectedEnd),
    };

    let mut at = usize::from(byte(0) == Some(b'-'));
    digit_at(at, "in numeric literal")?;
    at = if byte(at) == Some(b'0') {
        at.saturating_add(1)
    } else {
        digits(at)
    };
    let mut is_integer = true;
    if byte(at) == Some(b'.') {
        digit_at(at.saturating_add(1), "after decimal point in numeric literal")?;
        at = digits(at.saturating_add(1));
        is_integer = false;
    }
    if matches!(byte(at), Some(b'e' | b'E')) {
        at = at.saturating_add(1);
        if matches!(byte(at), Some(b'+' | b'-')) {
            at = at.saturating_add(1);
        }
        digit_at(at, "in exponent of numeric literal")?;
        at = digits(at);
        is_integer = false;
    }
    Ok((at, is_integer))
}

/// The value of a well-formed number. There is no negative zero: it would print as `-0`, which is the integer 0 when it
/// is read again, so that an object would change by being stored.
pub(super) fn parse(digits: &str, is_integer: bool) -> Result<Value, JsonError> {
    if is_integer {
        if let Ok(value) = digits.parse::<i64>() {
            return Ok(value.into());
        }
        if let Ok(value) = digits.parse::<u64>() {
            return Ok(value.into());
        }
    }
    let value: f64 = digits.parse().expect("a JSON number is a Rust number");
    double(value).ok_or_else(|| JsonError::NumberOutOfRange(digits.to_owned()))
}

/// A double that JSON has, without the sign of a zero.
pub(crate) fn double(value: f64) -> Option<Value> {
    // IEEE 754: -0.0 + 0.0 is 0.0, and any other sum with it is the other number.
    Number::from_f64(value + 0.0).map(Value::Number)
}

/// The value of a number that came from elsewhere, as if it had been written to JSON and read back.
pub(crate) fn number(value: f64) -> Option<Value> {
    if !value.is_finite() {
        return None;
    }
    let digits = go_float(value);
    let is_integer = !digits.contains(['.', 'e']);
    parse(&digits, is_integer).ok()
}
