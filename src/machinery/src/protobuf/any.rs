//! Fields that hold any JSON (`RawExtension`, `JSON`, `FieldsV1`), and those of JSON schemas that hold one of two things.

#![cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use serde_json::Value;

use super::{
    ProtobufError,
    message::{MessageReader, OwnedField},
    wire::WireReader,
};
use crate::{
    Object, json,
    schema::{self, TypeId},
};

/// The value of a field whose shape is `Any`.
pub(super) fn value(
    messages: &MessageReader<'_>,
    place: OwnedField<'_>,
    bytes: &[u8],
    depth: usize,
) -> Result<Value, ProtobufError> {
    let schema = || messages.table.find(&place.owner.name);
    match (place.owner.short_name(), place.field.name.as_str(), schema()) {
        ("JSONSchemaProps", "additionalProperties" | "additionalItems", Some(ty)) => {
            schema_or_flag(messages, ty, bytes, depth)
        }
        ("JSONSchemaProps", "items", Some(ty)) => schema_or_schemas(messages, ty, bytes, depth),
        ("JSONSchemaProps", "dependencies", Some(ty)) => schema_or_names(messages, ty, bytes, depth),
        _ => raw(bytes, depth),
    }
}

/// `{raw=1}`: the text of the JSON.
fn raw(bytes: &[u8], depth: usize) -> Result<Value, ProtobufError> {
    let mut text: &[u8] = &[];
    let mut reader = WireReader::new(bytes);
    while let Some(entry) = reader.next()? {
        if entry.tag == 1 {
            text = entry.bytes("raw")?;
        }
    }
    if text.is_empty() {
        return Ok(Value::Null);
    }
    let value = json::decode(text)?.value;
    if depth.saturating_add(1).saturating_add(height(&value)) > json::MAX_DEPTH {
        return Err(ProtobufError::TooDeep);
    }
    Ok(value)
}

/// The depth to which a value nests.
fn height(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.iter().map(height).max().unwrap_or_default().saturating_add(1),
        Value::Object(fields) => fields.values().map(height).max().unwrap_or_default().saturating_add(1),
        _ => 0,
    }
}

/// `{allows=1, schema=2}`
fn schema_or_flag(
    messages: &MessageReader<'_>,
    ty: TypeId,
    bytes: &[u8],
    depth: usize,
) -> Result<Value, ProtobufError> {
    let mut value = Value::Bool(false);
    let mut reader = WireReader::new(bytes);
    while let Some(entry) = reader.next()? {
        match entry.tag {
            1 if !value.is_object() => value = (entry.varint("allows")? != 0).into(),
            2 => value = schema(messages, ty, entry.bytes("schema")?, depth)?,
            _ => {}
        }
    }
    Ok(value)
}

/// `{schema=1, jSONSchemas=2}`
fn schema_or_schemas(
    messages: &MessageReader<'_>,
    ty: TypeId,
    bytes: &[u8],
    depth: usize,
) -> Result<Value, ProtobufError> {
    let (mut one, mut several) = (Value::Null, Vec::new());
    let mut reader = WireReader::new(bytes);
    while let Some(entry) = reader.next()? {
        match entry.tag {
            1 => one = schema(messages, ty, entry.bytes("schema")?, depth)?,
            2 => several.push(schema(
                messages,
                ty,
                entry.bytes("jSONSchemas")?,
                depth.saturating_add(1),
            )?),
            _ => {}
        }
    }
    Ok(if several.is_empty() { one } else { several.into() })
}

/// `{schema=1, property=2}`
fn schema_or_names(
    messages: &MessageReader<'_>,
    ty: TypeId,
    bytes: &[u8],
    depth: usize,
) -> Result<Value, ProtobufError> {
    let (mut one, mut names) = (Value::Null, Vec::new());
    let mut reader = WireReader::new(bytes);
    while let Some(entry) = reader.next()? {
        match entry.tag {
            1 => one = schema(messages, ty, entry.bytes("schema")?, depth)?,
            2 => names.push(Value::from(entry.text("property")?)),
            _ => {}
        }
    }
    Ok(if names.is_empty() { one } else { names.into() })
}

/// A schema in its final form: the engine does not look into fields that hold anything, where Go would leave zeroes out.
fn schema(messages: &MessageReader<'_>, ty: TypeId, bytes: &[u8], depth: usize) -> Result<Value, ProtobufError> {
    let mut object = Object::new();
    messages.message(ty, bytes, &mut object, depth.saturating_add(1))?;
    Ok(schema::decode(messages.table, ty, Value::Object(object))
        .map_err(Box::new)?
        .value)
}
