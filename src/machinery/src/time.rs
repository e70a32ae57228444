//! Times and durations as Kubernetes writes them. No clock: callers bring the time.

mod age;
mod duration;
mod layout;

use std::fmt;

use jiff::Timestamp;

pub use age::human_duration;
pub use duration::{Duration, DurationError};
pub use layout::TimeError;

const SECONDS_A_DAY: i64 = 86_400;
/// 0001-01-01T00:00:00Z, Go's zero time.
const GO_ZERO_SECONDS: i64 = -62_135_596_800;
/// The first second of the year 0 and the last of the year 9999, between which RFC 3339 has texts.
pub(crate) const WRITABLE_SECONDS: std::ops::RangeInclusive<i64> = -62_167_219_200..=253_402_300_799;

/// A moment, with the range of Go's four-digit years.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time {
    seconds: i64,
    nanos: u32,
}

impl Time {
    /// A moment by seconds since 1970 and nanoseconds within the second.
    pub const fn from_unix(seconds: i64, nanos: u32) -> Self {
        Self { seconds, nanos }
    }

    /// Seconds since 1970, rounded down.
    pub const fn unix_seconds(self) -> i64 {
        self.seconds
    }

    /// Nanoseconds within the second.
    pub const fn nanos(self) -> u32 {
        self.nanos
    }

    /// Returns true if this is Go's zero time, which is written as `null`.
    pub const fn is_zero(self) -> bool {
        self.seconds == GO_ZERO_SECONDS && self.nanos == 0
    }

    /// Parses RFC 3339 with any fraction and offset.
    ///
    /// # Errors
    /// In Go's words, if the text is no time.
    pub fn parse(text: &str) -> Result<Self, TimeError> {
        layout::parse(text, layout::RFC3339)
    }

    /// Parses RFC 3339, also without a zone, which is UTC then (`strfmt.ParseDateTime`).
    pub fn parse_date_time(text: &str) -> Option<Self> {
        Self::parse(text).or_else(|_| Self::parse(&format!("{text}Z"))).ok()
    }

    /// Parses `2006-01-02` as the beginning of the day in UTC.
    pub fn parse_date(text: &str) -> Option<Self> {
        Self::parse(&format!("{text}T00:00:00Z")).ok()
    }

    /// Parses RFC 3339 with exactly six decimals, as `MicroTime` is written.
    ///
    /// # Errors
    /// In Go's words, if the text is no such time.
    pub fn parse_micro(text: &str) -> Result<Self, TimeError> {
        layout::parse(text, layout::RFC3339_MICRO)
    }

    /// `2006-01-02T15:04:05.000000Z`
    pub fn to_micro_string(self) -> String {
        let micros = self.nanos / 1000;
        let whole = self.to_string();
        format!("{}.{micros:06}Z", whole.trim_end_matches('Z'))
    }

    /// `2006-01-02`, in UTC.
    pub fn to_date_string(self) -> String {
        let (year, month, day) = civil(self.seconds.div_euclid(SECONDS_A_DAY));
        format!("{year:04}-{month:02}-{day:02}")
    }
}

/// The clock's time, as it is written into objects.
impl From<Timestamp> for Time {
    fn from(timestamp: Timestamp) -> Self {
        let second = timestamp.as_second();
        match u32::try_from(timestamp.subsec_nanosecond()) {
            Ok(nanos) => Self { seconds: second, nanos },
            // Before 1970 the fraction counts backwards.
            Err(_) => Self {
                seconds: second - 1,
                nanos: 1_000_000_000 - timestamp.subsec_nanosecond().unsigned_abs(),
            },
        }
    }
}

/// `2006-01-02T15:04:05Z`: in UTC, without the fraction.
impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = civil(self.seconds.div_euclid(SECONDS_A_DAY));
        let second = self.seconds.rem_euclid(SECONDS_A_DAY);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
    }
}

/// Returns true if the text is a time in the form in which it is kept, the usual case.
pub(crate) fn is_canonical(text: &str) -> bool {
    const FORM: &[u8; 20] = b"0000-00-00T00:00:00Z";
    let bytes = text.as_bytes();
    bytes.len() == FORM.len()
        && bytes.iter().zip(FORM).all(|(byte, form)| match form {
            b'0' => byte.is_ascii_digit(),
            mark => byte == mark,
        })
        && Time::parse(text).is_ok_and(|time| !time.is_zero())
}

/// Year, month and day of the day so many days after 1970-01-01, in the Gregorian calendar.
fn civil(days: i64) -> (i64, i64, i64) {
    // Counted in eras of 400 years that begin on 1 March, so that leap days end a year.
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

/// The inverse of [`civil`].
fn days_of(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let shifted_month = (month + 9) % 12;
    let day_of_year = (153 * shifted_month + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

fn days_in(month: i64, year: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Time;

    #[test]
    fn times_are_kept_in_utc_with_whole_seconds() {
        for (text, want) in [
            ("2024-02-29T12:00:00Z", "2024-02-29T12:00:00Z"),
            ("2024-01-01T00:30:00+01:00", "2023-12-31T23:30:00Z"),
            ("2024-12-31T23:30:00.999999999-01:00", "2025-01-01T00:30:00Z"),
            ("1970-01-01T00:00:00Z", "1970-01-01T00:00:00Z"),
            ("1969-12-31T23:59:59.5Z", "1969-12-31T23:59:59Z"),
            ("9999-12-31T23:59:59Z", "9999-12-31T23:59:59Z"),
            ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
            ("2024-1-01T00:00:00Z", ""),
            ("0000-01-01T00:00:00Z", "0000-01-01T00:00:00Z"),
            // The years before and after these have no form that could be read again.
            ("0000-01-01T00:00:00+00:01", ""),
            ("9999-12-31T23:59:59-00:01", ""),
        ] {
            let got = Time::parse(text).map(|time| time.to_string()).unwrap_or_default();
            assert_eq!(got, want, "{text}");
        }
        let micro = Time::parse_micro("2024-01-01T00:00:00.123456+00:00").expect("a time");
        assert_eq!(micro.to_micro_string(), "2024-01-01T00:00:00.123456Z");
    }

    #[test]
    fn date_times_may_lack_the_zone_and_dates_the_time() {
        for (text, want) in [
            ("2024-01-01T00:30:00+01:00", "2023-12-31T23:30:00.000000Z"),
            ("2024-01-01T00:30:00.123456Z", "2024-01-01T00:30:00.123456Z"),
            ("2024-01-01T00:30:00.001", "2024-01-01T00:30:00.001000Z"),
            ("2024-01-01T00:30:00", "2024-01-01T00:30:00.000000Z"),
            ("2024-01-01t00:30:00z", ""),
            ("2024-01-01T00:30:00+01:00Z", ""),
            ("2024-01-01", ""),
            ("", ""),
        ] {
            let got = Time::parse_date_time(text).map(Time::to_micro_string);
            assert_eq!(got.unwrap_or_default(), want, "{text}");
        }
        for (text, want) in [
            ("2024-02-29", "2024-02-29T00:00:00Z"),
            ("2023-02-29", ""),
            ("2024-2-29", ""),
            ("2024-02-29T00:00:00Z", ""),
            ("", ""),
        ] {
            let got = Time::parse_date(text).map(|time| time.to_string());
            assert_eq!(got.unwrap_or_default(), want, "{text}");
        }
    }

    #[test]
    fn the_clocks_time_is_taken_over() {
        for (nanos, want) in [
            (0, "1970-01-01T00:00:00.000000Z"),
            (1_500_000_000, "1970-01-01T00:00:01.500000Z"),
            (-1_500_000_000, "1969-12-31T23:59:58.500000Z"),
        ] {
            let timestamp = jiff::Timestamp::from_nanosecond(nanos).expect("in range");
            assert_eq!(Time::from(timestamp).to_micro_string(), want);
        }
    }

    #[test]
    fn only_the_final_form_is_canonical() {
        assert!(super::is_canonical("2024-02-29T12:00:00Z"));
        for text in [
            "2023-02-29T12:00:00Z",
            "2024-02-29T12:00:00z",
            "0001-01-01T00:00:00Z",
            "x",
        ] {
            assert!(!super::is_canonical(text), "{text}");
        }
    }

    proptest! {
        #[test]
        fn formatting_and_parsing_are_inverse(seconds in -62_135_596_800_i64..253_402_300_800) {
            let time = Time::from_unix(seconds, 0);
            prop_assert_eq!(Time::parse(&time.to_string()), Ok(time));
            prop_assert_eq!(Time::parse_micro(&time.to_micro_string()), Ok(time));
        }
    }
}
