//! Numbers as Go's `golang.org/x/text/message` prints them for `en_US`, in the clauses `%f` and `%e`.
//!
//! cel-go passes the precision of `%f` on as one, and that of `%e` as the width of the field.

use super::bounded;
use crate::meter::EvalError;

const DEFAULT_PRECISION: u64 = 6;
/// Digits after the point of a number in scientific notation.
const SCIENTIFIC_DIGITS: usize = 6;
/// Numbers in a format of `message` end where they grow larger than this.
const LARGEST_NUMBER: u64 = 1_000_000;
/// The text that `message` prints for a format that ends before its verb.
const NO_VERB: &str = "%!(NOVERB)";

/// The number with digits grouped by thousands.
pub(super) fn fixed(value: f64, precision: Option<u64>) -> Result<String, EvalError> {
    let precision = precision.unwrap_or(DEFAULT_PRECISION);
    if precision / 10 > LARGEST_NUMBER {
        return Ok(NO_VERB.to_owned());
    }
    if let Some(text) = not_finite(value) {
        return Ok(text);
    }
    // `message` keeps the most digits in 16 bits with a sign, and the fewest in 8 bits.
    let [fewest, second, ..] = precision.to_le_bytes();
    let magnitude = value.abs();
    let text = match usize::try_from(i16::from_le_bytes([fewest, second])) {
        Ok(most) => format!("{magnitude:.most$}"),
        Err(_) => magnitude.to_string(),
    };
    bounded(text.len())?;
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let mut written = format!("{}{}", sign(value), grouped(whole));
    let fraction = fraction.trim_end_matches('0');
    let least = usize::from(fewest);
    if least > 0 || !fraction.is_empty() {
        written.push_str(&format!(".{fraction:0<least$}"));
    }
    Ok(written)
}

/// The number in scientific notation, at the right end of a field of a width.
pub(super) fn scientific(value: f64, width: Option<u64>) -> String {
    let width = width.unwrap_or(DEFAULT_PRECISION);
    if width / 10 > LARGEST_NUMBER {
        return NO_VERB.to_owned();
    }
    // `message` keeps the width in 16 bits.
    let width = usize::from(u16::try_from(width % (1 << 16)).unwrap_or(0));
    let text = not_finite(value).unwrap_or_else(|| {
        let text = format!("{:.SCIENTIFIC_DIGITS$e}", value.abs());
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        format!("{}{digits}×10{}", sign(value), superscript(exponent))
    });
    format!("{text:>width$}")
}

fn not_finite(value: f64) -> Option<String> {
    if value.is_nan() {
        return Some("NaN".to_owned());
    }
    value.is_infinite().then(|| format!("{}∞", sign(value)))
}

/// Zero has no sign.
fn sign(value: f64) -> &'static str {
    if value < 0.0 { "-" } else { "" }
}

fn grouped(digits: &str) -> String {
    let mut written = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            written.push(',');
        }
        written.push(digit);
    }
    written
}

/// An exponent of at least two digits.
fn superscript(exponent: &str) -> String {
    const DIGITS: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    let (sign, digits) = match exponent.strip_prefix('-') {
        Some(digits) => ("⁻", digits),
        None => ("", exponent),
    };
    let raised = |digit: char| digit.to_digit(10).and_then(|digit| DIGITS.get(digit as usize));
    let raised: String = format!("{digits:0>2}").chars().filter_map(raised).collect();
    format!("{sign}{raised}")
}
