//! Lists that are checked item by item, as upstream's `validateSlice`, `validateSet` and `validateMap` do: one that is
//! too long is only reported as that.

use std::collections::HashSet;

use serde_json::Value;
use trireme_machinery::{
    field::{Error, ErrorList, Path},
    names::dns1123_label,
};

use crate::{checks::push_invalid, values::entries, values::items};

/// Checks a list field's items unless there are too many of them.
pub(super) fn validate_slice(
    holder: &Value,
    path: &Path<'_>,
    (name, max): (&str, usize),
    mut check: impl FnMut(&Value, &Path<'_>, &mut ErrorList),
    errors: &mut ErrorList,
) {
    let (list, at) = (items(holder, name), path.child(name));
    if list.len() > max {
        errors.push(Error::too_many(&at, list.len(), max));
        return;
    }
    for (index, item) in list.iter().enumerate() {
        check(item, &at.index(index), errors);
    }
}

/// As [`validate_slice`], of items that must differ by a key.
pub(super) fn validate_set(
    holder: &Value,
    path: &Path<'_>,
    (name, max): (&str, usize),
    key: impl Fn(&Value) -> Value,
    check: impl FnMut(&Value, &Path<'_>, &mut ErrorList),
    errors: &mut ErrorList,
) {
    validate_slice(holder, path, (name, max), check, errors);
    let (list, at) = (items(holder, name), path.child(name));
    if list.len() > max {
        return;
    }
    let mut seen = HashSet::new();
    for (index, item) in list.iter().enumerate() {
        let key = key(item);
        if !seen.insert(key.to_string()) {
            errors.push(Error::duplicate(&at.index(index), &key));
        }
    }
}

/// The key of items that are identified by a text field.
pub(super) fn by(name: &'static str) -> impl Fn(&Value) -> Value {
    move |item| item.get(name).cloned().unwrap_or_else(|| "".into())
}

/// Validates a map of counters: at most so many, each named by a label.
pub(super) fn validate_counters(holder: &Value, path: &Path<'_>, max: usize, errors: &mut ErrorList) {
    let at = path.child("counters");
    let names: Vec<&str> = entries(holder, "counters").map(|(name, _)| name).collect();
    if names.is_empty() {
        errors.push(Error::required(&at, ""));
    }
    if names.len() > max {
        errors.push(Error::too_many(&at, names.len(), max));
        return;
    }
    for name in names {
        push_invalid(&at, name, dns1123_label(name), errors);
    }
}

/// A map's key as paths show it: in the middle of long ones is left out what is too much.
pub(super) fn shown_key(key: &str, max: usize) -> String {
    const ELLIPSIS: &str = "...";
    let max = max.max(16);
    if key.len() <= max {
        return key.to_owned();
    }
    let remaining = max - ELLIPSIS.len();
    let head = key.get(..remaining.div_ceil(2)).unwrap_or_default();
    let tail = key.get(key.len() - remaining / 2..).unwrap_or_default();
    format!("{head}{ELLIPSIS}{tail}")
}

/// A text field that must be a label, empty included (`validateLabelValue`).
pub(super) fn validate_label_value(value: &str, path: &Path<'_>, errors: &mut ErrorList) {
    push_invalid(path, value, dns1123_label(value), errors);
}
