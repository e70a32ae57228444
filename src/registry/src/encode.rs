//! The byte layout of objects at rest.
//!
//! Called by the write path before it stores an object and by [`crate::Item`] for objects that another server stored
//! in another layout. Promise: the same object always encodes to the same bytes, laid out
//! `{"apiVersion":…,"kind":…,"metadata":{…},…}` with all other keys in order, so that an item of a list is a suffix of
//! the bytes of a GET, and `resourceVersion` can be spliced in without parsing.

use std::io::Write as _;

use serde_json::Value;
use trireme_machinery::json;
use trireme_storage::Revision;

/// The text before the revision in the bytes of an item, from [`crate::Item::body`] on.
pub(crate) const BODY_TO_REVISION: &str = r#""metadata":{"resourceVersion":""#;

/// The JSON to store: no `resourceVersion`, which is the store's to give.
pub fn object(object: &Value) -> Vec<u8> {
    encode(object, None)
}

/// The bytes of an answer: `resourceVersion` comes first in `metadata`.
pub(crate) fn object_at(object: &Value, revision: Revision) -> Vec<u8> {
    encode(object, Some(revision))
}

fn encode(object: &Value, revision: Option<Revision>) -> Vec<u8> {
    let mut out = Vec::with_capacity(1024);
    out.push(b'{');
    for key in ["apiVersion", "kind"] {
        if let Some(value) = object.get(key) {
            field(&mut out, key, value);
        }
    }
    if let Some(metadata) = object.get("metadata") {
        separate(&mut out);
        out.extend_from_slice(br#""metadata":"#);
        encode_metadata(&mut out, metadata, revision);
    }
    let rest = object.as_object().into_iter().flatten();
    for (key, value) in rest.filter(|(key, _)| !matches!(key.as_str(), "apiVersion" | "kind" | "metadata")) {
        field(&mut out, key, value);
    }
    out.push(b'}');
    out
}

fn encode_metadata(out: &mut Vec<u8>, metadata: &Value, revision: Option<Revision>) {
    out.push(b'{');
    if let Some(revision) = revision {
        write!(out, r#""resourceVersion":"{revision}""#).expect("writing to memory does not fail");
    }
    let fields = metadata.as_object().into_iter().flatten();
    for (key, value) in fields.filter(|(key, _)| *key != "resourceVersion") {
        field(out, key, value);
    }
    out.push(b'}');
}

fn separate(out: &mut Vec<u8>) {
    if out.last() != Some(&b'{') {
        out.push(b',');
    }
}

fn field(out: &mut Vec<u8>, key: &str, value: &Value) {
    separate(out);
    json::encode_str(key, out);
    out.push(b':');
    json::encode_into(value, out);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn text(bytes: Vec<u8>) -> String {
        String::from_utf8(bytes).expect("JSON is UTF-8")
    }

    #[test]
    fn identity_comes_first_and_the_rest_is_sorted() {
        let object = json!({
            "spec": {"b": 1, "a": 2}, "data": {}, "kind": "K", "apiVersion": "g/v1",
            "metadata": {"name": "n", "labels": {"x": "y"}, "resourceVersion": "5"},
        });
        assert_eq!(
            text(super::object(&object)),
            r#"{"apiVersion":"g/v1","kind":"K","metadata":{"labels":{"x":"y"},"name":"n"},"data":{},"spec":{"a":2,"b":1}}"#
        );
        assert_eq!(
            text(object_at(&object, 7)),
            r#"{"apiVersion":"g/v1","kind":"K","metadata":{"resourceVersion":"7","labels":{"x":"y"},"name":"n"},"data":{},"spec":{"a":2,"b":1}}"#
        );
    }

    #[test]
    fn missing_parts_leave_no_stray_commas() {
        assert_eq!(text(super::object(&json!({}))), "{}");
        assert_eq!(text(super::object(&json!({"z": 1}))), r#"{"z":1}"#);
        assert_eq!(
            text(object_at(&json!({"metadata": {}}), 1)),
            r#"{"metadata":{"resourceVersion":"1"}}"#
        );
    }

    #[test]
    fn keys_and_values_are_escaped() {
        assert_eq!(text(super::object(&json!({"a\"b": "c\n"}))), r#"{"a\"b":"c\n"}"#);
    }
}
