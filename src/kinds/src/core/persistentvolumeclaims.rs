//! PersistentVolumeClaims (`pkg/registry/core/persistentvolumeclaim`).

use serde_json::{Value, json};
use trireme_machinery::{
    Feature, Features,
    field::{Error, ErrorList, Path},
    go_text::{
        diff,
        structs::{self, LABEL_SELECTOR, PrintedField, PrintedShape},
    },
    meta, names,
    pod_resources::is_native,
};
use trireme_registry::{Strategy, WriteContext};

use crate::{
    checks::{push_invalid, quantity},
    columns::{self, column, described, documented, wide},
    kind::Kind,
    values::{entries, items, keep_field, remove, text, text_at},
    volumes::{
        self, BETA_CLASS, STORAGE, access_modes_text,
        claim_spec::{ClaimOptions, claim_spec_warnings, validate_persistent_volume_claim_spec},
        class_of, validate_basic_resource,
    },
};

#[cfg(test)]
mod tests;

const SPEC: &str = "io.k8s.api.core.v1.PersistentVolumeClaimSpec";
const STATUS: &str = "io.k8s.api.core.v1.PersistentVolumeClaimStatus";
const IMMUTABLE: &str =
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";

/// The stages of a volume's growth.
const GROWTH_STATES: [&str; 5] = [
    "ControllerResizeInProgress",
    "ControllerResizeInfeasible",
    "NodeResizeInProgress",
    "NodeResizeInfeasible",
    "NodeResizePending",
];
const REFERENCE: &[PrintedField] = &[
    ("APIGroup", "apiGroup", PrintedShape::Plain),
    ("Kind", "kind", PrintedShape::Text),
    ("Name", "name", PrintedShape::Text),
];
const TYPED_REFERENCE: &[PrintedField] = &[
    ("APIGroup", "apiGroup", PrintedShape::Plain),
    ("Kind", "kind", PrintedShape::Text),
    ("Name", "name", PrintedShape::Text),
    ("Namespace", "namespace", PrintedShape::Plain),
];
const INTERNAL_SPEC: &[PrintedField] = &[
    ("AccessModes", "accessModes", PrintedShape::Plain),
    ("Selector", "selector", PrintedShape::Named(LABEL_SELECTOR)),
    (
        "Resources",
        "resources",
        PrintedShape::Struct(&[
            ("Limits", "limits", PrintedShape::Plain),
            ("Requests", "requests", PrintedShape::Plain),
        ]),
    ),
    ("VolumeName", "volumeName", PrintedShape::Text),
    ("StorageClassName", "storageClassName", PrintedShape::Plain),
    ("VolumeMode", "volumeMode", PrintedShape::Plain),
    ("DataSource", "dataSource", PrintedShape::Pointer(REFERENCE)),
    ("DataSourceRef", "dataSourceRef", PrintedShape::Pointer(TYPED_REFERENCE)),
    (
        "VolumeAttributesClassName",
        "volumeAttributesClassName",
        PrintedShape::Plain,
    ),
];

/// The kind's parts.
pub(crate) fn kind(features: Features) -> Kind {
    let is_bound = |object: &Value| !text_at(object, "/spec/volumeName").is_empty();
    let capacity = move |object: &Value| {
        let size = object
            .pointer("/status/capacity/storage")
            .and_then(Value::as_str)
            .unwrap_or("0");
        Value::from(if is_bound(object) { size } else { "" })
    };
    let modes = move |object: &Value| {
        let status = object.get("status").filter(|_| is_bound(object));
        Value::from(status.map(access_modes_text).unwrap_or_default())
    };
    Kind::new("", "persistentvolumeclaims", PersistentVolumeClaims { features }).columns(vec![
        columns::name(),
        column("Status", "string", documented(STATUS, "phase"), volumes::phase),
        column("Volume", "string", documented(SPEC, "volumeName"), |object| {
            Value::from(text_at(object, "/spec/volumeName"))
        }),
        column("Capacity", "string", documented(STATUS, "capacity"), capacity),
        column("Access Modes", "string", documented(STATUS, "accessModes"), modes),
        column(
            "StorageClass",
            "string",
            described("StorageClass of the pvc"),
            |object| Value::from(class_of(object)),
        ),
        column(
            "VolumeAttributesClass",
            "string",
            described("VolumeAttributesClass of the pvc"),
            volumes::attributes_class,
        ),
        columns::age(),
        wide(column(
            "VolumeMode",
            "string",
            documented(SPEC, "volumeMode"),
            volumes::mode,
        )),
    ])
}

struct PersistentVolumeClaims {
    features: Features,
}

impl Strategy for PersistentVolumeClaims {
    /// There were claims before there were references to sources of any kind (`defaultOnReadPvc`).
    fn default_on_read(&self, object: &mut Value) {
        if let Some(spec) = object.get_mut("spec") {
            settle_data_source(spec);
        }
    }

    fn prepare_for_create(&self, _context: &WriteContext, object: &mut Value) {
        object["status"] = json!({ "phase": "Pending" });
        settle_spec(self.features, object, None);
    }

    fn validate(&self, _context: &WriteContext, object: &Value) -> ErrorList {
        validate_claim(object, ClaimOptions::default())
    }

    fn prepare_for_update(&self, _context: &WriteContext, new: &mut Value, old: &Value) {
        keep_field(new, old, "status");
        settle_spec(self.features, new, Some(old));
    }

    fn validate_update(&self, _context: &WriteContext, new: &Value, old: &Value) -> ErrorList {
        let options = old.get("spec").map(ClaimOptions::of_old).unwrap_or_default();
        let mut errors = validate_claim(new, options);
        validate_storage_class_annotation_update(new, old, &mut errors);
        validate_persistent_volume_claim_spec_update(new, old, &mut errors);
        validate_storage_request_update(new, old, &mut errors);
        let mode = |object: &Value| object.pointer("/spec/volumeMode").cloned();
        let (new_mode, old_mode) = (mode(new), mode(old));
        errors.extend(meta::validate_immutable_field(
            new_mode.as_ref(),
            old_mode.as_ref(),
            &Path::new("volumeMode"),
        ));
        validate_volume_attributes_class_update(new, old, &mut errors);
        errors
    }

    fn validate_status_update(&self, _context: &WriteContext, new: &Value, _old: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        if new.get("spec").is_none_or(|spec| items(spec, "accessModes").is_empty()) {
            errors.push(Error::required(&Path::new("Spec.accessModes"), ""));
        }
        let Some(status) = new.get("status") else { return errors };
        let path = Path::new("status");
        let at = path.child("capacity");
        entries(status, "capacity")
            .for_each(|(name, value)| validate_basic_resource(value, &at.key(name), &mut errors));
        validate_allocated_resources(status, &path, &mut errors);
        errors
    }

    fn warnings(&self, new: &Value, _old: Option<&Value>) -> Vec<String> {
        let mut warnings = volumes::class_annotation_warnings(new);
        warnings.extend(
            new.get("spec")
                .into_iter()
                .flat_map(|spec| claim_spec_warnings(spec, "spec")),
        );
        warnings
    }

    fn returns_deleted_object(&self) -> bool {
        true
    }
}

fn validate_claim(object: &Value, options: ClaimOptions) -> ErrorList {
    let spec = object.get("spec").unwrap_or(&Value::Null);
    validate_persistent_volume_claim_spec(spec, options, &Path::new("spec"))
}

/// Drops references that are not served and makes the two forms of a data source agree.
fn settle_spec(features: Features, object: &mut Value, old: Option<&Value>) {
    let Some(spec) = object.get_mut("spec") else { return };
    let old_has = |field: &str| {
        old.and_then(|old| old.get("spec"))
            .is_some_and(|spec| spec.get(field).is_some())
    };
    let may_leave = features.has(Feature::CrossNamespaceVolumeDataSource) || old_has("dataSourceRef");
    if !may_leave && !text_at(spec, "/dataSourceRef/namespace").is_empty() {
        remove(spec, "dataSourceRef");
    }
    let odd = spec
        .get("dataSource")
        .is_some_and(|source| !is_claim_or_snapshot(source));
    if odd && spec.get("dataSourceRef").is_none() && !old_has("dataSource") {
        remove(spec, "dataSource");
    }
    settle_data_source(spec);
}

/// Fills in the form of a data source that is not there by the other one (`NormalizeDataSources`).
fn settle_data_source(spec: &mut Value) {
    match (spec.get("dataSource").cloned(), spec.get("dataSourceRef").cloned()) {
        (Some(source), None) => spec["dataSourceRef"] = source,
        (None, Some(reference)) if text(&reference, "namespace").is_empty() => {
            let mut source = reference;
            remove(&mut source, "namespace");
            spec["dataSource"] = source;
        }
        _ => {}
    }
}

fn is_claim_or_snapshot(source: &Value) -> bool {
    matches!(
        (text(source, "apiGroup"), text(source, "kind")),
        ("", "PersistentVolumeClaim") | ("snapshot.storage.k8s.io", "VolumeSnapshot")
    )
}

fn annotation<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    object.pointer("/metadata/annotations")?.get(name)?.as_str()
}

fn class_field(object: &Value) -> Option<&str> {
    object.pointer("/spec/storageClassName").and_then(Value::as_str)
}

/// Returns true if the class moved from the old annotation into its field.
fn is_class_upgrade(new: &Value, old: &Value) -> bool {
    let (new_annotation, old_annotation) = (annotation(new, BETA_CLASS), annotation(old, BETA_CLASS));
    old_annotation.is_some()
        && (new_annotation.is_none() || new_annotation == old_annotation)
        && class_field(old).is_none()
        && class_field(new) == old_annotation
}

/// Returns true if a claim without a class gets one; the old annotation may only name the same.
fn is_first_class(new: &Value, old: &Value) -> bool {
    class_field(old).is_none()
        && class_field(new).is_some_and(|class| annotation(old, BETA_CLASS).is_none_or(|old| old == class))
}

fn validate_storage_class_annotation_update(new: &Value, old: &Value, errors: &mut ErrorList) {
    let (new_class, old_class) = (annotation(new, BETA_CLASS), annotation(old, BETA_CLASS));
    if !is_class_upgrade(new, old) && new_class.unwrap_or_default() != old_class.unwrap_or_default() {
        let path = Path::new("metadata.annotations");
        let at = path.child(BETA_CLASS);
        errors.push(Error::invalid_str(
            &at,
            new_class.unwrap_or_default(),
            "field is immutable",
        ));
    }
}

/// Validates a change of the spec: with the mutable fields taken from the other side, both must be equal.
fn validate_persistent_volume_claim_spec_update(new: &Value, old: &Value, errors: &mut ErrorList) {
    let spec_of = |object: &Value| object.get("spec").cloned().unwrap_or(Value::Null);
    let (mut new_spec, mut old_spec) = (spec_of(new), spec_of(old));
    if text(&old_spec, "volumeName").is_empty() {
        keep_field(&mut old_spec, &new_spec, "volumeName");
    }
    if is_class_upgrade(new, old) {
        remove(&mut new_spec, "storageClassName");
    } else if is_first_class(new, old) {
        keep_field(&mut new_spec, &old_spec, "storageClassName");
    }
    if text_at(new, "/status/phase") == "Bound" {
        let old_size = old_spec.pointer("/resources/requests/storage").cloned();
        if let Some((requests, size)) = new_spec.pointer_mut("/resources/requests").zip(old_size) {
            requests[STORAGE] = size;
        }
        keep_field(&mut new_spec, &old_spec, "volumeAttributesClassName");
    }
    let of = |spec: &Value| structs::lines(Some(spec), PrintedShape::Struct(INTERNAL_SPEC));
    let (new_lines, old_lines) = (of(&new_spec), of(&old_spec));
    if new_lines != old_lines {
        let detail = format!("{IMMUTABLE}\n{}", diff::unified(&old_lines, &new_lines));
        errors.push(Error::forbidden(&Path::new("spec"), &detail));
    }
}

/// A claim may shrink after a failed growth, but not to what it has.
fn validate_storage_request_update(new: &Value, old: &Value, errors: &mut ErrorList) {
    let size = |object: &Value, pointer: &str| quantity(object.pointer(pointer).unwrap_or(&Value::Null));
    let requested = "/spec/resources/requests/storage";
    let new_size = size(new, requested);
    if new_size < size(old, requested) && new_size <= size(old, "/status/capacity/storage") {
        let path = Path::new("spec.resources.requests.storage");
        errors.push(Error::forbidden(&path, "field can not be less than status.capacity"));
    }
}

/// As upstream's `ValidateVolumeAttributesClassUpdate`.
fn validate_volume_attributes_class_update(new: &Value, old: &Value, errors: &mut ErrorList) {
    const FIELD: &str = "/spec/volumeAttributesClassName";
    let has_class = old.pointer("/status/currentVolumeAttributesClassName").is_some();
    if !has_class || new.pointer(FIELD) == old.pointer(FIELD) {
        return;
    }
    let to = match new.pointer(FIELD).and_then(Value::as_str) {
        None => "nil",
        Some("") => "empty string",
        Some(_) => return,
    };
    let detail = format!("update to {to} is forbidden when status.currentVolumeAttributesClassName is not nil");
    errors.push(Error::forbidden(&Path::new("spec.volumeAttributesClassName"), &detail));
}

/// Validates the resources that are being grown and the class that is being changed.
fn validate_allocated_resources(status: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let at = path.child("allocatedResourceStatuses");
    for (name, state) in entries(status, "allocatedResourceStatuses") {
        errors.extend(validate_persistent_volume_claim_resource_key(name, &at));
        if !GROWTH_STATES.contains(&state.as_str().unwrap_or_default()) {
            errors.push(Error::not_supported(&at, name, &GROWTH_STATES));
        }
    }
    let at = path.child("allocatedResources");
    for (name, value) in entries(status, "allocatedResources") {
        let messages = validate_persistent_volume_claim_resource_key(name, &at);
        if messages.is_empty() {
            validate_basic_resource(value, &at.key(name), errors);
        }
        errors.extend(messages);
    }
}

/// Of the native resources a claim has storage only (`validatePersistentVolumeClaimResourceKey`).
fn validate_persistent_volume_claim_resource_key(name: &str, path: &Path<'_>) -> ErrorList {
    let mut errors = ErrorList::new();
    push_invalid(path, name, names::qualified_name(name), &mut errors);
    if errors.is_empty() && is_native(name) && name != STORAGE {
        errors.push(Error::not_supported(path, name, &[STORAGE]));
    }
    errors
}
