//! Values as text, as Go's CEL shows them.

use trireme_machinery::time::Time;

use crate::value::Value;

/// A scalar as `string()` makes text of it.
pub(crate) fn display(value: &Value<'_>) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Uint(value) => value.to_string(),
        Value::Double(value) => float(*value),
        Value::String(text) => text.as_str().to_owned(),
        Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::Duration(duration) => format!("{}s", decimal(duration.nanos())),
        Value::Timestamp(time) => timestamp(*time),
        Value::Type(kind) => kind.to_string(),
        Value::Opaque(opaque) => opaque.to_string(),
        Value::List(_) | Value::Map(_) => value.kind_name(),
        Value::Optional(None) => "optional.none()".to_owned(),
        Value::Optional(Some(inner)) => format!("optional({})", display(inner)),
    }
}

/// Billionths as a decimal number without zeros at its end.
fn decimal(nanos: i64) -> String {
    let sign = if nanos < 0 { "-" } else { "" };
    let (whole, rest) = (
        nanos.unsigned_abs() / 1_000_000_000,
        nanos.unsigned_abs() % 1_000_000_000,
    );
    match rest {
        0 => format!("{sign}{whole}"),
        rest => format!("{sign}{whole}.{}", format!("{rest:09}").trim_end_matches('0')),
    }
}

/// RFC 3339 with as many decimals as there are.
fn timestamp(time: Time) -> String {
    let whole = time.to_string();
    match time.nanos() {
        0 => whole,
        nanos => {
            let decimals = format!("{nanos:09}");
            format!("{}.{}Z", whole.trim_end_matches('Z'), decimals.trim_end_matches('0'))
        }
    }
}

/// The shortest text that reads as the number (Go's format `g`).
pub(super) fn float(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..6).contains(&exponent) {
        return value.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
}
