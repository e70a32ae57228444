//! Parsing of times with the two layouts that Kubernetes uses, with the errors in the words of Go's `time.Parse`.

use crate::go_text::quote_bytes;

use super::{SECONDS_A_DAY, Time, WRITABLE_SECONDS, days_in, days_of};

/// The reason that a text is no time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TimeError {
    /// A part is missing or malformed.
    #[error("parsing time {} as {}: cannot parse {} as {}", quote_bytes(.text), quote_bytes(.layout), quote_bytes(.rest), quote_bytes(.part))]
    Malformed {
        /// The whole text.
        text: String,
        /// The expected layout.
        layout: &'static str,
        /// The text from the error on.
        rest: String,
        /// The part of the layout that should stand there.
        part: &'static str,
    },
    /// A part has a value that it cannot have, or there is text after the time.
    #[error("parsing time {}: {what}", quote_bytes(.text))]
    OutOfRange {
        /// The whole text.
        text: String,
        /// The error.
        what: String,
    },
}

/// A layout is the list of its parts, and as a whole only shown in messages.
pub(super) struct Layout {
    text: &'static str,
    parts: &'static [&'static str],
}

pub(super) const RFC3339: Layout = Layout {
    text: "2006-01-02T15:04:05Z07:00",
    parts: &["2006", "-", "01", "-", "02", "T", "15", ":", "04", ":", "05", "Z07:00"],
};

pub(super) const RFC3339_MICRO: Layout = Layout {
    text: "2006-01-02T15:04:05.000000Z07:00",
    parts: &[
        "2006", "-", "01", "-", "02", "T", "15", ":", "04", ":", "05", ".000000", "Z07:00",
    ],
};

enum LayoutError {
    Malformed,
    OutOfRange(&'static str),
}

#[derive(Default)]
struct TimeFields {
    year: i64,
    month: i64,
    day: i64,
    second_of_day: i64,
    nanos: u32,
    offset: i64,
}

pub(super) fn parse(text: &str, layout: Layout) -> Result<Time, TimeError> {
    let mut fields = TimeFields::default();
    let mut rest = text;
    let out_of_range = |what: String| TimeError::OutOfRange {
        text: text.to_owned(),
        what,
    };
    for (at, part) in layout.parts.iter().copied().enumerate() {
        let fraction_may_follow = layout.parts.get(at + 1).is_some_and(|next| !next.starts_with('.'));
        rest = match fields.take(part, rest, fraction_may_follow) {
            Ok(rest) => rest,
            Err(LayoutError::OutOfRange(what)) => return Err(out_of_range(format!("{what} out of range"))),
            Err(LayoutError::Malformed) => {
                return Err(TimeError::Malformed {
                    text: text.to_owned(),
                    layout: layout.text,
                    rest: rest.to_owned(),
                    part,
                });
            }
        };
    }
    if !rest.is_empty() {
        return Err(out_of_range(format!("extra text: {}", quote_bytes(rest))));
    }
    if fields.day < 1 || fields.day > days_in(fields.month, fields.year) {
        return Err(out_of_range("day out of range".to_owned()));
    }
    let days = days_of(fields.year, fields.month, fields.day);
    let seconds = days * SECONDS_A_DAY + fields.second_of_day - fields.offset;
    // In UTC, in which times are kept, an offset may lead out of the years that can be written.
    if !WRITABLE_SECONDS.contains(&seconds) {
        return Err(out_of_range("year out of range".to_owned()));
    }
    Ok(Time::from_unix(seconds, fields.nanos))
}

impl TimeFields {
    /// Takes one part of the layout off the text.
    fn take<'t>(&mut self, part: &str, text: &'t str, fraction_may_follow: bool) -> Result<&'t str, LayoutError> {
        match part {
            "2006" => {
                let (year, rest) = digits(text, 4).ok_or(LayoutError::Malformed)?;
                self.year = year;
                Ok(rest)
            }
            "01" => {
                let (month, rest) = digits(text, 2).ok_or(LayoutError::Malformed)?;
                self.month = within(month, 1, 12, "month")?;
                Ok(rest)
            }
            "02" => {
                let (day, rest) = digits(text, 2).ok_or(LayoutError::Malformed)?;
                self.day = day;
                Ok(rest)
            }
            "15" => {
                // The one part of which Go also takes a single digit.
                let (hour, rest) = digits(text, 2)
                    .or_else(|| digits(text, 1))
                    .ok_or(LayoutError::Malformed)?;
                self.second_of_day += 3600 * within(hour, 0, 23, "hour")?;
                Ok(rest)
            }
            "04" => {
                let (minute, rest) = digits(text, 2).ok_or(LayoutError::Malformed)?;
                self.second_of_day += 60 * within(minute, 0, 59, "minute")?;
                Ok(rest)
            }
            "05" => {
                let (second, rest) = digits(text, 2).ok_or(LayoutError::Malformed)?;
                self.second_of_day += within(second, 0, 59, "second")?;
                Ok(if fraction_may_follow {
                    self.any_fraction(rest)
                } else {
                    rest
                })
            }
            ".000000" => {
                let (micros, rest) = text
                    .strip_prefix(['.', ','])
                    .and_then(|rest| digits(rest, 6))
                    .ok_or(LayoutError::Malformed)?;
                self.nanos = u32::try_from(micros * 1000).unwrap_or_default();
                Ok(rest)
            }
            "Z07:00" => self.zone(text),
            mark => text.strip_prefix(mark).ok_or(LayoutError::Malformed),
        }
    }

    /// Takes a fraction of any length if there is one; what is below a nanosecond is dropped.
    fn any_fraction<'t>(&mut self, text: &'t str) -> &'t str {
        let Some(fraction) = text.strip_prefix(['.', ',']) else {
            return text;
        };
        let rest = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
        let decimals = fraction.strip_suffix(rest).unwrap_or_default();
        if decimals.is_empty() {
            return text;
        }
        self.nanos = decimals
            .bytes()
            .map(|byte| u32::from(byte - b'0'))
            .chain(std::iter::repeat(0))
            .take(9)
            .fold(0, |nanos, digit| nanos * 10 + digit);
        rest
    }

    fn zone<'t>(&mut self, text: &'t str) -> Result<&'t str, LayoutError> {
        if let Some(rest) = text.strip_prefix('Z') {
            return Ok(rest);
        }
        let sign = match text.bytes().next() {
            Some(b'+') => 1,
            Some(b'-') => -1,
            _ => return Err(LayoutError::Malformed),
        };
        let parsed = text
            .get(1..)
            .and_then(|rest| digits(rest, 2))
            .and_then(|(hours, rest)| Some((hours, digits(rest.strip_prefix(':')?, 2)?)));
        let (hours, (minutes, rest)) = parsed.ok_or(LayoutError::Malformed)?;
        let hours = within(hours, 0, 24, "time zone offset hour")?;
        let minutes = within(minutes, 0, 60, "time zone offset minute")?;
        self.offset = sign * (hours * 3600 + minutes * 60);
        Ok(rest)
    }
}

fn digits(text: &str, count: usize) -> Option<(i64, &str)> {
    let (number, rest) = text.split_at_checked(count)?;
    let all_digits = number.bytes().all(|byte| byte.is_ascii_digit());
    Some((number.parse().ok().filter(|_| all_digits)?, rest))
}

fn within(value: i64, low: i64, high: i64, what: &'static str) -> Result<i64, LayoutError> {
    if (low..=high).contains(&value) {
        Ok(value)
    } else {
        Err(LayoutError::OutOfRange(what))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Time;

    #[test]
    fn errors_read_as_in_go() {
        let layout = "2006-01-02T15:04:05Z07:00";
        for (text, want) in [
            (
                "yesterday",
                format!(r#""yesterday" as "{layout}": cannot parse "yesterday" as "2006""#),
            ),
            ("", format!(r#""" as "{layout}": cannot parse "" as "2006""#)),
            (
                "2024/01/01",
                format!(r#""2024/01/01" as "{layout}": cannot parse "/01/01" as "-""#),
            ),
            (
                "2024-01-01",
                format!(r#""2024-01-01" as "{layout}": cannot parse "" as "T""#),
            ),
            (
                "2024-01-01T00:00:00",
                format!(r#""2024-01-01T00:00:00" as "{layout}": cannot parse "" as "Z07:00""#),
            ),
            (
                "2024-13-01T00:00:00Z",
                r#""2024-13-01T00:00:00Z": month out of range"#.to_owned(),
            ),
            (
                "2023-02-29T00:00:00Z",
                r#""2023-02-29T00:00:00Z": day out of range"#.to_owned(),
            ),
            (
                "2024-01-01T24:00:00Z",
                r#""2024-01-01T24:00:00Z": hour out of range"#.to_owned(),
            ),
            (
                "2024-01-01T00:00:00Zx",
                r#""2024-01-01T00:00:00Zx": extra text: "x""#.to_owned(),
            ),
        ] {
            let error = Time::parse(text).expect_err(text);
            assert_eq!(error.to_string(), format!("parsing time {want}"));
        }
        let error = Time::parse_micro("2024-01-01T00:00:00Z").expect_err("six decimals are missing");
        assert_eq!(
            error.to_string(),
            r#"parsing time "2024-01-01T00:00:00Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ".000000""#
        );
    }
}
