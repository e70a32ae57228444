//! The checks that the level `restricted` adds.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    baseline,
    checks::{CheckPod, PodViolation},
    pod::{CheckedPod, Setters, items, join_quote, name, named_containers, pluralize, security, texts},
};

const VOLUMES: [&str; 9] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];
const OTHER_VOLUMES: [&str; 21] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "gitRepo",
    "nfs",
    "iscsi",
    "glusterfs",
    "rbd",
    "flexVolume",
    "cinder",
    "cephfs",
    "flocker",
    "fc",
    "azureFile",
    "vsphereVolume",
    "quobyte",
    "azureDisk",
    "photonPersistentDisk",
    "portworxVolume",
    "scaleIO",
    "storageos",
];

/// Runs a check of Linux pods.
fn unless_windows(pod: CheckedPod<'_>, check: CheckPod) -> Option<PodViolation> {
    if pod.is_for_windows() { None } else { check(pod) }
}

pub(super) fn allow_privilege_escalation(pod: CheckedPod<'_>) -> Option<PodViolation> {
    let allows = |container: &&Value| security(container, "allowPrivilegeEscalation") != Some(&Value::Bool(false));
    let bad: Vec<&str> = pod.containers().filter(allows).map(name).collect();
    if bad.is_empty() {
        return None;
    }
    let detail = format!(
        "{} must set securityContext.allowPrivilegeEscalation=false",
        named_containers(&bad)
    );
    PodViolation::new("allowPrivilegeEscalation != false", detail)
}

pub(super) fn allow_privilege_escalation_since_1_25(pod: CheckedPod<'_>) -> Option<PodViolation> {
    unless_windows(pod, allow_privilege_escalation)
}

pub(super) fn capabilities(pod: CheckedPod<'_>) -> Option<PodViolation> {
    let (mut keeping, mut adding, mut added) = (Vec::new(), Vec::new(), BTreeSet::new());
    for container in pod.containers() {
        let capabilities = security(container, "capabilities").unwrap_or(&Value::Null);
        if !texts(capabilities, "drop").any(|dropped| dropped == "ALL") {
            keeping.push(name(container));
        }
        let mut forbidden = texts(capabilities, "add")
            .filter(|capability| *capability != "NET_BIND_SERVICE")
            .peekable();
        if forbidden.peek().is_some() {
            adding.push(name(container));
        }
        added.extend(forbidden);
    }
    let mut details = Vec::new();
    if !keeping.is_empty() {
        let containers = named_containers(&keeping);
        details.push(format!(
            "{containers} must set securityContext.capabilities.drop=[\"ALL\"]"
        ));
    }
    if !adding.is_empty() {
        details.push(format!(
            "{} must not include {} in securityContext.capabilities.add",
            named_containers(&adding),
            join_quote(added)
        ));
    }
    if details.is_empty() {
        return None;
    }
    PodViolation::new("unrestricted capabilities", details.join("; "))
}

pub(super) fn capabilities_since_1_25(pod: CheckedPod<'_>) -> Option<PodViolation> {
    unless_windows(pod, capabilities)
}

pub(super) fn volumes(pod: CheckedPod<'_>) -> Option<PodViolation> {
    let (mut bad, mut types) = (Vec::new(), BTreeSet::new());
    for volume in items(pod.spec, "volumes") {
        let is = |kinds: &[&'static str]| kinds.iter().copied().find(|kind| volume.get(*kind).is_some());
        if is(&VOLUMES).is_none() {
            bad.push(name(volume));
            types.insert(is(&OTHER_VOLUMES).unwrap_or("unknown"));
        }
    }
    if bad.is_empty() {
        return None;
    }
    let detail = format!(
        "{} {} {} {} {}",
        pluralize("volume", "volumes", bad.len()),
        join_quote(&bad),
        pluralize("uses", "use", bad.len()),
        pluralize("restricted volume type", "restricted volume types", types.len()),
        join_quote(types)
    );
    PodViolation::new("restricted volume types", detail)
}

pub(super) fn run_as_non_root(pod: CheckedPod<'_>) -> Option<PodViolation> {
    const REASON: &str = "runAsNonRoot != true";
    let setters = Setters::of(pod, "runAsNonRoot", |value| {
        (value == &Value::Bool(false)).then_some("")
    });
    if !setters.is_empty() {
        let detail = format!(
            "{} must not set securityContext.runAsNonRoot=false",
            setters.described()
        );
        return PodViolation::new(REASON, detail);
    }
    if security(pod.spec, "runAsNonRoot").is_some() {
        return None;
    }
    let silent: Vec<&str> = pod
        .containers()
        .filter(|container| security(container, "runAsNonRoot").is_none())
        .map(name)
        .collect();
    if silent.is_empty() {
        return None;
    }
    let detail = format!(
        "pod or {} must set securityContext.runAsNonRoot=true",
        named_containers(&silent)
    );
    PodViolation::new(REASON, detail)
}

pub(super) fn run_as_non_root_since_1_35(pod: CheckedPod<'_>) -> Option<PodViolation> {
    if pod.has_own_users() {
        None
    } else {
        run_as_non_root(pod)
    }
}

pub(super) fn run_as_user(pod: CheckedPod<'_>) -> Option<PodViolation> {
    let setters = Setters::of(pod, "runAsUser", |value| (value.as_i64() == Some(0)).then_some(""));
    if setters.is_empty() {
        return None;
    }
    PodViolation::new(
        "runAsUser=0",
        format!("{} must not set runAsUser=0", setters.described()),
    )
}

pub(super) fn run_as_user_since_1_35(pod: CheckedPod<'_>) -> Option<PodViolation> {
    if pod.has_own_users() { None } else { run_as_user(pod) }
}

pub(super) fn seccomp_profile(pod: CheckedPod<'_>) -> Option<PodViolation> {
    if let Some(violation) = baseline::seccomp_profile(pod) {
        return Some(violation);
    }
    if security(pod.spec, "seccompProfile").is_some() {
        return None;
    }
    let silent: Vec<&str> = pod
        .containers()
        .filter(|container| security(container, "seccompProfile").is_none())
        .map(name)
        .collect();
    if silent.is_empty() {
        return None;
    }
    let detail = format!(
        "pod or {} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\"",
        named_containers(&silent)
    );
    PodViolation::new("seccompProfile", detail)
}

pub(super) fn seccomp_profile_since_1_25(pod: CheckedPod<'_>) -> Option<PodViolation> {
    unless_windows(pod, seccomp_profile)
}
