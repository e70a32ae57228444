//! The kind `CustomResourceDefinition`: its defaults, its validation, and how it is deleted.

pub(crate) mod conditions;
mod costs;
mod defaults;
mod field_paths;
mod internals;
mod non_structural;
mod rules;
mod schema;
mod spec;
mod structural;
#[cfg(test)]
mod tests;
mod v1beta1;

use serde_json::{Value, json};
use trireme_machinery::{
    field::{Error, ErrorList, Path},
    go_text::quote,
    meta::ObjectMeta as _,
};
use trireme_registry::{Strategy, WriteContext, strategy::MetadataChecks};

use self::{
    conditions::{Condition, is_true, set_condition},
    spec::{validate_names, validate_spec, versions},
    structural::{flag, parts, text},
};
pub(crate) use self::{
    non_structural::set_non_structural_condition,
    structural::{is_structural, says_int_or_string},
    v1beta1::V1Beta1,
};
use crate::structural::{formats, metadata::MetadataType};

/// What a definition waits for when it is deleted: that its objects are gone.
pub(crate) const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// The behaviour of definitions.
pub(crate) struct Definitions {
    /// The type of the metadata of objects, if it is there.
    pub(crate) metadata: Option<MetadataType>,
}

impl Definitions {
    fn validate_both(object: &Value, old: Option<&Value>, errors: &mut ErrorList) {
        let accepted = object.pointer("/status/acceptedNames").unwrap_or(&Value::Null);
        validate_names(accepted, &Path::new("status.acceptedNames"), false, errors);
        validate_stored_versions(object, errors);
        if old.is_none_or(|old| approval_state(old) != approval_state(object)) {
            validate_api_approval(object, errors);
        }
        validate_preserve_unknown_fields(object, old, errors);
    }
}

const APPROVAL: &str = "api-approved.kubernetes.io";

/// The approval that a definition claims to have.
#[derive(PartialEq)]
enum ApprovalState {
    Missing,
    Bypassed,
    Approved,
    Invalid,
}

fn approval_state(object: &Value) -> ApprovalState {
    match object.meta().annotation(APPROVAL).unwrap_or_default() {
        "" => ApprovalState::Missing,
        given if given.starts_with("unapproved") => ApprovalState::Bypassed,
        given if given.contains("://") => ApprovalState::Approved,
        _ => ApprovalState::Invalid,
    }
}

fn validate_preserve_unknown_fields(object: &Value, old: Option<&Value>, errors: &mut ErrorList) {
    let preserves = |object: &Value| flag(object.get("spec").unwrap_or(&Value::Null), "preserveUnknownFields");
    if preserves(object) && !old.is_some_and(preserves) {
        let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in \
                      spec.versions[*].schema instead";
        errors.push(Error::invalid(
            &Path::new("spec.preserveUnknownFields"),
            &true.into(),
            detail,
        ));
    }
}

/// Reports whether a definition is of a group that only Kubernetes itself may define resources in.
fn is_protected(object: &Value) -> bool {
    let group = object.pointer("/spec/group").and_then(Value::as_str);
    let group = group.unwrap_or_default();
    ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|domain| group == *domain || group.ends_with(&format!(".{domain}")))
}

/// Sets the condition that tells whether a definition in a protected group has an approval
/// (`apiapproval_controller.go` of apiextensions-apiserver).
pub(crate) fn set_approval_condition(definition: &mut Value, now: &str) {
    if !is_protected(definition) {
        return;
    }
    let given = definition.meta().annotation(APPROVAL).unwrap_or_default();
    let (is_true, reason, message) = match approval_state(definition) {
        ApprovalState::Missing => (
            false,
            "MissingAnnotation",
            format!(
                "protected groups must have approval annotation {}, see https://github.com/kubernetes/enhancements/pull/1111",
                quote(APPROVAL)
            ),
        ),
        ApprovalState::Bypassed => (false, "UnapprovedAnnotation", format!("not approved: {}", quote(given))),
        ApprovalState::Approved => (true, "ApprovedAnnotation", format!("approved in {given}")),
        ApprovalState::Invalid => (
            false,
            "InvalidAnnotation",
            format!(
                "protected groups must have approval annotation {} with either a URL or a reason starting with \"unapproved\", see \
                 https://github.com/kubernetes/enhancements/pull/1111",
                quote(APPROVAL)
            ),
        ),
    };
    let condition = Condition {
        kind: "KubernetesAPIApprovalPolicyConformant",
        is_true,
        reason,
        message: &message,
    };
    set_condition(definition, &condition, now);
}

/// Groups that only Kubernetes itself may define resources in.
fn validate_api_approval(object: &Value, errors: &mut ErrorList) {
    if !is_protected(object) {
        return;
    }
    let (path, state) = (Path::new("metadata.annotations"), approval_state(object));
    if state == ApprovalState::Missing {
        errors.push(Error::required(
            &path.key(APPROVAL),
            "protected groups must have approval annotation \"api-approved.kubernetes.io\", see \
             https://github.com/kubernetes/enhancements/pull/1111",
        ));
    } else if state == ApprovalState::Invalid {
        let given = object.meta().annotation(APPROVAL).unwrap_or_default();
        let detail = "protected groups must have approval annotation \"api-approved.kubernetes.io\" with either a URL \
                      or a reason starting with \"unapproved\", see \
                      https://github.com/kubernetes/enhancements/pull/1111";
        errors.push(Error::invalid_str(&path.key(APPROVAL), given, detail));
    }
}

fn storage_version(object: &Value) -> Option<&str> {
    let stored = versions(object).iter().find(|version| flag(version, "storage"))?;
    Some(text(stored, "name"))
}

fn stored_versions(object: &Value) -> Vec<String> {
    let stored = object.pointer("/status/storedVersions").and_then(Value::as_array);
    let names = stored.into_iter().flatten().filter_map(Value::as_str);
    names.map(str::to_owned).collect()
}

/// Adds the storage version to those that objects may be stored in.
fn note_storage_version(object: &mut Value) {
    let mut stored = stored_versions(object);
    let Some(name) = storage_version(object).map(str::to_owned) else {
        return;
    };
    if !stored.contains(&name) {
        stored.push(name);
        object["status"]["storedVersions"] = json!(stored);
    }
}

fn validate_stored_versions(object: &Value, errors: &mut ErrorList) {
    let path = Path::new("status.storedVersions");
    let stored = stored_versions(object);
    let shown = json!(stored);
    if stored.is_empty() {
        return errors.push(Error::invalid(
            &path,
            &Value::Null,
            "must have at least one stored version",
        ));
    }
    let mut unseen = stored.clone();
    for version in versions(object) {
        let name = text(version, "name");
        if let Some(at) = unseen.iter().position(|known| known == name) {
            unseen.remove(at);
        } else if flag(version, "storage") {
            let detail = format!("must have the storage version {name}");
            errors.push(Error::invalid(&path, &shown, &detail));
        }
    }
    for (index, name) in stored.iter().enumerate() {
        if !versions(object).iter().any(|version| text(version, "name") == name) {
            let detail = format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions \
                 until a storage migration ensures no data remains persisted in {name} and removes {name} from \
                 status.storedVersions"
            );
            errors.push(Error::invalid_str(&path.index(index), name, &detail));
        }
    }
}

fn validate_metadata_name(object: &Value, errors: &mut ErrorList) {
    let spec = object.get("spec").unwrap_or(&Value::Null);
    let plural = spec
        .pointer("/names/plural")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let required = format!("{plural}.{}", text(spec, "group"));
    let metadata = object.get("metadata").unwrap_or(&Value::Null);
    for field in ["generateName", "name"] {
        let name = text(metadata, field);
        // Without a name, that is all that is said of it.
        if !name.is_empty() && name != required {
            let detail = "must be spec.names.plural+\".\"+spec.group";
            errors.push(Error::invalid_str(&Path::new("metadata").child(field), name, detail));
        }
    }
}

fn validate_immutable(new: &Value, old: &Value, pointer: &str, path: &str, errors: &mut ErrorList) {
    let at = |object: &Value| object.pointer(pointer).cloned().unwrap_or(json!(""));
    if at(new) != at(old) {
        errors.push(Error::invalid(&Path::new(path), &at(new), "field is immutable"));
    }
}

/// The formats in the schemas of a definition that values are not held against.
fn unrecognized_formats(object: &Value) -> Vec<String> {
    fn collect(schema: &Value, found: &mut Vec<String>) {
        let format = text(schema, "format");
        if !format.is_empty() && formats::supported(text(schema, "type"), format).is_none() {
            found.push(format.to_owned());
        }
        parts(schema).for_each(|part| collect(part, found));
    }
    let schemas = versions(object)
        .iter()
        .filter_map(|version| version.pointer("/schema/openAPIV3Schema"));
    let mut distinct: Vec<&Value> = Vec::new();
    for schema in schemas {
        if !distinct.contains(&schema) {
            distinct.push(schema);
        }
    }
    let mut found = Vec::new();
    distinct.into_iter().for_each(|schema| collect(schema, &mut found));
    found
}

impl Strategy for Definitions {
    fn deletes_by_uid(&self) -> bool {
        true
    }

    fn default(&self, object: &mut Value) {
        let Some(names) = object.pointer_mut("/spec/names").and_then(Value::as_object_mut) else {
            return;
        };
        let kind = names.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
        let is_empty = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().is_empty();
        if is_empty(names.get("singular")) && !kind.is_empty() {
            names.insert("singular".into(), kind.to_lowercase().into());
        }
        if is_empty(names.get("listKind")) && !kind.is_empty() {
            names.insert("listKind".into(), format!("{kind}List").into());
        }
        if stored_versions(object).is_empty() {
            note_storage_version(object);
        }
    }

    fn prepare_for_create(&self, _: &WriteContext, object: &mut Value) {
        object["status"] = json!({
            "acceptedNames": { "plural": "", "kind": "" },
            "conditions": null,
            "storedVersions": [],
        });
        note_storage_version(object);
    }

    fn validate(&self, _: &WriteContext, object: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        validate_metadata_name(object, &mut errors);
        validate_spec(object, None, false, self.metadata.as_ref(), &mut errors);
        Self::validate_both(object, None, &mut errors);
        errors
    }

    fn prepare_for_update(&self, _: &WriteContext, new: &mut Value, old: &Value) {
        new["status"] = old.get("status").cloned().unwrap_or_default();
        note_storage_version(new);
    }

    fn validate_update(&self, _: &WriteContext, new: &Value, old: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        let is_established = is_true(old, "Established");
        validate_spec(new, Some(old), is_established, self.metadata.as_ref(), &mut errors);
        if is_established {
            validate_immutable(new, old, "/spec/scope", "spec.scope", &mut errors);
            validate_immutable(new, old, "/spec/names/kind", "spec.names.kind", &mut errors);
        }
        validate_immutable(new, old, "/spec/group", "spec.group", &mut errors);
        validate_immutable(new, old, "/spec/names/plural", "spec.names.plural", &mut errors);
        Self::validate_both(new, Some(old), &mut errors);
        errors
    }

    /// The metadata may change, too: whoever takes the finalizer away does it here.
    fn prepare_for_status_update(&self, _: &WriteContext, new: &mut Value, old: &Value) {
        new["spec"] = old.get("spec").cloned().unwrap_or_default();
    }

    fn validate_status_update(&self, _: &WriteContext, new: &Value, _: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        let accepted = new.pointer("/status/acceptedNames").unwrap_or(&Value::Null);
        validate_names(accepted, &Path::new("status.acceptedNames"), false, &mut errors);
        errors
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let before = old.map(unrecognized_formats).unwrap_or_default();
        let formats = unrecognized_formats(new).into_iter();
        let added = formats.filter(|format| !before.contains(format));
        added
            .map(|format| format!("unrecognized format {}", trireme_machinery::go_text::quote(&format)))
            .collect()
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn metadata_checks_of_update(&self, _context: &WriteContext) -> MetadataChecks {
        MetadataChecks::OfChange
    }

    fn wants_standard_finalizers(&self) -> bool {
        false
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }

    /// Reports false: upstream's first delete of a CustomResourceDefinition ignores `propagationPolicy` and waits for the custom
    /// objects alone.
    fn may_have_dependents(&self) -> bool {
        false
    }

    /// A deletion is noted in the conditions, and waits for the objects to be deleted first.
    fn mark_deleted(&self, object: &mut Value) {
        let is_first = !is_true(object, "Terminating");
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("deletionGracePeriodSeconds");
            if let Some(generation) = metadata.get("generation").and_then(Value::as_i64).filter(|_| is_first) {
                // The deletion of a definition does not count as a change of it.
                metadata.insert("generation".into(), (generation - 1).into());
            }
            let finalizers = metadata.entry("finalizers").or_insert_with(|| json!([]));
            if let Some(finalizers) = finalizers.as_array_mut().filter(|_| is_first)
                && !finalizers.iter().any(|name| name == CLEANUP_FINALIZER)
            {
                finalizers.push(CLEANUP_FINALIZER.into());
            }
        }
        if is_first {
            let at = object.meta().deletion_timestamp().unwrap_or_default().to_owned();
            set_condition(
                object,
                &Condition {
                    kind: "Terminating",
                    is_true: true,
                    reason: "InstanceDeletionPending",
                    message: "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
                },
                &at,
            );
        }
    }

    fn may_be_removed(&self, object: &Value) -> bool {
        object.meta().is_terminating()
    }
}
