//! The schema that merges go by: built-in types from their [`TypeTable`], custom resources by their [`MergeSchema`].

use serde_json::Value;

use super::{
    merge_schema::MergeSchema,
    path::{PathElement, PathValue},
};
use crate::schema::{Field, ListType, Presence, Shape, StringFormat, TypeId, TypeTable};

/// Fields with `+structType=granular` though their type is atomic.
const GRANULAR: &[(&str, &str)] = &[("io.k8s.api.core.v1.PersistentVolumeSpec", "claimRef")];

/// Keys with an empty default (`+default=""`) though their fields are left out when empty.
const EMPTY_BY_DEFAULT: &[(&str, &str)] = &[("io.k8s.api.core.v1.LocalObjectReference", "name")];

/// The types whose fields of any JSON have a type without a schema; in all others that is a `RawExtension`, which is owned
/// as a whole.
const OF_ANY_JSON: &str = "io.k8s.apiextensions-apiserver.";

/// The schema of one place in an object.
#[derive(Debug, Clone, Copy)]
pub enum SchemaNode<'s> {
    /// A struct of a table.
    Struct(&'s TypeTable, TypeId),
    /// A struct of a table that is granular here, whatever its type says.
    Granular(&'s TypeTable, TypeId),
    /// Another shape of a table.
    Shape(&'s TypeTable, &'s Shape),
    /// A place in a custom resource.
    Own(&'s MergeSchema),
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
    /// The schema of a declared field.
    fn declared(types: &'s TypeTable, owner: TypeId, field: &'s Field) -> Self {
        let owner = types.get(owner).name.as_str();
        match &field.shape {
            Shape::Struct(id) if GRANULAR.contains(&(owner, &field.name)) => Self::Granular(types, *id),
            Shape::Any if owner.starts_with(OF_ANY_JSON) => Self::Deduced,
            shape => Self::Shape(types, shape),
        }
    }

    fn normal(self) -> Self {
        match self {
            Self::Shape(types, Shape::Struct(id)) => Self::Struct(types, *id),
            Self::Own(MergeSchema::Deduced) => Self::Deduced,
            Self::Own(MergeSchema::BuiltIn(types, id)) => Self::Struct(types, *id),
            other => other,
        }
    }

    pub(super) fn atom(self, value: Option<&Value>) -> Atom<'s> {
        match self.normal() {
            Self::Shape(_, Shape::Any) => Atom::Atomic,
            Self::Struct(types, id) if types.get(id).atomic => Atom::Atomic,
            Self::Struct(..) | Self::Granular(..) => Atom::Map,
            Self::Shape(_, Shape::Map { atomic, .. }) if *atomic => Atom::Atomic,
            Self::Shape(_, Shape::Map { .. }) => Atom::Map,
            Self::Own(MergeSchema::Map { atomic: true, .. }) => Atom::Atomic,
            Self::Own(MergeSchema::Map { .. }) => Atom::Map,
            Self::Shape(_, Shape::List { list_type, .. }) | Self::Own(MergeSchema::List { list_type, .. }) => {
                match list_type {
                    ListType::Atomic => Atom::Atomic,
                    ListType::Set => Atom::Set,
                    ListType::Map(keys) => Atom::Keyed(keys),
                }
            }
            Self::Shape(..) | Self::Own(_) => Atom::Scalar,
            Self::Deduced => match value {
                // A null is a map of nothing.
                Some(Value::Object(_) | Value::Null) => Atom::Map,
                Some(Value::Array(_)) => Atom::Atomic,
                _ => Atom::Scalar,
            },
        }
    }

    /// The schema of a field, and true if a struct declares it.
    pub(super) fn field(self, name: &str) -> (Self, bool) {
        match self.normal() {
            Self::Struct(types, id) | Self::Granular(types, id) => match types.field(id, name) {
                Some(field) => (Self::declared(types, id, field), true),
                None => (Self::Deduced, false),
            },
            Self::Shape(types, Shape::Map { value, .. }) => (Self::Shape(types, value), false),
            Self::Own(MergeSchema::Map { fields, rest, .. }) => match (fields.get(name), rest) {
                (Some(field), _) => (Self::Own(&field.schema), true),
                (None, Some(rest)) => (Self::Own(rest), false),
                (None, None) => (Self::Deduced, false),
            },
            _ => (Self::Deduced, false),
        }
    }

    /// The sort of value that the schema wants, if it wants a map or a list.
    pub(super) fn shape_name(self) -> Option<&'static str> {
        match self.normal() {
            Self::Struct(..)
            | Self::Granular(..)
            | Self::Shape(_, Shape::Map { .. })
            | Self::Own(MergeSchema::Map { .. }) => Some("map"),
            Self::Shape(_, Shape::List { .. }) | Self::Own(MergeSchema::List { .. }) => Some("list"),
            _ => None,
        }
    }

    /// True if there may be no other fields than those that are declared.
    pub(super) fn is_closed(self) -> bool {
        matches!(
            self.normal(),
            Self::Struct(..) | Self::Granular(..) | Self::Own(MergeSchema::Map { rest: None, .. })
        )
    }

    /// True of a map without declared fields whose values may be anything (`isUntypedDeducedMap`).
    pub(super) fn is_free_map(self) -> bool {
        match self.normal() {
            Self::Deduced => true,
            Self::Own(MergeSchema::Map { fields, rest, .. }) => {
                let is_free = |rest: &MergeSchema| matches!(rest, MergeSchema::Deduced | MergeSchema::Scalar);
                fields.is_empty() && rest.as_deref().is_some_and(is_free)
            }
            _ => false,
        }
    }

    /// The schema of a list's items.
    pub(super) fn item(self) -> Self {
        match self.normal() {
            Self::Shape(types, Shape::List { item, .. }) => Self::Shape(types, item),
            Self::Own(MergeSchema::List { item, .. }) => Self::Own(item),
            _ => Self::Deduced,
        }
    }

    /// The value of a key that an item leaves out. In OpenAPI a field that Go always writes is zero by default.
    fn key_default(self, key: &str) -> Option<Value> {
        match self.normal() {
            Self::Struct(types, id) | Self::Granular(types, id) => {
                let field = types.field(id, key)?;
                let is_empty = EMPTY_BY_DEFAULT.contains(&(types.get(id).name.as_str(), key));
                field.default.clone().or_else(|| match &field.shape {
                    Shape::String(StringFormat::Plain) if is_empty => Some("".into()),
                    _ if field.presence != Presence::Always => None,
                    Shape::String(StringFormat::Plain) => Some("".into()),
                    Shape::Int32 | Shape::Int64 => Some(0.into()),
                    _ => None,
                })
            }
            Self::Own(MergeSchema::Map { fields, .. }) => fields.get(key)?.default.clone(),
            _ => None,
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
        let item = self.item();
        let value = |key: &String| {
            let value = fields.get(key).cloned().or_else(|| item.key_default(key))?;
            Some((key.clone(), PathValue(value)))
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
