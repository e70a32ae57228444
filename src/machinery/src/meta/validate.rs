//! Validation of metadata, with the texts and in the order of `k8s.io/apimachinery/pkg/api/validation`.

use super::{FINALIZER_FOREGROUND, FINALIZER_ORPHAN, Meta, OwnerReference};
use crate::{
    Object,
    field::{Error, ErrorList, Path},
    go_text::quote,
    names::{self, NameCheck},
    selector::validate_labels,
};

/// The number of bytes an object's annotations may have, keys and values together.
pub const ANNOTATIONS_MAX_BYTES: usize = 256 * 1024;
const FIELD_MANAGER_MAX_BYTES: usize = 128;
const SUBRESOURCE_MAX_BYTES: usize = 256;

/// Checks the metadata of a new object, or of an updated one by itself (`ValidateObjectMeta`).
pub fn validate_object_meta(meta: Meta<'_>, namespaced: bool, name_check: NameCheck, path: &Path<'_>) -> ErrorList {
    let mut errors = ErrorList::new();
    let generate_name = meta.generate_name();
    if !generate_name.is_empty() {
        let texts = name_check(generate_name, true);
        errors.extend(invalid(&path.child("generateName"), generate_name, &texts));
    }
    let name_path = path.child("name");
    if meta.name().is_empty() {
        errors.push(Error::required(&name_path, "name or generateName is required"));
    } else {
        errors.extend(invalid(&name_path, meta.name(), &name_check(meta.name(), false)));
    }
    errors.extend(validate_namespace(meta.namespace(), namespaced, path));
    if meta.generation() < 0 {
        let at = path.child("generation");
        let shown = meta.generation().to_string();
        errors.push(Error::invalid_shown(&at, shown, "must be greater than or equal to 0"));
    }
    errors.extend(validate_labels(meta.labels(), &path.child("labels")));
    errors.extend(validate_annotations(meta.annotations(), &path.child("annotations")));
    errors.extend(validate_owner_references(meta, &path.child("ownerReferences")));
    errors.extend(validate_finalizers(meta, &path.child("finalizers")));
    errors.extend(validate_managed_fields(meta, &path.child("managedFields")));
    errors
}

/// As [`validate_object_meta`], and finalizers without a domain must be standard ones: what all built-in kinds
/// ask for and custom resources do not.
pub fn validate_builtin_object_meta(
    meta: Meta<'_>,
    namespaced: bool,
    name_check: NameCheck,
    path: &Path<'_>,
) -> ErrorList {
    let mut errors = validate_object_meta(meta, namespaced, name_check, path);
    errors.extend(validate_builtin_finalizers(meta, path));
    errors
}

fn invalid<'a>(path: &'a Path<'_>, value: &'a str, texts: &'a [String]) -> impl Iterator<Item = Error> + 'a {
    texts.iter().map(move |text| Error::invalid_str(path, value, text))
}

/// As upstream's `ValidateNamespace`.
fn validate_namespace(namespace: &str, namespaced: bool, path: &Path<'_>) -> ErrorList {
    let at = path.child("namespace");
    match (namespaced, namespace) {
        (true, "") => vec![Error::required(&at, "")],
        (true, name) => invalid(&at, name, &names::name_is_dns_label(name, false)).collect(),
        (false, "") => Vec::new(),
        (false, _) => vec![Error::forbidden(&at, "not allowed on this type")],
    }
}

/// Checks the keys of annotations, in any case, and their total size (`ValidateAnnotations`).
pub fn validate_annotations(annotations: Option<&Object>, path: &Path<'_>) -> ErrorList {
    let mut errors = ErrorList::new();
    let mut size = 0;
    for (key, value) in annotations.into_iter().flatten() {
        let texts = names::qualified_name(&key.to_lowercase());
        errors.extend(invalid(path, key, &texts));
        size += key.len() + value.as_str().map_or(0, str::len);
    }
    if size > ANNOTATIONS_MAX_BYTES {
        errors.push(Error::too_long(path, ANNOTATIONS_MAX_BYTES));
    }
    errors
}

/// Checks that owners are fully named, may own, and that one at most is the controller (`ValidateOwnerReferences`).
pub fn validate_owner_references(meta: Meta<'_>, path: &Path<'_>) -> ErrorList {
    let mut errors = ErrorList::new();
    let mut controller: Option<String> = None;
    for owner in meta.owner_references() {
        errors.extend(validate_owner_reference(owner, path));
        if !owner.is_controller() {
            continue;
        }
        let name = format!("{}/{}", owner.kind(), owner.name());
        match &controller {
            None => controller = Some(name),
            Some(first) => {
                let all: Vec<String> = meta.owner_references().map(OwnerReference::shown).collect();
                let detail = format!(
                    "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {name}"
                );
                errors.push(Error::invalid_shown(path, format!("[{}]", all.join(",")), &detail));
            }
        }
    }
    errors
}

/// As upstream's `validateOwnerReference`.
fn validate_owner_reference(owner: OwnerReference<'_>, path: &Path<'_>) -> ErrorList {
    let mut errors = ErrorList::new();
    if owner.group_version().is_none() {
        let at = path.child("apiVersion");
        errors.push(Error::invalid_str(
            &at,
            owner.api_version(),
            "version must not be empty",
        ));
    }
    for (field, text) in [("kind", owner.kind()), ("name", owner.name()), ("uid", owner.uid())] {
        if text.is_empty() {
            errors.push(Error::invalid_str(&path.child(field), "", "must not be empty"));
        }
    }
    // Events come and go by themselves; an owner that expires would take its dependents along.
    if owner.api_version() == "v1" && owner.kind() == "Event" {
        let detail = "/v1, Kind=Event is disallowed from being an owner";
        errors.push(Error::invalid_shown(path, owner.shown(), detail));
    }
    errors
}

/// Checks one finalizer's name.
pub fn validate_finalizer_name(name: &str, path: &Path<'_>) -> ErrorList {
    invalid(path, name, &names::qualified_name(name)).collect()
}

/// Checks the finalizers' names, and that the two garbage collection modes are not both asked for.
/// Upstream: `ValidateFinalizers`.
pub fn validate_finalizers(meta: Meta<'_>, path: &Path<'_>) -> ErrorList {
    let mut errors: ErrorList = meta
        .finalizers()
        .flat_map(|f| validate_finalizer_name(f, path))
        .collect();
    if meta.has_finalizer(FINALIZER_ORPHAN) && meta.has_finalizer(FINALIZER_FOREGROUND) {
        let all: Vec<String> = meta.finalizers().map(quote).collect();
        let detail = format!("finalizer {FINALIZER_ORPHAN} and {FINALIZER_FOREGROUND} cannot be both set");
        errors.push(Error::invalid_shown(path, format!("[{}]", all.join(",")), &detail));
    }
    errors
}

/// Returns true if a finalizer without a domain is one that Kubernetes itself knows.
pub fn is_standard_finalizer(name: &str) -> bool {
    matches!(name, "kubernetes" | FINALIZER_ORPHAN | FINALIZER_FOREGROUND)
}

pub(super) fn validate_builtin_finalizers(meta: Meta<'_>, path: &Path<'_>) -> ErrorList {
    let finalizers = path.child("finalizers");
    let mut errors = ErrorList::new();
    for (index, name) in meta.finalizers().enumerate() {
        if !name.contains('/') && !is_standard_finalizer(name) {
            let detail = "name is neither a standard finalizer name nor is it fully qualified";
            errors.push(Error::invalid_str(&finalizers.index(index), name, detail));
        }
    }
    errors
}

/// Checks `managedFields` entry by entry (`ValidateManagedFields`).
pub fn validate_managed_fields(meta: Meta<'_>, path: &Path<'_>) -> ErrorList {
    let mut errors = ErrorList::new();
    for (index, entry) in meta.managed_fields().enumerate() {
        let at = path.index(index);
        let text = |field: &str| entry.get(field).and_then(|v| v.as_str()).unwrap_or_default();
        let operation = text("operation");
        if !matches!(operation, "Apply" | "Update") {
            let detail = "must be `Apply` or `Update`";
            errors.push(Error::invalid_str(&at.child("operation"), operation, detail));
        }
        let fields_type = text("fieldsType");
        if !matches!(fields_type, "" | "FieldsV1") {
            errors.push(Error::invalid_str(
                &at.child("fieldsType"),
                fields_type,
                "must be `FieldsV1`",
            ));
        }
        errors.extend(validate_field_manager(text("manager"), &at.child("manager")));
        if text("subresource").len() > SUBRESOURCE_MAX_BYTES {
            errors.push(Error::too_long(&at.child("subresource"), SUBRESOURCE_MAX_BYTES));
        }
    }
    errors
}

/// Checks a field manager's name: not too long, and printable (`ValidateFieldManager`).
pub fn validate_field_manager(manager: &str, path: &Path<'_>) -> ErrorList {
    let mut errors = ErrorList::new();
    if manager.len() > FIELD_MANAGER_MAX_BYTES {
        errors.push(Error::too_long(path, FIELD_MANAGER_MAX_BYTES));
    }
    for (at, c) in manager.char_indices() {
        if c.is_control() || (c.is_whitespace() && c != ' ') {
            let detail = format!("invalid character U+{:04X} (at position {at})", u32::from(c));
            errors.push(Error::invalid_str(path, manager, &detail));
        }
    }
    errors
}
