//! Objects to messages, as the marshalers that Kubernetes generates write them: fields in the order of their tags,
//! plain values even if zero, pointers and lists only if they are there, maps in the order of their keys.
//!
//! The objects that clients ask for are at hand as JSON, so that is what is read, without a tree in between: an index of the
//! places of its values, from which each struct takes its fields in their order.

use std::borrow::Cow;

use serde_json::Value;

use super::{MAX_DEPTH, encode_leaves, framing, message::is_wrapped, writer::WireWriter};
use crate::{
    json::{self, JsonError, JsonIndex, JsonNode},
    schema::{Field, Presence, Shape, StringFormat, TypeDef, TypeId, TypeTable, WireField},
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
    /// The object is no JSON.
    #[error(transparent)]
    Json(#[from] JsonError),
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
    encode_json(table, ty, &json::encode(object))
}

/// Writes an object of the struct `ty`, which is at hand as JSON, without an envelope.
///
/// # Errors
/// If the object does not have the form that [`crate::schema::decode`] gives.
pub fn encode_json(table: &TypeTable, ty: TypeId, object: &[u8]) -> Result<Vec<u8>, EncodeError> {
    let compact = std::str::from_utf8(object).ok().and_then(JsonIndex::read);
    if let Some(index) = compact.filter(JsonIndex::is_compact) {
        return encode_indexed(table, ty, &index, object.len());
    }
    let object = json::encode(&json::decode(object)?.value);
    let index = std::str::from_utf8(&object).ok().and_then(JsonIndex::read);
    let index = index.ok_or(EncodeError::TooDeep)?;
    encode_indexed(table, ty, &index, object.len())
}

fn encode_indexed(
    table: &TypeTable,
    ty: TypeId,
    index: &JsonIndex<'_>,
    capacity: usize,
) -> Result<Vec<u8>, EncodeError> {
    let mut writer = WireWriter::default();
    writer.out.reserve(capacity);
    let mut encoder = MessageEncoder {
        table,
        index,
        writer,
        found: Vec::with_capacity(INITIAL_FIELDS),
    };
    encoder.message(ty, Some(index.root()), 0)?;
    Ok(encoder.writer.out)
}

/// Fields of the structs on the way to one place of most objects.
const INITIAL_FIELDS: usize = 256;

/// A field without a value in the JSON.
const ABSENT: u32 = u32::MAX;

struct MessageEncoder<'t> {
    table: &'t TypeTable,
    index: &'t JsonIndex<'t>,
    writer: WireWriter,
    /// The numbers of the values of the fields of all structs that are being written, the innermost last.
    found: Vec<u32>,
}

/// A struct that is being written.
#[derive(Clone, Copy)]
struct OpenStruct<'t> {
    owner: &'t TypeDef,
    /// The place of its first field among those that were found.
    first: usize,
    depth: usize,
}

/// The field of a struct that a value is of.
#[derive(Clone, Copy)]
struct FieldOf<'t> {
    owner: &'t TypeDef,
    field: &'t Field,
}

impl FieldOf<'_> {
    fn invalid(self) -> EncodeError {
        EncodeError::InvalidValue(self.field.name.clone())
    }
}

impl<'t> MessageEncoder<'t> {
    /// A message; without a value it is that of the zero struct.
    fn message(&mut self, ty: TypeId, value: Option<JsonNode<'t>>, depth: usize) -> Result<(), EncodeError> {
        if depth >= MAX_DEPTH {
            return Err(EncodeError::TooDeep);
        }
        let owner = self.table.get(ty);
        let first = self.found.len();
        self.found.resize(first + owner.fields.len(), ABSENT);
        if let Some(value) = value {
            let invalid = || EncodeError::InvalidValue(owner.short_name().to_owned());
            self.find_fields(ty, value, first).ok_or_else(invalid)?;
        }
        let open = OpenStruct { owner, first, depth };
        self.fields(open, self.table.wire_order(ty))?;
        self.found.truncate(first);
        Ok(())
    }

    /// Notes which values an object has for the fields of its struct; nothing if it is no object.
    fn find_fields(&mut self, ty: TypeId, value: JsonNode<'t>, first: usize) -> Option<()> {
        let mut seeker = self.table.seeker(ty);
        for entry in value.entries()? {
            let (key, value) = entry?;
            let position = seeker.position(&key);
            if let Some(place) = position.and_then(|position| self.found.get_mut(first + position)) {
                *place = if value.is_null() { ABSENT } else { value.number() };
            }
        }
        Some(())
    }

    /// Fields by their paths, in order. Those of an embedded struct stand together and make a message of their own.
    fn fields(&mut self, open: OpenStruct<'t>, fields: &[WireField]) -> Result<(), EncodeError> {
        for group in fields.chunk_by(|one, other| one.outermost() == other.outermost()) {
            match group {
                [] => {}
                [only] if only.tags == 1 => self.field(open, *only)?,
                [first, ..] => {
                    let inner: Vec<WireField> = group.iter().map(|field| field.within()).collect();
                    let start = self.writer.begin(first.outermost());
                    self.fields(open, &inner)?;
                    self.writer.end(start);
                }
            }
        }
        Ok(())
    }

    fn field(&mut self, open: OpenStruct<'t>, wire: WireField) -> Result<(), EncodeError> {
        let OpenStruct { owner, first, depth } = open;
        let Some(field) = owner.fields.get(wire.position) else {
            return Ok(());
        };
        let tag = wire.outermost();
        let of = FieldOf { owner, field };
        let found = self.found.get(first + wire.position).copied();
        let value = found
            .filter(|number| *number != ABSENT)
            .map(|number| self.index.node(number));
        match (&field.shape, value) {
            (Shape::List { item, .. }, Some(value)) if !is_wrapped(owner, field) => {
                self.items(tag, of, item, value, depth + 1)
            }
            (Shape::Map { value: shape, .. }, Some(value)) => self.entries(tag, of, shape, value, depth + 1),
            (Shape::List { .. } | Shape::Map { .. } | Shape::String(StringFormat::Bytes), None) => Ok(()),
            (_, None) if matches!(field.presence, Presence::Pointer | Presence::Nullable) => Ok(()),
            (shape, value) => self.value(tag, of, shape, value, depth),
        }
    }

    fn items(
        &mut self,
        tag: u32,
        of: FieldOf<'t>,
        item: &'t Shape,
        value: JsonNode<'t>,
        depth: usize,
    ) -> Result<(), EncodeError> {
        let mut items = value.items().ok_or_else(|| of.invalid())?;
        items.try_for_each(|value| self.value(tag, of, item, Some(value), depth))
    }

    /// The entries `{key=1, value=2}` of a map.
    fn entries(
        &mut self,
        tag: u32,
        of: FieldOf<'t>,
        shape: &'t Shape,
        value: JsonNode<'t>,
        depth: usize,
    ) -> Result<(), EncodeError> {
        let entries = value.entries().ok_or_else(|| of.invalid())?;
        let mut entries: Vec<(Cow<'t, str>, JsonNode<'t>)> =
            entries.collect::<Option<_>>().ok_or_else(|| of.invalid())?;
        if !entries.is_sorted_by(|(one, _), (other, _)| one < other) {
            // Of repeated keys the last one counts.
            entries.reverse();
            entries.sort_by(|(one, _), (other, _)| one.cmp(other));
            entries.dedup_by(|(later, _), (first, _)| later == first);
        }
        for (key, value) in entries {
            let start = self.writer.begin(tag);
            self.writer.bytes(1, key.as_bytes());
            let value = Some(value).filter(|value| !value.is_null());
            if value.is_some() || *shape != Shape::String(StringFormat::Bytes) {
                self.value(2, of, shape, value, depth)?;
            }
            self.writer.end(start);
        }
        Ok(())
    }

    /// A value; without one it is the zero of its shape.
    fn value(
        &mut self,
        tag: u32,
        of: FieldOf<'t>,
        shape: &'t Shape,
        value: Option<JsonNode<'t>>,
        depth: usize,
    ) -> Result<(), EncodeError> {
        let value = value.filter(|value| !value.is_null());
        match (shape, value) {
            (Shape::Struct(_) | Shape::Any | Shape::List { .. } | Shape::Map { .. }, _) => {
                let start = self.writer.begin(tag);
                match (shape, value) {
                    (Shape::Struct(ty), value) => self.message(*ty, value, depth + 1)?,
                    (Shape::List { item, .. }, Some(value)) => self.items(1, of, item, value, depth + 1)?,
                    (Shape::Map { value: shape, .. }, Some(value)) => self.entries(1, of, shape, value, depth + 1)?,
                    (Shape::Any, value) => self.any(of, value, depth)?,
                    _ => {}
                }
                self.writer.end(start);
                Ok(())
            }
            (leaf, value) => encode_leaves::leaf(tag, leaf, value, &mut self.writer).ok_or_else(|| of.invalid()),
        }
    }

    /// The content of a message that holds any JSON, or one of two things.
    fn any(&mut self, of: FieldOf<'t>, value: Option<JsonNode<'t>>, depth: usize) -> Result<(), EncodeError> {
        let is_of_schema = of.owner.short_name() == "JSONSchemaProps";
        let schema = is_of_schema.then(|| self.table.find(&of.owner.name)).flatten();
        match (of.field.name.as_str(), schema, value) {
            ("additionalProperties" | "additionalItems", Some(ty), _) => {
                let given = value.filter(|value| value.is_object());
                let allows = given.is_some() || value.and_then(JsonNode::as_bool) == Some(true);
                self.writer.varint(1, allows.into());
                self.schemas(2, ty, given, depth)
            }
            ("items", Some(ty), Some(several)) if several.is_list() => {
                self.schemas(2, ty, several.items().into_iter().flatten(), depth + 1)
            }
            ("dependencies", Some(_), Some(names)) if names.is_list() => {
                for name in names.items().into_iter().flatten() {
                    let name = name.as_str().ok_or_else(|| of.invalid())?;
                    self.writer.bytes(2, name.as_bytes());
                }
                Ok(())
            }
            ("items" | "dependencies", Some(ty), _) => self.schemas(1, ty, value, depth),
            (_, _, Some(value)) => {
                self.writer.bytes(1, value.json().as_bytes());
                Ok(())
            }
            (_, _, None) => Ok(()),
        }
    }

    fn schemas(
        &mut self,
        tag: u32,
        ty: TypeId,
        schemas: impl IntoIterator<Item = JsonNode<'t>>,
        depth: usize,
    ) -> Result<(), EncodeError> {
        for schema in schemas {
            let start = self.writer.begin(tag);
            self.message(ty, Some(schema), depth + 1)?;
            self.writer.end(start);
        }
        Ok(())
    }
}
