//! OpenAPI 2 as protobuf, in the form of `gnostic`'s `openapi.v2.Document`.
//!
//! kubectl asks `/openapi/v2` for `application/com.github.proto-openapi.spec.v2@v1.0+protobuf` and takes nothing else.
//! Only what the documents of this crate hold is encoded, without `security`: it tells a
//! client nothing that its credentials do not. Message layouts are tables of field names and tags.

use serde_json::Value;
use trireme_machinery::Object;

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
    /// Any JSON, kept as text.
    Any,
    /// Several of those.
    Anys,
    /// `type`: a message with a list of texts.
    Type,
    /// A message that wraps a message in its field 1.
    Wrapped(&'static ProtoMessage),
    /// A parameter of the body or another.
    Parameter,
    /// A list of parameters, or of references to them.
    Parameters,
}

/// JSON name, tag and kind of a field.
type ProtoField = (&'static str, u8, ProtoKind);

/// The fields of a message.
struct ProtoMessage(&'static [ProtoField]);

static DOCUMENT: ProtoMessage = ProtoMessage(&[
    ("swagger", 1, ProtoKind::Text),
    ("info", 2, ProtoKind::Message(&INFO)),
    ("paths", 8, ProtoKind::Named(2, &PATH_ITEM)),
    ("definitions", 9, ProtoKind::Named(1, &SCHEMA)),
    ("parameters", 10, ProtoKind::Named(1, &PARAMETER)),
    ("securityDefinitions", 13, ProtoKind::Named(1, &SECURITY_ITEM)),
]);
static INFO: ProtoMessage = ProtoMessage(&[("title", 1, ProtoKind::Text), ("version", 2, ProtoKind::Text)]);
static SECURITY_ITEM: ProtoMessage = ProtoMessage(&[("", 2, ProtoKind::Message(&API_KEY))]);
static API_KEY: ProtoMessage = ProtoMessage(&[
    ("type", 1, ProtoKind::Text),
    ("name", 2, ProtoKind::Text),
    ("in", 3, ProtoKind::Text),
    ("description", 4, ProtoKind::Text),
]);
static PATH_ITEM: ProtoMessage = ProtoMessage(&[
    ("get", 2, ProtoKind::Message(&OPERATION)),
    ("put", 3, ProtoKind::Message(&OPERATION)),
    ("post", 4, ProtoKind::Message(&OPERATION)),
    ("delete", 5, ProtoKind::Message(&OPERATION)),
    ("options", 6, ProtoKind::Message(&OPERATION)),
    ("head", 7, ProtoKind::Message(&OPERATION)),
    ("patch", 8, ProtoKind::Message(&OPERATION)),
    ("parameters", 9, ProtoKind::Parameters),
]);
static OPERATION: ProtoMessage = ProtoMessage(&[
    ("tags", 1, ProtoKind::Texts),
    ("description", 3, ProtoKind::Text),
    ("operationId", 5, ProtoKind::Text),
    ("produces", 6, ProtoKind::Texts),
    ("consumes", 7, ProtoKind::Texts),
    ("parameters", 8, ProtoKind::Parameters),
    ("responses", 9, ProtoKind::Named(1, &RESPONSE_VALUE)),
    ("schemes", 10, ProtoKind::Texts),
    (EXTENSIONS, 13, ProtoKind::Any),
]);
static RESPONSE_VALUE: ProtoMessage = ProtoMessage(&[("", 1, ProtoKind::Message(&RESPONSE))]);
static RESPONSE: ProtoMessage = ProtoMessage(&[
    ("description", 1, ProtoKind::Text),
    ("schema", 2, ProtoKind::Wrapped(&SCHEMA)),
]);
static PARAMETER: ProtoMessage = ProtoMessage(&[("", 0, ProtoKind::Parameter)]);
static REFERENCE: ProtoMessage = ProtoMessage(&[("$ref", 1, ProtoKind::Text)]);
static BODY_PARAMETER: ProtoMessage = ProtoMessage(&[
    ("description", 1, ProtoKind::Text),
    ("name", 2, ProtoKind::Text),
    ("in", 3, ProtoKind::Text),
    ("required", 4, ProtoKind::Flag),
    ("schema", 5, ProtoKind::Message(&SCHEMA)),
]);
static QUERY_PARAMETER: ProtoMessage = ProtoMessage(&[
    ("required", 1, ProtoKind::Flag),
    ("in", 2, ProtoKind::Text),
    ("description", 3, ProtoKind::Text),
    ("name", 4, ProtoKind::Text),
    ("type", 6, ProtoKind::Text),
]);
static PATH_PARAMETER: ProtoMessage = ProtoMessage(&[
    ("required", 1, ProtoKind::Flag),
    ("in", 2, ProtoKind::Text),
    ("description", 3, ProtoKind::Text),
    ("name", 4, ProtoKind::Text),
    ("type", 5, ProtoKind::Text),
]);
static SCHEMA: ProtoMessage = ProtoMessage(&[
    ("$ref", 1, ProtoKind::Text),
    ("format", 2, ProtoKind::Text),
    ("title", 3, ProtoKind::Text),
    ("description", 4, ProtoKind::Text),
    ("default", 5, ProtoKind::Any),
    ("pattern", 13, ProtoKind::Text),
    ("required", 19, ProtoKind::Texts),
    ("enum", 20, ProtoKind::Anys),
    ("additionalProperties", 21, ProtoKind::Wrapped(&SCHEMA)),
    ("type", 22, ProtoKind::Type),
    ("items", 23, ProtoKind::Wrapped(&SCHEMA)),
    ("allOf", 24, ProtoKind::Messages(&SCHEMA)),
    ("properties", 25, ProtoKind::Named(1, &SCHEMA)),
    (EXTENSIONS, 31, ProtoKind::Any),
]);

/// Stands for all fields whose names begin with `x-`.
const EXTENSIONS: &str = "x-";

/// Encodes an OpenAPI 2 document.
pub(super) fn encode(document: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    write_fields(&mut out, &DOCUMENT, document);
    out
}

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
        _ => {}
    }
}

fn write_field(out: &mut Vec<u8>, tag: u8, kind: ProtoKind, value: &Value) {
    match kind {
        ProtoKind::Text => write_text(out, tag, value.as_str().unwrap_or_default()),
        ProtoKind::Flag => {
            if value == &Value::Bool(true) {
                write_varint(out, u64::from(tag) << 3);
                out.push(1);
            }
        }
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
        ProtoKind::Wrapped(fields) => write_message(out, tag, |inner| {
            write_message(inner, 1, |inner| write_fields(inner, fields, value));
        }),
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
        Some("body") => write_message(out, 1, |out| write_fields(out, &BODY_PARAMETER, parameter)),
        Some("path") => write_message(out, 2, |out| {
            write_message(out, 4, |out| write_fields(out, &PATH_PARAMETER, parameter));
        }),
        _ => write_message(out, 2, |out| {
            write_message(out, 3, |out| write_fields(out, &QUERY_PARAMETER, parameter));
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
