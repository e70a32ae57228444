//! Messages by their type: which tag is which field, and what the field's shape makes of its bytes.

#![cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use serde_json::{Value, map};

use super::{
    MAX_DEPTH, ProtobufError, any, leaves,
    wire::{WireEntry, WireReader, int32},
};
use crate::{
    Object,
    schema::{Field, Shape, TypeDef, TypeId, TypeTable},
};

const LARGEST_PATH_TAG: u32 = 0xff;
const BITS_A_PATH_TAG: u32 = 8;

/// Reads messages of the types of a table.
pub(super) struct MessageReader<'t> {
    pub(super) table: &'t TypeTable,
}

/// A field with the struct that it is of.
#[derive(Clone, Copy)]
pub(super) struct OwnedField<'t> {
    pub(super) owner: &'t TypeDef,
    pub(super) field: &'t Field,
}

/// The meaning of a tag.
enum Meaning<'t> {
    Field(&'t Field),
    /// A struct that Go embeds and JSON shows inline, by the path of its tags.
    Embedded(u32),
}

impl MessageReader<'_> {
    /// Adds a message to what an earlier part of it has given. `depth` is how many JSON values enclose it.
    pub(super) fn message(
        &self,
        ty: TypeId,
        bytes: &[u8],
        object: &mut Object,
        depth: usize,
    ) -> Result<(), ProtobufError> {
        if depth >= MAX_DEPTH {
            return Err(ProtobufError::TooDeep);
        }
        self.fields(self.table.get(ty), 0, bytes, object, depth)
    }

    fn fields(
        &self,
        owner: &TypeDef,
        path: u32,
        bytes: &[u8],
        object: &mut Object,
        depth: usize,
    ) -> Result<(), ProtobufError> {
        let mut reader = WireReader::new(bytes);
        while let Some(entry) = reader.next()? {
            match meaning(owner, path, entry.tag) {
                Some(Meaning::Field(field)) => self.field(OwnedField { owner, field }, &entry, object, depth)?,
                Some(Meaning::Embedded(path)) => {
                    self.fields(owner, path, entry.bytes(owner.short_name())?, object, depth)?;
                }
                None => {}
            }
        }
        Ok(())
    }

    fn field(
        &self,
        place: OwnedField<'_>,
        entry: &WireEntry<'_>,
        object: &mut Object,
        depth: usize,
    ) -> Result<(), ProtobufError> {
        let name = &place.field.name;
        match &place.field.shape {
            Shape::Struct(ty) => {
                let known = fields_of(object, name);
                self.message(*ty, entry.bytes(name)?, known, depth.saturating_add(1))
            }
            Shape::List { item, .. } if !is_wrapped(place.owner, place.field) => {
                let slot = object.entry(name.as_str()).or_insert_with(|| Value::Array(Vec::new()));
                match slot {
                    Value::Array(items) => self.items(place, item, entry, items, depth.saturating_add(1)),
                    _ => Ok(()),
                }
            }
            Shape::Map { value, .. } => {
                let entries = fields_of(object, name);
                let (key, value) = self.map_entry(place, value, entry.bytes(name)?, depth.saturating_add(1))?;
                entries.insert(key, value);
                Ok(())
            }
            shape => {
                match self.value(place, shape, entry, depth)? {
                    Value::Null => object.remove(name.as_str()),
                    value => object.insert(name.clone(), value),
                };
                Ok(())
            }
        }
    }

    /// An item of a list, or several packed ones.
    fn items(
        &self,
        place: OwnedField<'_>,
        item: &Shape,
        entry: &WireEntry<'_>,
        items: &mut Vec<Value>,
        depth: usize,
    ) -> Result<(), ProtobufError> {
        match (item, entry.packed()) {
            (Shape::Boolean | Shape::Int32 | Shape::Int64, Some(mut packed)) => {
                while let Some(number) = packed.packed_varint()? {
                    items.push(integer(item, number));
                }
            }
            (Shape::Number, Some(mut packed)) => {
                while let Some(number) = packed.packed_double()? {
                    items.push(leaves::double(number, &place.field.name)?);
                }
            }
            _ => items.push(self.value(place, item, entry, depth)?),
        }
        Ok(())
    }

    /// `{key=1, value=2}`; a value that is left out is null here, which the schema engine reads as zero.
    fn map_entry(
        &self,
        place: OwnedField<'_>,
        shape: &Shape,
        bytes: &[u8],
        depth: usize,
    ) -> Result<(String, Value), ProtobufError> {
        let (mut key, mut value) = (String::new(), Value::Null);
        let mut reader = WireReader::new(bytes);
        while let Some(entry) = reader.next()? {
            match entry.tag {
                1 => key = entry.text(&place.field.name)?,
                2 => value = self.value(place, shape, &entry, depth)?,
                _ => {}
            }
        }
        Ok((key, value))
    }

    /// A value within a field, list or map that is the `depth`th to enclose others. Calls itself by way of messages, so
    /// that it does little itself and takes little stack.
    fn value(
        &self,
        place: OwnedField<'_>,
        shape: &Shape,
        entry: &WireEntry<'_>,
        depth: usize,
    ) -> Result<Value, ProtobufError> {
        match shape {
            Shape::Struct(ty) => {
                let mut object = Object::new();
                self.message(
                    *ty,
                    entry.bytes(&place.field.name)?,
                    &mut object,
                    depth.saturating_add(1),
                )?;
                Ok(Value::Object(object))
            }
            Shape::Any => any::value(self, place, entry.bytes(&place.field.name)?, depth),
            Shape::List { item, .. } => self.wrapped_list(place, item, entry, depth.saturating_add(1)),
            Shape::Map { value, .. } => self.wrapped_map(place, value, entry, depth.saturating_add(1)),
            leaf => leaf_value(leaf, entry, &place.field.name),
        }
    }

    /// `{items=1}`: a list where protobuf allows a single value only.
    fn wrapped_list(
        &self,
        place: OwnedField<'_>,
        item: &Shape,
        entry: &WireEntry<'_>,
        depth: usize,
    ) -> Result<Value, ProtobufError> {
        let mut items = Vec::new();
        each_wrapped(place, entry, |entry| self.items(place, item, entry, &mut items, depth))?;
        Ok(Value::Array(items))
    }

    /// `{items=1}` for a map.
    fn wrapped_map(
        &self,
        place: OwnedField<'_>,
        value: &Shape,
        entry: &WireEntry<'_>,
        depth: usize,
    ) -> Result<Value, ProtobufError> {
        let mut entries = Object::new();
        each_wrapped(place, entry, |entry| {
            let (key, value) = self.map_entry(place, value, entry.bytes(&place.field.name)?, depth)?;
            entries.insert(key, value);
            Ok(())
        })?;
        Ok(Value::Object(entries))
    }
}

fn leaf_value(shape: &Shape, entry: &WireEntry<'_>, name: &str) -> Result<Value, ProtobufError> {
    Ok(match shape {
        Shape::String(format) => leaves::string(*format, entry, name)?,
        Shape::Number => leaves::double(entry.double(name)?, name)?,
        Shape::Quantity => leaves::quantity(entry.bytes(name)?, name)?,
        Shape::IntOrString => leaves::int_or_string(entry.bytes(name)?, name)?,
        other => integer(other, entry.varint(name)?),
    })
}

/// Returns true for the one list whose Go type is a message of its own, `{items=1}` (`v1.Verbs`).
pub(super) fn is_wrapped(owner: &TypeDef, field: &Field) -> bool {
    field.name == "verbs" && owner.short_name() == "APIResource"
}

/// The object under `name`, which is made if need be.
fn fields_of<'o>(object: &'o mut Object, name: &str) -> &'o mut Object {
    let slot = match object.entry(name) {
        map::Entry::Occupied(slot) => slot.into_mut(),
        map::Entry::Vacant(slot) => slot.insert(Value::Object(Object::new())),
    };
    slot.as_object_mut().expect("a field always has the shape of its type")
}

/// The field with this `tag` in the struct, or in the part of it that has the path `path`.
fn meaning(owner: &TypeDef, path: u32, tag: u32) -> Option<Meaning<'_>> {
    if tag > LARGEST_PATH_TAG {
        return None;
    }
    let path = path.checked_mul(1 << BITS_A_PATH_TAG)? | tag;
    let mut embeds = false;
    for field in &owner.fields {
        if field.tag == path {
            return Some(Meaning::Field(field));
        }
        embeds |= is_within(field.tag, path);
    }
    embeds.then_some(Meaning::Embedded(path))
}

/// Returns true if a field's path begins with `path` and goes on.
fn is_within(mut tag: u32, path: u32) -> bool {
    while tag > path {
        tag >>= BITS_A_PATH_TAG;
        if tag == path {
            return true;
        }
    }
    false
}

fn integer(shape: &Shape, number: u64) -> Value {
    match shape {
        Shape::Boolean => (number != 0).into(),
        Shape::Int32 => int32(number).into(),
        _ => number.cast_signed().into(),
    }
}

/// Hands on each item of a message that wraps a list or a map as `{items=1}`.
fn each_wrapped(
    place: OwnedField<'_>,
    wrapper: &WireEntry<'_>,
    mut take: impl FnMut(&WireEntry<'_>) -> Result<(), ProtobufError>,
) -> Result<(), ProtobufError> {
    let mut reader = WireReader::new(wrapper.bytes(&place.field.name)?);
    while let Some(entry) = reader.next()? {
        if entry.tag == 1 {
            take(&entry)?;
        }
    }
    Ok(())
}
