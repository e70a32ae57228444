//! The encoder: compact JSON with numbers as Go prints them.

use std::io;

use serde::Serialize;
use serde_json::{Value, ser::Formatter};

use super::go_float;

/// Compact, with sorted keys; `1.0` is `1`, as in Go.
struct GoFormatter;

impl Formatter for GoFormatter {
    fn write_f64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        writer.write_all(go_float(value).as_bytes())
    }
}

/// Encodes a value as compact JSON.
pub fn encode(value: &Value) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    encode_into(value, &mut out);
    out
}

/// Appends a value as compact JSON.
pub fn encode_into(value: &Value, out: &mut Vec<u8>) {
    let mut serializer = serde_json::Serializer::with_formatter(out, GoFormatter);
    value
        .serialize(&mut serializer)
        .expect("a tree with text keys always encodes into memory");
}
