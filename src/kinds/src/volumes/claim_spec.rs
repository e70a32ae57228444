//! The spec of a claim, in claims of their own and in the templates of pods' ephemeral volumes and of stateful sets.

use serde_json::Value;
use trireme_machinery::{
    field::{Error, ErrorList, Path},
    names,
};

use super::{STORAGE, VOLUME_MODES, validate_access_modes};
use crate::{
    checks::{
        is_invalid_label_selector, push_invalid, quantity, require, validate_class_name,
        validate_positive_quantity_value, validate_supported, validate_tolerated_label_selector,
    },
    values::{items, text},
};

/// Warnings about a claim's spec, also about one in a template. `path` is where the spec stands.
pub(crate) fn claim_spec_warnings(spec: &Value, path: &str) -> Vec<String> {
    let of_list = |list: &str| {
        let size = spec.get("resources")?.get(list)?.get(STORAGE)?;
        let shown = size.as_str().unwrap_or_default();
        quantity(size).as_integer().is_none().then(|| {
            format!(
                "{path}.resources.{list}[storage]: fractional byte value \"{shown}\" is invalid, must be an integer"
            )
        })
    };
    ["requests", "limits"].into_iter().filter_map(of_list).collect()
}

/// The errors that a claim may have because the old one has them (`PersistentVolumeClaimSpecValidationOptions`).
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ClaimOptions {
    /// The selector may have values that no label can have.
    tolerate_selector_values: bool,
    /// Data sources may be of groups that are no DNS names.
    tolerate_groups: bool,
}

impl ClaimOptions {
    /// Those that an old spec allows (`ValidationOptionsForPersistentVolumeClaim`).
    pub(crate) fn of_old(spec: &Value) -> Self {
        let sources = ["/dataSource/apiGroup", "/dataSourceRef/apiGroup"];
        Self {
            tolerate_selector_values: is_invalid_label_selector(spec.get("selector")),
            // Any group that is there counts, as upstream.
            tolerate_groups: sources
                .iter()
                .any(|group| spec.pointer(group).is_some_and(Value::is_string)),
        }
    }
}

/// The errors of a claim's spec, also of one in a template. `path` is where the spec stands.
/// Upstream: `ValidatePersistentVolumeClaimSpec`.
pub(crate) fn validate_persistent_volume_claim_spec(spec: &Value, options: ClaimOptions, path: &Path<'_>) -> ErrorList {
    let mut errors = ErrorList::new();
    if items(spec, "accessModes").is_empty() {
        errors.push(Error::required(
            &path.child("accessModes"),
            "at least 1 access mode is required",
        ));
    }
    validate_tolerated_label_selector(
        spec.get("selector"),
        options.tolerate_selector_values,
        &path.child("selector"),
        &mut errors,
    );
    validate_access_modes(spec, path, &mut errors);
    let resources = path.child("resources");
    let size_path = resources.key(STORAGE);
    match spec.pointer("/resources/requests/storage") {
        None => errors.push(Error::required(&size_path, "")),
        Some(size) => validate_positive_quantity_value(size, &size_path, &mut errors),
    }
    let class = text(spec, "storageClassName");
    if !class.is_empty() {
        validate_class_name(class, &path.child("storageClassName"), &mut errors);
    }
    if spec.get("volumeMode").is_some() {
        validate_supported(spec, path, "volumeMode", &VOLUME_MODES, &mut errors);
    }
    validate_data_sources(spec, options, path, &mut errors);
    let attributes_class = text(spec, "volumeAttributesClassName");
    if !attributes_class.is_empty() {
        validate_class_name(attributes_class, &path.child("volumeAttributesClassName"), &mut errors);
    }
    errors
}

fn validate_data_sources(spec: &Value, options: ClaimOptions, path: &Path<'_>, errors: &mut ErrorList) {
    let (source, reference) = (spec.get("dataSource"), spec.get("dataSourceRef"));
    if let Some(source) = source {
        validate_data_source_ref(source, options, &path.child("dataSource"), errors);
    }
    let Some(reference) = reference else { return };
    let at = path.child("dataSourceRef");
    validate_data_source_ref(reference, options, &at, errors);
    let namespace = text(reference, "namespace");
    if !namespace.is_empty() {
        push_invalid(
            &at.child("namespace"),
            namespace,
            names::dns1123_label(namespace),
            errors,
        );
        if source.is_some() {
            // The path of the other field is what Kubernetes prints, which shows nothing.
            errors.push(Error::invalid_shown(
                path,
                "{}",
                "may not be specified when dataSourceRef.namespace is specified",
            ));
        }
    } else if source.is_some_and(|source| !is_same_reference(source, reference)) {
        errors.push(Error::invalid_shown(path, "{}", "must match dataSourceRef"));
    }
}

fn is_same_reference(source: &Value, reference: &Value) -> bool {
    ["apiGroup", "kind", "name"]
        .iter()
        .all(|field| source.get(field) == reference.get(field))
}

/// As upstream's `validateDataSourceRef`.
fn validate_data_source_ref(reference: &Value, options: ClaimOptions, path: &Path<'_>, errors: &mut ErrorList) {
    require(reference, path, "name", errors);
    require(reference, path, "kind", errors);
    let (group, kind) = (text(reference, "apiGroup"), text(reference, "kind"));
    if group.is_empty() && kind != "PersistentVolumeClaim" {
        let detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
        errors.push(Error::invalid_str(path, kind, detail));
    }
    if !group.is_empty() && !options.tolerate_groups {
        push_invalid(&path.child("apiGroup"), group, names::dns1123_subdomain(group), errors);
    }
}
