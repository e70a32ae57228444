//! Small checks that the validation of pods is made of.

use serde_json::Value;
use trireme_machinery::{
    field::{Error, ErrorList, Path},
    names,
};

pub(super) use crate::checks::{number, push_invalid, push_invalid_number, quantity};
use crate::values::{items, text};

/// All lists of containers, in the order in which Kubernetes visits them.
pub(super) const CONTAINER_LISTS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// Calls `visit` with each container and its path.
pub(super) fn visit_containers(spec: &Value, path: &Path<'_>, mut visit: impl FnMut(&Value, &Path<'_>)) {
    for list in CONTAINER_LISTS {
        let list_path = path.child(list);
        for (index, container) in items(spec, list).iter().enumerate() {
            visit(container, &list_path.index(index));
        }
    }
}

/// A field of `fields` that must not be empty; says whether it is there.
pub(super) fn require(fields: &Value, path: &Path<'_>, name: &str, errors: &mut ErrorList) -> bool {
    let given = !text(fields, name).is_empty();
    if !given {
        errors.push(Error::required(&path.child(name), ""));
    }
    given
}

/// A field that must not be empty and is checked if it is not.
pub(super) fn require_valid(
    fields: &Value,
    path: &Path<'_>,
    name: &str,
    check: fn(&str) -> Vec<String>,
    errors: &mut ErrorList,
) {
    if require(fields, path, name, errors) {
        push_invalid(&path.child(name), text(fields, name), check(text(fields, name)), errors);
    }
}

/// A field that is checked if it is not empty.
pub(super) fn valid_if_set(
    fields: &Value,
    path: &Path<'_>,
    name: &str,
    check: fn(&str) -> Vec<String>,
    errors: &mut ErrorList,
) {
    let value = text(fields, name);
    if !value.is_empty() {
        push_invalid(&path.child(name), value, check(value), errors);
    }
}

/// A field that has one of some values if it is set.
pub(super) fn one_of_if_set(fields: &Value, path: &Path<'_>, name: &str, supported: &[&str], errors: &mut ErrorList) {
    if let Some(value) = fields
        .get(name)
        .and_then(Value::as_str)
        .filter(|value| !supported.contains(value))
    {
        errors.push(Error::not_supported(&path.child(name), value, supported));
    }
}

/// A field that has one of some values and must be set.
pub(super) fn require_one_of(fields: &Value, path: &Path<'_>, name: &str, supported: &[&str], errors: &mut ErrorList) {
    if require(fields, path, name, errors) {
        one_of_if_set(fields, path, name, supported, errors);
    }
}

/// A number that is not negative.
pub(super) fn not_negative(fields: &Value, path: &Path<'_>, name: &str, errors: &mut ErrorList) {
    if let Some(value) = number(fields, name).filter(|value| *value < 0) {
        errors.push(Error::invalid(
            &path.child(name),
            &value.into(),
            "must be greater than or equal to 0",
        ));
    }
}

/// A user's or group's id, if it is set.
pub(super) fn id_if_set(fields: &Value, path: &Path<'_>, name: &str, errors: &mut ErrorList) {
    if let Some(id) = number(fields, name) {
        push_invalid_number(&path.child(name), id, names::user_or_group_id(id), errors);
    }
}

/// Returns true if a field is there and true.
pub(super) fn is_true(fields: &Value, name: &str) -> bool {
    fields.get(name).and_then(Value::as_bool).unwrap_or(false)
}

/// A path that neither is absolute nor climbs.
pub(super) fn descending_path(target: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if target.starts_with('/') {
        errors.push(Error::invalid_str(path, target, "must be a relative path"));
    }
    no_backsteps(target, path, errors);
}

/// A descending path whose first part does not begin with two dots either.
pub(super) fn non_reserved_path(target: &str, path: &Path<'_>, errors: &mut ErrorList) {
    descending_path(target, path, errors);
    if target.starts_with("..") && !target.starts_with("../") {
        errors.push(Error::invalid_str(path, target, "must not start with '..'"));
    }
}

/// A path that does not climb.
pub(super) fn no_backsteps(target: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if target.split('/').any(|part| part == "..") {
        errors.push(Error::invalid_str(path, target, "must not contain '..'"));
    }
}

/// A label's key.
pub(super) fn label_name(name: &str, path: &Path<'_>, errors: &mut ErrorList) {
    push_invalid(path, name, names::qualified_name(name), errors);
}
