//! Ages as tables show them.

use jiff::SignedDuration;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const YEAR: i64 = 365 * DAY;

/// A duration for people, with about three significant digits: `5s`, `3m12s`, `2d3h`.
///
/// A time that lies in the future by more than a second is `<invalid>`; less is taken for clock skew.
pub fn human_duration(age: SignedDuration) -> String {
    let seconds = age.as_secs();
    if seconds < -1 {
        return "<invalid>".to_owned();
    }
    match seconds {
        ..0 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        120..600 => two(seconds / MINUTE, "m", seconds % MINUTE, "s"),
        600..10_800 => format!("{}m", seconds / MINUTE),
        10_800..28_800 => two(seconds / HOUR, "h", seconds / MINUTE % 60, "m"),
        28_800..172_800 => format!("{}h", seconds / HOUR),
        172_800..691_200 => two(seconds / DAY, "d", seconds / HOUR % 24, "h"),
        691_200..63_072_000 => format!("{}d", seconds / DAY),
        63_072_000..252_288_000 => two(seconds / YEAR, "y", seconds / DAY % 365, "d"),
        _ => format!("{}y", seconds / YEAR),
    }
}

fn two(large: i64, large_unit: &str, small: i64, small_unit: &str) -> String {
    if small == 0 {
        format!("{large}{large_unit}")
    } else {
        format!("{large}{large_unit}{small}{small_unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::{DAY, HOUR, MINUTE, SignedDuration, YEAR, human_duration};

    #[test]
    fn ages_read_as_in_kubectl() {
        for (seconds, want) in [
            (-5, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (3 * MINUTE + 12, "3m12s"),
            (10 * MINUTE + 1, "10m"),
            (179 * MINUTE, "179m"),
            (3 * HOUR, "3h"),
            (3 * HOUR + 5 * MINUTE, "3h5m"),
            (8 * HOUR + 5 * MINUTE, "8h"),
            (47 * HOUR, "47h"),
            (2 * DAY, "2d"),
            (2 * DAY + 3 * HOUR, "2d3h"),
            (8 * DAY + 3 * HOUR, "8d"),
            (2 * YEAR - 1, "729d"),
            (2 * YEAR, "2y"),
            (2 * YEAR + 10 * DAY, "2y10d"),
            (8 * YEAR + 10 * DAY, "8y"),
        ] {
            assert_eq!(human_duration(SignedDuration::from_secs(seconds)), want, "{seconds}");
        }
    }
}
