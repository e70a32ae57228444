//! Configuration files are read strictly: an unknown field is an error, as it would be ignored otherwise.

use serde_json::{Map, Value};
use trireme_machinery::go_text::kind_name;

/// Reads fields and collects all that is wrong with them.
#[derive(Default)]
pub(super) struct StrictReader {
    errors: Vec<String>,
}

impl StrictReader {
    /// The fields of an object, of which all must be known; none if the value is absent.
    pub(super) fn object(&mut self, value: Option<&Value>, path: &str, known: &[&str]) -> Map<String, Value> {
        let fields = match value {
            None | Some(Value::Null) => return Map::new(),
            Some(Value::Object(fields)) => fields,
            Some(other) => {
                self.refuse(other, path, "object");
                return Map::new();
            }
        };
        for name in fields.keys().filter(|name| !known.contains(&name.as_str())) {
            self.errors.push(format!("unknown field \"{}\"", joined(path, name)));
        }
        fields.clone()
    }

    /// The items of a list with their paths.
    pub(super) fn items(&mut self, fields: &Map<String, Value>, path: &str, name: &str) -> Vec<(String, Value)> {
        let path = joined(path, name);
        match fields.get(name) {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(items)) => {
                let items = items.iter().enumerate();
                items
                    .map(|(at, item)| (format!("{path}[{at}]"), item.clone()))
                    .collect()
            }
            Some(other) => {
                self.refuse(other, &path, "list");
                Vec::new()
            }
        }
    }

    /// A text; empty if it is absent.
    pub(super) fn text(&mut self, fields: &Map<String, Value>, path: &str, name: &str) -> String {
        self.text_opt(fields, path, name).unwrap_or_default()
    }

    /// A text that may be absent.
    pub(super) fn text_opt(&mut self, fields: &Map<String, Value>, path: &str, name: &str) -> Option<String> {
        self.item_text(fields.get(name)?, &joined(path, name))
    }

    /// The text that a value is.
    pub(super) fn item_text(&mut self, value: &Value, path: &str) -> Option<String> {
        match value {
            Value::Null => None,
            Value::String(text) => Some(text.clone()),
            other => {
                self.refuse(other, path, "string");
                None
            }
        }
    }

    /// A truth; false if it is absent.
    pub(super) fn flag(&mut self, fields: &Map<String, Value>, path: &str, name: &str) -> bool {
        match fields.get(name) {
            None | Some(Value::Null) => false,
            Some(Value::Bool(value)) => *value,
            Some(other) => {
                self.refuse(other, &joined(path, name), "bool");
                false
            }
        }
    }

    /// Notes what the decoder has found.
    pub(super) fn note(&mut self, error: String) {
        self.errors.push(error);
    }

    /// All that is wrong, as one text; none if all is well.
    pub(super) fn error(self) -> Option<String> {
        (!self.errors.is_empty()).then(|| format!("strict decoding error: {}", self.errors.join(", ")))
    }

    fn refuse(&mut self, value: &Value, path: &str, wanted: &str) {
        let kind = kind_name(value);
        self.errors
            .push(format!("cannot unmarshal {kind} into field {path} of type {wanted}"));
    }
}

/// The path of a field.
pub(super) fn joined(path: &str, name: &str) -> String {
    match path {
        "" => name.to_owned(),
        path => format!("{path}.{name}"),
    }
}
