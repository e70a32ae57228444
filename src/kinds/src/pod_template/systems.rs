//! Fields that pods of one operating system may not set.

use serde_json::Value;
use trireme_machinery::field::{Error, ErrorList, Path};

use super::check::visit_containers;
use crate::values::{at, text};

/// In the order in which Kubernetes looks; `true` if the field stands in the pod's security context.
const NOT_FOR_WINDOWS: [(&str, bool); 15] = [
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
    ("seLinuxChangePolicy", true),
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

/// The operating system that a pod says it is for (`validateOS`).
pub(super) fn validate_os(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(os) = spec.get("os") else { return };
    let os_path = path.child("os");
    match text(os, "name") {
        "" => errors.push(Error::required(&os_path.child("name"), "")),
        "linux" => validate_linux(spec, path, errors),
        "windows" => validate_windows(spec, path, errors),
        other => errors.push(Error::not_supported(&os_path, other, &["linux", "windows"])),
    }
}

/// As upstream's `validateLinux`.
fn validate_linux(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let detail = "windows options cannot be set for a linux pod";
    let has_options = |owner: &Value| at(owner, "/securityContext/windowsOptions").is_some();
    if has_options(spec) {
        errors.push(Error::forbidden(&path.child("securityContext.windowsOptions"), detail));
    }
    visit_containers(spec, path, |container, path| {
        if has_options(container) {
            errors.push(Error::forbidden(&path.child("securityContext.windowsOptions"), detail));
        }
    });
}

/// As upstream's `validateWindows`.
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
    visit_containers(spec, path, |container, path| {
        let path = path.child("securityContext");
        let Some(context) = container.get("securityContext") else {
            return;
        };
        for field in CONTAINER_NOT_FOR_WINDOWS
            .iter()
            .filter(|field| context.get(**field).is_some())
        {
            errors.push(Error::forbidden(&path.child(field), detail));
        }
    });
}
