//! Conversions between types.

use trireme_machinery::{
    go_text::{parse_int, parse_uint},
    time::{Duration, Time},
};

use super::{
    CallContext, Cost, FunctionResult, FunctionRow, GLOBAL, display, no_overload, operators::TIMESTAMP_OVERFLOW,
    operators::TIMESTAMP_SECONDS,
};
use crate::{meter::EvalError, value::Value};

pub(super) const TABLE: &[FunctionRow] = &[
    ("dyn", GLOBAL, Cost::Fixed(1), |args, _| {
        args.first().cloned().ok_or(EvalError::fixed("no such overload"))
    }),
    ("type", GLOBAL, Cost::Fixed(1), |args, _| match args {
        [value] => Ok(Value::Type(value.kind().into())),
        _ => no_overload("type", args),
    }),
    ("bool", GLOBAL, Cost::Fixed(1), to_bool),
    ("bytes", GLOBAL, Cost::OfText, |args, _| match args {
        [Value::Bytes(_)] => Ok(args[0].clone()),
        [Value::String(text)] => Ok(Value::Bytes(text.as_str().as_bytes().into())),
        _ => no_overload("bytes", args),
    }),
    ("double", GLOBAL, Cost::Fixed(1), to_double),
    ("int", GLOBAL, Cost::Fixed(1), to_int),
    ("uint", GLOBAL, Cost::Fixed(1), to_uint),
    ("string", GLOBAL, Cost::OfBytes, to_string),
    ("duration", GLOBAL, Cost::Fixed(1), |args, _| match args {
        [Value::Duration(_)] => Ok(args[0].clone()),
        [Value::Int(nanos)] => Ok(Value::Duration(Duration::from_nanos(*nanos))),
        [Value::String(text)] => Duration::parse(text.as_str())
            .map(Value::Duration)
            .map_err(|_| unreadable("google.protobuf.Duration")),
        _ => no_overload("duration", args),
    }),
    ("timestamp", GLOBAL, Cost::Fixed(1), to_timestamp),
];

const RANGE: EvalError = EvalError::fixed("integer overflow");
const UNSIGNED_RANGE: EvalError = EvalError::fixed("unsigned integer overflow");

/// The error of a text that is none of a type.
fn unreadable(kind: &str) -> EvalError {
    EvalError::failed(format!("type conversion error from 'string' to '{kind}'"))
}

fn to_bool<'v>(args: &[Value<'v>], _: &mut CallContext<'v, '_>) -> FunctionResult<'v> {
    match args {
        [Value::Bool(value)] => Ok(Value::Bool(*value)),
        [Value::String(text)] => match text.as_str() {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Value::Bool(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Value::Bool(false)),
            _ => Err(unreadable("bool")),
        },
        _ => no_overload("bool", args),
    }
}

#[expect(clippy::cast_precision_loss, reason = "CEL rounds large numbers")]
fn to_double<'v>(args: &[Value<'v>], _: &mut CallContext<'v, '_>) -> FunctionResult<'v> {
    match args {
        [Value::Double(value)] => Ok(Value::Double(*value)),
        [Value::Int(value)] => Ok(Value::Double(*value as f64)),
        [Value::Uint(value)] => Ok(Value::Double(*value as f64)),
        [Value::String(text)] => {
            let value = text.as_str().parse::<f64>();
            value.map(Value::Double).map_err(|_| unreadable("double"))
        }
        _ => no_overload("double", args),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the guard has seen that it fits")]
fn to_int<'v>(args: &[Value<'v>], _: &mut CallContext<'v, '_>) -> FunctionResult<'v> {
    match args {
        [Value::Int(value)] => Ok(Value::Int(*value)),
        [Value::Uint(value)] => i64::try_from(*value).map(Value::Int).map_err(|_| RANGE),
        [Value::Double(value)] => match value.is_finite() && value.abs() < 9.223_372_036_854_775e18 {
            true => Ok(Value::Int(*value as i64)),
            false => Err(RANGE),
        },
        [Value::Duration(value)] => Ok(Value::Int(value.nanos())),
        [Value::Timestamp(value)] => Ok(Value::Int(value.unix_seconds())),
        [Value::String(text)] => parse_int(text.as_str()).map(Value::Int).map_err(|_| unreadable("int")),
        _ => no_overload("int", args),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the guard has seen that it fits"
)]
fn to_uint<'v>(args: &[Value<'v>], _: &mut CallContext<'v, '_>) -> FunctionResult<'v> {
    match args {
        [Value::Uint(value)] => Ok(Value::Uint(*value)),
        [Value::Int(value)] => u64::try_from(*value).map(Value::Uint).map_err(|_| UNSIGNED_RANGE),
        [Value::Double(value)] => match *value >= 0.0 && *value < 1.844_674_407_370_955e19 {
            true => Ok(Value::Uint(*value as u64)),
            false => Err(UNSIGNED_RANGE),
        },
        [Value::String(text)] => parse_uint(text.as_str())
            .map(Value::Uint)
            .map_err(|_| unreadable("uint")),
        _ => no_overload("uint", args),
    }
}

fn to_string<'v>(args: &[Value<'v>], _: &mut CallContext<'v, '_>) -> FunctionResult<'v> {
    match args {
        [Value::String(_)] => Ok(args[0].clone()),
        [Value::Bytes(bytes)] => match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Value::text(text)),
            Err(_) => Err(EvalError::fixed("invalid UTF-8 in bytes, cannot convert to string")),
        },
        [
            value @ (Value::Bool(_)
            | Value::Int(_)
            | Value::Uint(_)
            | Value::Double(_)
            | Value::Duration(_)
            | Value::Timestamp(_)
            | Value::Opaque(_)),
        ] => Ok(Value::text(display(value))),
        _ => no_overload("string", args),
    }
}

fn to_timestamp<'v>(args: &[Value<'v>], _: &mut CallContext<'v, '_>) -> FunctionResult<'v> {
    let time = match args {
        [Value::Timestamp(time)] => *time,
        [Value::Int(seconds)] => Time::from_unix(*seconds, 0),
        [Value::String(text)] => Time::parse(text.as_str()).map_err(|_| unreadable("google.protobuf.Timestamp"))?,
        _ => return no_overload("timestamp", args),
    };
    match TIMESTAMP_SECONDS.contains(&time.unix_seconds()) {
        true => Ok(Value::Timestamp(time)),
        false => Err(TIMESTAMP_OVERFLOW),
    }
}
