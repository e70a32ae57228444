//! Durations in Go's notation: `1h0m0s`, `1.5s`, `300ms`.

use crate::go_text::quote_bytes;
use std::fmt;

/// A length of time in nanoseconds, as Go's `time.Duration`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration(i64);

/// The reason that a text is no duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// Neither a number nor a sign, or too large.
    #[error("time: invalid duration {}", quote_bytes(.0))]
    Invalid(String),
    /// A number without a unit.
    #[error("time: missing unit in duration {}", quote_bytes(.0))]
    MissingUnit(String),
    /// A unit that there is not.
    #[error("time: unknown unit {} in duration {}", quote_bytes(.unit), quote_bytes(.text))]
    UnknownUnit {
        /// The unit.
        unit: String,
        /// The whole text.
        text: String,
    },
}

impl Duration {
    /// So many nanoseconds.
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds.
    pub const fn nanos(self) -> i64 {
        self.0
    }

    /// Parses Go's notation.
    ///
    /// # Errors
    /// In Go's words, if the text is no duration.
    pub fn parse(text: &str) -> Result<Self, DurationError> {
        let invalid = || DurationError::Invalid(text.to_owned());
        let (sign, mut rest) = match text.strip_prefix('-') {
            Some(rest) => (-1, rest),
            None => (1, text.strip_prefix('+').unwrap_or(text)),
        };
        if rest == "0" {
            return Ok(Self(0));
        }
        if rest.is_empty() {
            return Err(invalid());
        }
        let mut total: i128 = 0;
        while !rest.is_empty() {
            let (whole, after) = split_digits(rest);
            let (decimals, after) = match after.strip_prefix('.') {
                Some(after) => split_digits(after),
                None => ("", after),
            };
            if whole.is_empty() && decimals.is_empty() {
                return Err(invalid());
            }
            let end = after
                .find(|c: char| c == '.' || c.is_ascii_digit())
                .unwrap_or(after.len());
            let (unit, after) = after.split_at(end);
            let unit_nanos = unit_nanos(unit).ok_or_else(|| match unit {
                "" => DurationError::MissingUnit(text.to_owned()),
                unit => DurationError::UnknownUnit {
                    unit: unit.to_owned(),
                    text: text.to_owned(),
                },
            })?;
            let whole = if whole.is_empty() { "0" } else { whole };
            let whole: i64 = whole.parse().map_err(|_| invalid())?;
            total += i128::from(whole) * i128::from(unit_nanos) + fraction_nanos(decimals, unit_nanos);
            rest = after;
        }
        i64::try_from(sign * total).map(Self).map_err(|_| invalid())
    }

    /// Parses Go's notation, or numbers with units in words, of which all are added up: `1 day 2 hours`, `3w`
    /// (`strfmt.ParseDuration`). Other text around them, such as a sign, does not count.
    pub fn parse_words(text: &str) -> Option<Self> {
        if let Ok(duration) = Self::parse(text) {
            return Some(duration);
        }
        let mut total: Option<i64> = None;
        let mut rest = text;
        while let Some(start) = rest.find(|letter: char| letter.is_ascii_digit()) {
            let (number, after) = split_digits(rest.get(start..)?);
            let after = after.trim_start_matches([' ', '\t', '\n', '\r', '\u{c}']);
            let is_of_unit = |letter: char| letter.is_ascii_alphabetic() || letter == 'µ';
            let (unit, after) = after.split_at(after.find(|letter| !is_of_unit(letter)).unwrap_or(after.len()));
            rest = after;
            if unit.is_empty() {
                continue;
            }
            let number: i64 = number.parse().ok()?;
            if let Some(nanos) = word_nanos(&unit.to_lowercase()) {
                total = Some(total.unwrap_or(0).wrapping_add(number.wrapping_mul(nanos)));
            }
        }
        total.map(Self)
    }
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

fn unit_nanos(unit: &str) -> Option<i64> {
    match unit {
        "ns" => Some(1),
        "us" | "µs" | "μs" => Some(1_000),
        "ms" => Some(1_000_000),
        "s" => Some(1_000_000_000),
        "m" => Some(60_000_000_000),
        "h" => Some(3_600_000_000_000),
        _ => None,
    }
}

/// The nanoseconds of a unit that is a word, by its first letters, or is abbreviated.
fn word_nanos(unit: &str) -> Option<i64> {
    const DAY: i64 = 86_400_000_000_000;
    const WORDS: [(&str, &str); 8] = [
        ("nano", "ns"),
        ("micro", "us"),
        ("milli", "ms"),
        ("sec", "s"),
        ("min", "m"),
        ("hour", "h"),
        ("day", "d"),
        ("week", "w"),
    ];
    let by_word = WORDS.iter().find(|(word, _)| unit.starts_with(word));
    match by_word.map_or(unit, |(_, short)| short) {
        "hr" => unit_nanos("h"),
        "d" => Some(DAY),
        "w" | "wk" => Some(7 * DAY),
        short => unit_nanos(short),
    }
}

/// `0.<decimals>` of a unit; what is below a nanosecond is dropped.
fn fraction_nanos(decimals: &str, unit_nanos: i64) -> i128 {
    // Eighteen digits are finer than a nanosecond of an hour.
    let digits = decimals.get(..18).unwrap_or(decimals);
    let scale = digits.bytes().fold(1_i128, |scale, _| scale * 10);
    digits.parse::<i128>().unwrap_or(0) * i128::from(unit_nanos) / scale
}

/// The form in which Go prints durations: `1h0m0s`, `1.5s`, `300ms`, `0s`.
impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.unsigned_abs();
        if self.0 < 0 {
            f.write_str("-")?;
        }
        if nanos < 1_000_000_000 {
            return match nanos {
                0 => f.write_str("0s"),
                1..1_000 => write!(f, "{nanos}ns"),
                1_000..1_000_000 => write!(f, "{}µs", decimal(nanos, 3)),
                _ => write!(f, "{}ms", decimal(nanos, 6)),
            };
        }
        let seconds = nanos / 1_000_000_000;
        let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
        if hours > 0 {
            write!(f, "{hours}h")?;
        }
        if hours > 0 || minutes > 0 {
            write!(f, "{minutes}m")?;
        }
        write!(f, "{}s", decimal(nanos % 60_000_000_000, 9))
    }
}

/// `value / 10^places` without trailing zeroes.
fn decimal(value: u64, places: u32) -> String {
    let unit = 10_u64.pow(places);
    let (whole, fraction) = (value / unit, value % unit);
    if fraction == 0 {
        return whole.to_string();
    }
    let width = places as usize;
    format!("{whole}.{fraction:0width$}").trim_end_matches('0').to_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Duration;

    #[test]
    fn durations_take_gos_form() {
        for (text, want) in [
            ("1h", "1h0m0s"),
            ("60s", "1m0s"),
            ("90m", "1h30m0s"),
            ("1.5s", "1.5s"),
            ("1h0m0.5s", "1h0m0.5s"),
            ("300ms", "300ms"),
            ("1500us", "1.5ms"),
            ("2µs", "2µs"),
            ("7ns", "7ns"),
            ("-2m", "-2m0s"),
            ("0", "0s"),
            (".5h", "30m0s"),
        ] {
            assert_eq!(Duration::parse(text).expect(text).to_string(), want, "{text}");
        }
    }

    #[test]
    fn durations_may_have_units_in_words() {
        for (text, want) in [
            ("1h30m", "1h30m0s"),
            ("-2m", "-2m0s"),
            ("1 day", "24h0m0s"),
            ("3w", "504h0m0s"),
            ("2 Weeks", "336h0m0s"),
            ("1 wk 1 hr", "169h0m0s"),
            ("5 micros", "5µs"),
            ("7 nanoseconds", "7ns"),
            ("1 minute 2 seconds 3 millis", "1m2.003s"),
            // Signs and what stands before a point are passed over, as is a unit that there is not beside one that there is.
            ("-1 day", "24h0m0s"),
            ("1.5 days", "120h0m0s"),
            ("9 lives 2µs", "2µs"),
            ("2 hrs", ""),
            ("1 month", ""),
            ("day", ""),
            ("5", ""),
            ("", ""),
            ("99999999999999999999 days", ""),
        ] {
            let got = Duration::parse_words(text).map(|duration| duration.to_string());
            assert_eq!(got.unwrap_or_default(), want, "{text}");
        }
    }

    #[test]
    fn errors_read_as_in_go() {
        for (text, want) in [
            ("", r#"time: invalid duration """#),
            ("x", r#"time: invalid duration "x""#),
            ("5", r#"time: missing unit in duration "5""#),
            ("5d", r#"time: unknown unit "d" in duration "5d""#),
            ("9999999h", r#"time: invalid duration "9999999h""#),
        ] {
            assert_eq!(Duration::parse(text).expect_err(text).to_string(), want);
        }
    }

    proptest! {
        #[test]
        fn printing_and_parsing_are_inverse(nanos in (i64::MIN + 1)..i64::MAX) {
            let duration = Duration::from_nanos(nanos);
            prop_assert_eq!(Duration::parse(&duration.to_string()), Ok(duration));
        }
    }
}
