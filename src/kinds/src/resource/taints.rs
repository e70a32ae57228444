//! Taints of devices, tolerations of them, and the conditions that binding waits for.

use std::collections::HashSet;

use serde_json::{Value, json};
use trireme_machinery::{
    field::{Error, ErrorList, Path},
    names,
};

use super::lists::validate_slice;
use crate::{
    checks::push_invalid,
    values::{items, text},
};

/// The most taints of a device.
pub(super) const MAX_TAINTS: usize = 16;
const MAX_BINDING_CONDITIONS: usize = 4;
const EFFECTS: [&str; 3] = ["NoExecute", "NoSchedule", "None"];

/// Validates a device's taint (`validateDeviceTaint`).
pub(super) fn validate_device_taint(taint: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let (key, value) = (text(taint, "key"), text(taint, "value"));
    push_invalid(&path.child("key"), key, names::qualified_name(key), errors);
    push_invalid(&path.child("value"), value, names::label_value(value), errors);
    match text(taint, "effect") {
        "" => errors.push(Error::required(&path.child("effect"), "")),
        effect if EFFECTS.contains(&effect) => {}
        effect => errors.push(Error::not_supported(&path.child("effect"), effect, &EFFECTS)),
    }
}

/// Validates the tolerations of a request, of which there may be any number.
pub(super) fn validate_device_tolerations(holder: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let at = path.child("tolerations");
    for (index, toleration) in items(holder, "tolerations").iter().enumerate() {
        validate_device_toleration(toleration, &at.index(index), errors);
    }
}

/// As upstream's `validateDeviceToleration`.
fn validate_device_toleration(toleration: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let (key, value) = (text(toleration, "key"), text(toleration, "value"));
    if !key.is_empty() {
        push_invalid(&path.child("key"), key, names::qualified_name(key), errors);
    }
    match text(toleration, "operator") {
        "Exists" if value.is_empty() => {}
        "Exists" => errors.push(Error::invalid_str(
            &path.child("value"),
            value,
            "must be empty for operator `Exists`",
        )),
        "Equal" => push_invalid(&path.child("value"), value, names::label_value(value), errors),
        "" => errors.push(Error::required(&path.child("operator"), "")),
        other => errors.push(Error::not_supported(
            &path.child("operator"),
            other,
            &["Equal", "Exists"],
        )),
    }
    let effect = text(toleration, "effect");
    if !effect.is_empty() && !EFFECTS.contains(&effect) {
        errors.push(Error::not_supported(&path.child("effect"), effect, &EFFECTS));
    }
}

/// Validates the conditions that a device must have, and those that it may not get, before a pod is bound to its node.
/// Upstream: `validateDeviceBindingParameters`.
pub(super) fn validate_device_binding_parameters(device: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    const FIELDS: [&str; 2] = ["bindingConditions", "bindingFailureConditions"];
    for name in FIELDS {
        validate_slice(
            device,
            path,
            (name, MAX_BINDING_CONDITIONS),
            |item, at, errors| {
                let condition = item.as_str().unwrap_or_default();
                push_invalid(at, condition, names::qualified_name(condition), errors);
            },
            errors,
        );
    }
    let wanted: HashSet<&str> = items(device, FIELDS[0]).iter().filter_map(Value::as_str).collect();
    for name in FIELDS {
        let at = path.child(name);
        let mut seen = HashSet::new();
        for (index, condition) in items(device, name).iter().filter_map(Value::as_str).enumerate() {
            if !seen.insert(condition) {
                errors.push(Error::duplicate(&at.index(index), &condition.into()));
            }
            if name == FIELDS[1] && wanted.contains(condition) {
                let detail = "bindingFailureConditions must not overlap with bindingConditions";
                errors.push(Error::invalid_str(&at.index(index), condition, detail));
            }
        }
    }
    validate_paired_conditions(device, path, FIELDS, errors);
    validate_paired_conditions(device, path, [FIELDS[1], FIELDS[0]], errors);
}

/// The one list of conditions needs the other.
fn validate_paired_conditions(device: &Value, path: &Path<'_>, [missing, used]: [&str; 2], errors: &mut ErrorList) {
    if items(device, missing).is_empty() && !items(device, used).is_empty() {
        let shown = device.get(missing).cloned().unwrap_or(json!(null));
        let detail = format!("{missing} are required to use {used}");
        errors.push(Error::invalid(&path.child(missing), &shown, &detail));
    }
}
