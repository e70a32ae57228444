//! Annotations of pods and templates that mean something to Kubernetes, and the fields that took their places.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use trireme_machinery::{
    Feature,
    field::{Error, ErrorList, Path},
};

use super::{
    check::{descending_path, visit_containers},
    security::{Capabilities, validate_app_armor_profile_field},
};
use crate::values::{at, entries, struct_mut, text, text_at};

const MIRROR: &str = "kubernetes.io/config.mirror";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
const SECCOMP_OF_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP: &str = "container.seccomp.security.alpha.kubernetes.io/";
const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
const LOCALHOST: &str = "localhost/";

/// The path that Kubernetes prints for an error of a pod as a whole.
pub(crate) const WHOLE_POD: Path<'static> = Path::new("[]");

/// Kubelets make mirror pods of what they run without being asked; they only show it, and take no instructions through it.
pub(crate) fn is_mirror(metadata: &Value) -> bool {
    annotation(metadata, MIRROR).is_some()
}

fn annotation<'a>(metadata: &'a Value, key: &str) -> Option<&'a str> {
    metadata.get("annotations")?.get(key)?.as_str()
}

/// Validates annotations by themselves; `path` is where they stand (`ValidatePodSpecificAnnotations`).
pub(crate) fn validate_pod_specific_annotations(
    capabilities: Capabilities,
    metadata: &Value,
    spec: &Value,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    if let Some(value) = annotation(metadata, MIRROR).filter(|_| text(spec, "nodeName").is_empty()) {
        let detail = "must set spec.nodeName if mirror pod annotation is set";
        errors.push(Error::invalid_str(&path.key(MIRROR), value, detail));
    }
    let counts = capabilities.features.has(Feature::PodDeletionCost);
    if let Some(value) = invalid_deletion_cost(metadata).filter(|_| counts) {
        errors.push(Error::invalid_str(
            &path.key(DELETION_COST),
            value,
            "must be a 32bit integer",
        ));
    }
    if let Some(profile) = annotation(metadata, SECCOMP_OF_POD) {
        validate_seccomp_profile(profile, &path.child(SECCOMP_OF_POD), errors);
    }
    for (key, value) in entries(metadata, "annotations").filter(|(key, _)| key.starts_with(SECCOMP)) {
        validate_seccomp_profile(value.as_str().unwrap_or_default(), &path.child(key), errors);
    }
    for (key, value) in entries(metadata, "annotations") {
        let Some(container) = key.strip_prefix(APP_ARMOR) else {
            continue;
        };
        let mut is_there = false;
        visit_containers(spec, path, |other, _| is_there |= text(other, "name") == container);
        if !is_there {
            errors.push(Error::invalid_str(&path.key(key), container, "container not found"));
        }
        let profile = value.as_str().unwrap_or_default();
        if !matches!(profile, "" | "runtime/default" | "unconfined") && !profile.starts_with(LOCALHOST) {
            let detail = format!(
                "invalid AppArmor profile name: {}",
                trireme_machinery::go_text::quote(profile)
            );
            errors.push(Error::invalid_str(&path.key(key), profile, &detail));
        }
    }
}

/// The cost of deletion that an annotation names, if it is not one.
pub(super) fn invalid_deletion_cost(metadata: &Value) -> Option<&str> {
    annotation(metadata, DELETION_COST).filter(|value| !is_deletion_cost(value))
}

/// A number that does not begin with a plus or a zero.
fn is_deletion_cost(value: &str) -> bool {
    let begins_well = value == "0" || value.starts_with(['-', '1', '2', '3', '4', '5', '6', '7', '8', '9']);
    begins_well && value.parse::<i32>().is_ok()
}

/// As upstream's `ValidateSeccompProfile`.
fn validate_seccomp_profile(profile: &str, path: &Path<'_>, errors: &mut ErrorList) {
    match (profile, profile.strip_prefix(LOCALHOST)) {
        ("runtime/default" | "docker/default" | "unconfined", _) => {}
        (_, Some(local)) => descending_path(local, path, errors),
        _ => errors.push(Error::invalid_str(path, profile, "must be a valid seccomp profile")),
    }
}

/// Validates a change of annotations, and the new ones by themselves (`ValidatePodSpecificAnnotationUpdates`).
pub(crate) fn validate_pod_specific_annotation_updates(
    capabilities: Capabilities,
    new: &Value,
    old: &Value,
    errors: &mut ErrorList,
) {
    let none = Value::Null;
    let (is, was) = (
        new.get("metadata").unwrap_or(&none),
        old.get("metadata").unwrap_or(&none),
    );
    let path = Path::new("metadata.annotations");
    let what = |key: &str| {
        if key.starts_with(APP_ARMOR) {
            Some("AppArmor annotations")
        } else {
            (key == MIRROR).then_some("mirror pod annotation")
        }
    };
    for (key, value) in entries(was, "annotations") {
        if let Some(what) = what(key).filter(|_| annotation(is, key) != value.as_str()) {
            let detail = format!("may not remove or update {what}");
            errors.push(Error::forbidden(&path.key(key), &detail));
        }
    }
    for (key, _) in entries(is, "annotations") {
        if let Some(what) = what(key).filter(|_| annotation(was, key).is_none()) {
            errors.push(Error::forbidden(&path.key(key), &format!("may not add {what}")));
        }
    }
    let spec = new.get("spec").unwrap_or(&none);
    validate_pod_specific_annotations(capabilities, is, spec, &path, errors);
}

/// Annotations and fields that both name a profile must name the same.
pub(crate) fn validate_profile_annotations_and_fields(
    metadata: &Value,
    spec: &Value,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    let profile = |owner: &Value, field: &str| {
        let context = owner.get("securityContext")?;
        context.get(field).cloned()
    };
    let mut check = |key: &str, what: &str, profile: &Value, path: &Path<'_>| {
        let Some((field, detail)) = annotation(metadata, key).and_then(|value| mismatch(value, profile)) else {
            return;
        };
        errors.push(Error::forbidden(
            &path.child(field),
            &format!("{what} {detail} in annotation and field must match"),
        ));
    };
    if let Some(profile) = profile(spec, "seccompProfile") {
        check(
            SECCOMP_OF_POD,
            "seccomp",
            &profile,
            &path.child("securityContext.seccompProfile"),
        );
    }
    visit_containers(spec, path, |container, path| {
        if let Some(profile) = profile(container, "seccompProfile") {
            let key = format!("{SECCOMP}{}", text(container, "name"));
            check(&key, "seccomp", &profile, &path.child("securityContext.seccompProfile"));
        }
    });
    if text_at(spec, "/os/name") == "windows" {
        return;
    }
    let of_pod = profile(spec, "appArmorProfile");
    visit_containers(spec, path, |container, path| {
        if let Some(profile) = profile(container, "appArmorProfile").or_else(|| of_pod.clone()) {
            let key = format!("{APP_ARMOR}{}", text(container, "name"));
            check(
                &key,
                "apparmor",
                &profile,
                &path.child("securityContext.appArmorProfile"),
            );
        }
    });
}

/// The field that an annotation contradicts, and what is said of it.
fn mismatch(annotation: &str, profile: &Value) -> Option<(&'static str, &'static str)> {
    let wrong_type = Some(("type", "type"));
    match text(profile, "type") {
        "Unconfined" if annotation != "unconfined" => wrong_type,
        "RuntimeDefault" if !matches!(annotation, "runtime/default" | "docker/default") => wrong_type,
        "Localhost" => match annotation.strip_prefix(LOCALHOST) {
            None => wrong_type,
            local if local != profile.get("localhostProfile").and_then(Value::as_str) => {
                Some(("localhostProfile", "profile"))
            }
            Some(_) => None,
        },
        _ => None,
    }
}

/// Writes the AppArmor profiles that are named in annotations alone into the fields of the containers.
pub(crate) fn sync_app_armor(pod: &mut Value) {
    let named = app_armor_annotations(pod);
    if named.is_empty() {
        return;
    }
    let Some(spec) = pod
        .get_mut("spec")
        .filter(|spec| text_at(spec, "/os/name") != "windows")
    else {
        return;
    };
    let of_pod = at(spec, "/securityContext/appArmorProfile").cloned();
    for list in super::check::CONTAINER_LISTS {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            let profile = named.get(text(container, "name"));
            let Some(profile) = profile.filter(|profile| of_pod.as_ref() != Some(*profile)) else {
                continue;
            };
            if at(container, "/securityContext/appArmorProfile").is_none() {
                struct_mut(container, "securityContext").insert("appArmorProfile".into(), profile.clone());
            }
        }
    }
}

/// The good profiles that annotations name, by the name of the container.
fn app_armor_annotations(pod: &Value) -> BTreeMap<String, Value> {
    let annotations = at(pod, "/metadata/annotations").and_then(Value::as_object);
    let named = annotations.into_iter().flatten().filter_map(|(key, annotation)| {
        let container = key.strip_prefix(APP_ARMOR)?;
        Some((container.to_owned(), app_armor_profile(annotation.as_str()?)?))
    });
    named.collect()
}

/// The profile that an annotation names, if it is a good one.
fn app_armor_profile(annotation: &str) -> Option<Value> {
    let profile = match (annotation, annotation.strip_prefix(LOCALHOST)) {
        ("unconfined", _) => json!({ "type": "Unconfined" }),
        ("runtime/default", _) => json!({ "type": "RuntimeDefault" }),
        (_, Some(local)) if !local.is_empty() => json!({ "type": "Localhost", "localhostProfile": local }),
        _ => return None,
    };
    let mut errors = ErrorList::new();
    validate_app_armor_profile_field(&profile, &WHOLE_POD, &mut errors);
    errors.is_empty().then_some(profile)
}

/// Warnings about annotations whose fields are not set. `path` is where the pod or the template stands, empty for a
/// pod.
pub(super) fn warnings_of_container(metadata: &Value, spec: &Value, container: &Value, path: &str) -> Vec<String> {
    let mut warnings = Vec::new();
    let has = |owner: &Value, field: &str| {
        owner
            .get("securityContext")
            .is_some_and(|context| context.get(field).is_some())
    };
    let name = text(container, "name");
    let mut warn = |prefix: &str, advice: &str| {
        let key = format!("{prefix}{name}");
        if annotation(metadata, &key).is_some() {
            warnings.push(format!("{path}metadata.annotations[{key}]: {advice}"));
        }
    };
    if !has(container, "seccompProfile") {
        warn(
            SECCOMP,
            "non-functional in v1.27+; use the \"seccompProfile\" field instead",
        );
    }
    // Those of a pod were written into its fields before it is warned of them.
    let is_pod = path.is_empty();
    if is_pod || !(has(spec, "appArmorProfile") || has(container, "appArmorProfile")) {
        warn(
            APP_ARMOR,
            "deprecated since v1.30; use the \"appArmorProfile\" field instead",
        );
    }
    warnings
}

/// The same for the pod as a whole.
pub(super) fn warning_of_pod(metadata: &Value, spec: &Value, path: &str) -> Option<String> {
    let is_unset = at(spec, "/securityContext/seccompProfile").is_none();
    let is_named = annotation(metadata, SECCOMP_OF_POD).is_some();
    (is_unset && is_named).then(|| {
        format!(
            "{path}metadata.annotations[{SECCOMP_OF_POD}]: non-functional in v1.27+; use the \"seccompProfile\" field \
             instead"
        )
    })
}
