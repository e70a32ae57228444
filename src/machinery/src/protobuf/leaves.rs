//! Messages that JSON shows as a text or a number: times, durations, quantities and their like.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value;

use super::{
    ProtobufError,
    wire::{WireEntry, WireReader, int32},
};
use crate::{
    json,
    schema::StringFormat,
    time::{Duration, Time, WRITABLE_SECONDS},
};

const NANOS_A_SECOND: i64 = 1_000_000_000;
const NANOS_A_MICRO: i64 = 1_000;

/// A text field by its format; null for the zero time.
pub(super) fn string(format: StringFormat, entry: &WireEntry<'_>, field: &str) -> Result<Value, ProtobufError> {
    Ok(match format {
        StringFormat::Plain => entry.text(field)?.into(),
        StringFormat::Bytes => STANDARD.encode(entry.bytes(field)?).into(),
        StringFormat::Duration => duration(entry.bytes(field)?, field)?.into(),
        StringFormat::Time => {
            let (seconds, _) = timestamp(entry.bytes(field)?, field)?;
            time(seconds, 0, field)?.map_or(Value::Null, |time| time.to_string().into())
        }
        StringFormat::MicroTime => {
            let (seconds, nanos) = timestamp(entry.bytes(field)?, field)?;
            let nanos = nanos / NANOS_A_MICRO * NANOS_A_MICRO;
            time(seconds, nanos, field)?.map_or(Value::Null, |time| time.to_micro_string().into())
        }
    })
}

/// `{seconds=1, nanos=2}`; no bytes at all are the zero time.
fn timestamp(bytes: &[u8], field: &str) -> Result<(Option<i64>, i64), ProtobufError> {
    if bytes.is_empty() {
        return Ok((None, 0));
    }
    let (mut seconds, mut nanos) = (0, 0);
    let mut reader = WireReader::new(bytes);
    while let Some(entry) = reader.next()? {
        match entry.tag {
            1 => seconds = entry.varint(field)?.cast_signed(),
            2 => nanos = i64::from(int32(entry.varint(field)?)),
            _ => {}
        }
    }
    Ok((Some(seconds), nanos))
}

/// The time, if it is not the zero time.
fn time(seconds: Option<i64>, nanos: i64, field: &str) -> Result<Option<Time>, ProtobufError> {
    let Some(seconds) = seconds else { return Ok(None) };
    let seconds = seconds
        .checked_add(nanos.div_euclid(NANOS_A_SECOND))
        .filter(|seconds| WRITABLE_SECONDS.contains(seconds))
        .ok_or_else(|| ProtobufError::OutOfRange(field.to_owned()))?;
    let nanos = u32::try_from(nanos.rem_euclid(NANOS_A_SECOND)).expect("a second has few enough");
    Ok(Some(Time::from_unix(seconds, nanos)).filter(|time| !time.is_zero()))
}

/// `{duration=1}` in nanoseconds.
fn duration(bytes: &[u8], field: &str) -> Result<String, ProtobufError> {
    let mut nanos = 0;
    let mut reader = WireReader::new(bytes);
    while let Some(entry) = reader.next()? {
        if entry.tag == 1 {
            nanos = entry.varint(field)?.cast_signed();
        }
    }
    Ok(Duration::from_nanos(nanos).to_string())
}

/// `{string=1}`; without it the quantity is zero.
pub(super) fn quantity(bytes: &[u8], field: &str) -> Result<Value, ProtobufError> {
    let mut text = Value::from("0");
    let mut reader = WireReader::new(bytes);
    while let Some(entry) = reader.next()? {
        if entry.tag == 1 {
            text = entry.text(field)?.into();
        }
    }
    Ok(text)
}

/// `{type=1, intVal=2, strVal=3}`.
pub(super) fn int_or_string(bytes: &[u8], field: &str) -> Result<Value, ProtobufError> {
    let (mut kind, mut number, mut text) = (0, 0, String::new());
    let mut reader = WireReader::new(bytes);
    while let Some(entry) = reader.next()? {
        match entry.tag {
            1 => kind = entry.varint(field)?,
            2 => number = int32(entry.varint(field)?),
            3 => text = entry.text(field)?,
            _ => {}
        }
    }
    match kind {
        0 => Ok(number.into()),
        1 => Ok(text.into()),
        _ => Err(ProtobufError::OutOfRange(field.to_owned())),
    }
}

/// A double, unless it is one that JSON does not have.
pub(super) fn double(number: f64, field: &str) -> Result<Value, ProtobufError> {
    json::double(number).ok_or_else(|| ProtobufError::OutOfRange(field.to_owned()))
}
