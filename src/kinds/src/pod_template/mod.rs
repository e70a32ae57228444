//! Pod templates, which pods and all workloads share: defaults, validation and warnings of pod templates.
//!
//! Used by pods, pod templates and the workload kinds. Specs are already held against their type and have the static
//! defaults; what is here looks at fields that depend on each other. Errors come in the order in which Kubernetes
//! finds them (`pkg/apis/core/validation`).

use serde_json::Value;
use trireme_machinery::{
    field::{Error, ErrorList, Path},
    meta::validate_annotations,
    selector::validate_labels,
};

pub(crate) mod annotations;
mod check;
mod containers;
mod defaults;
mod env;
mod gated;
mod image;
mod iscsi;
pub(crate) mod layout;
mod layout_table;
mod mounts;
mod overlaps;
mod probes;
mod projected;
mod resources;
mod scheduling;
mod security;
mod sources;
mod spec;
mod systems;
#[cfg(test)]
mod tests;
mod tolerated;
mod volumes;
mod warnings;
mod windows;

pub(crate) use containers::validate_container_only_for_pod;
pub(crate) use defaults::{default_pod, default_spec};
pub(crate) use gated::{drop_disabled_at, has_resources};
pub(crate) use iscsi::{ISCSI_NAME_TOO_LONG, is_iscsi_name_too_long, validate_iscsi_volume_source};
pub(crate) use resources::validate_overhead;
pub(crate) use scheduling::{
    apply_label_keys, validate_node_selector, validate_tolerated_node_selector, validate_tolerations,
};
pub(crate) use security::Capabilities;
pub(crate) use sources::{
    source_path, validate_csi_driver_name, validate_template_object_meta, validate_volume_source,
};
pub(crate) use spec::{validate_pod_spec, validate_preemption_policy};
pub(crate) use tolerated::{Tolerated, has_invalid_node_selector_value};
pub(crate) use warnings::{node_label_advice, warnings};

use crate::values::items;

/// Validates the labels and annotations of a template.
pub(crate) fn validate_template_metadata(
    capabilities: Capabilities,
    template: &Value,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    let none = Value::Null;
    let metadata = template.get("metadata").unwrap_or(&none);
    let map = |field: &str| metadata.get(field).and_then(Value::as_object);
    errors.extend(validate_labels(map("labels"), &path.child("labels")));
    let at = path.child("annotations");
    errors.extend(validate_annotations(map("annotations"), &at));
    let spec = template.get("spec").unwrap_or(&none);
    annotations::validate_pod_specific_annotations(capabilities, metadata, spec, &at, errors);
}

/// Validates a template: labels, annotations and the spec. `path` is where the template stands.
/// Upstream: `ValidatePodTemplateSpec`.
pub(crate) fn validate_pod_template_spec(
    capabilities: Capabilities,
    template: &Value,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    validate_template_metadata(capabilities, template, path, errors);
    let none = Value::Null;
    let spec = template.get("spec").unwrap_or(&none);
    let spec_path = path.child("spec");
    let metadata = template.get("metadata").unwrap_or(&none);
    validate_pod_spec(capabilities, spec, None, &spec_path, errors);
    annotations::validate_profile_annotations_and_fields(metadata, spec, &spec_path, errors);
    if !items(spec, "ephemeralContainers").is_empty() {
        let detail = "ephemeral containers not allowed in pod template";
        errors.push(Error::forbidden(&spec_path.child("ephemeralContainers"), detail));
    }
}
