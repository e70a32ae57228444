//! Files of structured configuration (`apiserver.config.k8s.io` and its like): strictly decoded, so that a field which is
//! misspelt is an error and not a default.
//!
//! A reader takes the fields out of [`ConfigFields`] one by one; what is left at the end is unknown. All errors are gathered in
//! the order in which they were found.

use serde_json::{Map, Value};

use crate::{go_text::kind_name, time::Duration, yaml};

/// The fields of an object in a configuration file.
#[derive(Debug)]
pub struct ConfigFields {
    path: String,
    fields: Map<String, Value>,
}

/// The errors of a file, in client-go's words.
pub type ConfigErrors = Vec<String>;

impl ConfigFields {
    /// Reads a file of YAML or JSON that must hold an object of one of these API versions and of this kind. Gives the version
    /// and the fields that are left.
    ///
    /// # Errors
    /// If it is none.
    pub fn read(bytes: &[u8], versions: &[&str], kind: &str) -> Result<(String, Self), String> {
        let decoded = yaml::decode(bytes).map_err(|error| error.to_string())?;
        let mut read = Self::of(decoded.value, String::new())?;
        let mut errors = ConfigErrors::new();
        let given_kind = read.text("kind", &mut errors);
        let given_version = read.text("apiVersion", &mut errors);
        errors.extend(
            decoded
                .duplicates
                .iter()
                .map(|duplicate| format!("strict decoding error: {duplicate}")),
        );
        if let Some(error) = errors.into_iter().next() {
            return Err(error);
        }
        let shown = String::from_utf8_lossy(bytes);
        for (value, name) in [(&given_kind, "Kind"), (&given_version, "apiVersion")] {
            if value.is_empty() {
                return Err(format!("Object '{name}' is missing in '{shown}'"));
            }
        }
        if given_kind != kind || !versions.contains(&given_version.as_str()) {
            return Err(format!(
                "no kind \"{given_kind}\" is registered for version \"{given_version}\""
            ));
        }
        Ok((given_version, read))
    }

    /// The fields of an object that stands at a path.
    ///
    /// # Errors
    /// If it is none.
    pub fn of(value: Value, path: String) -> Result<Self, String> {
        match value {
            Value::Object(fields) => Ok(Self { path, fields }),
            Value::Null => Ok(Self {
                path,
                fields: Map::new(),
            }),
            other => Err(cannot_unmarshal(&other, &path, "object")),
        }
    }

    /// The path of a field.
    pub fn path(&self, name: &str) -> String {
        match self.path.as_str() {
            "" => name.to_owned(),
            path => format!("{path}.{name}"),
        }
    }

    /// Takes a field out, whatever it is; `None` if it is absent or null.
    pub fn take(&mut self, name: &str) -> Option<Value> {
        self.fields.remove(name).filter(|value| !value.is_null())
    }

    /// A text; empty if it is absent.
    pub fn text(&mut self, name: &str, errors: &mut ConfigErrors) -> String {
        self.text_opt(name, errors).unwrap_or_default()
    }

    /// A text that may be absent.
    pub fn text_opt(&mut self, name: &str, errors: &mut ConfigErrors) -> Option<String> {
        self.read_as(name, "string", errors, |value| value.as_str().map(str::to_owned))
    }

    /// True or false, or absent.
    pub fn flag_opt(&mut self, name: &str, errors: &mut ConfigErrors) -> Option<bool> {
        self.read_as(name, "bool", errors, Value::as_bool)
    }

    /// A whole number that may be absent.
    pub fn number_opt(&mut self, name: &str, errors: &mut ConfigErrors) -> Option<i64> {
        self.read_as(name, "int64", errors, Value::as_i64)
    }

    /// A duration in Go's notation; nothing if it is absent.
    pub fn duration(&mut self, name: &str, errors: &mut ConfigErrors) -> Duration {
        let Some(text) = self.text_opt(name, errors) else {
            return Duration::default();
        };
        Duration::parse(&text).unwrap_or_else(|error| {
            errors.push(error.to_string());
            Duration::default()
        })
    }

    /// A list of texts; empty if it is absent.
    pub fn texts(&mut self, name: &str, errors: &mut ConfigErrors) -> Vec<String> {
        let items = self.items(name, errors).into_iter();
        let text = |(path, value): (String, Value)| match value {
            Value::String(text) => Some(text),
            other => {
                errors.push(cannot_unmarshal(&other, &path, "string"));
                None
            }
        };
        items.filter_map(text).collect()
    }

    /// An object that may be absent.
    pub fn object_opt(&mut self, name: &str, errors: &mut ConfigErrors) -> Option<Self> {
        let value = self.take(name)?;
        Self::of(value, self.path(name))
            .map_err(|error| errors.push(error))
            .ok()
    }

    /// A list of objects; empty if it is absent.
    pub fn objects(&mut self, name: &str, errors: &mut ConfigErrors) -> Vec<Self> {
        let items = self.items(name, errors).into_iter();
        let read = items.map(|(path, value)| Self::of(value, path));
        read.filter_map(|object| object.map_err(|error| errors.push(error)).ok())
            .collect()
    }

    /// Reports the fields that are left as unknown.
    pub fn finish(self, errors: &mut ConfigErrors) {
        let unknown = self.fields.keys().map(|name| {
            let path = self.path(name);
            format!("strict decoding error: unknown field \"{path}\"")
        });
        errors.extend(unknown);
    }

    fn items(&mut self, name: &str, errors: &mut ConfigErrors) -> Vec<(String, Value)> {
        let path = self.path(name);
        let items = match self.take(name) {
            None => return Vec::new(),
            Some(Value::Array(items)) => items,
            Some(other) => {
                errors.push(cannot_unmarshal(&other, &path, "slice"));
                return Vec::new();
            }
        };
        let at = |(index, value)| (format!("{path}[{index}]"), value);
        items.into_iter().enumerate().map(at).collect()
    }

    fn read_as<T>(
        &mut self,
        name: &str,
        kind: &str,
        errors: &mut ConfigErrors,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Option<T> {
        let value = self.take(name)?;
        let result = read(&value);
        if result.is_none() {
            errors.push(cannot_unmarshal(&value, &self.path(name), kind));
        }
        result
    }
}

fn cannot_unmarshal(value: &Value, path: &str, kind: &str) -> String {
    let given = kind_name(value);
    format!("json: cannot unmarshal {given} into Go struct field {path} of type {kind}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const VERSIONS: &[&str] = &["a.io/v1", "a.io/v1beta1"];

    fn read(text: &str) -> Result<(String, ConfigFields), String> {
        ConfigFields::read(text.as_bytes(), VERSIONS, "Thing")
    }

    #[test]
    fn a_file_has_a_version_and_a_kind() {
        let (version, _) = read("{apiVersion: a.io/v1beta1, kind: Thing}").expect("it is one");
        assert_eq!(version, "a.io/v1beta1");
        let error = |text: &str| read(text).expect_err("it is none");
        assert_eq!(error("kind: Thing"), "Object 'apiVersion' is missing in 'kind: Thing'");
        assert_eq!(
            error("{apiVersion: a.io/v2, kind: Thing}"),
            "no kind \"Thing\" is registered for version \"a.io/v2\""
        );
        assert!(error("[1").starts_with("yaml: "));
    }

    #[test]
    fn unknown_and_mistyped_fields_are_reported() {
        let text = "{apiVersion: a.io/v1, kind: Thing, x: 1, list: [{a: b, c: d}, 7], wait: 5s, count: 3, set: true}";
        let (_, mut fields) = read(text).expect("it is one");
        let mut errors = ConfigErrors::new();
        assert_eq!(fields.duration("wait", &mut errors).to_string(), "5s");
        assert_eq!(fields.number_opt("count", &mut errors), Some(3));
        assert_eq!(fields.flag_opt("set", &mut errors), Some(true));
        for mut item in fields.objects("list", &mut errors) {
            assert_eq!(item.text("a", &mut errors), "b");
            item.finish(&mut errors);
        }
        fields.finish(&mut errors);
        assert_eq!(
            errors,
            [
                "json: cannot unmarshal number into Go struct field list[1] of type object",
                "strict decoding error: unknown field \"list[0].c\"",
                "strict decoding error: unknown field \"x\"",
            ]
        );
    }
}
