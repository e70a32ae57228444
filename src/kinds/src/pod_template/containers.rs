//! Validation of containers of all three sorts.

use std::collections::BTreeSet;

use serde_json::Value;
use trireme_machinery::{
    Feature,
    field::{Error, ErrorList, Path},
    names,
    pod_resources::is_sidecar,
};

use super::{
    check::{number, one_of_if_set, push_invalid, push_invalid_number, require, require_one_of, require_valid},
    env, mounts, probes, resources, security,
    spec::Pod,
    tolerated::Tolerated,
};
use crate::{
    checks::validate_supported,
    values::{items, text},
};

pub(super) const PULL_POLICIES: [&str; 3] = ["Always", "IfNotPresent", "Never"];
const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];
const RESTART_POLICIES: [&str; 3] = ["Always", "Never", "OnFailure"];
const MAX_RESTART_RULES: usize = 20;
const MAX_EXIT_CODES: usize = 255;
const POLICY_FOR_RULES: &str = "must specify restartPolicy when restart rules are used";
const NOT_FOR_EPHEMERAL: [&str; 9] = [
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
];

/// The containers that a pod is for (`validateContainers`).
pub(super) fn validate_containers(pod: &Pod<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let containers = items(pod.spec, "containers");
    if containers.is_empty() {
        errors.push(Error::required(path, ""));
        return;
    }
    let mut seen = BTreeSet::new();
    for (index, container) in containers.iter().enumerate() {
        let path = path.index(index);
        validate_container_common(pod, container, &path, errors);
        if !seen.insert(text(container, "name")) {
            errors.push(Error::duplicate(&path.child("name"), &text(container, "name").into()));
        }
        probes::validate_all(container, pod, &path, errors);
        validate_container_restart_policy(pod, container, &path, errors);
    }
    check_host_port_conflicts(containers.iter().enumerate(), path, errors);
}

/// Containers that run before the others, or beside them if they always restart (`validateInitContainers`).
pub(super) fn validate_init_containers(pod: &Pod<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let mut seen: BTreeSet<&str> = items(pod.spec, "containers")
        .iter()
        .map(|other| text(other, "name"))
        .collect();
    for (index, container) in items(pod.spec, "initContainers").iter().enumerate() {
        let parent = path;
        let path = path.index(index);
        validate_container_common(pod, container, &path, errors);
        validate_init_container_restart_policy(pod, container, &path, errors);
        // Only containers of the main list may be found twice without a name.
        let name = text(container, "name");
        if seen.contains(name) {
            errors.push(Error::duplicate(&path.child("name"), &name.into()));
        } else if !name.is_empty() {
            seen.insert(name);
        }
        check_host_port_conflicts([(0, container)].into_iter(), parent, errors);
        if is_sidecar(container) {
            probes::validate_all(container, pod, &path, errors);
        } else {
            for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
                if container.get(field).is_some() {
                    let detail = "may not be set for init containers without restartPolicy=Always";
                    errors.push(Error::forbidden(&path.child(field), detail));
                }
            }
            if !pod.capabilities.tolerated.has(Tolerated::RESIZE_RESTARTS) {
                validate_resize_restarts(container, &path.child("resizePolicy"), errors);
            }
        }
    }
}

/// A container that ends by itself is not restarted for other resources.
fn validate_resize_restarts(container: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    for (index, policy) in items(container, "resizePolicy").iter().enumerate() {
        if text(policy, "restartPolicy") == "RestartContainer" {
            errors.push(Error::invalid_str(
                &path.index(index).child("restartPolicy"),
                "RestartContainer",
                "must not be set to 'RestartContainer' for non-sidecar initContainers",
            ));
        }
    }
}

/// Containers that were added for debugging (`validateEphemeralContainers`).
pub(super) fn validate_ephemeral_containers(pod: &Pod<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let others: Vec<&str> = ["containers", "initContainers"]
        .into_iter()
        .flat_map(|list| items(pod.spec, list))
        .map(|other| text(other, "name"))
        .collect();
    let mut seen: BTreeSet<&str> = others.iter().copied().collect();
    for (index, container) in items(pod.spec, "ephemeralContainers").iter().enumerate() {
        let path = path.index(index);
        validate_container_common(pod, container, &path, errors);
        validate_container_only_for_pod(container, &path, errors);
        let name = text(container, "name");
        if !seen.insert(name) {
            errors.push(Error::duplicate(&path.child("name"), &name.into()));
        }
        let target = text(container, "targetContainerName");
        if !target.is_empty() && !others.contains(&target) {
            errors.push(Error::not_found(&path.child("targetContainerName"), &target.into()));
        }
        for field in NOT_FOR_EPHEMERAL {
            let is_set = match container.get(field) {
                Some(Value::Object(fields)) => field != "resources" || !fields.is_empty(),
                Some(Value::Array(list)) => !list.is_empty(),
                other => other.is_some(),
            };
            if is_set {
                errors.push(Error::forbidden(
                    &path.child(field),
                    "cannot be set for an Ephemeral Container",
                ));
            }
        }
        for (mount, volume_mount) in items(container, "volumeMounts").iter().enumerate() {
            let mounts = path.child("volumeMounts");
            for field in ["subPath", "subPathExpr"] {
                if !text(volume_mount, field).is_empty() {
                    let at = mounts.index(mount);
                    errors.push(Error::forbidden(
                        &at.child(field),
                        "cannot be set for an Ephemeral Container",
                    ));
                }
            }
        }
    }
}

/// Validates images of pods, which have a rule more than those of templates (`validateContainerOnlyForPod`).
pub(crate) fn validate_container_only_for_pod(container: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let image = text(container, "image");
    if image.trim() != image {
        let detail = "must not have leading or trailing whitespace";
        errors.push(Error::invalid_str(&path.child("image"), image, detail));
    }
}

/// As upstream's `validateContainerCommon`.
fn validate_container_common(pod: &Pod<'_>, container: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    require_valid(container, path, "name", names::dns1123_label, errors);
    require(container, path, "image", errors);
    require_one_of(
        container,
        path,
        "terminationMessagePolicy",
        &["File", "FallbackToLogsOnError"],
        errors,
    );
    validate_container_ports(container, &path.child("ports"), errors);
    env::validate_env(pod.capabilities.features, container, &path.child("env"), errors);
    env::validate_env_from(container, &path.child("envFrom"), errors);
    mounts::validate_volume_mounts(container, &pod.volumes, &path.child("volumeMounts"), errors);
    mounts::validate_volume_devices(container, &pod.volumes, &path.child("volumeDevices"), errors);
    require_one_of(container, path, "imagePullPolicy", &PULL_POLICIES, errors);
    if let Some(resources) = container.get("resources") {
        resources::validate_container_resource_requirements(resources, pod, &path.child("resources"), errors);
    }
    validate_resize_policy(pod, container, &path.child("resizePolicy"), errors);
    if let Some(context) = container.get("securityContext") {
        security::validate_security_context(context, pod, &path.child("securityContext"), errors);
    }
}

/// As upstream's `validateContainerPorts`.
fn validate_container_ports(container: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let mut seen = BTreeSet::new();
    for (index, port) in items(container, "ports").iter().enumerate() {
        let path = path.index(index);
        let name = text(port, "name");
        if !name.is_empty() {
            let messages = names::port_name(name);
            if messages.is_empty() && !seen.insert(name) {
                errors.push(Error::duplicate(&path.child("name"), &name.into()));
            }
            push_invalid(&path.child("name"), name, messages, errors);
        }
        match number(port, "containerPort").unwrap_or(0) {
            0 => errors.push(Error::required(&path.child("containerPort"), "")),
            value => push_invalid_number(&path.child("containerPort"), value, names::port_number(value), errors),
        }
        match number(port, "hostPort").unwrap_or(0) {
            0 => {}
            value => push_invalid_number(&path.child("hostPort"), value, names::port_number(value), errors),
        }
        require_one_of(port, &path, "protocol", &PROTOCOLS, errors);
    }
}

/// Two containers that run at once may not ask for the same port of the host.
fn check_host_port_conflicts<'a>(
    containers: impl Iterator<Item = (usize, &'a Value)>,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    let mut seen = BTreeSet::new();
    for (index, container) in containers {
        for (at, port) in items(container, "ports").iter().enumerate() {
            let number = number(port, "hostPort").unwrap_or(0);
            let key = format!("{}/{}/{}", text(port, "protocol"), text(port, "hostIP"), number);
            if number != 0 && !seen.insert(key.clone()) {
                let (container, ports) = (path.index(index), "ports");
                let ports = container.child(ports);
                errors.push(Error::duplicate(&ports.index(at).child("hostPort"), &key.into()));
            }
        }
    }
}

/// As upstream's `validateResizePolicy`.
fn validate_resize_policy(pod: &Pod<'_>, container: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let mut seen = BTreeSet::new();
    for (index, policy) in items(container, "resizePolicy").iter().enumerate() {
        let resource = text(policy, "resourceName");
        if !seen.insert(resource) {
            errors.push(Error::duplicate(&path.index(index), &resource.into()));
        }
        match resource {
            "cpu" | "memory" => {}
            "" => errors.push(Error::required(path, "")),
            _ => errors.push(Error::not_supported(path, resource, &["cpu", "memory"])),
        }
        let restart = text(policy, "restartPolicy");
        match restart {
            "NotRequired" | "RestartContainer" => {}
            "" => errors.push(Error::required(path, "")),
            _ => errors.push(Error::not_supported(
                path,
                restart,
                &["NotRequired", "RestartContainer"],
            )),
        }
        if text(pod.spec, "restartPolicy") == "Never" && restart != "NotRequired" {
            let detail = "must be 'NotRequired' when pod `restartPolicy` is 'Never'";
            errors.push(Error::invalid_str(path, restart, detail));
        }
    }
}

/// As upstream's `validateInitContainerRestartPolicy`.
fn validate_init_container_restart_policy(pod: &Pod<'_>, container: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let has_rules = !items(container, "restartPolicyRules").is_empty();
    if container.get("restartPolicy").is_none() {
        if has_rules {
            errors.push(Error::required(&path.child("restartPolicy"), POLICY_FOR_RULES));
        }
    } else if !is_sidecar(container) || may_restart_all(pod) {
        validate_container_restart_policy(pod, container, path, errors);
    } else if has_rules {
        let detail = "restartPolicyRules are not allowed for init containers with restart policy Always";
        errors.push(Error::forbidden(&path.child("restartPolicyRules"), detail));
    }
}

/// Reports whether the end of a container may restart all of them; with this sidecars may have rules.
fn may_restart_all(pod: &Pod<'_>) -> bool {
    let features = pod.capabilities.features;
    features.has(Feature::RestartAllContainersOnContainerExits)
}

/// As upstream's `validateContainerRestartPolicy`.
fn validate_container_restart_policy(pod: &Pod<'_>, container: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    one_of_if_set(container, path, "restartPolicy", &RESTART_POLICIES, errors);
    let rules = items(container, "restartPolicyRules");
    if container.get("restartPolicy").is_none() && !rules.is_empty() {
        errors.push(Error::required(&path.child("restartPolicy"), POLICY_FOR_RULES));
    }
    let path = path.child("restartPolicyRules");
    if rules.len() > MAX_RESTART_RULES {
        errors.push(Error::too_many(&path, rules.len(), MAX_RESTART_RULES));
    }
    let actions: &[&str] = match may_restart_all(pod) {
        true => &["Restart", "RestartAllContainers"],
        false => &["Restart"],
    };
    for (index, rule) in rules.iter().enumerate() {
        let path = path.index(index);
        validate_supported(rule, &path, "action", actions, errors);
        let path = path.child("exitCodes");
        let Some(codes) = rule.get("exitCodes") else {
            errors.push(Error::required(&path, "must be specified"));
            continue;
        };
        validate_supported(codes, &path, "operator", &["In", "NotIn"], errors);
        let values = items(codes, "values");
        if values.len() > MAX_EXIT_CODES {
            errors.push(Error::too_many(&path.child("values"), values.len(), MAX_EXIT_CODES));
        }
    }
}
