//! Small checks that the validation of pods is made of.

use serde_json::Value;
use trireme_machinery::{
    field::{Error, ErrorList, Path},
    names,
    quantity::Quantity,
};

use crate::values::text;

/// The texts of `field.Invalid` for one value.
pub(super) fn push_invalid(errors: &mut ErrorList, path: &Path<'_>, value: &str, faults: Vec<String>) {
    errors.extend(faults.iter().map(|fault| Error::invalid_str(path, value, fault)));
}

/// The same for a number.
pub(super) fn push_invalid_number(errors: &mut ErrorList, path: &Path<'_>, value: i64, faults: Vec<String>) {
    errors.extend(faults.iter().map(|fault| Error::invalid(path, &value.into(), fault)));
}

/// A field of `fields` that must not be empty; says whether it is there.
pub(super) fn require(errors: &mut ErrorList, fields: &Value, path: &Path<'_>, name: &str) -> bool {
    let given = !text(fields, name).is_empty();
    if !given {
        errors.push(Error::required(&path.child(name), ""));
    }
    given
}

/// A field that must not be empty and is checked if it is not.
pub(super) fn require_valid(
    errors: &mut ErrorList,
    fields: &Value,
    path: &Path<'_>,
    name: &str,
    check: fn(&str) -> Vec<String>,
) {
    if require(errors, fields, path, name) {
        push_invalid(errors, &path.child(name), text(fields, name), check(text(fields, name)));
    }
}

/// A field that is checked if it is not empty.
pub(super) fn valid_if_set(
    errors: &mut ErrorList,
    fields: &Value,
    path: &Path<'_>,
    name: &str,
    check: fn(&str) -> Vec<String>,
) {
    let value = text(fields, name);
    if !value.is_empty() {
        push_invalid(errors, &path.child(name), value, check(value));
    }
}

/// A field that has one of some values if it is set.
pub(super) fn one_of_if_set(errors: &mut ErrorList, fields: &Value, path: &Path<'_>, name: &str, supported: &[&str]) {
    if let Some(value) = fields
        .get(name)
        .and_then(Value::as_str)
        .filter(|value| !supported.contains(value))
    {
        errors.push(Error::not_supported(&path.child(name), value, supported));
    }
}

/// A field that has one of some values and must be set.
pub(super) fn require_one_of(errors: &mut ErrorList, fields: &Value, path: &Path<'_>, name: &str, supported: &[&str]) {
    if require(errors, fields, path, name) {
        one_of_if_set(errors, fields, path, name, supported);
    }
}

/// A number that is not negative.
pub(super) fn not_negative(errors: &mut ErrorList, fields: &Value, path: &Path<'_>, name: &str) {
    if let Some(value) = number(fields, name).filter(|value| *value < 0) {
        errors.push(Error::invalid(
            &path.child(name),
            &value.into(),
            "must be greater than or equal to 0",
        ));
    }
}

/// A user's or group's id, if it is set.
pub(super) fn id_if_set(errors: &mut ErrorList, fields: &Value, path: &Path<'_>, name: &str) {
    if let Some(id) = number(fields, name) {
        push_invalid_number(errors, &path.child(name), id, names::user_or_group_id(id));
    }
}

/// A number's field.
pub(super) fn number(fields: &Value, name: &str) -> Option<i64> {
    fields.get(name).and_then(Value::as_i64)
}

/// Whether a field is there and true.
pub(super) fn is_true(fields: &Value, name: &str) -> bool {
    fields.get(name).and_then(Value::as_bool).unwrap_or(false)
}

/// A path that neither is absolute nor climbs.
pub(super) fn descending_path(errors: &mut ErrorList, target: &str, path: &Path<'_>) {
    if target.starts_with('/') {
        errors.push(Error::invalid_str(path, target, "must be a relative path"));
    }
    no_backsteps(errors, target, path);
}

/// A descending path whose first part does not begin with two dots either.
pub(super) fn non_reserved_path(errors: &mut ErrorList, target: &str, path: &Path<'_>) {
    descending_path(errors, target, path);
    if target.starts_with("..") && !target.starts_with("../") {
        errors.push(Error::invalid_str(path, target, "must not start with '..'"));
    }
}

/// A path that does not climb.
pub(super) fn no_backsteps(errors: &mut ErrorList, target: &str, path: &Path<'_>) {
    if target.split('/').any(|part| part == "..") {
        errors.push(Error::invalid_str(path, target, "must not contain '..'"));
    }
}

/// A label's key.
pub(super) fn label_name(errors: &mut ErrorList, name: &str, path: &Path<'_>) {
    push_invalid(errors, path, name, names::qualified_name(name));
}

/// A quantity that has been decoded before.
pub(super) fn quantity(value: &Value) -> Quantity {
    let zero = || Quantity::from_integer(0, trireme_machinery::quantity::Format::DecimalSi);
    value
        .as_str()
        .and_then(|text| Quantity::parse(text).ok())
        .unwrap_or_else(zero)
}
