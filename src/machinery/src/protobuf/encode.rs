//! Objects to messages, as the marshalers that Kubernetes generates write them: fields in the order of their tags,
//! plain values even if zero, pointers and lists only if they are there, maps in the order of their keys.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value;

use super::{MAX_DEPTH, framing, message::is_wrapped, writer::WireWriter};
use crate::{
    Object, json,
    schema::{Field, Presence, Shape, StringFormat, TypeDef, TypeId, TypeTable, WireField},
    time::{Duration, Time},
};

/// An object that its type has no message for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// A field's value is not of the field's shape.
    #[error("value of field {0} cannot be encoded")]
    InvalidValue(String),
    /// Messages would nest deeper than [`MAX_DEPTH`].
    #[error("exceeded max depth")]
    TooDeep,
}

/// Writes an object of the struct `ty` in its envelope, which names the object's `apiVersion` and `kind`.
///
/// # Errors
/// If the object does not have the form that [`crate::schema::decode`] gives.
pub fn encode_enveloped(table: &TypeTable, ty: TypeId, object: &Value) -> Result<Vec<u8>, EncodeError> {
    let text = |name| object.get(name).and_then(Value::as_str).unwrap_or_default();
    let message = encode(table, ty, object)?;
    Ok(framing::enveloped(text("apiVersion"), text("kind"), &message))
}

/// Writes an object of the struct `ty` without an envelope.
///
/// # Errors
/// If the object does not have the form that [`crate::schema::decode`] gives.
pub fn encode(table: &TypeTable, ty: TypeId, object: &Value) -> Result<Vec<u8>, EncodeError> {
    let mut writer = WireWriter::default();
    message(table, ty, Some(object), &mut writer, 0)?;
    Ok(writer.out)
}

/// A message; without a value it is that of the zero struct.
fn message(
    table: &TypeTable,
    ty: TypeId,
    value: Option<&Value>,
    writer: &mut WireWriter,
    depth: usize,
) -> Result<(), EncodeError> {
    if depth >= MAX_DEPTH {
        return Err(EncodeError::TooDeep);
    }
    let owner = table.get(ty);
    let object = match value {
        None => None,
        Some(Value::Object(object)) => Some(object),
        Some(_) => return Err(EncodeError::InvalidValue(owner.short_name().to_owned())),
    };
    let encoder = StructEncoder {
        table,
        owner,
        object,
        depth,
    };
    encoder.fields(table.wire_order(ty), writer)
}

struct StructEncoder<'t> {
    table: &'t TypeTable,
    owner: &'t TypeDef,
    object: Option<&'t Object>,
    depth: usize,
}

impl StructEncoder<'_> {
    /// Fields by their paths, in order. Those of an embedded struct stand together and make a message of their own.
    fn fields(&self, fields: &[WireField], writer: &mut WireWriter) -> Result<(), EncodeError> {
        for group in fields.chunk_by(|one, other| one.outermost() == other.outermost()) {
            match group {
                [] => {}
                [only] if only.tags == 1 => {
                    if let Some(field) = self.owner.fields.get(only.position) {
                        self.field(only.outermost(), field, writer)?;
                    }
                }
                [first, ..] => {
                    let inner: Vec<WireField> = group.iter().map(|field| field.within()).collect();
                    writer.message(first.outermost(), |writer| self.fields(&inner, writer))?;
                }
            }
        }
        Ok(())
    }

    fn field(&self, tag: u32, field: &Field, writer: &mut WireWriter) -> Result<(), EncodeError> {
        let value = self.object.and_then(|object| object.get(&field.name));
        let value = value.filter(|value| !value.is_null());
        let invalid = || EncodeError::InvalidValue(field.name.clone());
        match (&field.shape, value) {
            (Shape::List { item, .. }, Some(value)) if !is_wrapped(self.owner, field) => {
                self.items(tag, field, item, value, writer, self.depth + 1)
            }
            (Shape::Map { value: shape, .. }, Some(value)) => {
                let entries = value.as_object().ok_or_else(invalid)?;
                self.entries(tag, field, shape, entries, writer, self.depth + 1)
            }
            (Shape::List { .. } | Shape::Map { .. } | Shape::String(StringFormat::Bytes), None) => Ok(()),
            (_, None) if matches!(field.presence, Presence::Pointer | Presence::Nullable) => Ok(()),
            (shape, value) => self.value(tag, field, shape, value, writer, self.depth),
        }
    }

    fn items(
        &self,
        tag: u32,
        field: &Field,
        item: &Shape,
        value: &Value,
        writer: &mut WireWriter,
        depth: usize,
    ) -> Result<(), EncodeError> {
        let items = value.as_array();
        let items = items.ok_or_else(|| EncodeError::InvalidValue(field.name.clone()))?;
        let mut items = items.iter();
        items.try_for_each(|value| self.value(tag, field, item, Some(value), writer, depth))
    }

    /// The entries `{key=1, value=2}` of a map.
    fn entries(
        &self,
        tag: u32,
        field: &Field,
        shape: &Shape,
        entries: &Object,
        writer: &mut WireWriter,
        depth: usize,
    ) -> Result<(), EncodeError> {
        let mut sorted: Vec<(&String, &Value)> = entries.iter().collect();
        sorted.sort_unstable_by_key(|(key, _)| *key);
        sorted.into_iter().try_for_each(|(key, value)| {
            writer.message(tag, |writer| {
                writer.bytes(1, key.as_bytes());
                let value = Some(value).filter(|value| !value.is_null());
                match (shape, value) {
                    (Shape::String(StringFormat::Bytes), None) => Ok(()),
                    _ => self.value(2, field, shape, value, writer, depth),
                }
            })
        })
    }

    /// A value; without one it is the zero of its shape.
    fn value(
        &self,
        tag: u32,
        field: &Field,
        shape: &Shape,
        value: Option<&Value>,
        writer: &mut WireWriter,
        depth: usize,
    ) -> Result<(), EncodeError> {
        let value = value.filter(|value| !value.is_null());
        let invalid = || EncodeError::InvalidValue(field.name.clone());
        match shape {
            Shape::Struct(ty) => writer.message(tag, |writer| message(self.table, *ty, value, writer, depth + 1)),
            Shape::Any => writer.message(tag, |writer| self.any(field, value, writer, depth)),
            Shape::List { item, .. } => writer.message(tag, |writer| match value {
                Some(value) => self.items(1, field, item, value, writer, depth + 1),
                None => Ok(()),
            }),
            Shape::Map { value: shape, .. } => writer.message(tag, |writer| match value {
                Some(value) => {
                    let entries = value.as_object().ok_or_else(invalid)?;
                    self.entries(1, field, shape, entries, writer, depth + 1)
                }
                None => Ok(()),
            }),
            leaf => leaf_value(tag, leaf, value, writer).ok_or_else(invalid),
        }
    }

    /// The content of a message that holds any JSON, or one of two things.
    fn any(
        &self,
        field: &Field,
        value: Option<&Value>,
        writer: &mut WireWriter,
        depth: usize,
    ) -> Result<(), EncodeError> {
        let schema = self.table.find(&self.owner.name);
        let schema = schema.filter(|_| self.owner.short_name() == "JSONSchemaProps");
        match (field.name.as_str(), schema, value) {
            ("additionalProperties" | "additionalItems", Some(ty), _) => {
                let given = value.filter(|value| value.is_object());
                let allows = given.is_some() || value == Some(&Value::Bool(true));
                writer.varint(1, allows.into());
                self.schemas(2, ty, given, writer, depth)
            }
            ("items", Some(ty), Some(Value::Array(several))) => self.schemas(2, ty, several, writer, depth + 1),
            ("dependencies", Some(_), Some(Value::Array(names))) => {
                for name in names {
                    let name = name
                        .as_str()
                        .ok_or_else(|| EncodeError::InvalidValue(field.name.clone()))?;
                    writer.bytes(2, name.as_bytes());
                }
                Ok(())
            }
            ("items" | "dependencies", Some(ty), _) => self.schemas(1, ty, value, writer, depth),
            (_, _, Some(value)) => {
                writer.bytes(1, &json::encode(value));
                Ok(())
            }
            (_, _, None) => Ok(()),
        }
    }

    fn schemas<'v>(
        &self,
        tag: u32,
        ty: TypeId,
        schemas: impl IntoIterator<Item = &'v Value>,
        writer: &mut WireWriter,
        depth: usize,
    ) -> Result<(), EncodeError> {
        let mut schemas = schemas.into_iter();
        schemas.try_for_each(|schema| {
            writer.message(tag, |writer| message(self.table, ty, Some(schema), writer, depth + 1))
        })
    }
}

/// A text, a number or one of the messages that JSON shows as such; `None` if the value is no such thing.
fn leaf_value(tag: u32, shape: &Shape, value: Option<&Value>, writer: &mut WireWriter) -> Option<()> {
    match shape {
        Shape::String(format) => return string(tag, *format, value.map_or(Some(""), Value::as_str)?, writer),
        Shape::Boolean => writer.varint(tag, value.map_or(Some(false), Value::as_bool)?.into()),
        Shape::Int32 | Shape::Int64 => writer.varint(tag, value.map_or(Some(0), Value::as_i64)?.cast_unsigned()),
        Shape::Number => writer.double(tag, value.map_or(Some(0.0), Value::as_f64)?),
        Shape::Quantity => {
            let text = value.map_or(Some("0"), Value::as_str)?;
            nested(tag, writer, |writer| writer.bytes(1, text.as_bytes()));
        }
        Shape::IntOrString => {
            let (kind, number, text) = match value {
                None => (0, 0, ""),
                Some(Value::String(text)) => (1, 0, text.as_str()),
                Some(value) => (0, value.as_i64()?, ""),
            };
            nested(tag, writer, |writer| {
                writer.varint(1, kind);
                writer.varint(2, number.cast_unsigned());
                writer.bytes(3, text.as_bytes());
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

/// A message whose content cannot fail.
fn nested(tag: u32, writer: &mut WireWriter, write: impl FnOnce(&mut WireWriter)) {
    let written: Result<(), std::convert::Infallible> = writer.message(tag, |writer| {
        write(writer);
        Ok(())
    });
    let Ok(()) = written;
}
