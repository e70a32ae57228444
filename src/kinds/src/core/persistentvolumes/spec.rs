//! The validation of a volume's spec, also of one that stands in a VolumeAttachment (`ValidatePersistentVolumeSpec`).

use serde_json::Value;
use trireme_machinery::{
    Object,
    field::{Error, ErrorList, Path},
};

use super::{has_entries, sources};
use crate::{
    checks::{not_supported_value, validate_class_name, validate_positive_quantity_value, validate_supported},
    pod_template::{node_label_advice, validate_tolerated_node_selector},
    values::{entries, items, text, text_at},
    volumes::{STORAGE, VOLUME_MODES, deprecated_source_warnings, validate_access_modes, validate_basic_resource},
};

const NOT_INLINE: &str = "may not be specified in the context of inline volumes";
const RECLAIM_POLICIES: [&str; 3] = ["Delete", "Recycle", "Retain"];

/// The errors of the spec of a volume of this name; `tolerate_values` lets pass values of node selectors that no label
/// can have (`AllowInvalidLabelValueInRequiredNodeAffinity`).
pub(super) fn validate(spec: &Value, name: &str, tolerate_values: bool, path: &Path<'_>) -> ErrorList {
    let mut errors = ErrorList::new();
    validate_volume_modes(spec, path, &mut errors);
    let capacity = path.child("capacity");
    if !has_entries(spec, "capacity") {
        errors.push(Error::required(&capacity, ""));
    }
    let only_storage = spec
        .get("capacity")
        .and_then(Value::as_object)
        .is_some_and(is_storage_alone);
    if !only_storage {
        let given = spec.get("capacity").unwrap_or(&Value::Null);
        errors.push(not_supported_value(&capacity, given, &[STORAGE]));
    }
    for (name, value) in entries(spec, "capacity") {
        validate_basic_resource(value, &capacity.key(name), &mut errors);
        validate_positive_quantity_value(value, &capacity.key(name), &mut errors);
    }
    if !text(spec, "persistentVolumeReclaimPolicy").is_empty() {
        validate_supported(
            spec,
            path,
            "persistentVolumeReclaimPolicy",
            &RECLAIM_POLICIES,
            &mut errors,
        );
    }
    validate_volume_node_affinity(spec, tolerate_values, path, &mut errors);
    sources::validate_persistent_volume_source(spec, name, path, &mut errors);
    validate_recycled_root(spec, path, &mut errors);
    let class = text(spec, "storageClassName");
    if !class.is_empty() {
        validate_class_name(class, &path.child("storageClassName"), &mut errors);
    }
    if spec.get("volumeMode").is_some() {
        validate_supported(spec, path, "volumeMode", &VOLUME_MODES, &mut errors);
    }
    validate_volume_attributes_class_name(spec, path, &mut errors);
    errors
}

/// The errors of a spec that describes a volume where it is attached.
pub(crate) fn validate_inline(spec: &Value, path: &Path<'_>) -> ErrorList {
    let mut errors = ErrorList::new();
    let refused = [
        ("claimRef", spec.get("claimRef").is_some()),
        ("capacity", has_entries(spec, "capacity")),
        ("csi", spec.get("csi").is_none()),
    ];
    for (field, is_refused) in refused {
        if is_refused && field == "csi" {
            errors.push(Error::required(
                &path.child(field),
                "has to be specified in the context of inline volumes",
            ));
        } else if is_refused {
            errors.push(Error::forbidden(&path.child(field), NOT_INLINE));
        }
    }
    validate_volume_modes(spec, path, &mut errors);
    let mut refuse = |field: &str, detail: &str| errors.push(Error::forbidden(&path.child(field), detail));
    if !matches!(text(spec, "persistentVolumeReclaimPolicy"), "" | "Retain") {
        refuse(
            "persistentVolumeReclaimPolicy",
            "may only be Retain in the context of inline volumes",
        );
    }
    if spec.get("nodeAffinity").is_some() {
        refuse("nodeAffinity", NOT_INLINE);
    }
    sources::validate_persistent_volume_source(spec, "", path, &mut errors);
    validate_recycled_root(spec, path, &mut errors);
    let mut refuse = |field: &str, detail: &str| errors.push(Error::forbidden(&path.child(field), detail));
    if !text(spec, "storageClassName").is_empty() {
        refuse("storageClassName", NOT_INLINE);
    }
    if !matches!(text(spec, "volumeMode"), "" | "Filesystem") {
        refuse(
            "volumeMode",
            "may not specify volumeMode other than Filesystem in the context of inline volumes",
        );
    }
    validate_volume_attributes_class_name(spec, path, &mut errors);
    errors
}

fn is_storage_alone(capacity: &Object) -> bool {
    capacity.len() == 1 && capacity.contains_key(STORAGE)
}

fn validate_volume_modes(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    if items(spec, "accessModes").is_empty() {
        errors.push(Error::required(&path.child("accessModes"), ""));
    }
    validate_access_modes(spec, path, errors);
}

fn validate_recycled_root(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let recycles = text(spec, "persistentVolumeReclaimPolicy") == "Recycle";
    if recycles && is_root(text_at(spec, "/hostPath/path")) {
        let detail = "may not be 'recycle' for a hostPath mount of '/'";
        errors.push(Error::forbidden(&path.child("persistentVolumeReclaimPolicy"), detail));
    }
}

fn validate_volume_attributes_class_name(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(class) = spec.get("volumeAttributesClassName").and_then(Value::as_str) else {
        return;
    };
    let at = path.child("volumeAttributesClassName");
    if class.is_empty() {
        errors.push(Error::required(&at, "an empty string is disallowed"));
    } else {
        validate_class_name(class, &at, errors);
    }
    if spec.get("csi").is_none() {
        errors.push(Error::required(
            &path.child("csi"),
            "has to be specified when using volumeAttributesClassName",
        ));
    }
}

/// Returns true if a path leads to the root, whatever dots and slashes it has.
fn is_root(path: &str) -> bool {
    let depth = path.split('/').fold(0_usize, |depth, part| match part {
        "" | "." => depth,
        ".." => depth.saturating_sub(1),
        _ => depth.saturating_add(1),
    });
    path.starts_with('/') && depth == 0
}

/// As upstream's `validateVolumeNodeAffinity`.
fn validate_volume_node_affinity(spec: &Value, tolerate_values: bool, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(affinity) = spec.get("nodeAffinity") else {
        return;
    };
    let at = path.child("nodeAffinity");
    let required = at.child("required");
    match affinity.get("required") {
        Some(selector) => validate_tolerated_node_selector(selector, tolerate_values, &required, errors),
        None => errors.push(Error::required(&required, "must specify required node constraints")),
    }
}

/// Warnings about deprecated fields of a spec.
pub(super) fn warnings(spec: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    if text(spec, "persistentVolumeReclaimPolicy") == "Recycle" {
        warnings.push(
            "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning."
                .to_owned(),
        );
    }
    warnings.extend(label_warnings(spec));
    warnings.extend(deprecated_source_warnings(spec, "spec"));
    warnings
}

fn label_warnings(spec: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    let Some(selector) = spec.pointer("/nodeAffinity/required") else {
        return warnings;
    };
    for (at, term) in items(selector, "nodeSelectorTerms").iter().enumerate() {
        for (index, expression) in items(term, "matchExpressions").iter().enumerate() {
            let key = text(expression, "key");
            warnings.extend(node_label_advice(key).map(|advice| {
                format!(
                    "spec.nodeAffinity.required.nodeSelectorTerms[{at}].matchExpressions[{index}].key: {key} is {advice}"
                )
            }));
        }
    }
    warnings
}
