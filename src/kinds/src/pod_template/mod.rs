//! What pods and everything that makes pods have in common: defaults, validation and warnings of pod templates.
//!
//! Used by pods, pod templates and the workload kinds. Specs are already held against their type and have the static
//! defaults; what is here looks at fields that depend on each other. Errors come in the order in which Kubernetes
//! finds them (`pkg/apis/core/validation`).

use serde_json::Value;
use trireme_machinery::field::{ErrorList, Path};

mod defaults;

pub(crate) use defaults::default_spec;

/// Faults of a template: labels, annotations and the spec. `path` is where the template stands.
pub(crate) fn validate_template(template: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let _ = (template, path, errors);
}

/// Faults of a pod's spec as a part of a template or of a pod. `path` is where the spec stands.
pub(crate) fn validate_spec(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let _ = (spec, path, errors);
}

/// Warnings on what a template asks for; `path` is where the template stands (empty for a pod).
pub(crate) fn warnings(template: &Value, path: &str) -> Vec<String> {
    let _ = (template, path);
    Vec::new()
}
