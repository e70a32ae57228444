//! The schema that merges go by: built-in types from their [`TypeTable`], anything else deduced from the values.

use serde_json::Value;

use super::path::{PathElement, PathValue};
use crate::schema::{ListType, Shape, TypeId, TypeTable};

/// The schema of one place in an object.
#[derive(Debug, Clone, Copy)]
pub enum SchemaNode<'s> {
    /// A struct of a table.
    Struct(&'s TypeTable, TypeId),
    /// Another shape of a table.
    Shape(&'s TypeTable, &'s Shape),
    /// Nothing is known: maps are granular, lists atomic.
    Deduced,
}

/// The treatment of a value by merges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Atom<'s> {
    /// A value without parts.
    Scalar,
    /// A list or map that is owned as a whole.
    Atomic,
    /// A struct or map with fields of their own.
    Map,
    /// A list without keys: a set.
    Set,
    /// A list whose items have these keys.
    Keyed(&'s [String]),
}

impl<'s> SchemaNode<'s> {
    fn normal(self) -> Self {
        match self {
            Self::Shape(types, Shape::Struct(id)) => Self::Struct(types, *id),
            Self::Shape(_, Shape::Any) => Self::Deduced,
            other => other,
        }
    }

    pub(super) fn atom(self, value: Option<&Value>) -> Atom<'s> {
        match self.normal() {
            Self::Struct(types, id) if types.get(id).atomic => Atom::Atomic,
            Self::Struct(..) => Atom::Map,
            Self::Shape(_, Shape::Map { atomic, .. }) if *atomic => Atom::Atomic,
            Self::Shape(_, Shape::Map { .. }) => Atom::Map,
            Self::Shape(_, Shape::List { list_type, .. }) => match list_type {
                ListType::Atomic => Atom::Atomic,
                ListType::Set => Atom::Set,
                ListType::Map(keys) => Atom::Keyed(keys),
            },
            Self::Shape(..) => Atom::Scalar,
            Self::Deduced => match value {
                Some(Value::Object(_)) => Atom::Map,
                Some(Value::Array(_)) => Atom::Atomic,
                _ => Atom::Scalar,
            },
        }
    }

    /// The schema of a field, and true if a struct declares it.
    pub(super) fn field(self, name: &str) -> (Self, bool) {
        match self.normal() {
            Self::Struct(types, id) => match types.field(id, name) {
                Some(field) => (Self::Shape(types, &field.shape), true),
                None => (Self::Deduced, false),
            },
            Self::Shape(types, Shape::Map { value, .. }) => (Self::Shape(types, value), false),
            _ => (Self::Deduced, false),
        }
    }

    /// The sort of value that the schema wants, if it wants a map or a list.
    pub(super) fn shape_name(self) -> Option<&'static str> {
        match self.normal() {
            Self::Struct(..) | Self::Shape(_, Shape::Map { .. }) => Some("map"),
            Self::Shape(_, Shape::List { .. }) => Some("list"),
            _ => None,
        }
    }

    pub(super) fn is_struct(self) -> bool {
        matches!(self.normal(), Self::Struct(..))
    }

    /// The schema of a list's items.
    pub(super) fn item(self) -> Self {
        match self.normal() {
            Self::Shape(types, Shape::List { item, .. }) => Self::Shape(types, item),
            _ => Self::Deduced,
        }
    }

    /// The element that names an item of a set or keyed list.
    ///
    /// # Errors
    /// If the item has no key, or is no scalar in a set.
    pub(super) fn element(self, atom: Atom<'_>, item: &Value) -> Result<PathElement, String> {
        let Atom::Keyed(keys) = atom else {
            return match item {
                Value::Object(_) => Err("associative list without keys has an element that's a map type".into()),
                Value::Array(_) => Err("not supported: associative list with lists as elements".into()),
                Value::Null => Err("associative list without keys has an element that's an explicit null".into()),
                scalar => Ok(PathElement::Value(PathValue(scalar.clone()))),
            };
        };
        let fields = match item {
            Value::Object(fields) => fields,
            Value::Null => return Err("associative list with keys may not have a null element".into()),
            _ => return Err("associative list with keys may not have non-map elements".into()),
        };
        let default = |key: &str| match self.item().normal() {
            Self::Struct(types, id) => types.field(id, key)?.default.as_ref(),
            _ => None,
        };
        let value = |key: &String| {
            let value = fields.get(key).or_else(|| default(key))?;
            Some((key.clone(), PathValue(value.clone())))
        };
        let mut found: Vec<_> = keys.iter().filter_map(value).collect();
        if found.is_empty() {
            let quoted: Vec<String> = keys.iter().map(|key| format!("{key:?}")).collect();
            return Err(format!(
                "associative list with keys has an element that omits all key fields [{}] (and doesn't have default \
                 values for any key fields)",
                quoted.join(" ")
            ));
        }
        found.sort();
        Ok(PathElement::Key(found))
    }
}
