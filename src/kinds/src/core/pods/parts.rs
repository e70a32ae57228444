//! `/ephemeralcontainers` and `/resize`: what can be changed of a pod that an update may not change.

use serde_json::{Value, json};
use trireme_machinery::{
    Feature,
    field::{Error, ErrorList, Path},
    go_text::diff,
    pod_resources::is_sidecar,
};
use trireme_registry::{WriteContext, subresource::Update};

use super::{qos, validate_pod, without_empty};
use crate::{
    pod_template::{
        Capabilities,
        annotations::{self, WHOLE_POD},
        has_resources, layout,
    },
    values::{entries, items, keep_field, remove, text, text_at},
};

fn is_mirror(pod: &Value) -> bool {
    pod.get("metadata").is_some_and(annotations::is_mirror)
}

/// Makes `new` what `old` is, but for what says which pod is meant.
fn drop_changes(new: &mut Value, old: &Value) {
    let identity = ["name", "namespace", "uid", "resourceVersion"];
    let given = new.get("metadata").cloned().unwrap_or_default();
    new.clone_from(old);
    if let Some(metadata) = new.get_mut("metadata") {
        identity.iter().for_each(|field| keep_field(metadata, &given, field));
    }
}

/// `/ephemeralcontainers`: containers for debugging come, and neither change nor go.
#[derive(Default)]
pub(super) struct EphemeralContainers {
    pub(super) capabilities: Capabilities,
}

impl Update for EphemeralContainers {
    fn name(&self) -> &'static str {
        "ephemeralcontainers"
    }

    fn prepare_for_update(&self, _context: &WriteContext, new: &mut Value, old: &Value) {
        let wanted = new.get("spec").cloned().unwrap_or_default();
        drop_changes(new, old);
        if let Some(spec) = new.get_mut("spec") {
            keep_field(spec, &wanted, "ephemeralContainers");
        }
    }

    fn validate_update(&self, _context: &WriteContext, new: &Value, old: &Value) -> ErrorList {
        if is_mirror(old) {
            return vec![Error::forbidden(
                &WHOLE_POD,
                "static pods do not support ephemeral containers",
            )];
        }
        let mut errors = ErrorList::new();
        validate_pod(self.capabilities.in_change_of(Some(old)), new, &mut errors);
        let none = Value::Null;
        let (new, old) = (new.get("spec").unwrap_or(&none), old.get("spec").unwrap_or(&none));
        let path = Path::new("spec.ephemeralContainers");
        for was in items(old, "ephemeralContainers") {
            let name = text(was, "name");
            // The last one of a name counts.
            let is = items(new, "ephemeralContainers")
                .iter()
                .rfind(|is| text(is, "name") == name);
            let detail = match is {
                None => format!("existing ephemeral containers \"{name}\" may not be removed\n"),
                Some(is) if without_empty(is) == without_empty(was) => continue,
                Some(is) => {
                    let changes = changes(was, is);
                    format!("existing ephemeral containers \"{name}\" may not be changed\n{changes}")
                }
            };
            errors.push(Error::forbidden(&path, &detail));
        }
        errors
    }
}

fn changes(old: &Value, new: &Value) -> String {
    let lines = |container: &Value| -> Vec<String> {
        let shown = layout::indented("EphemeralContainer", container);
        shown.lines().map(str::to_owned).collect()
    };
    diff::unified(&lines(old), &lines(new))
}

/// `/resize`: the CPU and memory of containers that run.
#[derive(Default)]
pub(super) struct PodResize {
    pub(super) capabilities: Capabilities,
}

const CONTAINERS: [&str; 2] = ["containers", "initContainers"];
const NO_RESIZE_OF_POD: &str = "resize of pods with pod-level resources is forbidden when \
    InPlacePodLevelResourcesVerticalScalingEnabled feature gate is disabled";

impl PodResize {
    fn has(&self, feature: Feature) -> bool {
        self.capabilities.features.has(feature)
    }

    /// Reports whether an init container may be resized: a sidecar may always.
    fn may_resize_init(&self, container: &Value) -> bool {
        is_sidecar(container) || self.has(Feature::InPlacePodVerticalScalingInitContainers)
    }

    /// With CPU and memory put back to what they were, the containers must be the same.
    fn validate_changes(&self, new: &Value, old: &Value, path: &Path<'_>, errors: &mut ErrorList) {
        for (is, was) in items(new, "containers").iter().zip(items(old, "containers")) {
            if differs_beyond_compute(is, was) {
                errors.push(Error::forbidden(path, "only cpu and memory resources are mutable"));
            }
        }
        let list_path = path.child("initContainers");
        let pairs = items(new, "initContainers").iter().zip(items(old, "initContainers"));
        for (index, (is, was)) in pairs.enumerate() {
            if self.may_resize_init(is) {
                validate_init_container_changes(is, was, &list_path.index(index), errors);
            } else if without_empty(is) != without_empty(was) {
                let detail = "resources for non-sidecar init containers are immutable";
                errors.push(Error::forbidden(path, detail));
            }
        }
    }
}

fn validate_init_container_changes(new: &Value, old: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    if differs_beyond_compute(new, old) {
        let detail = "only cpu and memory resources for init or sidecar containers are mutable";
        errors.push(Error::forbidden(path, detail));
    }
    if !is_sidecar(new) && without_empty(new) != without_empty(old) {
        let policies = items(new, "resizePolicy").iter();
        let restarts = policies.filter(|policy| text(policy, "restartPolicy") == "RestartContainer");
        let detail = "non-sidecar init containers with a resize policy of RestartContainer cannot be resized";
        errors.extend(restarts.map(|_| Error::forbidden(path, detail)));
    }
}

impl Update for PodResize {
    fn name(&self) -> &'static str {
        "resize"
    }

    fn prepare_for_update(&self, _context: &WriteContext, new: &mut Value, old: &Value) {
        let wanted = new.get("spec").cloned().unwrap_or_default();
        let was = old.get("spec").unwrap_or(&Value::Null);
        // What comes, goes or changes its place is left for the validation to refuse.
        if CONTAINERS
            .iter()
            .any(|list| items(&wanted, list).len() != items(was, list).len())
        {
            return;
        }
        drop_changes(new, old);
        let Some(spec) = new.get_mut("spec") else { return };
        if self.has(Feature::InPlacePodLevelResourcesVerticalScaling) {
            keep_field(spec, &wanted, "resources");
        }
        for list in CONTAINERS {
            let names = |spec: &Value| -> Vec<String> {
                let all = items(spec, list).iter();
                all.map(|container| text(container, "name").to_owned()).collect()
            };
            if names(&wanted) != names(spec) {
                keep_field(spec, &wanted, list);
                continue;
            }
            let kept = spec.get_mut(list).and_then(Value::as_array_mut);
            for (container, asked) in kept.into_iter().flatten().zip(items(&wanted, list)) {
                keep_field(container, asked, "resources");
                keep_field(container, asked, "resizePolicy");
            }
        }
    }

    fn validate_update(&self, _context: &WriteContext, new: &Value, old: &Value) -> ErrorList {
        if is_mirror(old) {
            return vec![Error::forbidden(&WHOLE_POD, "static pods cannot be resized")];
        }
        if text_at(old, "/spec/os/name") == "windows" {
            return vec![Error::forbidden(&WHOLE_POD, "windows pods cannot be resized")];
        }
        let mut errors = ErrorList::new();
        validate_pod(self.capabilities.in_change_of(Some(old)), new, &mut errors);
        let path = Path::new("spec");
        let features = self.capabilities.features;
        let class = match text_at(old, "/status/qosClass") {
            "" => qos::class(features, old),
            class => class,
        };
        if class != qos::class(features, new) {
            let shown = text_at(new, "/status/qosClass");
            errors.push(Error::invalid_str(
                &path,
                shown,
                "Pod QOS Class may not change as a result of resizing",
            ));
        }
        if !may_run_resized(old) {
            errors.push(Error::forbidden(
                &path,
                "Pod running on node without support for resize",
            ));
        }
        let none = Value::Null;
        let is_limited_by_claims = old
            .get("status")
            .is_some_and(|status| !items(status, "nodeAllocatableResourceClaimStatuses").is_empty());
        let (new, old) = (new.get("spec").unwrap_or(&none), old.get("spec").unwrap_or(&none));
        if has_resources(old) || has_resources(new) {
            if !self.has(Feature::InPlacePodLevelResourcesVerticalScaling) {
                errors.push(Error::forbidden(&WHOLE_POD, NO_RESIZE_OF_POD));
                return errors;
            }
            validate_pod_level_resources_resize(new, old, &path, &mut errors);
        }
        if is_limited_by_claims {
            let detail = "pods with node allocatable resource claims cannot be resized";
            errors.push(Error::forbidden(&path, detail));
        }
        if !validate_pod_resize_container_ordering(new, old, &path, &mut errors) {
            return errors;
        }
        for list in ["initContainers", "containers"] {
            let list_path = path.child(list);
            let pairs = items(new, list).iter().zip(items(old, list)).enumerate();
            for (index, (is, was)) in pairs.filter(|(_, (_, was))| list == "containers" || self.may_resize_init(was)) {
                validate_resources_not_removed(is, was, &list_path.index(index).child("resources"), &mut errors);
            }
        }
        self.validate_changes(new, old, &path, &mut errors);
        errors
    }
}

/// Nodes that cannot resize do not report the resources that their containers got.
fn may_run_resized(pod: &Value) -> bool {
    let none = Value::Null;
    let status = pod.get("status").unwrap_or(&none);
    let running = |container: &&Value| container.pointer("/state/running").is_some();
    let first = items(status, "containerStatuses").iter().find(running);
    first.is_none_or(|container| container.get("resources").is_some())
}

fn validate_resources_not_removed(new: &Value, old: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let none = Value::Null;
    let (new, old) = (
        new.get("resources").unwrap_or(&none),
        old.get("resources").unwrap_or(&none),
    );
    for list in ["requests", "limits"] {
        if is_removed(new, old, list) {
            errors.push(Error::forbidden(
                &path.child(list),
                &format!("resource {list} cannot be removed"),
            ));
        }
    }
}

fn is_removed(new: &Value, old: &Value, list: &str) -> bool {
    let is_there = |name: &str| entries(new, list).any(|(other, _)| other == name);
    entries(old, list).any(|(name, _)| !is_there(name))
}

/// The pod's own resources: none may go, and only CPU and memory may change (`validatePodLevelResourcesResize`).
fn validate_pod_level_resources_resize(new: &Value, old: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let (is, was) = (new.get("resources"), old.get("resources"));
    let at = path.child("resources");
    let Some(is) = is else {
        if was.is_some() {
            errors.push(Error::forbidden(&at, "pod-level resources cannot be removed"));
        }
        return;
    };
    for list in ["requests", "limits"] {
        if was.is_some_and(|was| is_removed(is, was, list)) {
            let detail = format!("pod-level resource {list} cannot be removed");
            errors.push(Error::forbidden(&at.child(list), &detail));
        }
    }
    let others = |resources: Option<&Value>| without_compute(&json!({ "resources": resources }));
    if others(Some(is)) != others(was) {
        let detail = "only cpu and memory resources are mutable at pod-level";
        errors.push(Error::forbidden(path, detail));
    }
}

/// Says whether the containers can be compared one by one (`validatePodResizeContainerOrdering`).
fn validate_pod_resize_container_ordering(new: &Value, old: &Value, path: &Path<'_>, errors: &mut ErrorList) -> bool {
    let before = errors.len();
    for list in CONTAINERS {
        let at = path.child(list);
        let (is, was) = (items(new, list), items(old, list));
        if is.len() != was.len() {
            let detail = format!("{list} may not be added or removed on resize");
            errors.push(Error::forbidden(&at, &detail));
            continue;
        }
        for (index, _) in is
            .iter()
            .zip(was)
            .enumerate()
            .filter(|(_, (is, was))| text(is, "name") != text(was, "name"))
        {
            let detail = format!("{list} may not be renamed or reordered on resize");
            errors.push(Error::forbidden(&at.index(index).child("name"), &detail));
        }
    }
    errors.len() == before
}

fn differs_beyond_compute(new: &Value, old: &Value) -> bool {
    let mut new = new.clone();
    // As upstream: claims are not compared where they are new, and hold up the resize of a container that has some.
    remove(&mut new["resources"], "claims");
    without_compute(&new) != without_compute(old)
}

fn without_compute(container: &Value) -> Value {
    let mut container = without_empty(container);
    let resources = &mut container["resources"];
    for list in ["requests", "limits"] {
        if let Some(amounts) = resources.get_mut(list) {
            ["cpu", "memory"].iter().for_each(|name| remove(amounts, name));
            if amounts.as_object().is_some_and(serde_json::Map::is_empty) {
                remove(resources, list);
            }
        }
    }
    if resources.as_object().is_none_or(serde_json::Map::is_empty) {
        remove(&mut container, "resources");
    }
    container
}

#[cfg(test)]
mod tests;
