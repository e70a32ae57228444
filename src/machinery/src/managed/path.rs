//! Paths into an object (`fieldpath.PathElement`), their order and their two forms as text.

use std::{cmp::Ordering, fmt};

use serde_json::{Map, Value};

use crate::go_text::quote;

/// A scalar in a path, ordered as `value.Compare` orders: numbers, strings, booleans, lists, maps, null.
#[derive(Debug, Clone)]
pub struct PathValue(pub Value);

/// A step into an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathElement {
    /// `f:`: a field of a struct or an entry of a map.
    Field(String),
    /// `k:`: an item of a list by its keys, sorted by name.
    Key(Vec<(String, PathValue)>),
    /// `v:`: an item of a set.
    Value(PathValue),
    /// `i:`: an item by its place.
    Index(i64),
}

impl PathValue {
    fn rank(&self) -> u8 {
        match &self.0 {
            Value::Number(_) => 0,
            Value::String(_) => 1,
            Value::Bool(_) => 2,
            Value::Array(_) => 3,
            Value::Object(_) => 4,
            Value::Null => 5,
        }
    }
}

impl PartialEq for PathValue {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for PathValue {}

impl PartialOrd for PathValue {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for PathValue {
    fn cmp(&self, other: &Self) -> Ordering {
        match (&self.0, &other.0) {
            (Value::Number(a), Value::Number(b)) => match (a.as_i64(), b.as_i64()) {
                (Some(a), Some(b)) => a.cmp(&b),
                _ => a.as_f64().unwrap_or(0.0).total_cmp(&b.as_f64().unwrap_or(0.0)),
            },
            (Value::String(a), Value::String(b)) => a.cmp(b),
            (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
            _ if self.rank() == other.rank() => self.0.to_string().cmp(&other.0.to_string()),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PathElement {
    /// The fields of a path such as `spec.replicas`.
    pub fn dotted(path: &str) -> Vec<Self> {
        path.split('.').map(|name| Self::Field(name.to_owned())).collect()
    }

    /// True if a key of `FieldsV1` is of a sort that later versions may have: it is passed over.
    pub(super) fn is_unknown(text: &str) -> bool {
        matches!(text.as_bytes(), [sort, b':', ..] if !b"fivk".contains(sort))
    }

    /// Reads a key of `FieldsV1`; `None` if it is none.
    pub fn parse(text: &str) -> Option<Self> {
        let (kind, rest) = text.split_once(':')?;
        Some(match kind {
            "f" => Self::Field(rest.to_owned()),
            "i" => Self::Index(rest.parse().ok()?),
            "v" => Self::Value(PathValue(serde_json::from_str(rest).ok()?)),
            "k" => {
                let keys: Map<String, Value> = serde_json::from_str(rest).ok()?;
                let mut keys: Vec<_> = keys.into_iter().map(|(name, value)| (name, PathValue(value))).collect();
                keys.sort();
                Self::Key(keys)
            }
            _ => return None,
        })
    }

    /// True if this is the key of `FieldsV1` that [`encoded`](Self::encoded) makes.
    pub(super) fn is_written(&self, text: &str) -> bool {
        match self {
            Self::Field(name) => text.strip_prefix("f:") == Some(name),
            other => text == other.encoded(),
        }
    }

    /// The key of `FieldsV1`.
    pub fn encoded(&self) -> String {
        match self {
            Self::Field(name) => ["f:", name].concat(),
            Self::Index(place) => format!("i:{place}"),
            Self::Value(literal) => {
                let mut text = String::from("v:");
                escape_into(&literal.0, &mut text);
                text
            }
            Self::Key(keys) => {
                let mut text = String::with_capacity(64);
                text.push_str("k:");
                let mut separator = '{';
                for (name, literal) in keys {
                    text.push(separator);
                    escape_str_into(name, &mut text);
                    text.push(':');
                    escape_into(&literal.0, &mut text);
                    separator = ',';
                }
                text.push_str(if keys.is_empty() { "{}" } else { "}" });
                text
            }
        }
    }
}

/// Appends JSON as Go writes it, safe to stand in HTML: the characters that are escaped for that occur in texts only.
fn escape_into(value: &Value, out: &mut String) {
    match value {
        Value::String(text) => escape_str_into(text, out),
        other => push_escaped(&other.to_string(), out),
    }
}

fn escape_str_into(text: &str, out: &mut String) {
    let is_plain = |byte: u8| matches!(byte, b' '..=b'~') && !b"\"\\<>&".contains(&byte);
    if !text.bytes().all(is_plain) {
        return push_escaped(&Value::from(text).to_string(), out);
    }
    out.push('"');
    out.push_str(text);
    out.push('"');
}

fn push_escaped(json: &str, out: &mut String) {
    for character in json.chars() {
        match character {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => out.push_str(&format!("\\u{:04x}", u32::from(character))),
            other => out.push(other),
        }
    }
}

impl fmt::Display for PathValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Value::String(text) => f.write_str(&quote(text)),
            other => write!(f, "{other}"),
        }
    }
}

/// The form that messages show: `.spec`, `[name="a"]`, `[="a"]`, `[3]`.
impl fmt::Display for PathElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Index(place) => write!(f, "[{place}]"),
            Self::Value(literal) => write!(f, "[={literal}]"),
            Self::Key(keys) => {
                let keys: Vec<String> = keys.iter().map(|(name, value)| format!("{name}={value}")).collect();
                write!(f, "[{}]", keys.join(","))
            }
        }
    }
}
