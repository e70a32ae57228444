//! OpenAPI documents as protobuf, in the forms of `gnostic`'s `openapi.v2.Document` and `openapi.v3.Document`.
//!
//! kubectl asks `/openapi/v2` for `application/com.github.proto-openapi.spec.v2@v1.0+protobuf` and takes nothing else.
//! Message layouts are tables of field names and tags, one for each version; this encodes by them.

mod v2;
mod v3;

use serde_json::Value;
use trireme_machinery::{Object, yaml};

pub(super) use self::{v2::encode as encode_v2, v3::encode as encode_v3};

/// The protobuf form of the value of a JSON field.
#[derive(Clone, Copy)]
enum ProtoKind {
    Text,
    Flag,
    Texts,
    /// A message with a fixed set of fields.
    Message(&'static ProtoMessage),
    /// A message whose one field repeats pairs of name and message.
    Named(u8, &'static ProtoMessage),
    /// Several messages.
    Messages(&'static ProtoMessage),
    /// Any JSON, kept as YAML.
    Any,
    /// Several of those.
    Anys,
    /// `type`: a message with a list of texts.
    Type,
    /// A message that wraps a message in its field 1, or true or false in its field 2.
    Wrapped(&'static ProtoMessage),
    /// A parameter of the body or another.
    Parameter,
    /// A list of parameters, or of references to them.
    Parameters,
    /// A whole number.
    Integer,
    /// A number.
    Number,
    /// A message in field 1, or a reference in field 2.
    OrReference(&'static ProtoMessage),
    /// A number, true or false, or a text; of anything else there is no more than that it is there.
    Default,
}

/// JSON name, tag and kind of a field.
type ProtoField = (&'static str, u8, ProtoKind);

/// The fields of a message.
struct ProtoMessage(&'static [ProtoField]);

/// Of either version.
static REFERENCE: ProtoMessage = ProtoMessage(&[("$ref", 1, ProtoKind::Text)]);

/// Stands for all fields whose names begin with `x-`.
const EXTENSIONS: &str = "x-";

fn write_fields(out: &mut Vec<u8>, message: &ProtoMessage, value: &Value) {
    let Some(entries) = value.as_object() else { return };
    for (name, tag, kind) in message.0 {
        match *name {
            "" => write_whole(out, *tag, *kind, value),
            EXTENSIONS => write_extensions(out, *tag, entries),
            _ => {
                if let Some(value) = entries.get(*name) {
                    write_field(out, *tag, *kind, value);
                }
            }
        }
    }
}

/// A message that has the same JSON as the one around it: protobuf shows the choice of a `oneof`, JSON does not.
fn write_whole(out: &mut Vec<u8>, tag: u8, kind: ProtoKind, value: &Value) {
    match kind {
        ProtoKind::Message(fields) => write_message(out, tag, |inner| write_fields(inner, fields, value)),
        ProtoKind::Parameter => write_parameter(out, value),
        ProtoKind::OrReference(fields) if value.get("$ref").is_none() => {
            write_message(out, 1, |inner| write_fields(inner, fields, value));
        }
        ProtoKind::OrReference(_) => write_message(out, 2, |inner| write_fields(inner, &REFERENCE, value)),
        _ => {}
    }
}

fn write_field(out: &mut Vec<u8>, tag: u8, kind: ProtoKind, value: &Value) {
    match kind {
        ProtoKind::Text => write_text(out, tag, value.as_str().unwrap_or_default()),
        ProtoKind::Flag if value == &Value::Bool(true) => write_flag(out, tag, true),
        ProtoKind::Flag => {}
        // Zero is what an absent number is.
        ProtoKind::Integer => {
            if let Some(number) = value.as_i64().filter(|number| *number != 0) {
                write_varint(out, u64::from(tag) << 3);
                write_varint(out, number.cast_unsigned());
            }
        }
        ProtoKind::Number => {
            if let Some(number) = value.as_f64().filter(|number| *number != 0.0) {
                write_number(out, tag, number);
            }
        }
        ProtoKind::Default => write_message(out, tag, |inner| write_default(inner, value)),
        ProtoKind::Texts => texts(value).for_each(|text| write_text(out, tag, text)),
        ProtoKind::Message(fields) => write_message(out, tag, |inner| write_fields(inner, fields, value)),
        ProtoKind::Named(inner_tag, fields) => {
            write_message(out, tag, |inner| write_named(inner, inner_tag, fields, value))
        }
        ProtoKind::Messages(fields) => {
            for item in value.as_array().into_iter().flatten() {
                write_message(out, tag, |inner| write_fields(inner, fields, item));
            }
        }
        ProtoKind::Any => write_any(out, tag, value),
        ProtoKind::Anys => value
            .as_array()
            .into_iter()
            .flatten()
            .for_each(|item| write_any(out, tag, item)),
        ProtoKind::Type => write_message(out, tag, |inner| match value.as_str() {
            Some(text) => write_text(inner, 1, text),
            None => texts(value).for_each(|text| write_text(inner, 1, text)),
        }),
        ProtoKind::Wrapped(fields) => write_message(out, tag, |inner| match value {
            Value::Bool(flag) => write_flag(inner, 2, *flag),
            _ => write_message(inner, 1, |inner| write_fields(inner, fields, value)),
        }),
        // Always the whole of a message.
        ProtoKind::OrReference(_) => write_whole(out, tag, kind, value),
        ProtoKind::Parameter => write_message(out, tag, |inner| write_parameter(inner, value)),
        ProtoKind::Parameters => {
            for item in value.as_array().into_iter().flatten() {
                write_message(out, tag, |inner| write_parameters_item(inner, item));
            }
        }
    }
}

fn texts(value: &Value) -> impl Iterator<Item = &str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str)
}

fn write_named(out: &mut Vec<u8>, tag: u8, fields: &ProtoMessage, value: &Value) {
    for (name, entry) in value.as_object().into_iter().flatten() {
        write_message(out, tag, |inner| {
            write_text(inner, 1, name);
            write_message(inner, 2, |inner| write_fields(inner, fields, entry));
        });
    }
}

/// `DefaultType`
fn write_default(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Number(number) => write_number(out, 1, number.as_f64().unwrap_or_default()),
        Value::Bool(flag) => write_flag(out, 2, *flag),
        Value::String(text) => write_text(out, 3, text),
        Value::Null | Value::Array(_) | Value::Object(_) => {}
    }
}

/// `ParametersItem` of a parameter or of a reference to one.
fn write_parameters_item(out: &mut Vec<u8>, item: &Value) {
    if item.get("$ref").is_some() {
        write_message(out, 2, |out| write_fields(out, &REFERENCE, item));
    } else {
        write_message(out, 1, |out| write_parameter(out, item));
    }
}

/// The choices of `Parameter`: a body parameter, or a query or path parameter.
fn write_parameter(out: &mut Vec<u8>, parameter: &Value) {
    match parameter["in"].as_str() {
        Some("body") => write_message(out, 1, |out| write_fields(out, &v2::BODY_PARAMETER, parameter)),
        Some("path") => write_message(out, 2, |out| {
            write_message(out, 4, |out| write_fields(out, &v2::PATH_PARAMETER, parameter));
        }),
        _ => write_message(out, 2, |out| {
            write_message(out, 3, |out| write_fields(out, &v2::QUERY_PARAMETER, parameter));
        }),
    }
}

fn write_extensions(out: &mut Vec<u8>, tag: u8, entries: &Object) {
    for (name, value) in entries.iter().filter(|(name, _)| name.starts_with(EXTENSIONS)) {
        write_message(out, tag, |inner| {
            write_text(inner, 1, name);
            write_any(inner, 2, value);
        });
    }
}

/// `Any{yaml}`
fn write_any(out: &mut Vec<u8>, tag: u8, value: &Value) {
    write_message(out, tag, |inner| write_text(inner, 2, &yaml::encode_node(value)));
}

fn write_flag(out: &mut Vec<u8>, tag: u8, flag: bool) {
    write_varint(out, u64::from(tag) << 3);
    out.push(u8::from(flag));
}

/// A double.
fn write_number(out: &mut Vec<u8>, tag: u8, number: f64) {
    write_varint(out, u64::from(tag) << 3 | 1);
    out.extend_from_slice(&number.to_le_bytes());
}

fn write_text(out: &mut Vec<u8>, tag: u8, text: &str) {
    write_bytes(out, tag, text.as_bytes());
}

fn write_message(out: &mut Vec<u8>, tag: u8, write: impl FnOnce(&mut Vec<u8>)) {
    let mut inner = Vec::new();
    write(&mut inner);
    write_bytes(out, tag, &inner);
}

fn write_bytes(out: &mut Vec<u8>, tag: u8, bytes: &[u8]) {
    write_varint(out, u64::from(tag) << 3 | 2);
    write_varint(out, u64::try_from(bytes.len()).expect("lengths fit in 64 bits"));
    out.extend_from_slice(bytes);
}

fn write_varint(out: &mut Vec<u8>, mut value: u64) {
    while let rest @ 1.. = value >> 7 {
        out.push(u8::try_from(value & 0x7f).expect("seven bits fit in a byte") | 0x80);
        value = rest;
    }
    out.push(u8::try_from(value).expect("what is left has seven bits"));
}
