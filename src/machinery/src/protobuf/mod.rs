//! Protobuf as Kubernetes' clients send and read it: an envelope that names the kind, and in it the object.
//!
//! [`envelope`] opens a body, [`decode`] reads the object by its type's tags and gives the tree that JSON would have
//! given; [`crate::schema::decode`] then checks and normalises it like any other. Unknown tags are skipped, as their
//! types are unknown. [`encode()`] goes the other way. Lengths are held against the input and nesting against [`MAX_DEPTH`], so no
//! input panics or makes more than a small multiple of its own size.

mod any;
mod encode;
mod encode_leaves;
pub mod framing;
mod leaves;
mod message;
#[cfg(test)]
mod tests;
mod wire;
mod writer;

pub use encode::{EncodeError, encode, encode_enveloped, encode_json};
use serde_json::Value;

use crate::{
    Object,
    json::JsonError,
    schema::{DecodeError, TypeId, TypeTable},
};

/// The depth to which messages may nest, counted in the objects and lists of JSON that they become. Only schemas nest
/// without end, and reading a message takes more stack than a value of JSON does; hence less than
/// [`crate::json::MAX_DEPTH`].
pub const MAX_DEPTH: usize = 128;
/// The prefix of each body.
const PREFIX: &[u8] = b"k8s\0";

/// The reason that the input cannot be read, in Go's words where Go has any.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ProtobufError {
    /// There is no input.
    #[error("empty data")]
    Empty,
    /// The input does not begin as an envelope does.
    #[error("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")]
    NoPrefix,
    /// Nothing follows the prefix.
    #[error("empty body")]
    NoBody,
    /// The input ends within a field.
    #[error("unexpected EOF")]
    UnexpectedEnd,
    /// A number of more than 64 bits.
    #[error("proto: integer overflow")]
    Overflow,
    /// A field number that protobuf does not have.
    #[error("proto: illegal tag {0}")]
    IllegalTag(u64),
    /// A wire type that protobuf does not have.
    #[error("proto: illegal wireType {0}")]
    IllegalWireType(u64),
    /// A group ends that did not begin.
    #[error("proto: unexpected end of group")]
    UnexpectedEndOfGroup,
    /// A known field is not encoded as its type is.
    #[error("proto: wrong wireType = {found} for field {field}")]
    WrongWireType {
        /// The wire type that was found.
        found: u8,
        /// The field's JSON name.
        field: String,
    },
    /// Text that is not UTF-8.
    #[error("proto: field {0} contains invalid UTF-8")]
    InvalidText(String),
    /// A value that JSON has no form for, such as a time after the year 9999.
    #[error("proto: value of field {0} is out of range")]
    OutOfRange(String),
    /// Messages nest deeper than [`MAX_DEPTH`], or the JSON in them deeper than JSON may.
    #[error("exceeded max depth")]
    TooDeep,
    /// Bytes that should hold JSON do not.
    #[error(transparent)]
    Json(#[from] JsonError),
    /// A schema within a schema does not fit its own type.
    #[error(transparent)]
    Schema(#[from] Box<DecodeError>),
}

/// The struct that a message is of.
#[derive(Debug, Clone, Copy)]
pub struct MessageType<'t> {
    /// The table that knows it.
    pub table: &'t TypeTable,
    /// The struct.
    pub id: TypeId,
}

/// A body without its wrapping (`runtime.Unknown`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProtobufEnvelope<'a> {
    /// The object's API version, empty if the client left it out.
    pub api_version: String,
    /// The object's kind, empty if the client left it out.
    pub kind: String,
    /// The object itself, for [`decode`].
    pub raw: &'a [u8],
}

/// Returns true if bytes begin as a body does; no JSON does so.
pub fn is_enveloped(bytes: &[u8]) -> bool {
    bytes.starts_with(PREFIX)
}

/// Opens a body.
///
/// # Errors
/// If it is no envelope.
pub fn envelope(bytes: &[u8]) -> Result<ProtobufEnvelope<'_>, ProtobufError> {
    if bytes.is_empty() {
        return Err(ProtobufError::Empty);
    }
    let body = bytes.strip_prefix(PREFIX).ok_or(ProtobufError::NoPrefix)?;
    if body.is_empty() {
        return Err(ProtobufError::NoBody);
    }
    let mut envelope = ProtobufEnvelope {
        api_version: String::new(),
        kind: String::new(),
        raw: &[],
    };
    let mut reader = wire::WireReader::new(body);
    while let Some(entry) = reader.next()? {
        match entry.tag {
            1 => {
                let mut type_meta = wire::WireReader::new(entry.bytes("typeMeta")?);
                while let Some(entry) = type_meta.next()? {
                    match entry.tag {
                        1 => envelope.api_version = entry.text("apiVersion")?,
                        2 => envelope.kind = entry.text("kind")?,
                        _ => {}
                    }
                }
            }
            2 => envelope.raw = entry.bytes("raw")?,
            _ => {}
        }
    }
    Ok(envelope)
}

/// Reads an object of the struct `ty` into the form that JSON would have given. What is there but zero stays there;
/// what is absent stays absent.
///
/// # Errors
/// If the bytes are no message, or hold what JSON cannot.
pub fn decode(table: &TypeTable, ty: TypeId, bytes: &[u8]) -> Result<Value, ProtobufError> {
    let mut object = Object::new();
    message::MessageReader { table }.message(ty, bytes, &mut object, 0)?;
    Ok(Value::Object(object))
}

/// Returns true if a struct can be read at all: the types of custom resources have no tags.
pub fn describes(table: &TypeTable, ty: TypeId) -> bool {
    table.get(ty).fields.iter().any(|field| field.tag != 0)
}
