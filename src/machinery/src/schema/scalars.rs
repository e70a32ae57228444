//! The leaves of a type: which JSON values each takes and the one form in which the server keeps them.

use std::borrow::Cow;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Number, Value};

use super::{
    base64_go,
    decode::Decoder,
    decode_error::DecodeError,
    decode_path::DecodePath,
    types::{Shape, StringFormat},
};
use crate::{
    go_text::{converted_name, kind_name, number_name},
    quantity::{Quantity, QuantityError},
    time,
};

/// Brings a leaf, or a value where something else should be, into its final form.
pub(super) fn normalize(decoder: &mut Decoder<'_>, shape: &Shape, value: &mut Value, place: &DecodePath<'_>) {
    match (shape, &*value) {
        (Shape::Boolean, Value::Bool(_)) | (Shape::String(StringFormat::Plain), Value::String(_)) => {}
        (Shape::Int32, Value::Number(number)) if fits_i32(number) => {}
        (Shape::Int64, Value::Number(number)) if number.is_i64() => {}
        (Shape::Number, Value::Number(number)) => {
            if let Some(whole) = whole(number) {
                *value = Value::from(whole);
            }
        }
        (Shape::IntOrString, other) => {
            if let Some(found) = not_int_or_string(other) {
                let error = decoder.mismatch_within(found, &Shape::Int32, place);
                decoder.stop(error);
            }
        }
        (Shape::Quantity, _) => quantity(decoder, value),
        (Shape::String(StringFormat::Bytes), Value::Array(_)) => byte_list(decoder, value, place),
        (Shape::String(StringFormat::Bytes), Value::String(text)) => match base64_go::canonical(text) {
            Ok(None) => {}
            Ok(Some(text)) => *value = Value::String(text),
            Err(at) => decoder.note(DecodeError::Base64(at)),
        },
        (Shape::String(format), Value::String(text)) => match canonical(*format, text) {
            Ok(None) => {}
            Ok(Some(canonical)) => *value = canonical,
            Err(error) => decoder.stop(error),
        },
        _ => wrong_type(decoder, shape, value, place),
    }
}

/// Go's name for the type of a leaf.
pub(super) fn go_type(shape: &Shape) -> &'static str {
    match shape {
        Shape::Boolean => "bool",
        Shape::Int32 => "int32",
        Shape::Int64 => "int64",
        Shape::Number => "float64",
        Shape::Quantity => "resource.Quantity",
        Shape::IntOrString => "intstr.IntOrString",
        Shape::Any => "runtime.RawExtension",
        Shape::String(StringFormat::Bytes) => "[]uint8",
        Shape::String(StringFormat::Time) => "v1.Time",
        Shape::String(StringFormat::MicroTime) => "v1.MicroTime",
        Shape::String(StringFormat::Duration) => "v1.Duration",
        Shape::String(StringFormat::Plain) | Shape::Struct(_) | Shape::List { .. } | Shape::Map { .. } => "string",
    }
}

fn wrong_type(decoder: &mut Decoder<'_>, shape: &Shape, value: &Value, place: &DecodePath<'_>) {
    match shape {
        // These parse themselves, and Go stops at the first that fails.
        Shape::String(StringFormat::Time | StringFormat::MicroTime | StringFormat::Duration) => {
            let error =
                decoder.mismatch_within(kind_name(value).to_owned(), &Shape::String(StringFormat::Plain), place);
            decoder.stop(error);
        }
        _ => {
            let error = decoder.mismatch(value, shape, place);
            decoder.note(error);
        }
    }
}

/// Go's decoder's name for the value that it found in the place of this shape.
pub(super) fn found(value: &Value, shape: &Shape) -> String {
    match (shape, value) {
        (Shape::Int32 | Shape::Int64, Value::Number(number)) => number_name(number),
        _ => kind_name(value).to_owned(),
    }
}

/// The error of Go's converter of trees for a value in the place of this shape.
pub(super) fn restored(value: &Value, shape: &Shape, go_type: &str) -> String {
    let found = converted_name(value);
    let wanted = match shape {
        Shape::Struct(_) => return format!("cannot restore struct from: {found}"),
        Shape::Map { .. } => return format!("cannot restore map from {found}"),
        Shape::List { .. } | Shape::String(StringFormat::Bytes) => return format!("cannot restore slice from {found}"),
        scalar => self::go_type(scalar),
    };
    // Go can convert these, though the result is of no use.
    match (found, wanted) {
        ("int64", "string" | "int32") | ("float64", "int32" | "int64") => {
            format!("cannot convert {found} to {go_type}")
        }
        _ => format!("unrecognized type: {wanted}"),
    }
}

fn fits_i32(number: &Number) -> bool {
    number.as_i64().is_some_and(|n| i32::try_from(n).is_ok())
}

/// A whole number that came as a float (`1.0`), as Go prints it.
fn whole(number: &Number) -> Option<i64> {
    let float = number.as_f64().filter(|_| number.is_f64())?;
    (float.fract() == 0.0 && float.abs() < 1e15)
        .then(|| format!("{float:.0}").parse().ok())
        .flatten()
}

fn not_int_or_string(value: &Value) -> Option<String> {
    match value {
        Value::String(_) => None,
        Value::Number(number) if fits_i32(number) => None,
        Value::Number(number) => Some(number_name(number)),
        other => Some(kind_name(other).to_owned()),
    }
}

fn quantity(decoder: &mut Decoder<'_>, value: &mut Value) {
    let kept = match &*value {
        Value::String(text) => Quantity::kept_text(text.trim()).map(Cow::into_owned),
        Value::Number(number) => Quantity::kept_text(&number.to_string()).map(Cow::into_owned),
        _ => Err(QuantityError::Format),
    };
    match kept {
        Ok(kept) => {
            if value.as_str() != Some(&kept) {
                *value = Value::String(kept);
            }
        }
        Err(error) => decoder.stop(error.into()),
    }
}

/// Go also takes a list of numbers where bytes should be.
fn byte_list(decoder: &mut Decoder<'_>, value: &mut Value, place: &DecodePath<'_>) {
    let Value::Array(items) = &*value else { return };
    let mut bytes = Vec::with_capacity(items.len());
    for item in items {
        match (item.as_u64().map(u8::try_from), item) {
            (Some(Ok(byte)), _) => bytes.push(byte),
            (_, Value::Null) => bytes.push(0),
            (_, Value::Number(number)) => {
                let error = decoder.no_byte(number_name(number), place);
                decoder.note(error);
            }
            (_, other) => {
                let error = decoder.no_byte(kind_name(other).to_owned(), place);
                decoder.note(error);
            }
        }
    }
    *value = Value::String(STANDARD.encode(bytes));
}

/// The final form of a time or duration if it is not `text` itself.
fn canonical(format: StringFormat, text: &str) -> Result<Option<Value>, DecodeError> {
    let canonical = match format {
        StringFormat::Time if time::is_canonical(text) => return Ok(None),
        StringFormat::Time => {
            let time = time::Time::parse(text)?;
            if time.is_zero() {
                return Ok(Some(Value::Null));
            }
            time.to_string()
        }
        StringFormat::MicroTime => {
            let time = time::Time::parse_micro(text)?;
            if time.is_zero() {
                return Ok(Some(Value::Null));
            }
            time.to_micro_string()
        }
        StringFormat::Duration => time::Duration::parse(text)?.to_string(),
        StringFormat::Plain | StringFormat::Bytes => return Ok(None),
    };
    Ok((canonical != text).then_some(Value::String(canonical)))
}
