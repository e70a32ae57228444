//! Applying one operation to a document.

use serde_json::Value;

use super::{
    MAX_COPIED_BYTES, MAX_COPIED_CONTAINERS, PatchOperation,
    pointer::{container, container_mut, get, index, split},
};
use crate::{
    json::{self, JsonError},
    patch::{PatchError, PatchErrorKind},
};

/// A document under patch.
pub(super) struct PatchedDocument {
    document: Value,
    copied_bytes: usize,
    copied_containers: usize,
}

fn failed(why: impl Into<String>) -> PatchError {
    PatchError::new(PatchErrorKind::Unprocessable, why)
}

fn missing(operation: &str, path: &str) -> PatchError {
    let quoted = match operation {
        "add" | "remove" => format!("\"{path}\""),
        _ => path.to_owned(),
    };
    failed(format!(
        "{operation} operation does not apply: doc is missing path: {quoted}: missing value"
    ))
}

fn missing_key(operation: &str, path: &str) -> PatchError {
    failed(format!(
        "{operation} operation does not apply: doc is missing key: {path}: missing value"
    ))
}

fn required<'a>(text: &'a Option<String>, field: &str, operation: &str) -> Result<&'a str, PatchError> {
    let absent = || failed(format!("{operation} operation has no {field}"));
    text.as_deref().ok_or_else(absent)
}

impl PatchedDocument {
    pub(super) fn new(document: Value) -> Self {
        Self {
            document,
            copied_bytes: 0,
            copied_containers: 0,
        }
    }

    pub(super) fn into_document(self) -> Value {
        self.document
    }

    pub(super) fn apply(&mut self, operation: &PatchOperation) -> Result<(), PatchError> {
        let kind = operation.op.as_deref().unwrap_or("unknown");
        let path = || required(&operation.path, "path", kind);
        let from = || required(&operation.from, "from", kind);
        match kind {
            "add" => self.add(kind, path()?, operation.value.clone()),
            "remove" => self.remove(kind, path()?).map(drop),
            "replace" => self.replace(path()?, operation.value.clone()),
            "move" => {
                let (from, path) = (from()?, path()?);
                let value = self.remove(kind, from)?;
                self.add(kind, path, value)
            }
            "copy" => {
                let (from, path) = (from()?, path()?);
                let value = self.copied(from)?;
                self.add(kind, path, value)
            }
            "test" => self.test(path()?, &operation.value),
            other => Err(failed(format!("Unexpected kind: {other}"))),
        }
    }

    /// As [`parent`](Self::parent), of a place that is to take a value: the document may not nest deeper for it than
    /// what can be decoded, since every walk over it relies on that.
    fn parent_for(&mut self, kind: &str, path: &str, value: &Value) -> Result<(&mut Value, String), PatchError> {
        let containers = path.split('/').skip(1).count();
        if containers.saturating_add(json::depth(value)) > json::MAX_DEPTH {
            return Err(failed(JsonError::TooDeep.to_string()));
        }
        self.parent(kind, path)
    }

    fn parent(&mut self, kind: &str, path: &str) -> Result<(&mut Value, String), PatchError> {
        let (parents, last) = split(path).ok_or_else(|| missing(kind, path))?;
        let parent = container_mut(&mut self.document, &parents).ok_or_else(|| missing(kind, path))?;
        Ok((parent, last.into_owned()))
    }

    fn add(&mut self, kind: &str, path: &str, value: Value) -> Result<(), PatchError> {
        let (parent, last) = self.parent_for(kind, path, &value)?;
        match parent {
            Value::Object(fields) => {
                fields.insert(last, value);
            }
            Value::Array(items) if last == "-" => items.push(value),
            Value::Array(items) => {
                let at = index(&last, items.len().saturating_add(1)).ok_or_else(|| missing(kind, path))?;
                items.insert(at, value);
            }
            _ => return Err(missing(kind, path)),
        }
        Ok(())
    }

    fn remove(&mut self, kind: &str, path: &str) -> Result<Value, PatchError> {
        let (parent, last) = self.parent(kind, path)?;
        let removed = match parent {
            Value::Object(fields) => match fields.remove(&last) {
                None if kind == "remove" => {
                    return Err(failed(format!(
                        "error in remove for path: '{path}': Unable to remove nonexistent key: {last}: missing value"
                    )));
                }
                removed => removed,
            },
            Value::Array(items) => index(&last, items.len()).map(|at| items.remove(at)),
            _ => None,
        };
        removed.ok_or_else(|| missing(kind, path))
    }

    fn replace(&mut self, path: &str, value: Value) -> Result<(), PatchError> {
        if path.is_empty() {
            if value.is_object() || value.is_array() {
                self.document = value;
                return Ok(());
            }
            return Err(failed("replace operation of the document wants an object or array"));
        }
        let (parent, last) = self.parent_for("replace", path, &value)?;
        let place = match parent {
            // As the library that kube-apiserver uses: a field that is not there is added.
            Value::Object(fields) => fields.entry(last).or_insert(Value::Null),
            Value::Array(items) => index(&last, items.len())
                .and_then(|at| items.get_mut(at))
                .ok_or_else(|| missing_key("replace", path))?,
            _ => return Err(missing_key("replace", path)),
        };
        *place = value;
        Ok(())
    }

    fn copied(&mut self, from: &str) -> Result<Value, PatchError> {
        let (parents, last) = split(from).ok_or_else(|| missing("copy", from))?;
        let parent = container(&self.document, &parents).ok_or_else(|| missing("copy", from))?;
        // As the library that kube-apiserver uses: a field that is not there copies as null.
        let value = match get(parent, &last) {
            None if parent.is_array() => return Err(missing("copy", from)),
            found => found.unwrap_or(&Value::Null),
        };
        self.copied_containers = self.copied_containers.saturating_add(json::containers(value));
        if self.copied_containers > MAX_COPIED_CONTAINERS {
            return Err(failed(format!(
                "unable to complete the copy, the accumulated number of copied objects and lists is {}, exceeding the limit {MAX_COPIED_CONTAINERS}",
                self.copied_containers
            )));
        }
        self.copied_bytes = self.copied_bytes.saturating_add(json::encode(value).len());
        if self.copied_bytes > MAX_COPIED_BYTES {
            return Err(failed(format!(
                "unable to complete the copy, the accumulated size increase of copy is {}, exceeding the limit {MAX_COPIED_BYTES}",
                self.copied_bytes
            )));
        }
        Ok(value.clone())
    }

    fn test(&self, path: &str, expected: &Value) -> Result<(), PatchError> {
        let holds = if path.is_empty() {
            self.document == *expected
        } else {
            let (parents, last) = split(path).ok_or_else(|| missing("test", path))?;
            let parent = container(&self.document, &parents).ok_or_else(|| missing("test", path))?;
            // A field that is not there tests as null; an item that is not there does not.
            match get(parent, &last) {
                None if parent.is_array() => return Err(missing("test", path)),
                found => found.unwrap_or(&Value::Null) == expected,
            }
        };
        if holds {
            Ok(())
        } else {
            Err(PatchError {
                kind: PatchErrorKind::TestFailed,
                ..failed(format!("testing value {path} failed: test failed"))
            })
        }
    }
}
