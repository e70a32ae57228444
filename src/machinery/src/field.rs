//! Field paths and validation errors, with the texts of `k8s.io/apimachinery/pkg/util/validation/field`.
//!
//! A [`Path`] is a chain of borrowed links on the stack, so that walking a valid object allocates
//! nothing; it becomes text only when an error is made.

use std::fmt;

use serde_json::Value;

use crate::{
    go_text::{general_float, quote},
    json,
};

/// The path of a value in an object, such as `spec.containers[0].name`.
#[derive(Debug, Clone, Copy)]
pub struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    step: FieldPathStep<'a>,
}

#[derive(Debug, Clone, Copy)]
enum FieldPathStep<'a> {
    Root,
    Field(&'a str),
    Index(usize),
    Key(&'a str),
}

impl<'a> Path<'a> {
    /// The object itself; prints as nothing.
    pub const fn root() -> Path<'static> {
        Path {
            parent: None,
            step: FieldPathStep::Root,
        }
    }

    /// Reports whether this is the object itself.
    pub const fn is_root(&self) -> bool {
        self.parent.is_none() && matches!(self.step, FieldPathStep::Root)
    }

    /// A field (or several, joined by dots) of the object.
    pub const fn new(name: &'a str) -> Path<'a> {
        Path {
            parent: None,
            step: FieldPathStep::Field(name),
        }
    }

    /// A field (or several, joined by dots) of the struct at this path.
    pub const fn child<'b>(&'b self, name: &'b str) -> Path<'b>
    where
        'a: 'b,
    {
        Path {
            parent: Some(self),
            step: FieldPathStep::Field(name),
        }
    }

    /// An item of the list at this path: `[3]`.
    pub const fn index<'b>(&'b self, index: usize) -> Path<'b>
    where
        'a: 'b,
    {
        Path {
            parent: Some(self),
            step: FieldPathStep::Index(index),
        }
    }

    /// An entry of the map at this path: `[key]`.
    pub const fn key<'b>(&'b self, key: &'b str) -> Path<'b>
    where
        'a: 'b,
    {
        Path {
            parent: Some(self),
            step: FieldPathStep::Key(key),
        }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at_start = match self.parent {
            Some(parent) => {
                parent.fmt(f)?;
                parent.parent.is_none() && matches!(parent.step, FieldPathStep::Root)
            }
            None => true,
        };
        match self.step {
            FieldPathStep::Root => Ok(()),
            FieldPathStep::Field(name) if at_start => f.write_str(name),
            FieldPathStep::Field(name) => write!(f, ".{name}"),
            FieldPathStep::Index(index) => write!(f, "[{index}]"),
            FieldPathStep::Key(key) => write!(f, "[{key}]"),
        }
    }
}

/// The type of a field's error; the closed set that clients see as `causes[].reason`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorType {
    /// `FieldValueNotFound`
    NotFound,
    /// `FieldValueRequired`
    Required,
    /// `FieldValueDuplicate`
    Duplicate,
    /// `FieldValueInvalid`
    Invalid,
    /// `FieldValueNotSupported`
    NotSupported,
    /// `FieldValueForbidden`
    Forbidden,
    /// `FieldValueTooLong`
    TooLong,
    /// `FieldValueTooMany`
    TooMany,
    /// `FieldValueTypeInvalid`
    TypeInvalid,
    /// `InternalError`
    Internal,
}

impl ErrorType {
    /// The reason as it stands in a `Status` cause.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::NotFound => "FieldValueNotFound",
            Self::Required => "FieldValueRequired",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::Internal => "InternalError",
        }
    }

    const fn text(self) -> &'static str {
        match self {
            Self::NotFound => "Not found",
            Self::Required => "Required value",
            Self::Duplicate => "Duplicate value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::Internal => "Internal error",
        }
    }
}

/// One error of one field.
#[derive(Debug, Clone, PartialEq)]
pub struct Error {
    /// The error's text.
    pub kind: ErrorType,
    /// The path, as text.
    pub field: String,
    /// The error's own text: `Invalid value: "x": must be …`, without the field.
    pub body: String,
}

/// Errors in the order in which they were found.
pub type ErrorList = Vec<Error>;

impl Error {
    fn new(kind: ErrorType, path: &Path<'_>, shown: Option<String>, detail: &str) -> Self {
        let mut body = kind.text().to_owned();
        for part in shown
            .iter()
            .map(String::as_str)
            .chain(Some(detail).filter(|d| !d.is_empty()))
        {
            body.push_str(": ");
            body.push_str(part);
        }
        Self {
            kind,
            field: path.to_string(),
            body,
        }
    }

    /// The field must have a value.
    pub fn required(path: &Path<'_>, detail: &str) -> Self {
        Self::new(ErrorType::Required, path, None, detail)
    }

    /// The field's value is malformed.
    pub fn invalid(path: &Path<'_>, value: &Value, detail: &str) -> Self {
        Self::new(ErrorType::Invalid, path, Some(shown(value)), detail)
    }

    /// The field's value is malformed, and is not shown.
    pub fn invalid_omitted(path: &Path<'_>, detail: &str) -> Self {
        Self::new(ErrorType::Invalid, path, None, detail)
    }

    /// The field's value is malformed; `shown` is printed as it stands.
    pub fn invalid_shown(path: &Path<'_>, shown: impl Into<String>, detail: &str) -> Self {
        Self::new(ErrorType::Invalid, path, Some(shown.into()), detail)
    }

    /// The field's string value is malformed.
    pub fn invalid_str(path: &Path<'_>, value: &str, detail: &str) -> Self {
        Self::new(ErrorType::Invalid, path, Some(quote(value)), detail)
    }

    /// The field's value is not of the type that it should be.
    pub fn type_invalid(path: &Path<'_>, value: &Value, detail: &str) -> Self {
        Self::new(ErrorType::TypeInvalid, path, Some(shown(value)), detail)
    }

    /// The field's value is none of the `supported` ones, which are named in the order given.
    pub fn not_supported(path: &Path<'_>, value: &str, supported: &[&str]) -> Self {
        let names: Vec<String> = supported.iter().map(|s| quote(s)).collect();
        let detail = if names.is_empty() {
            String::new()
        } else {
            format!("supported values: {}", names.join(", "))
        };
        Self::new(ErrorType::NotSupported, path, Some(quote(value)), &detail)
    }

    /// The field's value must be unique and is not.
    pub fn duplicate(path: &Path<'_>, value: &Value) -> Self {
        Self::new(ErrorType::Duplicate, path, Some(shown(value)), "")
    }

    /// As [`Error::duplicate`]; `shown` is printed as it stands.
    pub fn duplicate_shown(path: &Path<'_>, shown: impl Into<String>) -> Self {
        Self::new(ErrorType::Duplicate, path, Some(shown.into()), "")
    }

    /// The field names something that does not exist.
    pub fn not_found(path: &Path<'_>, value: &Value) -> Self {
        Self::new(ErrorType::NotFound, path, Some(shown(value)), "")
    }

    /// The field may not have a value here.
    pub fn forbidden(path: &Path<'_>, detail: &str) -> Self {
        Self::new(ErrorType::Forbidden, path, None, detail)
    }

    /// The field is longer than `max_bytes` bytes.
    pub fn too_long(path: &Path<'_>, max_bytes: usize) -> Self {
        let bytes = if max_bytes == 1 { "byte" } else { "bytes" };
        let detail = format!("may not be more than {max_bytes} {bytes}");
        Self::new(ErrorType::TooLong, path, None, &detail)
    }

    /// The list has `actual` items, more than `max`.
    pub fn too_many(path: &Path<'_>, actual: usize, max: usize) -> Self {
        let items = if max == 1 { "item" } else { "items" };
        let detail = format!("must have at most {max} {items}");
        Self::new(ErrorType::TooMany, path, Some(actual.to_string()), &detail)
    }
}

/// `field: body`, or the body alone for the object as a whole.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.field.is_empty() {
            f.write_str(&self.body)
        } else {
            write!(f, "{}: {}", self.field, self.body)
        }
    }
}

/// A value as error texts show it: strings quoted, everything else as compact JSON.
pub fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => quote(text),
        Value::Number(number) if number.is_f64() => number.as_f64().map(general_float).unwrap_or_default(),
        other => String::from_utf8_lossy(&json::encode(other)).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_item_is_not_items() {
        let text = |max| Error::too_many(&Path::new("spec"), 2, max).to_string();
        assert_eq!(text(1), "spec: Too many: 2: must have at most 1 item");
        assert_eq!(text(0), "spec: Too many: 2: must have at most 0 items");
    }

    #[test]
    fn paths_print_as_kubernetes_does() {
        let root = Path::root();
        let spec = root.child("spec");
        let containers = spec.child("containers");
        assert_eq!(containers.index(0).child("name").to_string(), "spec.containers[0].name");
        assert_eq!(Path::new("data").key("a/b").to_string(), "data[a/b]");
        assert_eq!(root.to_string(), "");
    }

    #[test]
    fn errors_print_as_kubernetes_does() {
        let path = Path::new("spec.ports");
        assert_eq!(Error::required(&path, "").to_string(), "spec.ports: Required value");
        assert_eq!(
            Error::invalid_str(&path, "a\"b", "bad").to_string(),
            r#"spec.ports: Invalid value: "a\"b": bad"#
        );
        assert_eq!(
            Error::not_supported(&path, "x", &["A", "B"]).to_string(),
            r#"spec.ports: Unsupported value: "x": supported values: "A", "B""#
        );
        assert_eq!(
            Error::too_long(&path, 63).to_string(),
            "spec.ports: Too long: may not be more than 63 bytes"
        );
        assert_eq!(
            Error::too_long(&path, 1).to_string(),
            "spec.ports: Too long: may not be more than 1 byte"
        );
    }
}
