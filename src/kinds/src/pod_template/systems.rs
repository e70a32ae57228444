//! What pods of one operating system may not ask for.

use serde_json::Value;
use trireme_machinery::field::{Error, ErrorList, Path};

use super::check::is_true;
use crate::values::{items, text};

const LISTS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];
/// In the order in which Kubernetes looks; `true` if the field stands in the pod's security context.
const NOT_FOR_WINDOWS: [(&str, bool); 14] = [
    ("appArmorProfile", true),
    ("seLinuxOptions", true),
    ("hostUsers", false),
    ("hostPID", false),
    ("hostIPC", false),
    ("seccompProfile", true),
    ("fsGroup", true),
    ("fsGroupChangePolicy", true),
    ("sysctls", true),
    ("shareProcessNamespace", false),
    ("runAsUser", true),
    ("runAsGroup", true),
    ("supplementalGroups", true),
    ("supplementalGroupsPolicy", true),
];
const CONTAINER_NOT_FOR_WINDOWS: [&str; 10] = [
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
];

/// The operating system that a pod says it is for.
pub(super) fn validate_os(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(os) = spec.get("os") else { return };
    let os_path = path.child("os");
    match text(os, "name") {
        "" => errors.push(Error::required(&os_path.child("name"), "cannot be empty")),
        "linux" => validate_linux(spec, path, errors),
        "windows" => validate_windows(spec, path, errors),
        other => errors.push(Error::not_supported(&os_path, other, &["linux", "windows"])),
    }
}

fn validate_linux(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let detail = "windows options cannot be set for a linux pod";
    let has_options = |owner: &Value| owner.pointer("/securityContext/windowsOptions").is_some();
    if has_options(spec) {
        errors.push(Error::forbidden(&path.child("securityContext.windowsOptions"), detail));
    }
    for list in LISTS {
        let list_path = path.child(list);
        for (index, _) in items(spec, list)
            .iter()
            .enumerate()
            .filter(|(_, container)| has_options(container))
        {
            let at = list_path.index(index);
            errors.push(Error::forbidden(&at.child("securityContext.windowsOptions"), detail));
        }
    }
}

fn validate_windows(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let detail = "cannot be set for a windows pod";
    let context_path = path.child("securityContext");
    for (field, in_context) in NOT_FOR_WINDOWS {
        let owner = if in_context {
            spec.get("securityContext")
        } else {
            Some(spec)
        };
        let value = owner.and_then(|owner| owner.get(field));
        let is_set = match (field, value) {
            ("hostPID" | "hostIPC", Some(value)) => value == &Value::Bool(true),
            (_, Some(Value::Array(list))) => !list.is_empty(),
            (_, value) => value.is_some(),
        };
        if is_set {
            let path = if in_context {
                context_path.child(field)
            } else {
                path.child(field)
            };
            errors.push(Error::forbidden(&path, detail));
        }
    }
    for list in LISTS {
        let list_path = path.child(list);
        for (index, container) in items(spec, list).iter().enumerate() {
            let at = list_path.index(index);
            let context_path = at.child("securityContext");
            let Some(context) = container.get("securityContext") else {
                continue;
            };
            for field in CONTAINER_NOT_FOR_WINDOWS {
                if context.get(field).is_some() {
                    errors.push(Error::forbidden(&context_path.child(field), detail));
                }
            }
        }
    }
}

/// Pods of Windows whose containers are processes of the host: all of them or none, under the host's network.
pub(super) fn validate_host_process(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let asked = |owner: &Value| {
        owner
            .pointer("/securityContext/windowsOptions/hostProcess")
            .and_then(Value::as_bool)
    };
    let of_pod = asked(spec);
    let (mut with, mut without) = (0, 0);
    for list in LISTS {
        let list_path = path.child(list);
        for (index, container) in items(spec, list).iter().enumerate() {
            let own = asked(container);
            if let (Some(pod), Some(own)) = (of_pod, own)
                && pod != own
            {
                let at = list_path.index(index);
                let detail = format!("pod hostProcess value must be identical if both are specified, was {pod}");
                let at = at.child("securityContext.windowsOptions.hostProcess");
                errors.push(Error::invalid(&at, &own.into(), &detail));
            }
            if own.or(of_pod).unwrap_or(false) {
                with += 1
            } else {
                without += 1
            }
        }
    }
    if with == 0 {
        return;
    }
    if without > 0 {
        let detail = "If pod contains any hostProcess containers then all containers must be HostProcess containers";
        errors.push(Error::invalid_str(path, "", detail));
    }
    if !is_true(spec, "hostNetwork") {
        let detail = "hostNetwork must be true if pod contains any hostProcess containers";
        errors.push(Error::invalid(&path.child("hostNetwork"), &false.into(), detail));
    }
}
