//! The order of merged lists: items that the patch names stand in its order, the others in their old one, and the
//! two are interleaved as they were before.

use serde_json::Value;

use super::{DIRECTIVE, Merger, PatchError, SET_ORDER, as_new, directive_target, wrong_type};
use crate::{Object, go_text::go_map, schema::Shape};

impl<'t> Merger<'t> {
    /// Merges and orders the lists that `$setElementOrder` names, and takes them out of the patch.
    pub(super) fn ordered_lists(
        &self,
        original: &mut Object,
        patch: &mut Object,
        shape: Option<&'t Shape>,
    ) -> Result<(), PatchError> {
        let directives: Vec<String> = patch.keys().filter(|key| key.starts_with(SET_ORDER)).cloned().collect();
        for directive in directives {
            let wanted = as_list(patch.remove(&directive))?.unwrap_or_default();
            let key = directive_target(&directive, SET_ORDER).ok_or_else(malformed)?;
            let known = self.known(shape, &key);
            let merge_key = known.patch.merge_key.as_deref();
            let live = as_list(original.get(&key).cloned())?;
            let changes = as_list(patch.remove(&key))?;
            check_order(changes.as_deref().unwrap_or_default(), &wanted, merge_key)?;
            let live_order = identities(live.as_deref().unwrap_or_default(), merge_key)?;
            let merged = match (live, changes) {
                (None, None) => continue,
                (Some(live), None) => live,
                (None, Some(changes)) => match as_new(Value::Array(changes)) {
                    Some(Value::Array(items)) => items,
                    _ => Vec::new(),
                },
                (Some(live), Some(changes)) => self.list_field(live, changes, &known, false)?,
            };
            let wanted_order = identities(&wanted, merge_key)?;
            let arranged = arrange(merged, merge_key, &wanted_order, &live_order)?;
            original.insert(key, Value::Array(arranged));
        }
        Ok(())
    }
}

fn malformed() -> PatchError {
    PatchError::bad_request("invalid patch format of setElementOrder list")
}

fn as_list(value: Option<Value>) -> Result<Option<Vec<Value>>, PatchError> {
    match value {
        None => Ok(None),
        Some(Value::Array(items)) => Ok(Some(items)),
        Some(other) => Err(wrong_type("[]interface {}", &other)),
    }
}

/// The identity of an item in its list: the value of its merge key, or the scalar itself.
pub(super) fn identity<'v>(item: &'v Value, merge_key: Option<&str>) -> Result<&'v Value, PatchError> {
    let Some(merge_key) = merge_key else {
        return Ok(item);
    };
    let object = item
        .as_object()
        .ok_or_else(|| wrong_type("map[string]interface {}", item))?;
    object.get(merge_key).ok_or_else(|| {
        PatchError::bad_request(format!(
            "map: {} does not contain declared merge key: {merge_key}",
            go_map(item)
        ))
    })
}

pub(super) fn identities(items: &[Value], merge_key: Option<&str>) -> Result<Vec<Value>, PatchError> {
    items.iter().map(|item| identity(item, merge_key).cloned()).collect()
}

/// The items of the patch must all be named in the wanted order, in the same order.
fn check_order(patch: &[Value], wanted: &[Value], merge_key: Option<&str>) -> Result<(), PatchError> {
    if wanted.is_empty() {
        return Ok(());
    }
    if let Some(item) = patch.iter().find(|item| merge_key.is_some() && !item.is_object()) {
        return Err(wrong_type("map[string]interface {}", item));
    }
    let mut ahead = wanted.iter();
    for item in patch.iter().filter(|item| item.get(DIRECTIVE).is_none()) {
        loop {
            let Some(candidate) = ahead.next() else {
                return Err(PatchError::bad_request(format!(
                    "The order in patch list:\n{}\n doesn't match {SET_ORDER} list:\n{}\n",
                    go_map(&Value::Array(patch.to_vec())),
                    go_map(&Value::Array(wanted.to_vec()))
                )));
            };
            if identity(item, merge_key)? == identity(candidate, merge_key)? {
                break;
            }
        }
    }
    Ok(())
}

/// Orders the items: those named in `patch_order` by it, the rest by `live_order`; of the heads of the two rows the
/// rest's goes first only if it also stood before the other in `live_order`.
pub(super) fn arrange(
    items: Vec<Value>,
    merge_key: Option<&str>,
    patch_order: &[Value],
    live_order: &[Value],
) -> Result<Vec<Value>, PatchError> {
    let mut out = Vec::with_capacity(items.len());
    let mut named = Vec::new();
    let mut others = Vec::new();
    for item in items {
        let identity = identity(&item, merge_key)?;
        let live_at = live_order.iter().position(|live| live == identity);
        match patch_order.iter().position(|patched| patched == identity) {
            Some(at) => named.push((at, live_at, item)),
            None => others.push((live_at, item)),
        }
    }
    named.sort_by_key(|(at, _, _)| *at);
    others.sort_by_key(|(at, _)| *at);
    let mut others = others.into_iter().peekable();
    for (_, named_at, item) in named {
        let goes_first =
            |(at, _): &(Option<usize>, Value)| matches!((at, named_at), (Some(at), Some(named_at)) if *at < named_at);
        while let Some((_, other)) = others.next_if(goes_first) {
            out.push(other);
        }
        out.push(item);
    }
    out.extend(others.map(|(_, item)| item));
    Ok(out)
}
