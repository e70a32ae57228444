//! Validation of security contexts, of pods and of containers.

use std::collections::BTreeSet;

use serde_json::Value;
use trireme_machinery::{
    Feature, Features,
    field::{Error, ErrorList, Path},
    names,
};

use super::{
    check::{
        descending_path, id_if_set, is_true, number, one_of_if_set, push_invalid_number, require, visit_containers,
    },
    gated, layout,
    spec::Pod,
    tolerated::{Tolerated, has_invalid_selector_value},
    windows,
};
use crate::values::{items, text};

const SYSCTL_MAX_LENGTH: usize = 253;
const PROFILE_TYPES: [&str; 3] = ["Localhost", "RuntimeDefault", "Unconfined"];
const MAX_LOCALHOST_PROFILE: usize = 4095;

const OWN_USERS: &str = "when `hostUsers` is false";

/// The rights that the cluster gives to pods (`pkg/capabilities`); none unless the settings say so.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Capabilities {
    /// Privileged containers may run.
    pub(crate) allow_privileged: bool,
    /// The features that pods may use.
    pub(crate) features: Features,
    /// The errors of the old object of a change, which the new one may keep.
    pub(crate) tolerated: Tolerated,
}

impl Capabilities {
    /// The rights in a change of an old pod or template, which may keep what it has.
    pub(crate) fn in_change_of(self, old: Option<&Value>) -> Self {
        let Some(old) = old else { return self };
        Self {
            features: gated::features_in_change_of(self.features, old),
            tolerated: old.get("spec").map(Tolerated::of_old).unwrap_or_default(),
            ..self
        }
    }

    /// These and invalid values in selectors, if the old object of a change has such.
    pub(crate) fn with_selector_of(self, old: Option<&Value>) -> Self {
        if !old.is_some_and(has_invalid_selector_value) {
            return self;
        }
        Self {
            tolerated: self.tolerated.with(Tolerated::SELECTOR_VALUES),
            ..self
        }
    }
}

/// A container's own context (`ValidateSecurityContext`).
pub(super) fn validate_security_context(context: &Value, pod: &Pod<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let spec = pod.spec;
    let privileged = is_true(context, "privileged");
    if privileged && !pod.capabilities.allow_privileged {
        errors.push(Error::forbidden(
            &path.child("privileged"),
            "disallowed by cluster policy",
        ));
    }
    id_if_set(context, path, "runAsUser", errors);
    id_if_set(context, path, "runAsGroup", errors);
    one_of_if_set(context, path, "procMount", &["Default", "Unmasked"], errors);
    let host_users = spec.get("hostUsers").and_then(Value::as_bool).unwrap_or(true);
    if text(context, "procMount") == "Unmasked" && host_users {
        let detail = "`hostUsers` must be false to use `Unmasked`";
        errors.push(Error::invalid_str(&path.child("procMount"), "Unmasked", detail));
    }
    validate_seccomp_profile_field(context, path, errors);
    if context.get("allowPrivilegeEscalation") == Some(&Value::Bool(false)) {
        let mut contradiction = |detail: &str| {
            errors.push(Error::invalid_shown(
                path,
                layout::compact("SecurityContext", context),
                detail,
            ));
        };
        if privileged {
            contradiction("cannot set `allowPrivilegeEscalation` to false and `privileged` to true");
        }
        let capabilities = context
            .get("capabilities")
            .map_or(&[][..], |capabilities| items(capabilities, "add"));
        for _ in capabilities.iter().filter(|added| *added == "CAP_SYS_ADMIN") {
            contradiction("cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN");
        }
    }
    windows::validate_windows_security_context_options(context, path, errors);
    validate_app_armor(context, path, errors);
}

/// The pod's context (`validatePodSpecSecurityContext`).
pub(super) fn validate_pod_spec_security_context(pod: &Pod<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let spec = pod.spec;
    let none = Value::Null;
    let context = spec.get("securityContext").unwrap_or(&none);
    for field in ["fsGroup", "runAsUser", "runAsGroup"] {
        id_if_set(context, path, field, errors);
    }
    let groups = path.child("supplementalGroups");
    for (index, group) in items(context, "supplementalGroups").iter().enumerate() {
        let group = group.as_i64().unwrap_or(0);
        push_invalid_number(&groups.index(index), group, names::user_or_group_id(group), errors);
    }
    if is_true(spec, "hostPID") && is_true(spec, "shareProcessNamespace") {
        let detail = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.push(Error::invalid(
            &path.child("shareProcessNamespace"),
            &true.into(),
            detail,
        ));
    }
    validate_sysctls(pod, context, &path.child("sysctls"), errors);
    one_of_if_set(
        context,
        path,
        "fsGroupChangePolicy",
        &["Always", "OnRootMismatch"],
        errors,
    );
    validate_seccomp_profile_field(context, path, errors);
    windows::validate_windows_security_context_options(context, path, errors);
    validate_app_armor(context, path, errors);
    one_of_if_set(context, path, "supplementalGroupsPolicy", &["Merge", "Strict"], errors);
    let policies: &[&str] = match pod.capabilities.features.has(Feature::SelinuxMount) {
        true => &["MountOption", "Recursive"],
        false => &["Recursive"],
    };
    one_of_if_set(context, path, "seLinuxChangePolicy", policies, errors);
}

/// Under the host's network a container's port is the host's (`validatePodHostNetworkDeps`).
pub(super) fn validate_pod_host_network_deps(pod: &Pod<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    if !is_true(pod.spec, "hostNetwork") {
        return;
    }
    for (index, container) in items(pod.spec, "containers").iter().enumerate() {
        let at = path.index(index);
        let ports = at.child("ports");
        for (index, port) in items(container, "ports").iter().enumerate() {
            let host = number(port, "hostPort").unwrap_or(0);
            // In templates it may be left open: the pods that are made of them get it by default.
            if (host != 0 || pod.metadata.is_some()) && host != number(port, "containerPort").unwrap_or(0) {
                let detail = "must match `containerPort` when `hostNetwork` is true";
                errors.push(Error::invalid(
                    &ports.index(index).child("hostPort"),
                    &host.into(),
                    detail,
                ));
            }
        }
    }
}

/// With users of its own a pod may share nothing else with the host (`validateHostUsers`).
pub(super) fn validate_host_users(pod: &Pod<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let spec = pod.spec;
    if spec.get("hostUsers") != Some(&Value::Bool(false)) {
        return;
    }
    let may_have_network = pod.capabilities.features.has(Feature::UserNamespacesHostNetworkSupport);
    if is_true(spec, "hostNetwork") && !may_have_network {
        errors.push(Error::forbidden(&path.child("hostNetwork"), OWN_USERS));
    }
    for (field, shown) in [("hostPID", "HostPID"), ("hostIPC", "HostIPC")] {
        if is_true(spec, field) {
            errors.push(Error::forbidden(&path.child(shown), OWN_USERS));
        }
    }
    if pod.capabilities.tolerated.has(Tolerated::DEVICES_OF_OWN_USERS) {
        return;
    }
    visit_containers(spec, path, |container, path| {
        if !items(container, "volumeDevices").is_empty() {
            errors.push(Error::forbidden(&path.child("volumeDevices"), OWN_USERS));
        }
    });
}

/// As upstream's `validateSysctls`.
fn validate_sysctls(pod: &Pod<'_>, context: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let may_be_hosts = pod.capabilities.tolerated.has(Tolerated::HOST_SYSCTLS);
    let mut seen = BTreeSet::new();
    for (index, sysctl) in items(context, "sysctls").iter().enumerate() {
        let at = path.index(index);
        let name = text(sysctl, "name");
        let is_new = seen.insert(name);
        if !require(sysctl, &at, "name", errors) {
            continue;
        }
        if !is_sysctl_name(name) {
            let detail = format!(
                "must have at most {SYSCTL_MAX_LENGTH} characters and match regex \
                 ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$"
            );
            errors.push(Error::invalid_str(&at.child("name"), name, &detail));
        } else if !is_new {
            errors.push(Error::duplicate(&at.child("name"), &name.into()));
        }
        if let Some(field) = host_namespace(name).filter(|field| !may_be_hosts && is_true(pod.spec, field)) {
            let detail = format!("may not be specified when '{field}' is true");
            errors.push(Error::invalid_str(&at.child("name"), name, &detail));
        }
    }
}

/// Reports whether a setting is of a namespace that is the host's.
pub(super) fn has_host_sysctl(spec: &Value) -> bool {
    let context = spec.get("securityContext").unwrap_or(&Value::Null);
    let mut namespaces = items(context, "sysctls")
        .iter()
        .filter_map(|sysctl| host_namespace(text(sysctl, "name")));
    namespaces.any(|field| is_true(spec, field))
}

/// The field that says whether the namespace that a sysctl belongs to is the host's. A slash that comes before a dot
/// separates, and dots and slashes change their roles.
fn host_namespace(name: &str) -> Option<&'static str> {
    let name = match name.find(['.', '/']) {
        Some(at) if name.get(at..).is_some_and(|rest| rest.starts_with('/')) => name
            .chars()
            .map(|c| match c {
                '.' => '/',
                '/' => '.',
                c => c,
            })
            .collect(),
        _ => name.to_owned(),
    };
    let is_of = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    if name == "kernel.sem" || is_of(&["kernel.shm", "kernel.msg", "fs.mqueue."]) {
        Some("hostIPC")
    } else if is_of(&["net."]) {
        Some("hostNetwork")
    } else {
        None
    }
}

fn is_sysctl_name(name: &str) -> bool {
    let alphanumeric = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_part = |part: &str| {
        part.starts_with(alphanumeric)
            && part.ends_with(alphanumeric)
            && part.chars().all(|c| alphanumeric(c) || matches!(c, '-' | '_'))
    };
    name.len() <= SYSCTL_MAX_LENGTH && name.split(['.', '/']).all(is_part)
}

/// As upstream's `validateSeccompProfileField`.
fn validate_seccomp_profile_field(context: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(profile) = context.get("seccompProfile") else {
        return;
    };
    let path = path.child("seccompProfile");
    require_profile_type(profile, &path, "seccompProfile", errors);
    let local = profile.get("localhostProfile").and_then(Value::as_str);
    let local_path = path.child("localhostProfile");
    match (text(profile, "type"), local) {
        ("Localhost", None) => {
            errors.push(Error::required(
                &local_path,
                "must be set when seccomp type is Localhost",
            ));
        }
        ("Localhost", Some(local)) => descending_path(local, &local_path, errors),
        (_, Some(_)) => {
            let (shown, detail) = (
                layout::compact("Profile", profile),
                "can only be set when seccomp type is Localhost",
            );
            errors.push(Error::invalid_shown(&local_path, shown, detail));
        }
        (_, None) => {}
    }
}

fn validate_app_armor(context: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(profile) = context.get("appArmorProfile") else {
        return;
    };
    validate_app_armor_profile_field(profile, &path.child("appArmorProfile"), errors);
}

/// A profile by itself (`ValidateAppArmorProfileField`).
pub(super) fn validate_app_armor_profile_field(profile: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    require_profile_type(profile, path, "appArmorProfile", errors);
    let local = profile.get("localhostProfile").and_then(Value::as_str);
    let local_path = path.child("localhostProfile");
    match (text(profile, "type"), local) {
        ("Localhost", None) => {
            errors.push(Error::required(
                &local_path,
                "must be set when AppArmor type is Localhost",
            ));
        }
        ("Localhost", Some(local)) => {
            if local.trim() != local {
                errors.push(Error::invalid_str(
                    &local_path,
                    local,
                    "must not be padded with whitespace",
                ));
            } else if local.is_empty() {
                errors.push(Error::required(
                    &local_path,
                    "must be set when AppArmor type is Localhost",
                ));
            }
            if local.len() > MAX_LOCALHOST_PROFILE {
                errors.push(Error::too_long(&local_path, MAX_LOCALHOST_PROFILE));
            }
        }
        ("RuntimeDefault" | "Unconfined", Some(local)) => {
            let detail = "can only be set when AppArmor type is Localhost";
            errors.push(Error::invalid_str(&local_path, local, detail));
        }
        _ => {}
    }
}

fn require_profile_type(profile: &Value, path: &Path<'_>, what: &str, errors: &mut ErrorList) {
    if text(profile, "type").is_empty() {
        let detail = format!("type is required when {what} is set");
        errors.push(Error::required(&path.child("type"), &detail));
    } else {
        one_of_if_set(profile, path, "type", &PROFILE_TYPES, errors);
    }
}
