//! OpenAPI 2 as protobuf, in the form of `gnostic`'s `openapi.v2.Document`.
//!
//! kubectl asks `/openapi/v2` for `application/com.github.proto-openapi.spec.v2@v1.0+protobuf` and takes nothing else.
//! Only what the documents of this crate hold is encoded, without `security`: it tells a
//! client nothing that its credentials do not. Message layouts are tables of field names and tags.

use serde_json::Value;
use trireme_machinery::Object;

/// The protobuf form of the value of a JSON field.
#[derive(Clone, Copy)]
enum Kind {
    Text,
    Flag,
    Texts,
    /// A message with a fixed set of fields.
    Message(&'static Message),
    /// A message whose one field repeats pairs of name and message.
    Named(u8, &'static Message),
    /// Several messages.
    Messages(&'static Message),
    /// Any JSON, kept as text.
    Any,
    /// Several of those.
    Anys,
    /// `type`: a message with a list of texts.
    Type,
    /// A message that wraps a message in its field 1.
    Wrapped(&'static Message),
    /// A list of parameters, of the body or others.
    Parameters,
}

/// JSON name, tag and kind of a field.
type Field = (&'static str, u8, Kind);

/// The fields of a message.
struct Message(&'static [Field]);

static DOCUMENT: Message = Message(&[
    ("swagger", 1, Kind::Text),
    ("info", 2, Kind::Message(&INFO)),
    ("paths", 8, Kind::Named(2, &PATH_ITEM)),
    ("definitions", 9, Kind::Named(1, &SCHEMA)),
    ("securityDefinitions", 13, Kind::Named(1, &SECURITY_ITEM)),
]);
static INFO: Message = Message(&[("title", 1, Kind::Text), ("version", 2, Kind::Text)]);
static SECURITY_ITEM: Message = Message(&[("", 2, Kind::Message(&API_KEY))]);
static API_KEY: Message = Message(&[
    ("type", 1, Kind::Text),
    ("name", 2, Kind::Text),
    ("in", 3, Kind::Text),
    ("description", 4, Kind::Text),
]);
static PATH_ITEM: Message = Message(&[
    ("get", 2, Kind::Message(&OPERATION)),
    ("put", 3, Kind::Message(&OPERATION)),
    ("post", 4, Kind::Message(&OPERATION)),
    ("delete", 5, Kind::Message(&OPERATION)),
    ("options", 6, Kind::Message(&OPERATION)),
    ("head", 7, Kind::Message(&OPERATION)),
    ("patch", 8, Kind::Message(&OPERATION)),
    ("parameters", 9, Kind::Parameters),
]);
static OPERATION: Message = Message(&[
    ("tags", 1, Kind::Texts),
    ("description", 3, Kind::Text),
    ("operationId", 5, Kind::Text),
    ("produces", 6, Kind::Texts),
    ("consumes", 7, Kind::Texts),
    ("parameters", 8, Kind::Parameters),
    ("responses", 9, Kind::Named(1, &RESPONSE_VALUE)),
    ("schemes", 10, Kind::Texts),
    (EXTENSIONS, 13, Kind::Any),
]);
static RESPONSE_VALUE: Message = Message(&[("", 1, Kind::Message(&RESPONSE))]);
static RESPONSE: Message = Message(&[("description", 1, Kind::Text), ("schema", 2, Kind::Wrapped(&SCHEMA))]);
static BODY_PARAMETER: Message = Message(&[
    ("description", 1, Kind::Text),
    ("name", 2, Kind::Text),
    ("in", 3, Kind::Text),
    ("required", 4, Kind::Flag),
    ("schema", 5, Kind::Message(&SCHEMA)),
]);
static QUERY_PARAMETER: Message = Message(&[
    ("required", 1, Kind::Flag),
    ("in", 2, Kind::Text),
    ("description", 3, Kind::Text),
    ("name", 4, Kind::Text),
    ("type", 6, Kind::Text),
]);
static PATH_PARAMETER: Message = Message(&[
    ("required", 1, Kind::Flag),
    ("in", 2, Kind::Text),
    ("description", 3, Kind::Text),
    ("name", 4, Kind::Text),
    ("type", 5, Kind::Text),
]);
static SCHEMA: Message = Message(&[
    ("$ref", 1, Kind::Text),
    ("format", 2, Kind::Text),
    ("title", 3, Kind::Text),
    ("description", 4, Kind::Text),
    ("default", 5, Kind::Any),
    ("pattern", 13, Kind::Text),
    ("required", 19, Kind::Texts),
    ("enum", 20, Kind::Anys),
    ("additionalProperties", 21, Kind::Wrapped(&SCHEMA)),
    ("type", 22, Kind::Type),
    ("items", 23, Kind::Wrapped(&SCHEMA)),
    ("allOf", 24, Kind::Messages(&SCHEMA)),
    ("properties", 25, Kind::Named(1, &SCHEMA)),
    (EXTENSIONS, 31, Kind::Any),
]);

/// Stands for all fields whose names begin with `x-`.
const EXTENSIONS: &str = "x-";

/// Encodes an OpenAPI 2 document.
pub(super) fn encode(document: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    write_fields(&mut out, &DOCUMENT, document);
    out
}

fn write_fields(out: &mut Vec<u8>, message: &Message, value: &Value) {
    let Some(entries) = value.as_object() else { return };
    for (name, tag, kind) in message.0 {
        match *name {
            "" => write_message(out, *tag, |inner| write_kind_of_whole(inner, *kind, value)),
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
fn write_kind_of_whole(out: &mut Vec<u8>, kind: Kind, value: &Value) {
    if let Kind::Message(fields) = kind {
        write_fields(out, fields, value);
    }
}

fn write_field(out: &mut Vec<u8>, tag: u8, kind: Kind, value: &Value) {
    match kind {
        Kind::Text => write_text(out, tag, value.as_str().unwrap_or_default()),
        Kind::Flag => {
            if value == &Value::Bool(true) {
                write_varint(out, u64::from(tag) << 3);
                out.push(1);
            }
        }
        Kind::Texts => texts(value).for_each(|text| write_text(out, tag, text)),
        Kind::Message(fields) => write_message(out, tag, |inner| write_fields(inner, fields, value)),
        Kind::Named(inner_tag, fields) => write_message(out, tag, |inner| write_named(inner, inner_tag, fields, value)),
        Kind::Messages(fields) => {
            for item in value.as_array().into_iter().flatten() {
                write_message(out, tag, |inner| write_fields(inner, fields, item));
            }
        }
        Kind::Any => write_any(out, tag, value),
        Kind::Anys => value
            .as_array()
            .into_iter()
            .flatten()
            .for_each(|item| write_any(out, tag, item)),
        Kind::Type => write_message(out, tag, |inner| match value.as_str() {
            Some(text) => write_text(inner, 1, text),
            None => texts(value).for_each(|text| write_text(inner, 1, text)),
        }),
        Kind::Wrapped(fields) => write_message(out, tag, |inner| {
            write_message(inner, 1, |inner| write_fields(inner, fields, value));
        }),
        Kind::Parameters => {
            for parameter in value.as_array().into_iter().flatten() {
                write_message(out, tag, |inner| write_parameter(inner, parameter));
            }
        }
    }
}

fn texts(value: &Value) -> impl Iterator<Item = &str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str)
}

fn write_named(out: &mut Vec<u8>, tag: u8, fields: &Message, value: &Value) {
    for (name, entry) in value.as_object().into_iter().flatten() {
        write_message(out, tag, |inner| {
            write_text(inner, 1, name);
            write_message(inner, 2, |inner| write_fields(inner, fields, entry));
        });
    }
}

/// `ParametersItem{parameter}` of a body parameter, or of a query or path parameter.
fn write_parameter(out: &mut Vec<u8>, parameter: &Value) {
    write_message(out, 1, |out| match parameter["in"].as_str() {
        Some("body") => write_message(out, 1, |out| write_fields(out, &BODY_PARAMETER, parameter)),
        Some("path") => write_message(out, 2, |out| {
            write_message(out, 4, |out| write_fields(out, &PATH_PARAMETER, parameter));
        }),
        _ => write_message(out, 2, |out| {
            write_message(out, 3, |out| write_fields(out, &QUERY_PARAMETER, parameter));
        }),
    });
}

fn write_extensions(out: &mut Vec<u8>, tag: u8, entries: &Object) {
    for (name, value) in entries.iter().filter(|(name, _)| name.starts_with(EXTENSIONS)) {
        write_message(out, tag, |inner| {
            write_text(inner, 1, name);
            write_any(inner, 2, value);
        });
    }
}

/// `Any{yaml}`; JSON is YAML.
fn write_any(out: &mut Vec<u8>, tag: u8, value: &Value) {
    let yaml = format!("{value}\n");
    write_message(out, tag, |inner| write_text(inner, 2, &yaml));
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::protobuf_fields::{fields, only};

    #[test]
    fn the_protobuf_form_keeps_types_references_and_extensions() {
        let bytes = encode(&json!({"definitions": {"A": {
            "type": "object",
            "properties": {"b": {"$ref": "#/definitions/B"}},
            "x-kubernetes-patch-merge-key": "name",
        }}}));
        let definition = fields(only(&fields(&bytes), 9))
            .first()
            .map(|(_, entry)| fields(entry))
            .expect("there is one");
        let schema = fields(only(&definition, 2));
        assert_eq!(only(&fields(only(&schema, 22)), 1), b"object");
        let extension = fields(only(&schema, 31));
        assert_eq!(only(&extension, 1), b"x-kubernetes-patch-merge-key");
        assert_eq!(only(&fields(only(&extension, 2)), 2), b"\"name\"\n");
        let property = fields(only(&fields(only(&schema, 25)), 1));
        assert_eq!(only(&fields(only(&property, 2)), 1), b"#/definitions/B");
    }
}
