//! Checks that the validation of many kinds is made of.

use std::sync::LazyLock;

use serde_json::Value;
use trireme_machinery::{
    Feature, Features, Object,
    field::{Error, ErrorList, ErrorType, Path, shown},
    meta::{self, Meta},
    names,
    quantity::Quantity,
    selector::validate_label_selector,
};

use crate::values::{text, text_at};

pub(crate) const NOT_NEGATIVE: &str = "must be greater than or equal to 0";
const POSITIVE: &str = "must be greater than zero";

/// One error for each text.
pub(crate) fn push_invalid(path: &Path<'_>, value: &str, messages: Vec<String>, errors: &mut ErrorList) {
    errors.extend(messages.iter().map(|error| Error::invalid_str(path, value, error)));
}

/// The same for a number.
pub(crate) fn push_invalid_number(path: &Path<'_>, value: i64, messages: Vec<String>, errors: &mut ErrorList) {
    errors.extend(messages.iter().map(|error| Error::invalid(path, &value.into(), error)));
}

/// The errors of an address in a field that is older than the strict rules; an address that was there before may stay
/// (`IsValidIPForLegacyField`).
pub(crate) fn legacy_ip(features: Features, ip: &str, known: &[&str]) -> Vec<String> {
    let is_readable = || names::parse_ip_sloppy(ip).is_some();
    if known.contains(&ip) || !features.has(Feature::StrictIpCidrValidation) && is_readable() {
        return Vec::new();
    }
    names::ip(ip)
}

/// The same for a block of addresses (`IsValidCIDRForLegacyField`).
pub(crate) fn legacy_cidr(features: Features, range: &str, known: &[&str]) -> Vec<String> {
    let is_readable = || names::parse_cidr_sloppy(range).is_some();
    if known.contains(&range) || !features.has(Feature::StrictIpCidrValidation) && is_readable() {
        return Vec::new();
    }
    names::cidr(range)
}

/// A text field that may not be empty; gives it back if it is not.
pub(crate) fn require<'a>(fields: &'a Value, path: &Path<'_>, name: &str, errors: &mut ErrorList) -> Option<&'a str> {
    let value = text(fields, name);
    if value.is_empty() {
        errors.push(Error::required(&path.child(name), ""));
        return None;
    }
    Some(value)
}

/// A text field that must be one of these values.
pub(crate) fn validate_supported(
    fields: &Value,
    path: &Path<'_>,
    name: &str,
    supported: &[&str],
    errors: &mut ErrorList,
) {
    let value = text(fields, name);
    if !supported.contains(&value) {
        errors.push(Error::not_supported(&path.child(name), value, supported));
    }
}

/// As [`Error::not_supported`]; the value is printed as JSON.
pub(crate) fn not_supported_value(path: &Path<'_>, value: &Value, supported: &[&str]) -> Error {
    not_supported_shown(path, &shown(value), supported)
}

/// As [`Error::not_supported`], of a value that has been printed.
pub(crate) fn not_supported_shown(path: &Path<'_>, value: &str, supported: &[&str]) -> Error {
    let with_empty = Error::not_supported(path, "", supported);
    let body = with_empty.body.replacen("\"\"", value, 1);
    Error {
        kind: ErrorType::NotSupported,
        body,
        ..with_empty
    }
}

/// Fields that stay as they were made, each at the pointer that follows from its dotted path.
pub(crate) fn validate_immutable_fields(new: &Value, old: &Value, paths: &[&str], errors: &mut ErrorList) {
    for path in paths {
        let pointer = format!("/{}", path.replace('.', "/"));
        let (new, old) = (new.pointer(&pointer), old.pointer(&pointer));
        errors.extend(meta::validate_immutable_field(new, old, &Path::new(path)));
    }
}

/// Fields of plain text that may not change; one that is absent is empty.
pub(crate) fn validate_immutable_texts(new: &Value, old: &Value, paths: &[&str], errors: &mut ErrorList) {
    for path in paths {
        let pointer = format!("/{}", path.replace('.', "/"));
        let [new, old] = [new, old].map(|object| Value::from(text_at(object, &pointer)));
        errors.extend(meta::validate_immutable_field(Some(&new), Some(&old), &Path::new(path)));
    }
}

/// A label selector, if there is one.
pub(crate) fn validate_optional_label_selector(selector: Option<&Value>, path: &Path<'_>, errors: &mut ErrorList) {
    validate_tolerated_label_selector(selector, false, path, errors);
}

/// A label selector, if there is one; `tolerate_values` lets pass values that no label can have
/// (`AllowInvalidLabelValueInSelector`).
pub(crate) fn validate_tolerated_label_selector(
    selector: Option<&Value>,
    tolerate_values: bool,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    if let Some(fields) = selector.and_then(Value::as_object) {
        errors.extend(validate_label_selector(fields, tolerate_values, path));
    }
}

/// Reports whether a stored selector has errors, so that the new object's may have values that no label can have.
pub(crate) fn is_invalid_label_selector(selector: Option<&Value>) -> bool {
    let mut errors = ErrorList::new();
    validate_optional_label_selector(selector, &Path::root(), &mut errors);
    !errors.is_empty()
}

/// A number that may not be negative, if it is there (`ValidateNonnegativeField`).
pub(crate) fn validate_nonnegative_field(fields: &Value, path: &Path<'_>, name: &str, errors: &mut ErrorList) {
    if let Some(number) = number(fields, name).filter(|number| *number < 0) {
        errors.push(Error::invalid(&path.child(name), &number.into(), NOT_NEGATIVE));
    }
}

/// Fields that may not be negative, in order; those that are absent pass.
pub(crate) fn validate_nonnegative_fields(value: &Value, path: &Path<'_>, fields: &[&str], errors: &mut ErrorList) {
    for field in fields {
        if let Some(number) = value.get(field).and_then(Value::as_i64).filter(|number| *number < 0) {
            errors.push(Error::invalid(&path.child(field), &number.into(), NOT_NEGATIVE));
        }
    }
}

/// A quantity that must be more than nothing (`ValidatePositiveQuantityValue`).
pub(crate) fn validate_positive_quantity_value(value: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    if quantity(value) <= zero() {
        errors.push(Error::invalid(path, value, POSITIVE));
    }
}

/// A quantity that may not be negative (`ValidateNonnegativeQuantity`).
pub(crate) fn validate_nonnegative_quantity(value: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    if quantity(value) < zero() {
        errors.push(Error::invalid(path, value, NOT_NEGATIVE));
    }
}

/// The name of a class: a DNS name.
pub(crate) fn validate_class_name(name: &str, path: &Path<'_>, errors: &mut ErrorList) {
    push_invalid(path, name, names::dns1123_subdomain(name), errors);
}

/// An integer field.
pub(crate) fn number(fields: &Value, name: &str) -> Option<i64> {
    fields.get(name).and_then(Value::as_i64)
}

/// A quantity that has been decoded; 0 if it is absent.
pub(crate) fn quantity(value: &Value) -> Quantity {
    value
        .as_str()
        .and_then(|text| Quantity::parse(text).ok())
        .unwrap_or_else(zero)
}

fn zero() -> Quantity {
    Quantity::from_integer(0, trireme_machinery::quantity::Format::DecimalSi)
}

/// Validates metadata, for kinds whose own validation does so in its course (`ValidateObjectMeta`).
pub(crate) fn validate_builtin_metadata(object: &Value, namespaced: bool, name_check: names::NameCheck) -> ErrorList {
    static NONE: LazyLock<Object> = LazyLock::new(Object::new);
    let metadata = object.get("metadata").and_then(Value::as_object).unwrap_or(&NONE);
    meta::validate_builtin_object_meta(Meta::new(metadata), namespaced, name_check, &Path::new("metadata"))
}
