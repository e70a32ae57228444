//! Strategic merge patch: a merge patch that knows from the schema which lists are merged item by item, and takes
//! directives in the patch itself:
//! - `$patch: replace` and `$patch: delete` in an object, or as an item of a merged list;
//! - `$deleteFromPrimitiveList/<list>`: scalars to remove;
//! - `$setElementOrder/<list>`: the order in which the items shall stand;
//! - `$retainKeys`: the only keys that an object shall keep.
//!
//! Fields that the schema does not have are merged like any JSON, so that decoding the result reports them.

mod lists;
mod order;

use std::mem;

use serde_json::Value;

use super::PatchError;
use crate::{
    Object,
    go_text::{go_map, go_type},
    schema::{PatchStrategy, Shape, TypeId, TypeTable},
};

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList";
const SET_ORDER: &str = "$setElementOrder";

/// Merges a strategic merge patch into an object of the type `ty`. After an error the object is only good to be
/// thrown away.
///
/// # Errors
/// If a directive is malformed, or an item of a merged list does not say which one it is.
pub fn apply(table: &TypeTable, ty: TypeId, object: &mut Value, patch: &Value) -> Result<(), PatchError> {
    match (object, patch) {
        (Value::Object(object), Value::Object(patch)) => {
            *object = Merger { table }.map(mem::take(object), patch.clone(), Some(&Shape::Struct(ty)))?;
            Ok(())
        }
        _ => Err(PatchError::bad_request("invalid JSON document")),
    }
}

struct Merger<'t> {
    table: &'t TypeTable,
}

/// The schema of a key.
struct Known<'t> {
    shape: Option<&'t Shape>,
    patch: &'t PatchStrategy,
}

const PLAIN: &PatchStrategy = &PatchStrategy {
    merge: false,
    replace: false,
    retain_keys: false,
    merge_key: None,
};

impl<'t> Merger<'t> {
    fn known(&self, shape: Option<&'t Shape>, key: &str) -> Known<'t> {
        let field = match shape {
            Some(Shape::Struct(ty)) => self.table.field(*ty, key),
            _ => None,
        };
        match (field, shape) {
            (Some(field), _) => Known {
                shape: Some(&field.shape),
                patch: &field.patch,
            },
            (None, Some(Shape::Map { value, .. })) => Known {
                shape: Some(value),
                patch: PLAIN,
            },
            _ => Known {
                shape: None,
                patch: PLAIN,
            },
        }
    }

    fn map(&self, mut original: Object, mut patch: Object, shape: Option<&'t Shape>) -> Result<Object, PatchError> {
        match patch.get(DIRECTIVE).map(|directive| (directive.as_str(), directive)) {
            None => {}
            Some((Some("replace"), _)) => {
                patch.remove(DIRECTIVE);
                return Ok(patch);
            }
            Some((Some("delete"), _)) => return Ok(Object::new()),
            Some((_, directive)) => return Err(unknown_directive(directive, &patch)),
        }
        retain_keys(&mut original, &mut patch)?;
        self.ordered_lists(&mut original, &mut patch, shape)?;
        for (key, value) in patch {
            self.entry(&mut original, key, value, shape)?;
        }
        Ok(original)
    }

    fn entry(
        &self,
        original: &mut Object,
        mut key: String,
        value: Value,
        shape: Option<&'t Shape>,
    ) -> Result<(), PatchError> {
        let deleting = key.starts_with(DELETE_FROM_LIST);
        if deleting {
            key = directive_target(&key, DELETE_FROM_LIST)
                .ok_or_else(|| PatchError::bad_request("invalid patch format of primitive list"))?;
        }
        if value.is_null() {
            original.remove(&key);
            return Ok(());
        }
        let Some(slot) = original.get_mut(&key) else {
            if let Some(value) = (!deleting).then(|| as_new(value)).flatten() {
                original.insert(key, value);
            }
            return Ok(());
        };
        let known = self.known(shape, &key);
        match (&mut *slot, value) {
            (Value::Object(old), Value::Object(new)) if known.patch.replace => *old = new,
            (Value::Object(old), Value::Object(new)) => *old = self.map(mem::take(old), new, known.shape)?,
            (Value::Array(old), Value::Array(new)) => {
                *old = self.list_field(mem::take(old), new, &known, deleting)?;
            }
            (_, _) if deleting => {}
            (_, value) => match as_new(value) {
                Some(value) => *slot = value,
                None => {
                    original.remove(&key);
                }
            },
        }
        Ok(())
    }
}

/// `finalizers` for `$deleteFromPrimitiveList/finalizers`.
fn directive_target(key: &str, directive: &str) -> Option<String> {
    key.strip_prefix(directive)?.strip_prefix('/').map(str::to_owned)
}

/// Drops what the directive does not name from the original; the patch itself may hold nothing else.
fn retain_keys(original: &mut Object, patch: &mut Object) -> Result<(), PatchError> {
    let malformed = || PatchError::bad_request("invalid patch format of retainKeys");
    let Some(directive) = patch.remove(RETAIN_KEYS) else {
        return Ok(());
    };
    let retained = directive.as_array().ok_or_else(malformed)?;
    let is_retained = |key: &str| retained.iter().any(|retained| retained.as_str() == Some(key));
    let is_directive = |key: &str| key.starts_with(DELETE_FROM_LIST) || key.starts_with(SET_ORDER);
    let sets = |(key, value): (&String, &Value)| !value.is_null() && !is_directive(key) && !is_retained(key);
    if patch.iter().any(sets) {
        return Err(malformed());
    }
    original.retain(|key, _| is_retained(key));
    Ok(())
}

/// Returns a value of the patch as it is where the original has none: nulls and directives mean nothing there.
fn as_new(mut value: Value) -> Option<Value> {
    discard_nulls(&mut value);
    without_directives(value)
}

fn discard_nulls(value: &mut Value) {
    match value {
        Value::Object(entries) => entries.retain(|_, entry| {
            discard_nulls(entry);
            !entry.is_null()
        }),
        Value::Array(items) => items.iter_mut().for_each(discard_nulls),
        _ => {}
    }
}

/// The value without the objects in it that are directives; nothing if it is one itself.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(entries) if entries.contains_key(DIRECTIVE) => None,
        Value::Object(entries) => {
            let kept = entries
                .into_iter()
                .filter_map(|(key, entry)| Some((key, without_directives(entry)?)));
            Some(Value::Object(kept.collect()))
        }
        Value::Array(items) => Some(Value::Array(items.into_iter().filter_map(without_directives).collect())),
        scalar => Some(scalar),
    }
}

fn unknown_directive(directive: &Value, object: &Object) -> PatchError {
    PatchError::bad_request(format!(
        "unknown patch type: {} in map: {}",
        go_map(directive),
        go_map(&Value::Object(object.clone()))
    ))
}

fn wrong_type(expected: &str, found: &Value) -> PatchError {
    PatchError::bad_request(format!("expected a {expected}, but received a {}", go_type(found)))
}

#[cfg(test)]
mod tests;
