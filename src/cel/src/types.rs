//! The types of expressions.

use std::{fmt, sync::Arc};

use trireme_machinery::schema::ListType;

/// A type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Type {
    /// Of something that does not fit; fits everything, so that one error is reported once.
    Error,
    /// Known when the expression is evaluated.
    Dyn,
    /// A value of any type, such as an attribute of a device.
    Any,
    /// `null`
    Null,
    /// `true` and `false`
    Bool,
    /// A signed number of 64 bits.
    Int,
    /// An unsigned number of 64 bits.
    Uint,
    /// A floating-point number.
    Double,
    /// Text.
    String,
    /// Bytes.
    Bytes,
    /// A span of time.
    Duration,
    /// A point in time.
    Timestamp,
    /// A list of items of a type.
    List(Arc<Type>, ListSemantics),
    /// A map from keys of a type to values of another.
    Map(Arc<Type>, Arc<Type>),
    /// Something of a type, or nothing.
    Optional(Arc<Type>),
    /// A type as a value.
    Type(Arc<Type>),
    /// A type that is known by its name alone, or by fields that its environment declares.
    Named(Arc<str>),
    /// Open; becomes a type by use.
    Param(u32),
}

/// The list type of a schema (`x-kubernetes-list-type`). It decides how lists from JSON are compared and joined; types do not
/// differ by it.
#[derive(Debug, Clone, Default)]
pub struct ListSemantics(Option<Arc<ListType>>);

impl ListSemantics {
    pub(crate) fn of(list_type: &ListType) -> Self {
        let is_atomic = *list_type == ListType::Atomic;
        Self((!is_atomic).then(|| Arc::new(list_type.clone())))
    }

    pub(crate) fn list_type(&self) -> &ListType {
        self.0.as_deref().unwrap_or(&ListType::Atomic)
    }
}

impl PartialEq for ListSemantics {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for ListSemantics {}

impl Type {
    /// A list of this type.
    pub(crate) fn list(self) -> Self {
        Self::List(Arc::new(self), ListSemantics::default())
    }

    /// An optional of this type.
    pub(crate) fn optional(self) -> Self {
        Self::Optional(Arc::new(self))
    }

    /// A type that is known by its name.
    pub(crate) fn named(name: &str) -> Self {
        Self::Named(name.into())
    }

    /// Returns true if the value is a truth, or may be one.
    pub fn is_bool_or_unknown(&self) -> bool {
        matches!(self, Self::Bool | Self::Any)
    }

    /// Compares types as values: parameters do not count.
    pub(crate) fn is_same_kind(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Named(a), Self::Named(b)) => a == b,
            (a, b) => std::mem::discriminant(a) == std::mem::discriminant(b),
        }
    }

    pub(crate) fn is_dyn_or_error(&self) -> bool {
        matches!(self, Self::Dyn | Self::Any | Self::Error)
    }

    /// Returns true if `null` fits too.
    pub(crate) fn is_nullable(&self) -> bool {
        matches!(
            self,
            Self::Dyn
                | Self::Any
                | Self::Error
                | Self::Null
                | Self::Duration
                | Self::Timestamp
                | Self::Named(_)
                | Self::Optional(_)
        )
    }

    /// Parses a type as the tables of functions write it; a single capital letter is an open type.
    pub(crate) fn parse(text: &str) -> Self {
        let text = text.trim();
        let inner = |prefix: &str| text.strip_prefix(prefix)?.strip_suffix(')');
        if let Some(item) = inner("list(") {
            return Self::parse(item).list();
        }
        if let Some(item) = inner("optional(") {
            return Self::parse(item).optional();
        }
        if let Some(item) = inner("type(") {
            return Self::Type(Arc::new(Self::parse(item)));
        }
        if let Some((key, value)) = inner("map(").and_then(|pair| pair.split_once(',')) {
            return Self::Map(Arc::new(Self::parse(key)), Arc::new(Self::parse(value)));
        }
        match text {
            "dyn" => Self::Dyn,
            "any" => Self::Any,
            "null" => Self::Null,
            "bool" => Self::Bool,
            "int" => Self::Int,
            "uint" => Self::Uint,
            "double" => Self::Double,
            "string" => Self::String,
            "bytes" => Self::Bytes,
            "duration" => Self::Duration,
            "timestamp" => Self::Timestamp,
            _ => match text.as_bytes() {
                [letter @ b'A'..=b'Z'] => Self::Param(u32::from(*letter)),
                _ => Self::named(text),
            },
        }
    }

    /// The name of the type without its parameters (cel-go's `TypeName`).
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Any => "google.protobuf.Any".to_owned(),
            Self::List(..) => "list".to_owned(),
            Self::Map(..) => "map".to_owned(),
            Self::Optional(_) => "optional_type".to_owned(),
            Self::Type(_) => "type".to_owned(),
            other => other.to_string(),
        }
    }

    /// The type as errors of the checker show it (cel-go's `FormatCELType`).
    pub(crate) fn in_errors(&self) -> String {
        match self {
            Self::Error => "!error!".to_owned(),
            Self::Null => "null".to_owned(),
            Self::Duration => "duration".to_owned(),
            Self::Timestamp => "timestamp".to_owned(),
            Self::List(item, _) => format!("list({})", item.in_errors()),
            Self::Map(key, value) => format!("map({}, {})", key.in_errors(), value.in_errors()),
            Self::Optional(item) => format!("optional_type({})", item.in_errors()),
            Self::Type(item) => format!("type({})", item.in_errors()),
            other => other.to_string(),
        }
    }
}

/// As cel-go prints a type alone.
impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error => f.write_str("*error*"),
            Self::Dyn | Self::Param(_) => f.write_str("dyn"),
            Self::Any => f.write_str("any"),
            Self::Null => f.write_str("null_type"),
            Self::Bool => f.write_str("bool"),
            Self::Int => f.write_str("int"),
            Self::Uint => f.write_str("uint"),
            Self::Double => f.write_str("double"),
            Self::String => f.write_str("string"),
            Self::Bytes => f.write_str("bytes"),
            Self::Duration => f.write_str("google.protobuf.Duration"),
            Self::Timestamp => f.write_str("google.protobuf.Timestamp"),
            Self::List(item, _) => write!(f, "list({item})"),
            Self::Map(key, value) => write!(f, "map({key}, {value})"),
            Self::Optional(item) => write!(f, "optional_type({item})"),
            Self::Type(item) => write!(f, "type({item})"),
            Self::Named(name) => f.write_str(name),
        }
    }
}
