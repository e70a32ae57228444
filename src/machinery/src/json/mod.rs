//! JSON as Kubernetes reads and writes it.
//!
//! The decoder is iterative and strict: its error texts are those of Go's `encoding/json`, duplicate keys are
//! reported with their paths, nesting deeper than [`MAX_DEPTH`] is refused. It does not bound the size of the input;
//! the reader of the body does. Integers of 64 bits are exact, all other numbers are doubles. Invalid UTF-8 and lone
//! surrogates become U+FFFD, as in Go, since clients may have stored such objects elsewhere already.

#![cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

mod compact;
mod decode;
mod encode;
mod index;
mod number;
mod strict;
mod text;

use serde_json::Value;

pub use compact::compact;
pub use encode::{encode, encode_into, encode_str};
pub use index::{JsonIndex, JsonNode};
pub(crate) use number::{double, number};
pub use strict::{StrictError, strict_errors};

/// The depth to which objects and lists may nest. Kubernetes allows 10,000; no real object comes near this, and every
/// recursive walk over a decoded tree may rely on it.
pub const MAX_DEPTH: usize = 1_000;
/// The number of duplicate keys are reported; further ones are still resolved, the last one wins.
pub const MAX_DUPLICATES: usize = 100;

/// The value at a JSON pointer: as [`Value::pointer`], which makes a copy of each name on the way.
pub fn at<'a>(value: &'a Value, pointer: &str) -> Option<&'a Value> {
    let mut names = pointer.split('/').skip(1);
    names.try_fold(value, |value, name| match value {
        Value::Array(items) => items.get(name.parse::<usize>().ok()?),
        fields if name.contains('~') => fields.get(name.replace("~1", "/").replace("~0", "~")),
        fields => fields.get(name),
    })
}

/// A decoded document.
#[derive(Debug, Clone, PartialEq)]
pub struct DecodedDocument {
    /// The value; of duplicate keys the last one counts.
    pub value: Value,
    /// The paths of duplicate keys, such as `spec.containers[0].name`; at most [`MAX_DUPLICATES`], each once.
    pub duplicates: Vec<String>,
}

/// The reason that the input is not an acceptable JSON document, in Go's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    /// The input ends within a value, or is empty.
    #[error("unexpected end of JSON input")]
    UnexpectedEnd,
    /// A byte that cannot stand where it stands.
    #[error("invalid character {character} {place}")]
    Unexpected {
        /// The character, quoted as Go quotes it.
        character: String,
        /// The place where it stood, such as `looking for beginning of value`.
        place: &'static str,
    },
    /// The input nests deeper than [`MAX_DEPTH`].
    #[error("exceeded max depth")]
    TooDeep,
    /// A number that no double can hold.
    #[error("json: cannot unmarshal number {0} into Go value of type float64")]
    NumberOutOfRange(String),
}

/// Decodes one document; nothing but white space may follow it.
pub fn decode(input: &[u8]) -> Result<DecodedDocument, JsonError> {
    decode::JsonDecoder::new(input).run()
}

/// The depth to which a value nests: 0 for what is no list or object.
pub(crate) fn depth(value: &Value) -> usize {
    let deepest = match value {
        Value::Array(items) => items.iter().map(depth).max(),
        Value::Object(fields) => fields.values().map(depth).max(),
        _ => return 0,
    };
    deepest.unwrap_or(0).saturating_add(1)
}

/// The number of objects and lists in a value, itself included. They take most of the memory of a decoded document.
pub(crate) fn containers(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.iter().map(containers).sum::<usize>().saturating_add(1),
        Value::Object(fields) => fields.values().map(containers).sum::<usize>().saturating_add(1),
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
