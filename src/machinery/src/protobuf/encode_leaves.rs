//! Texts, numbers and the messages that JSON shows as such, written.

use std::borrow::Cow;

use base64::{Engine as _, engine::general_purpose::STANDARD};

use super::writer::WireWriter;
use crate::{
    json::JsonNode,
    schema::{Shape, StringFormat},
    time::{Duration, Time},
};

/// Writes a value, or the zero of its shape; `None` if the value is no such thing.
pub(super) fn leaf(tag: u32, shape: &Shape, value: Option<JsonNode<'_>>, writer: &mut WireWriter) -> Option<()> {
    let text = |zero: &'static str| value.map_or(Some(Cow::Borrowed(zero)), JsonNode::as_str);
    match shape {
        Shape::String(format) => return string(tag, *format, &text("")?, writer),
        Shape::Boolean => writer.varint(tag, value.map_or(Some(false), JsonNode::as_bool)?.into()),
        Shape::Int32 | Shape::Int64 => writer.varint(tag, value.map_or(Some(0), JsonNode::as_i64)?.cast_unsigned()),
        Shape::Number => writer.double(tag, value.map_or(Some(0.0), JsonNode::as_f64)?),
        Shape::Quantity => {
            let text = text("0")?;
            nested(tag, writer, |writer| writer.bytes(1, text.as_bytes()));
        }
        Shape::IntOrString => {
            let text = value.and_then(JsonNode::as_str);
            let number = match (value, &text) {
                (Some(value), None) => value.as_i64()?,
                _ => 0,
            };
            nested(tag, writer, |writer| {
                writer.varint(1, text.is_some().into());
                writer.varint(2, number.cast_unsigned());
                writer.bytes(3, text.unwrap_or_default().as_bytes());
            });
        }
        Shape::Struct(_) | Shape::List { .. } | Shape::Map { .. } | Shape::Any => return None,
    }
    Some(())
}

/// A text by its format; without any, times and durations are zero.
fn string(tag: u32, format: StringFormat, text: &str, writer: &mut WireWriter) -> Option<()> {
    match format {
        StringFormat::Plain => writer.bytes(tag, text.as_bytes()),
        StringFormat::Bytes => writer.bytes(tag, &STANDARD.decode(text).ok()?),
        StringFormat::Duration => {
            let nanos = if text.is_empty() {
                0
            } else {
                Duration::parse(text).ok()?.nanos()
            };
            nested(tag, writer, |writer| writer.varint(1, nanos.cast_unsigned()));
        }
        StringFormat::Time | StringFormat::MicroTime if text.is_empty() => writer.bytes(tag, b""),
        StringFormat::Time => timestamp(tag, Time::parse(text).ok()?, writer),
        StringFormat::MicroTime => timestamp(tag, Time::parse_micro(text).ok()?, writer),
    }
    Some(())
}

/// `{seconds=1, nanos=2}`
fn timestamp(tag: u32, time: Time, writer: &mut WireWriter) {
    nested(tag, writer, |writer| {
        writer.varint(1, time.unix_seconds().cast_unsigned());
        writer.varint(2, time.nanos().into());
    });
}

fn nested(tag: u32, writer: &mut WireWriter, write: impl FnOnce(&mut WireWriter)) {
    let start = writer.begin(tag);
    write(writer);
    writer.end(start);
}
