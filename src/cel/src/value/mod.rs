//! Values of expressions. What comes from an object is a view of its JSON: nothing is converted before it is looked at.

mod compare;
mod json;
mod list;
mod list_types;
mod map;
mod opaque;

use std::{fmt, sync::Arc};

use trireme_machinery::time::{Duration, Time};

pub use list::List;
pub use map::{LazyFields, Map, MapEntries, MapKey};
pub use opaque::{AuthorizerValue, Cidr, Opaque};

use crate::types::Type;

/// A value. It borrows from the objects that were bound to variables and from the program.
#[derive(Debug, Clone)]
pub enum Value<'v> {
    /// `null`
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A signed number of 64 bits.
    Int(i64),
    /// An unsigned number of 64 bits.
    Uint(u64),
    /// A floating-point number.
    Double(f64),
    /// Text.
    String(Text<'v>),
    /// Bytes.
    Bytes(Arc<[u8]>),
    /// A span of time.
    Duration(Duration),
    /// A point in time.
    Timestamp(Time),
    /// A list.
    List(List<'v>),
    /// A map or an object.
    Map(Map<'v>),
    /// Something or nothing.
    Optional(Option<Arc<Value<'v>>>),
    /// A type.
    Type(Arc<Type>),
    /// A value of Kubernetes' libraries.
    Opaque(Opaque<'v>),
}

/// Text that is borrowed or shared.
#[derive(Debug, Clone)]
pub enum Text<'v> {
    /// Text of an object or of the program.
    Borrowed(&'v str),
    /// Text that was made.
    Shared(Arc<str>),
}

impl Text<'_> {
    /// The text itself.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Borrowed(text) => text,
            Self::Shared(text) => text,
        }
    }

    /// The number of characters, which is the size of text in CEL.
    pub(crate) fn characters(&self) -> usize {
        let text = self.as_str();
        if text.is_ascii() {
            text.len()
        } else {
            text.chars().count()
        }
    }
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl<'v> Value<'v> {
    /// Text that is made anew.
    pub fn text(text: impl Into<Arc<str>>) -> Self {
        Self::String(Text::Shared(text.into()))
    }

    /// A list of values.
    pub fn list(items: Vec<Value<'v>>) -> Self {
        Self::List(List::Items(Arc::new(items)))
    }

    pub(crate) fn some(self) -> Self {
        Self::Optional(Some(Arc::new(self)))
    }

    /// The text, if the value is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text.as_str()),
            _ => None,
        }
    }

    /// The truth, if the value is one.
    pub const fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// The type of this value at run time.
    pub fn kind(&self) -> Type {
        let any = || Arc::new(Type::Dyn);
        match self {
            Self::Null => Type::Null,
            Self::Bool(_) => Type::Bool,
            Self::Int(_) => Type::Int,
            Self::Uint(_) => Type::Uint,
            Self::Double(_) => Type::Double,
            Self::String(_) => Type::String,
            Self::Bytes(_) => Type::Bytes,
            Self::Duration(_) => Type::Duration,
            Self::Timestamp(_) => Type::Timestamp,
            Self::List(_) => Type::Dyn.list(),
            Self::Map(map) => map.name().map_or_else(|| Type::Map(any(), any()), Type::named),
            Self::Optional(_) => Type::Optional(any()),
            Self::Type(_) => Type::Type(any()),
            Self::Opaque(opaque) => Type::named(opaque.type_name()),
        }
    }

    /// The name of the type without its parameters, as errors at run time show it.
    pub(crate) fn kind_name(&self) -> String {
        match self {
            Self::List(_) => "list".to_owned(),
            Self::Map(map) if map.name().is_none() => "map".to_owned(),
            Self::Optional(_) => "optional_type".to_owned(),
            Self::Type(_) => "type".to_owned(),
            other => other.kind().to_string(),
        }
    }

    /// The size by which cel-go charges for a value: 1 unless it has one.
    pub(crate) fn cost_size(&self) -> u64 {
        let size = match self {
            Self::String(text) => text.characters(),
            Self::Bytes(bytes) => bytes.len(),
            Self::List(list) => list.len(),
            Self::Map(map) => map.len(),
            Self::Opaque(opaque) => opaque.cost_size(),
            _ => 1,
        };
        size as u64
    }

    /// Nothing, zero or empty: what `optional.ofNonZeroValue` takes for nothing.
    pub(crate) fn is_zero(&self) -> bool {
        match self {
            Self::Null => true,
            Self::Bool(value) => !value,
            Self::Int(value) => *value == 0,
            Self::Uint(value) => *value == 0,
            Self::Double(value) => *value == 0.0,
            Self::String(text) => text.as_str().is_empty(),
            Self::Bytes(bytes) => bytes.is_empty(),
            Self::Duration(duration) => duration.nanos() == 0,
            Self::Timestamp(time) => time.is_zero(),
            Self::List(list) => list.is_empty(),
            Self::Map(map) => map.is_empty(),
            Self::Optional(inner) => inner.is_none(),
            Self::Type(_) | Self::Opaque(_) => false,
        }
    }
}
