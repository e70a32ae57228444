//! Validation of container statuses, which kubelets write: users, resources, and that those that ended for good stay
//! ended.

use std::collections::BTreeSet;

use serde_json::Value;
use trireme_machinery::{
    Feature, Features,
    field::{Error, ErrorList, Path},
    names,
};

use crate::{
    checks::{push_invalid_number, validate_supported},
    values::{entries, integer_at, items, text, text_at},
};

/// Statuses and the containers that they are of.
pub(super) const LISTS: [(&str, &str); 3] = [
    ("containerStatuses", "containers"),
    ("initContainerStatuses", "initContainers"),
    ("ephemeralContainerStatuses", "ephemeralContainers"),
];
const MAX_IMAGE_REFERENCE: usize = 256;
const HEALTH: [&str; 3] = ["Healthy", "Unhealthy", "Unknown"];

/// A container that has ended for good does not come back (`ValidateContainerStateTransition`).
pub(super) fn validate_container_state_transition(
    features: Features,
    old: &Value,
    is: &Value,
    was: &Value,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    let none = Value::Null;
    let spec = old.get("spec").unwrap_or(&none);
    let restarts_all = all_may_restart(spec);
    let has_rules = features.has(Feature::ContainerRestartRules);
    for (list, specs) in LISTS {
        let is_ephemeral = specs == "ephemeralContainers";
        if restarts_all && !is_ephemeral {
            continue;
        }
        let list_path = path.child(list);
        for (index, before) in items(was, list).iter().enumerate() {
            let name = text(before, "name");
            let Some(ended) = before.pointer("/state/terminated") else {
                continue;
            };
            let exit_code = integer_at(ended, "/exitCode").unwrap_or(0);
            let declared = items(spec, specs)
                .iter()
                .find(|container| text(container, "name") == name);
            let may_restart = match declared {
                Some(container) => should_restart(container, spec, exit_code),
                None => !has_rules && restarts(text(spec, "restartPolicy"), exit_code),
            };
            if !is_ephemeral && may_restart {
                continue;
            }
            let runs_again = |now: &&Value| text(now, "name") == name && now.pointer("/state/terminated").is_none();
            // With rules the first one of a name counts.
            let counted = if has_rules && !is_ephemeral { 1 } else { usize::MAX };
            let at = list_path.index(index);
            let at = at.child("state");
            let detail = "may not be transitioned to non-terminated state";
            let again = items(is, list).iter().filter(runs_again).take(counted);
            errors.extend(again.map(|_| Error::forbidden(&at, detail)));
        }
    }
}

/// Returns true if there is a container whose end may restart them all.
fn all_may_restart(spec: &Value) -> bool {
    let lists = ["containers", "initContainers"].into_iter();
    let rules = lists
        .flat_map(|list| items(spec, list))
        .flat_map(|container| items(container, "restartPolicyRules"));
    rules
        .into_iter()
        .any(|rule| text(rule, "action") == "RestartAllContainers")
}

/// Returns true if a container is started again after an exit with this code: its rules say, else its policy, else the
/// pod's.
fn should_restart(container: &Value, spec: &Value, exit_code: i64) -> bool {
    let own = container.get("restartPolicy").and_then(Value::as_str);
    let matches = |rule: &&Value| {
        let is_listed = rule.get("exitCodes").map(|codes| {
            items(codes, "values")
                .iter()
                .any(|code| code.as_i64() == Some(exit_code))
        });
        match text_at(rule, "/exitCodes/operator") {
            "In" => is_listed == Some(true),
            "NotIn" => is_listed == Some(false),
            _ => false,
        }
    };
    if own.is_some() && items(container, "restartPolicyRules").iter().any(|rule| matches(&rule)) {
        return true;
    }
    restarts(own.unwrap_or_else(|| text(spec, "restartPolicy")), exit_code)
}

/// Reports whether a policy starts a container again after an exit with this code.
fn restarts(policy: &str, exit_code: i64) -> bool {
    match policy {
        "Never" => false,
        "OnFailure" => exit_code != 0,
        _ => true,
    }
}

/// Users of containers: those of Linux have numbers that can be (`validateContainerStatusUsers`).
pub(super) fn validate_container_status_users(pod: &Value, status: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let os = text_at(pod, "/spec/os/name");
    for (list, _) in LISTS {
        let list_path = path.child(list);
        for (index, container) in items(status, list).iter().enumerate() {
            let Some(user) = container.pointer("/user/linux") else {
                continue;
            };
            let at = list_path.index(index);
            let at = at.child("user.linux");
            match os {
                "windows" => errors.push(Error::forbidden(&at, "cannot be set for a windows pod")),
                "" | "linux" => validate_linux_container_user(user, &at, errors),
                _ => {}
            }
        }
    }
}

/// As upstream's `validateLinuxContainerUser`.
fn validate_linux_container_user(user: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    for field in ["uid", "gid"] {
        let id = user.get(field).and_then(Value::as_i64).unwrap_or(0);
        push_invalid_number(&path.child(field), id, names::user_or_group_id(id), errors);
    }
    let groups = path.child("supplementalGroups");
    for (index, group) in items(user, "supplementalGroups").iter().enumerate() {
        let group = group.as_i64().unwrap_or(0);
        push_invalid_number(&groups.index(index), group, names::user_or_group_id(group), errors);
    }
}

/// The health of what containers were given must be of what they asked for.
/// Upstream: `validateContainerStatusAllocatedResourcesStatus`.
pub(super) fn validate_container_status_allocated_resources_status(
    pod: &Value,
    status: &Value,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    let none = Value::Null;
    let spec = pod.get("spec").unwrap_or(&none);
    for (list, specs) in LISTS {
        let list_path = path.child(list);
        for (index, container) in items(status, list).iter().enumerate() {
            let at = list_path.index(index);
            let at = at.child("allocatedResourcesStatus");
            let resources = items(container, "allocatedResourcesStatus");
            if specs == "ephemeralContainers" {
                if !resources.is_empty() {
                    errors.push(Error::forbidden(&at, "must not be specified in container status"));
                }
                continue;
            }
            let declared = items(spec, specs)
                .iter()
                .find(|declared| text(declared, "name") == text(container, "name"));
            for (index, resource) in resources.iter().enumerate() {
                let at = at.index(index);
                if let Some(declared) = declared {
                    validate_requested_resource(declared, text(resource, "name"), &at.child("name"), errors);
                }
                validate_resource_health(resource, &at.child("resources"), errors);
            }
        }
    }
}

fn validate_requested_resource(container: &Value, name: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let none = Value::Null;
    let resources = container.get("resources").unwrap_or(&none);
    let (is_asked, detail) = match name.strip_prefix("claim:") {
        Some(reference) => {
            let is_named = |claim: &Value| match text(claim, "request") {
                "" => text(claim, "name") == reference,
                request => format!("{}/{request}", text(claim, "name")) == reference,
            };
            (
                items(resources, "claims").iter().any(is_named),
                "must match one of the container's resource claims in a format 'claim:<claimName>/<request>' or \
                 'claim:<claimName>' if request is empty",
            )
        }
        None => (
            entries(resources, "requests").any(|(request, _)| request == name),
            "must match one of the container's resource requests",
        ),
    };
    if !is_asked {
        errors.push(Error::invalid_str(path, name, detail));
    }
}

fn validate_resource_health(resource: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let mut seen = BTreeSet::new();
    for (index, part) in items(resource, "resources").iter().enumerate() {
        let (at, id) = (path.index(index), text(part, "resourceID"));
        validate_supported(part, &at, "health", &HEALTH, errors);
        if !seen.insert(id) {
            errors.push(Error::duplicate(&at.child("resourceID"), &id.into()));
        }
    }
}

/// Validates what is said of mounted volumes, where that is of images (`validateVolumeStatus`).
pub(super) fn validate_volume_statuses(status: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    for (list, _) in LISTS {
        let list_path = path.child(list);
        for (index, container) in items(status, list).iter().enumerate() {
            let at = list_path.index(index);
            let mounts = at.child("volumeMounts");
            for (index, mount) in items(container, "volumeMounts").iter().enumerate() {
                let Some(image) = mount.pointer("/volumeStatus/image") else {
                    continue;
                };
                let at = mounts.index(index);
                validate_image_volume_status(image, &at.child("volumeStatus.imageVolumeStatus.imageRef"), errors);
            }
        }
    }
}

/// As upstream's `validateImageVolumeStatus`.
fn validate_image_volume_status(image: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let reference = text(image, "imageRef");
    if reference.is_empty() {
        errors.push(Error::required(path, "imageRef must not be empty"));
    }
    if reference.len() > MAX_IMAGE_REFERENCE {
        errors.push(Error::too_long(path, MAX_IMAGE_REFERENCE));
    }
}
