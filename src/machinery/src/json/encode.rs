//! The encoder: compact JSON with sorted keys, and numbers as Go prints them: `1.0` is `1`.
//!
//! Written by hand because every write of an object passes here: most strings need no escapes, and finding that out many
//! bytes at a time is several times as fast as looking at each.

use std::io::Write as _;

use serde_json::{Number, Value};

use super::text;
use crate::go_text::go_float;

/// Encodes a value as compact JSON.
pub fn encode(value: &Value) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    encode_into(value, &mut out);
    out
}

/// Appends a value as compact JSON.
pub fn encode_into(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Number(number) => encode_number(number, out),
        Value::String(text) => encode_str(text, out),
        Value::Array(items) => {
            let mut separator = b'[';
            for item in items {
                out.push(separator);
                encode_into(item, out);
                separator = b',';
            }
            out.extend_from_slice(if items.is_empty() { b"[]" } else { b"]" });
        }
        Value::Object(fields) => {
            let mut separator = b'{';
            for (key, value) in fields {
                out.push(separator);
                encode_str(key, out);
                out.push(b':');
                encode_into(value, out);
                separator = b',';
            }
            out.extend_from_slice(if fields.is_empty() { b"{}" } else { b"}" });
        }
    }
}

/// Appends a string with its quotes.
pub fn encode_str(string: &str, out: &mut Vec<u8>) {
    if text::plain_length(string.as_bytes()) < string.len() {
        return serde_json::to_writer(out, string).expect("a string always encodes into memory");
    }
    out.push(b'"');
    out.extend_from_slice(string.as_bytes());
    out.push(b'"');
}

fn encode_number(number: &Number, out: &mut Vec<u8>) {
    match number.as_f64().filter(|_| number.is_f64()) {
        Some(float) => out.extend_from_slice(go_float(float).as_bytes()),
        None => write!(out, "{number}").expect("writing to memory does not fail"),
    }
}
