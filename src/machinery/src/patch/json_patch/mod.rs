//! JSON patches (RFC 6902), with the ways of the Go library that kube-apiserver uses: negative list indices count
//! from the end, the text before a path's first slash is ignored, only `replace` and `test` know the whole document.

mod apply;
mod pointer;

use serde_json::Value;

use super::{PatchError, PatchErrorKind};
use crate::{Object, go_text::kind_name, json};

/// The number of operations one patch may have.
pub const MAX_OPERATIONS: usize = 10_000;
/// The number of bytes of JSON all `copy` operations of a patch may add together.
pub const MAX_COPIED_BYTES: usize = 3 * 1024 * 1024;
/// The number of objects and lists all `copy` operations of a patch may add together. Two bytes of JSON can be such a one, and
/// each takes hundreds of bytes of memory; an object that can be stored has some tens of thousands at most.
pub const MAX_COPIED_CONTAINERS: usize = 100_000;

/// A decoded patch.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct JsonPatch {
    operations: Vec<PatchOperation>,
    /// The errors of strict validation: `json patch duplicate field "[0].value"`,
    /// `json patch unknown field "[0].extra"`.
    pub strict_errors: Vec<String>,
}

impl JsonPatch {
    /// The objects and lists that the operations go into, as objects by field or index, and null for what they put there.
    pub fn opened(&self) -> Value {
        let mut opened = Value::Object(Object::new());
        let paths = self
            .operations
            .iter()
            .flat_map(|operation| [&operation.path, &operation.from]);
        for path in paths.flatten() {
            let Some((parents, last)) = pointer::split(path) else {
                continue;
            };
            let mut place = &mut opened;
            for name in parents {
                if !place.is_object() {
                    *place = Value::Object(Object::new());
                }
                place = &mut place[&*name];
            }
            if !place.is_object() {
                *place = Value::Object(Object::new());
            }
            if place.get(&*last).is_none() {
                place[&*last] = Value::Null;
            }
        }
        opened
    }
}

/// One operation. Absent texts are kept apart from empty ones: they fail when the operation is applied.
#[derive(Debug, Clone, Default, PartialEq)]
struct PatchOperation {
    op: Option<String>,
    path: Option<String>,
    from: Option<String>,
    value: Value,
}

impl JsonPatch {
    /// Decodes the body of a JSON patch.
    pub fn decode(body: &[u8]) -> Result<Self, PatchError> {
        let decoded = json::decode(body).map_err(|e| undecodable(&e.to_string()))?;
        let items = match decoded.value {
            Value::Array(items) => items,
            Value::Null => return Ok(Self::default()),
            other => return Err(mistyped(&other, "value", "[]handlers.jsonPatchOp")),
        };
        if items.len() > MAX_OPERATIONS {
            let why = format!(
                "Request entity is too large: The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
                items.len()
            );
            return Err(PatchError::new(PatchErrorKind::TooLarge, why));
        }
        let mut unknown = Vec::new();
        let mut operations = Vec::with_capacity(items.len());
        for (index, item) in items.into_iter().enumerate() {
            operations.push(match item {
                Value::Object(fields) => operation(index, fields, &mut unknown)?,
                Value::Null => PatchOperation::default(),
                other => return Err(mistyped(&other, "value", "handlers.jsonPatchOp")),
            });
        }
        let errors = json::strict_errors(body, decoded.duplicates, unknown);
        Ok(Self {
            operations,
            strict_errors: errors.iter().map(|error| format!("json patch {error}")).collect(),
        })
    }

    /// Reports whether it does nothing.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// Applies all operations in turn. The first that fails refuses the patch.
    pub fn apply(&self, document: Value) -> Result<Value, PatchError> {
        let mut patched = apply::PatchedDocument::new(document);
        for operation in &self.operations {
            patched.apply(operation)?;
        }
        Ok(patched.into_document())
    }
}

fn undecodable(why: &str) -> PatchError {
    PatchError::bad_request(format!("error decoding patch: {why}"))
}

fn mistyped(value: &Value, place: &str, go_type: &str) -> PatchError {
    let kind = kind_name(value);
    undecodable(&format!(
        "json: cannot unmarshal {kind} into Go {place} of type {go_type}"
    ))
}

fn operation(index: usize, fields: Object, unknown: &mut Vec<String>) -> Result<PatchOperation, PatchError> {
    let mut operation = PatchOperation::default();
    for (name, value) in fields {
        let text = match name.as_str() {
            "op" => &mut operation.op,
            "path" => &mut operation.path,
            "from" => &mut operation.from,
            "value" => {
                operation.value = value;
                continue;
            }
            other => {
                if unknown.len() < json::MAX_DUPLICATES {
                    unknown.push(format!("[{index}].{other}"));
                }
                continue;
            }
        };
        match value {
            Value::String(value) => *text = Some(value),
            Value::Null => {}
            other => return Err(mistyped(&other, &format!("struct field jsonPatchOp.{name}"), "string")),
        }
    }
    Ok(operation)
}

#[cfg(test)]
mod tests;
