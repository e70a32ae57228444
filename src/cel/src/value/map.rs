//! Maps and objects: views of JSON objects, maps that were made, and fields that are evaluated when they are asked for.

use std::{cmp::Ordering, collections::BTreeMap, fmt, sync::Arc};

use serde_json::Value as Json;

use super::{Text, Value};
use crate::{environment::Environment, meter::EvalError, syntax::unescape_field, types::Type};

/// A map, or an object of a type with fields.
#[derive(Clone)]
pub enum Map<'v> {
    /// Fields of an object, and the declared type of it.
    Json(&'v serde_json::Map<String, Json>, &'v Type),
    /// A map that was made; an object if it has a type's name.
    Made(Arc<MapEntries<'v>>),
    /// Fields that are evaluated when they are asked for, such as the `variables` of a policy.
    Lazy(&'v (dyn LazyFields + Sync)),
}

/// The entries of a map that was made.
#[derive(Debug, Clone, Default)]
pub struct MapEntries<'v> {
    /// The type's name, if it is an object.
    pub name: Option<Arc<str>>,
    /// Keys and values.
    pub entries: BTreeMap<MapKey<'v>, Value<'v>>,
}

/// Fields by name that are not known before they are asked for.
pub trait LazyFields {
    /// The value of a field; none if there is no such field.
    fn field(&self, name: &str) -> Option<Result<Value<'_>, EvalError>>;
}

/// A key. Numbers that are equal are the same key, whatever their type.
#[derive(Debug, Clone)]
pub enum MapKey<'v> {
    /// `true` or `false`.
    Bool(bool),
    /// A signed number.
    Int(i64),
    /// An unsigned number.
    Uint(u64),
    /// Text.
    String(Text<'v>),
}

impl MapKey<'_> {
    fn number(&self) -> Option<i128> {
        match self {
            Self::Int(value) => Some(i128::from(*value)),
            Self::Uint(value) => Some(i128::from(*value)),
            _ => None,
        }
    }

    const fn rank(&self) -> u8 {
        match self {
            Self::Bool(_) => 0,
            Self::Int(_) | Self::Uint(_) => 1,
            Self::String(_) => 2,
        }
    }
}

impl Ord for MapKey<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Bool(a), Self::Bool(b)) => a.cmp(b),
            (Self::String(a), Self::String(b)) => a.as_str().cmp(b.as_str()),
            _ => (self.rank(), self.number()).cmp(&(other.rank(), other.number())),
        }
    }
}

impl PartialOrd for MapKey<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for MapKey<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for MapKey<'_> {}

impl<'v> MapKey<'v> {
    /// The key that a value is; none if it cannot be one.
    pub(crate) fn of(value: &Value<'v>) -> Option<Self> {
        Some(match value {
            Value::Bool(value) => Self::Bool(*value),
            Value::Int(value) => Self::Int(*value),
            Value::Uint(value) => Self::Uint(*value),
            Value::String(text) => Self::String(text.clone()),
            // A whole number is found under its integer, as in cel-go.
            Value::Double(value) if value.fract() == 0.0 && value.abs() < 9e15 => {
                #[expect(clippy::cast_possible_truncation, reason = "the guard has seen that it fits")]
                let whole = *value as i64;
                Self::Int(whole)
            }
            _ => return None,
        })
    }

    /// The key as a value.
    pub fn value(&self) -> Value<'v> {
        match self {
            Self::Bool(value) => Value::Bool(*value),
            Self::Int(value) => Value::Int(*value),
            Self::Uint(value) => Value::Uint(*value),
            Self::String(text) => Value::String(text.clone()),
        }
    }
}

impl<'v> Map<'v> {
    /// The number of entries. Fields that are not known before they are asked for do not count.
    pub fn len(&self) -> usize {
        match self {
            Self::Json(fields, _) => fields.len(),
            Self::Made(fields) => fields.entries.len(),
            Self::Lazy(_) => 0,
        }
    }

    /// Tells maps without entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The type's name, if this is an object.
    pub(crate) fn name(&self) -> Option<&str> {
        match self {
            Self::Json(_, Type::Named(name)) => Some(name),
            Self::Made(fields) => fields.name.as_deref(),
            _ => None,
        }
    }

    /// The value of a field or under a text as key.
    pub(crate) fn field(&self, environment: &'v Environment, name: &str) -> Option<Result<Value<'v>, EvalError>> {
        match self {
            Self::Json(fields, kind) => json_field(fields, kind, environment, name).map(Ok),
            Self::Made(fields) => {
                let key: MapKey<'_> = MapKey::String(Text::Borrowed(name));
                find(&fields.entries, &key).cloned().map(Ok)
            }
            Self::Lazy(fields) => fields.field(name),
        }
    }

    /// The value under a key.
    pub(crate) fn get(&self, environment: &'v Environment, key: &MapKey<'_>) -> Option<Result<Value<'v>, EvalError>> {
        match (self, key) {
            (_, MapKey::String(name)) => self.field(environment, name.as_str()),
            (Self::Made(fields), key) => find(&fields.entries, key).cloned().map(Ok),
            _ => None,
        }
    }

    /// All keys.
    pub(crate) fn keys(&self) -> Vec<MapKey<'v>> {
        match self {
            Self::Json(fields, _) => fields.keys().map(|key| MapKey::String(Text::Borrowed(key))).collect(),
            Self::Made(fields) => fields.entries.keys().cloned().collect(),
            Self::Lazy(_) => Vec::new(),
        }
    }
}

/// The value of a field or under a key of JSON of a declared type.
fn json_field<'v>(
    fields: &'v serde_json::Map<String, Json>,
    kind: &'v Type,
    environment: &'v Environment,
    name: &str,
) -> Option<Value<'v>> {
    let Type::Named(object) = kind else {
        let kind = match kind {
            Type::Map(_, value) => value,
            _ => &Type::Dyn,
        };
        let unescaped = unescape_field(name).filter(|_| environment.unescapes_keys());
        let found = fields.get(unescaped.as_deref().unwrap_or(name));
        return found.map(|found| Value::of_json(found, kind));
    };
    // The fields of a type have names that were escaped; keys mostly are what they are.
    let found = fields.get(&*unescape_field(name)?)?;
    let is_absent = found.is_null() && environment.null_is_absent(object);
    (!is_absent).then(|| Value::of_json(found, environment.field_type(object, name)))
}

/// Looks a key up that may live shorter than those of the map.
fn find<'m, 'v>(entries: &'m BTreeMap<MapKey<'v>, Value<'v>>, key: &MapKey<'_>) -> Option<&'m Value<'v>> {
    // Maps that were made are as long as what was written out, or as what a comprehension went through.
    let shorter: &'m BTreeMap<MapKey<'_>, Value<'v>> = entries;
    let owned = match key {
        MapKey::Bool(value) => MapKey::Bool(*value),
        MapKey::Int(value) => MapKey::Int(*value),
        MapKey::Uint(value) => MapKey::Uint(*value),
        MapKey::String(text) => MapKey::String(Text::Shared(Arc::from(text.as_str()))),
    };
    shorter.get(&owned)
}

impl fmt::Debug for Map<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json(fields, kind) => f.debug_tuple("Json").field(fields).field(kind).finish(),
            Self::Made(fields) => f.debug_tuple("Made").field(fields).finish(),
            Self::Lazy(_) => f.write_str("Lazy"),
        }
    }
}
