//! Validation of changes of metadata, with the texts and in the order of
//! `k8s.io/apimachinery/pkg/api/validation`.

use serde_json::Value;

use super::{
    Meta,
    validate::{validate_annotations, validate_builtin_finalizers, validate_managed_fields, validate_owner_references},
};
use crate::{
    field::{Error, ErrorList, Path},
    go_text::quote,
    selector::validate_labels,
};

/// Checks the metadata of an updated object against the stored one. Callers also run
/// [`validate_object_meta`](super::validate_object_meta) on the new object, as Kubernetes does; that labels and
/// annotations are then reported twice is what its clients see (`ValidateObjectMetaUpdate`).
pub fn validate_object_meta_update(new: Meta<'_>, old: Meta<'_>, path: &Path<'_>) -> ErrorList {
    let mut errors = ErrorList::new();
    if old.is_terminating() {
        errors.extend(validate_new_finalizers(new, old, &path.child("finalizers")));
    }
    if new.resource_version().is_empty() {
        let at = path.child("resourceVersion");
        errors.push(Error::invalid_str(&at, "", "must be specified for an update"));
    }
    if new.generation() < old.generation() {
        let at = path.child("generation");
        let shown = new.generation().to_string();
        errors.push(Error::invalid_shown(&at, shown, "must not be decremented"));
    }
    for field in ["name", "namespace", "uid"] {
        let (is, was) = (Value::from(new.text(field)), Value::from(old.text(field)));
        errors.extend(validate_immutable_field(Some(&is), Some(&was), &path.child(field)));
    }
    for field in ["creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        let (is, was) = (new.fields().get(field), old.fields().get(field));
        errors.extend(validate_immutable_field(is, was, &path.child(field)));
    }
    errors.extend(validate_labels(new.labels(), &path.child("labels")));
    errors.extend(validate_annotations(new.annotations(), &path.child("annotations")));
    errors.extend(validate_owner_references(new, &path.child("ownerReferences")));
    errors.extend(validate_managed_fields(new, &path.child("managedFields")));
    errors
}

/// As [`validate_object_meta_update`], with the finalizer rule of built-in kinds.
pub fn validate_builtin_object_meta_update(new: Meta<'_>, old: Meta<'_>, path: &Path<'_>) -> ErrorList {
    let mut errors = validate_object_meta_update(new, old, path);
    errors.extend(validate_builtin_finalizers(new, path));
    errors
}

/// Refuses a changed value: `field is immutable`. Absent and null are the same (`ValidateImmutableField`).
pub fn validate_immutable_field(new: Option<&Value>, old: Option<&Value>, path: &Path<'_>) -> Option<Error> {
    let (new, old) = (new.unwrap_or(&Value::Null), old.unwrap_or(&Value::Null));
    (new != old).then(|| Error::invalid(path, new, "field is immutable"))
}

/// Refuses finalizers that were not there when the deletion began.
pub fn validate_new_finalizers(new: Meta<'_>, old: Meta<'_>, path: &Path<'_>) -> Option<Error> {
    let mut extra: Vec<&str> = new.finalizers().filter(|f| !old.has_finalizer(f)).collect();
    extra.sort_unstable();
    extra.dedup();
    if extra.is_empty() {
        return None;
    }
    let names: Vec<String> = extra.into_iter().map(quote).collect();
    let detail = format!(
        "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
        names.join(", ")
    );
    Some(Error::forbidden(path, &detail))
}
