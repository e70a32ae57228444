//! Mutations of a MutatingAdmissionPolicy.

use serde_json::Value;
use trireme_cel::Environment;
use trireme_machinery::field::{Error, ErrorList, Path};

use super::expressions::validate_cel_condition;
use crate::values::{items, text};

/// The two ways to change an object: the field, the type of patch, what its expression evaluates to.
const APPLY: (&str, &str, &str) = ("applyConfiguration", "ApplyConfiguration", "Object");
const JSON_PATCH: (&str, &str, &str) = ("jsonPatch", "JSONPatch", "list(JSONPatch)");

/// Validates a policy's mutations.
pub(super) fn validate_mutations(spec: &Value, path: &Path<'_>, environment: &Environment, errors: &mut ErrorList) {
    let mutations = items(spec, "mutations");
    if mutations.is_empty() {
        errors.push(Error::required(path, "mutations must contain at least one item"));
    }
    for (index, mutation) in mutations.iter().enumerate() {
        let at = path.index(index);
        let (used, other) = match text(mutation, "patchType") {
            "" => {
                errors.push(Error::required(&at.child("patchType"), ""));
                continue;
            }
            "ApplyConfiguration" => (APPLY, JSON_PATCH),
            "JSONPatch" => (JSON_PATCH, APPLY),
            unknown => {
                let supported = ["ApplyConfiguration", "JSONPatch"];
                errors.push(Error::not_supported(&at.child("patchType"), unknown, &supported));
                continue;
            }
        };
        let (field, patch_type, output) = used;
        match mutation.get(field) {
            None => {
                let detail = format!("must be specified when patchType is {patch_type}");
                errors.push(Error::required(&at.child(field), &detail));
            }
            Some(patch) => {
                let expression = text(patch, "expression").trim();
                let at = at.child(field);
                let at = at.child("expression");
                if expression.is_empty() {
                    errors.push(Error::required(&at, ""));
                } else {
                    validate_cel_condition(environment, (expression, expression), &at, &[output], errors);
                }
            }
        }
        if mutation.get(other.0).is_some() {
            let shown = format!("{{{}}}", other.0);
            let detail = format!("must not be specified when patchType is {patch_type}");
            errors.push(Error::invalid_str(&at.child(other.0), &shown, &detail));
        }
    }
}
