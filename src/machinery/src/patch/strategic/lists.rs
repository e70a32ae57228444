//! Merging of lists item by item.

use std::mem;

use serde_json::Value;

use super::{DIRECTIVE, Known, Merger, PatchError, order, unknown_directive};
use crate::{Object, go_text::go_map, patch::PatchErrorKind, schema::Shape};

impl<'t> Merger<'t> {
    /// A list of the patch where the original has one too.
    pub(super) fn list_field(
        &self,
        original: Vec<Value>,
        patch: Vec<Value>,
        known: &Known<'t>,
        deleting: bool,
    ) -> Result<Vec<Value>, PatchError> {
        if !known.patch.merge && !deleting {
            return Ok(patch);
        }
        let item_shape = match known.shape {
            Some(Shape::List { item, .. }) => Some(&**item),
            _ => None,
        };
        self.merge_list(original, patch, item_shape, known.patch.merge_key.as_deref(), deleting)
    }

    fn merge_list(
        &self,
        original: Vec<Value>,
        patch: Vec<Value>,
        item_shape: Option<&'t Shape>,
        merge_key: Option<&str>,
        deleting: bool,
    ) -> Result<Vec<Value>, PatchError> {
        let holds_objects = match item_kind(&original, &patch)? {
            None => return Ok(original),
            Some(kind) => kind == mem::discriminant(&Value::Object(Object::new())),
        };
        if !holds_objects && deleting {
            return Ok(original.into_iter().filter(|item| !patch.contains(item)).collect());
        }
        let (merged, patch_order, live_order) = if holds_objects {
            let Some(merge_key) = merge_key else {
                return Err(PatchError::bad_request(format!(
                    "cannot merge lists without merge key for {}",
                    self.item_name(item_shape)
                )));
            };
            let (original, patch) = take_directives(original, patch, merge_key)?;
            let live_order = order::identities(&original, Some(merge_key))?;
            let patch_order = order::identities(&patch, Some(merge_key))?;
            let merged = self.merge_objects(original, patch, item_shape, merge_key)?;
            (merged, patch_order, live_order)
        } else {
            let mut merged: Vec<Value> = Vec::with_capacity(original.len().saturating_add(patch.len()));
            for item in original.iter().chain(&patch) {
                if !merged.contains(item) {
                    merged.push(item.clone());
                }
            }
            (merged, patch, original)
        };
        order::arrange(merged, merge_key, &patch_order, &live_order)
    }

    fn item_name(&self, item_shape: Option<&Shape>) -> &str {
        match item_shape {
            Some(Shape::Struct(ty)) => self.table.get(*ty).short_name(),
            _ => "map",
        }
    }

    fn merge_objects(
        &self,
        mut original: Vec<Value>,
        patch: Vec<Value>,
        item_shape: Option<&'t Shape>,
        merge_key: &str,
    ) -> Result<Vec<Value>, PatchError> {
        for item in patch {
            let identity = item.get(merge_key).cloned();
            let matching = original.iter_mut().find(|old| old.get(merge_key) == identity.as_ref());
            match (matching, item) {
                (Some(Value::Object(old)), Value::Object(new)) => *old = self.map(mem::take(old), new, item_shape)?,
                (_, item) => original.push(item),
            }
        }
        Ok(original)
    }
}

/// The kind of the items, which must be one and the same; nothing if there are no items.
pub(super) fn item_kind(original: &[Value], patch: &[Value]) -> Result<Option<mem::Discriminant<Value>>, PatchError> {
    let mut items = original.iter().chain(patch);
    let Some(first) = items.next() else {
        return Ok(None);
    };
    if first.is_array() {
        return Err(PatchError::new(
            PatchErrorKind::Unprocessable,
            "lists of lists are not supported",
        ));
    }
    let kind = mem::discriminant(first);
    if items.all(|item| mem::discriminant(item) == kind) {
        return Ok(Some(kind));
    }
    let lists: Vec<String> = [original, patch]
        .into_iter()
        .map(|list| go_map(&Value::Array(list.to_vec())))
        .collect();
    Err(PatchError::bad_request(format!(
        "list element types are not identical: [{}]",
        lists.join(" ")
    )))
}

/// Carries out the items of the patch that are directives; returns what is left of both lists.
fn take_directives(
    mut original: Vec<Value>,
    patch: Vec<Value>,
    merge_key: &str,
) -> Result<(Vec<Value>, Vec<Value>), PatchError> {
    let mut plain = Vec::with_capacity(patch.len());
    let mut replace = false;
    for item in patch {
        let Some(directive) = item.get(DIRECTIVE) else {
            plain.push(item);
            continue;
        };
        match directive.as_str() {
            Some("delete") => {
                let identity = order::identity(&item, Some(merge_key))?;
                original.retain(|old| old.get(merge_key) != Some(identity));
            }
            Some("replace") => replace = true,
            Some("merge") => {
                return Err(PatchError::bad_request(
                    "merging lists cannot yet be specified in the patch",
                ));
            }
            _ => return Err(unknown_directive(directive, item.as_object().unwrap_or(&Object::new()))),
        }
    }
    Ok(if replace {
        (plain, Vec::new())
    } else {
        (original, plain)
    })
}
