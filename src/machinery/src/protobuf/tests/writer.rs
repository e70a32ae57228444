//! Writes messages, and makes types with tags.

use crate::schema::{Field, ListType, PatchStrategy, Presence, Shape, StringFormat, TypeDef, TypeId, TypeTable};

/// A message in the making.
#[derive(Debug, Default, Clone)]
pub(super) struct Message(pub(super) Vec<u8>);

pub(super) fn message() -> Message {
    Message::default()
}

impl Message {
    pub(super) fn number(mut self, tag: u64, number: u64) -> Self {
        self.varint(tag << 3);
        self.varint(number);
        self
    }

    pub(super) fn double(mut self, tag: u64, number: f64) -> Self {
        self.varint(tag << 3 | 1);
        self.0.extend(number.to_le_bytes());
        self
    }

    pub(super) fn bytes(mut self, tag: u64, bytes: impl AsRef<[u8]>) -> Self {
        let bytes = bytes.as_ref();
        self.varint(tag << 3 | 2);
        self.varint(u64::try_from(bytes.len()).expect("lengths are 64 bits at most"));
        self.0.extend(bytes);
        self
    }

    pub(super) fn raw(mut self, bytes: &[u8]) -> Self {
        self.0.extend(bytes);
        self
    }

    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(u8::try_from(number & 0x7f).expect("seven bits") | 0x80);
            number >>= 7;
        }
        self.0.push(u8::try_from(number).expect("seven bits"));
    }
}

impl AsRef<[u8]> for Message {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

pub(super) fn format(format: StringFormat) -> Shape {
    Shape::String(format)
}

pub(super) fn text() -> Shape {
    format(StringFormat::Plain)
}

pub(super) fn list(item: Shape) -> Shape {
    Shape::List {
        item: Box::new(item),
        list_type: ListType::Atomic,
    }
}

pub(super) fn map(value: Shape) -> Shape {
    Shape::Map {
        value: Box::new(value),
        atomic: false,
    }
}

/// Defines a type of fields with their names, tags and shapes.
pub(super) fn define(table: &mut TypeTable, name: &str, fields: Vec<(&str, u32, Shape)>) -> TypeId {
    let fields = fields.into_iter().map(|(name, tag, shape)| Field {
        name: name.to_owned(),
        shape,
        presence: Presence::Pointer,
        required: false,
        default: None,
        patch: PatchStrategy::default(),
        tag,
    });
    table.define(TypeDef {
        name: name.to_owned(),
        fields: fields.collect(),
        atomic: false,
    })
}
