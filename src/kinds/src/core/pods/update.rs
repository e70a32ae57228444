//! Validation of an update of a pod, which may change little.

use serde_json::{Value, json};
use trireme_machinery::{
    Features,
    field::{Error, ErrorList, Path},
    go_text::diff,
    names,
};

use super::without_empty;
use crate::{
    pod_template::{layout, validate_container_only_for_pod, validate_tolerations},
    values::{entries, integer_at, items, keep_field, text},
};

const UPDATABLE: &str = "pod updates may not change fields other than `spec.containers[*].image`,\
    `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing \
    tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// Validates the change, beyond those of the new pod by itself (`ValidatePodUpdate`).
pub(super) fn validate_pod_update(features: Features, new: &Value, old: &Value, errors: &mut ErrorList) {
    let none = Value::Null;
    let (new, old) = (new.get("spec").unwrap_or(&none), old.get("spec").unwrap_or(&none));
    let path = Path::new("spec");
    for list in ["containers", "initContainers"] {
        if !validate_container_updates(items(new, list), items(old, list), &path.child(list), errors) {
            return;
        }
    }
    if !validate_active_deadline_update(new, old, &path.child("activeDeadlineSeconds"), errors) {
        return;
    }
    validate_only_added_tolerations(features, new, old, &path.child("tolerations"), errors);
    validate_only_deleted_scheduling_gates(new, old, &path.child("schedulingGates"), errors);
    if new != old {
        validate_immutable_pod_spec(new, old, &path, errors);
    }
}

/// Says whether the containers can be compared one by one (`ValidateContainerUpdates`).
fn validate_container_updates(new: &[Value], old: &[Value], path: &Path<'_>, errors: &mut ErrorList) -> bool {
    if new.len() != old.len() {
        errors.push(Error::forbidden(path, "pod updates may not add or remove containers"));
        return false;
    }
    for (index, container) in new.iter().enumerate() {
        let at = path.index(index);
        if text(container, "image").is_empty() {
            errors.push(Error::required(&at.child("image"), ""));
        }
        validate_container_only_for_pod(container, &at, errors);
    }
    true
}

/// A deadline may be set and brought forward.
fn validate_active_deadline_update(new: &Value, old: &Value, path: &Path<'_>, errors: &mut ErrorList) -> bool {
    let (is, was) = (
        integer_at(new, "/activeDeadlineSeconds"),
        integer_at(old, "/activeDeadlineSeconds"),
    );
    let Some(is) = is else {
        if was.is_some() {
            let detail = "must not update from a positive integer to nil value";
            errors.push(Error::invalid(path, &Value::Null, detail));
        }
        return true;
    };
    let mut messages = names::in_range(is, 0, i64::from(i32::MAX));
    if messages.is_empty() && was.is_some_and(|was| was < is) {
        messages.push("must be less than or equal to previous value".to_owned());
    }
    errors.extend(messages.iter().map(|error| Error::invalid(path, &is.into(), error)));
    messages.is_empty()
}

/// Of a toleration that is there only the time may change; new ones may come (`validateOnlyAddedTolerations`).
fn validate_only_added_tolerations(
    features: Features,
    new: &Value,
    old: &Value,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    let without_time = |toleration: &Value| {
        let mut toleration = toleration.clone();
        crate::values::remove(&mut toleration, "tolerationSeconds");
        toleration
    };
    let kept: Vec<Value> = items(new, "tolerations").iter().map(without_time).collect();
    if items(old, "tolerations")
        .iter()
        .any(|toleration| !kept.contains(&without_time(toleration)))
    {
        let detail = "existing toleration can not be modified except its tolerationSeconds";
        errors.push(Error::forbidden(path, detail));
        return;
    }
    validate_tolerations(features, items(new, "tolerations"), path, errors);
}

/// Gates only open (`validateOnlyDeletedSchedulingGates`).
fn validate_only_deleted_scheduling_gates(new: &Value, old: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let was: Vec<&str> = items(old, "schedulingGates")
        .iter()
        .map(|gate| text(gate, "name"))
        .collect();
    for (index, gate) in items(new, "schedulingGates").iter().enumerate() {
        let name = text(gate, "name");
        if !was.contains(&name) {
            let detail = format!("only deletion is allowed, but found new scheduling gate '{name}'");
            errors.push(Error::forbidden(&path.index(index).child("name"), &detail));
        }
    }
}

/// With what may change put back to what it was, the specs must be the same.
fn validate_immutable_pod_spec(new: &Value, old: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let mut munged = new.clone();
    for list in ["containers", "initContainers"] {
        let containers = munged.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
        for (container, old) in containers.zip(items(old, list)) {
            keep_field(container, old, "image");
        }
    }
    for field in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        keep_field(&mut munged, old, field);
    }
    let grace = |spec: &Value| integer_at(spec, "/terminationGracePeriodSeconds");
    if grace(old).is_some_and(|seconds| seconds < 0) && grace(new) == Some(1) {
        keep_field(&mut munged, old, "terminationGracePeriodSeconds");
    }
    if !items(old, "schedulingGates").is_empty() {
        validate_node_selector_mutation(&mut munged, old, path, errors);
    }
    if without_empty(&munged) != without_empty(old) {
        let lines = |spec: &Value| {
            layout::indented("PodSpec", spec)
                .lines()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        let changes = diff::unified(&lines(old), &lines(&munged));
        errors.push(Error::forbidden(path, &format!("{UPDATABLE}\n{changes}")));
    }
}

/// While a pod is gated, the choice of its nodes may become narrower (`validateNodeSelectorMutation`).
fn validate_node_selector_mutation(munged: &mut Value, old: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    if munged.get("nodeSelector") != old.get("nodeSelector") {
        let chosen = |name: &str| munged.get("nodeSelector").and_then(|selector| selector.get(name));
        if entries(old, "nodeSelector").any(|(name, value)| chosen(name) != Some(value)) {
            let shown = munged.get("nodeSelector").cloned().unwrap_or(Value::Null);
            let detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
            errors.push(Error::invalid(&path.child("nodeSelector"), &shown, detail));
        }
        keep_field(munged, old, "nodeSelector");
    }
    let (is, was) = (node_affinity(munged), node_affinity(old));
    if is == was {
        return;
    }
    validate_node_affinity_mutation(&is, &was, &path.child("affinity.nodeAffinity"), errors);
    let affinity = crate::values::struct_mut(munged, "affinity");
    if was.is_null() {
        affinity.remove("nodeAffinity");
    } else {
        affinity.insert("nodeAffinity".into(), was);
    }
    if affinity.is_empty() && old.get("affinity").is_none() {
        crate::values::remove(munged, "affinity");
    }
}

fn node_affinity(spec: &Value) -> Value {
    spec.pointer("/affinity/nodeAffinity").cloned().unwrap_or(Value::Null)
}

/// As upstream's `validateNodeAffinityMutation`.
fn validate_node_affinity_mutation(new: &Value, old: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    let Some(required) = old.get(REQUIRED) else { return };
    let required_path = path.child(REQUIRED);
    let path = required_path.child("nodeSelectorTerms");
    let empty = json!({});
    let (is, was) = (
        items(new.get(REQUIRED).unwrap_or(&empty), "nodeSelectorTerms"),
        items(required, "nodeSelectorTerms"),
    );
    if !was.is_empty() && was.len() != is.len() {
        let shown = layout::compact_list("NodeSelectorTerm", is);
        errors.push(Error::invalid_shown(
            &path,
            shown,
            "no additions/deletions to non-empty NodeSelectorTerms list are allowed",
        ));
        return;
    }
    for (index, (is, was)) in is.iter().zip(was).enumerate() {
        let at = path.index(index);
        let lists = ["matchExpressions", "matchFields"];
        let has_any = |term: &Value| lists.iter().any(|list| !items(term, list).is_empty());
        let grown = |list: &str| items(is, list).starts_with(items(was, list));
        let fills_empty = !has_any(was) && has_any(is);
        if fills_empty || !lists.into_iter().all(grown) {
            let shown = layout::compact("NodeSelectorTerm", is);
            let detail = "only additions are allowed (no mutations or deletions)";
            errors.push(Error::invalid_shown(&at, shown, detail));
        }
    }
}
