//! The checks of the level `baseline`.

use std::collections::BTreeSet;

use serde_json::Value;
use trireme_machinery::go_text::quote;

use super::{
    checks::PodViolation,
    pod::{CheckedPod, Setters, items, join_quote, name, named_containers, pluralize, security, texts},
};

const CAPABILITIES: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];
/// Sysctls that pods may set, each with the release since which they may.
const SYSCTLS: [(&str, u32); 12] = [
    ("kernel.shm_rmid_forced", 0),
    ("net.ipv4.ip_local_port_range", 0),
    ("net.ipv4.tcp_syncookies", 0),
    ("net.ipv4.ping_group_range", 0),
    ("net.ipv4.ip_unprivileged_port_start", 0),
    ("net.ipv4.ip_local_reserved_ports", 27),
    ("net.ipv4.tcp_keepalive_time", 29),
    ("net.ipv4.tcp_fin_timeout", 29),
    ("net.ipv4.tcp_keepalive_intvl", 29),
    ("net.ipv4.tcp_keepalive_probes", 29),
    ("net.ipv4.tcp_rmem", 32),
    ("net.ipv4.tcp_wmem", 32),
];
const APP_ARMOR_ANNOTATION: &str = "container.apparmor.security.beta.kubernetes.io/";
const SECCOMP_ANNOTATION: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_CONTAINER_ANNOTATION: &str = "container.seccomp.security.alpha.kubernetes.io/";

pub(super) fn app_armor_profile(pod: CheckedPod<'_>) -> Option<PodViolation> {
    let setters = Setters::of(pod, "appArmorProfile", |profile| {
        let kind = profile.get("type").and_then(Value::as_str).unwrap_or_default();
        (!matches!(kind, "RuntimeDefault" | "Localhost")).then_some(kind)
    });
    let is_allowed = |value: &str| value.is_empty() || value == "runtime/default" || value.starts_with("localhost/");
    let annotations = pod
        .annotations()
        .filter(|(key, value)| key.starts_with(APP_ARMOR_ANNOTATION) && !is_allowed(value));
    let mut annotations: Vec<String> = annotations
        .map(|(key, value)| format!("{key}={}", quote(value)))
        .collect();
    annotations.sort();
    let mut list = setters.list();
    if !annotations.is_empty() {
        list.push(pluralize("annotation", "annotations", annotations.len()).to_owned());
    }
    if list.is_empty() {
        return None;
    }
    let values: Vec<&str> = setters
        .values
        .iter()
        .copied()
        .chain(annotations.iter().map(String::as_str))
        .collect();
    PodViolation::new(
        pluralize(
            "forbidden AppArmor profile",
            "forbidden AppArmor profiles",
            values.len(),
        ),
        format!(
            "{} must not set AppArmor profile type to {}",
            list.join(" and "),
            join_quote(values)
        ),
    )
}

pub(super) fn capabilities(pod: CheckedPod<'_>) -> Option<PodViolation> {
    let (mut bad, mut added) = (Vec::new(), BTreeSet::new());
    for container in pod.containers() {
        let capabilities = security(container, "capabilities").unwrap_or(&Value::Null);
        let before = bad.len();
        for capability in texts(capabilities, "add").filter(|capability| !CAPABILITIES.contains(capability)) {
            added.insert(capability);
            if bad.len() == before {
                bad.push(name(container));
            }
        }
    }
    if bad.is_empty() {
        return None;
    }
    let detail = format!(
        "{} must not include {} in securityContext.capabilities.add",
        named_containers(&bad),
        join_quote(added)
    );
    PodViolation::new("non-default capabilities", detail)
}

pub(super) fn host_namespaces(pod: CheckedPod<'_>) -> Option<PodViolation> {
    let shared = ["hostNetwork", "hostPID", "hostIPC"];
    let shared = shared
        .iter()
        .filter(|field| pod.spec.get(**field) == Some(&Value::Bool(true)));
    let shared: Vec<String> = shared.map(|field| format!("{field}=true")).collect();
    if shared.is_empty() {
        return None;
    }
    PodViolation::new("host namespaces", shared.join(", "))
}

pub(super) fn host_path_volumes(pod: CheckedPod<'_>) -> Option<PodViolation> {
    let volumes = items(pod.spec, "volumes").filter(|volume| volume.get("hostPath").is_some());
    let names: Vec<&str> = volumes.map(name).collect();
    if names.is_empty() {
        return None;
    }
    let word = pluralize("volume", "volumes", names.len());
    PodViolation::new("hostPath volumes", format!("{word} {}", join_quote(names)))
}

pub(super) fn host_ports(pod: CheckedPod<'_>) -> Option<PodViolation> {
    let (mut bad, mut ports) = (Vec::new(), BTreeSet::new());
    for container in pod.containers() {
        let used = items(container, "ports").filter_map(|port| port.get("hostPort")?.as_i64());
        let used: Vec<i64> = used.filter(|port| *port != 0).collect();
        if !used.is_empty() {
            bad.push(name(container));
            ports.extend(used.iter().map(i64::to_string));
        }
    }
    if bad.is_empty() {
        return None;
    }
    let detail = format!(
        "{} {} {} {}",
        named_containers(&bad),
        pluralize("uses", "use", bad.len()),
        pluralize("hostPort", "hostPorts", ports.len()),
        ports.into_iter().collect::<Vec<_>>().join(", ")
    );
    PodViolation::new("hostPort", detail)
}

pub(super) fn host_probes_and_lifecycle(pod: CheckedPod<'_>) -> Option<PodViolation> {
    const HANDLERS: [&str; 5] = [
        "/livenessProbe",
        "/readinessProbe",
        "/startupProbe",
        "/lifecycle/postStart",
        "/lifecycle/preStop",
    ];
    let (mut bad, mut hosts) = (BTreeSet::new(), BTreeSet::new());
    for container in pod.containers() {
        for handler in HANDLERS.iter().filter_map(|pointer| container.pointer(pointer)) {
            let named = ["/httpGet/host", "/tcpSocket/host"].iter();
            let named = named.filter_map(|pointer| handler.pointer(pointer)?.as_str());
            for host in named.filter(|host| !host.is_empty()) {
                bad.insert(name(container));
                hosts.insert(host);
            }
        }
    }
    if bad.is_empty() {
        return None;
    }
    let bad: Vec<&str> = bad.into_iter().collect();
    let detail = format!(
        "{} {} {} {}",
        named_containers(&bad),
        pluralize("uses", "use", bad.len()),
        pluralize("probe or lifecycle host", "probe or lifecycle hosts", hosts.len()),
        join_quote(hosts)
    );
    PodViolation::new("probe or lifecycle host", detail)
}

pub(super) fn privileged(pod: CheckedPod<'_>) -> Option<PodViolation> {
    let setters = Setters::of_containers(pod, "privileged", |value| (value == &Value::Bool(true)).then_some(""));
    if setters.is_empty() {
        return None;
    }
    let detail = format!("{} must not set securityContext.privileged=true", setters.described());
    PodViolation::new("privileged", detail)
}

pub(super) fn proc_mount(pod: CheckedPod<'_>) -> Option<PodViolation> {
    let setters = Setters::of_containers(pod, "procMount", |value| {
        value.as_str().filter(|value| *value != "Default")
    });
    if setters.is_empty() {
        return None;
    }
    let detail = format!(
        "{} must not set securityContext.procMount to {}",
        setters.described(),
        join_quote(&setters.values)
    );
    PodViolation::new("procMount", detail)
}

pub(super) fn proc_mount_since_1_35(pod: CheckedPod<'_>) -> Option<PodViolation> {
    if pod.has_own_users() { None } else { proc_mount(pod) }
}

pub(super) fn se_linux_options(pod: CheckedPod<'_>) -> Option<PodViolation> {
    se_linux(pod, &["", "container_t", "container_init_t", "container_kvm_t"])
}

pub(super) fn se_linux_options_since_1_31(pod: CheckedPod<'_>) -> Option<PodViolation> {
    let allowed = [
        "",
        "container_t",
        "container_init_t",
        "container_kvm_t",
        "container_engine_t",
    ];
    se_linux(pod, &allowed)
}

fn se_linux(pod: CheckedPod<'_>, allowed: &[&str]) -> Option<PodViolation> {
    let text = |options: &Value, field: &str| {
        options
            .get(field)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let mut types = BTreeSet::new();
    let (mut sets_user, mut sets_role) = (false, false);
    let mut setters = Setters::default();
    let mut judge = |of: &Value| {
        let Some(options) = security(of, "seLinuxOptions") else {
            return false;
        };
        let kind = text(options, "type");
        let (user, role) = (!text(options, "user").is_empty(), !text(options, "role").is_empty());
        let is_bad_type = !allowed.contains(&kind.as_str());
        if is_bad_type {
            types.insert(kind);
        }
        (sets_user, sets_role) = (sets_user || user, sets_role || role);
        is_bad_type || user || role
    };
    setters.pod = judge(pod.spec);
    setters.containers = pod
        .containers()
        .filter(|container| judge(container))
        .map(name)
        .collect();
    if setters.is_empty() {
        return None;
    }
    let mut wrong = Vec::new();
    if !types.is_empty() {
        wrong.push(format!(
            "{} {}",
            pluralize("type", "types", types.len()),
            join_quote(types)
        ));
    }
    if sets_user {
        wrong.push("user may not be set".to_owned());
    }
    if sets_role {
        wrong.push("role may not be set".to_owned());
    }
    let detail = format!(
        "{} set forbidden securityContext.seLinuxOptions: {}",
        setters.described(),
        wrong.join("; ")
    );
    PodViolation::new("seLinuxOptions", detail)
}

pub(super) fn seccomp_annotations(pod: CheckedPod<'_>) -> Option<PodViolation> {
    let is_allowed =
        |value: &str| matches!(value, "runtime/default" | "docker/default") || value.starts_with("localhost/");
    let is_of_container = |key: &str| {
        let of = key.strip_prefix(SECCOMP_CONTAINER_ANNOTATION);
        of.is_some_and(|of| pod.containers().any(|container| name(container) == of))
    };
    let bad = pod
        .annotations()
        .filter(|(key, value)| (*key == SECCOMP_ANNOTATION || is_of_container(key)) && !is_allowed(value));
    let bad: BTreeSet<String> = bad.map(|(key, value)| format!("{key}={}", quote(value))).collect();
    if bad.is_empty() {
        return None;
    }
    let word = pluralize("annotation", "annotations", bad.len());
    let detail = format!("forbidden {word} {}", bad.into_iter().collect::<Vec<_>>().join(", "));
    PodViolation::new("seccompProfile", detail)
}

/// The type of a seccomp profile, if it switches the filter off.
fn bad_seccomp_type(profile: &Value) -> Option<&str> {
    let kind = profile.get("type").and_then(Value::as_str).unwrap_or_default();
    (!matches!(kind, "RuntimeDefault" | "Localhost")).then_some(kind)
}

pub(super) fn seccomp_profile(pod: CheckedPod<'_>) -> Option<PodViolation> {
    let setters = Setters::of(pod, "seccompProfile", bad_seccomp_type);
    if setters.is_empty() {
        return None;
    }
    let detail = format!(
        "{} must not set securityContext.seccompProfile.type to {}",
        setters.described(),
        join_quote(&setters.values)
    );
    PodViolation::new("seccompProfile", detail)
}

pub(super) fn sysctls(pod: CheckedPod<'_>) -> Option<PodViolation> {
    sysctls_of(pod, 0)
}

pub(super) fn sysctls_since_1_27(pod: CheckedPod<'_>) -> Option<PodViolation> {
    sysctls_of(pod, 27)
}

pub(super) fn sysctls_since_1_29(pod: CheckedPod<'_>) -> Option<PodViolation> {
    sysctls_of(pod, 29)
}

pub(super) fn sysctls_since_1_32(pod: CheckedPod<'_>) -> Option<PodViolation> {
    sysctls_of(pod, 32)
}

fn sysctls_of(pod: CheckedPod<'_>, release: u32) -> Option<PodViolation> {
    let is_allowed = |set: &str| {
        SYSCTLS
            .iter()
            .any(|(sysctl, since)| *sysctl == set && *since <= release)
    };
    let set = security(pod.spec, "sysctls")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let bad: Vec<&str> = set.map(name).filter(|set| !is_allowed(set)).collect();
    if bad.is_empty() {
        return None;
    }
    PodViolation::new("forbidden sysctls", bad.join(", "))
}

pub(super) fn windows_host_process(pod: CheckedPod<'_>) -> Option<PodViolation> {
    let setters = Setters::of(pod, "windowsOptions", |options| {
        (options.get("hostProcess") == Some(&Value::Bool(true))).then_some("")
    });
    if setters.is_empty() {
        return None;
    }
    let detail = format!(
        "{} must not set securityContext.windowsOptions.hostProcess=true",
        setters.described()
    );
    PodViolation::new("hostProcess", detail)
}
