//! Warnings on what a pod or a template asks for (`pkg/api/pod/warnings.go`).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use trireme_machinery::names;

use super::check::quantity;
use crate::values::{entries, items, text};

/// Deprecated labels of nodes that selectors should not name, and what to name instead.
const NODE_LABELS: [(&str, &str); 8] = [
    (
        "beta.kubernetes.io/arch",
        "deprecated since v1.14; use \"kubernetes.io/arch\" instead",
    ),
    (
        "beta.kubernetes.io/os",
        "deprecated since v1.14; use \"kubernetes.io/os\" instead",
    ),
    (
        "failure-domain.beta.kubernetes.io/region",
        "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead",
    ),
    (
        "failure-domain.beta.kubernetes.io/zone",
        "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead",
    ),
    (
        "failure-domain.kubernetes.io/region",
        "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead",
    ),
    (
        "failure-domain.kubernetes.io/zone",
        "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead",
    ),
    (
        "beta.kubernetes.io/instance-type",
        "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead",
    ),
    (
        "node-role.kubernetes.io/master",
        "use \"node-role.kubernetes.io/control-plane\" instead",
    ),
];
const ANNOTATIONS: [(&str, &str); 4] = [
    (
        "seccomp.security.alpha.kubernetes.io/pod",
        "non-functional in v1.27+; use the \"seccompProfile\" field instead",
    ),
    (
        "scheduler.alpha.kubernetes.io/critical-pod",
        "non-functional in v1.16+; use the \"priorityClassName\" field instead",
    ),
    (
        "security.alpha.kubernetes.io/sysctls",
        "non-functional in v1.11+; use the \"sysctls\" field instead",
    ),
    (
        "security.alpha.kubernetes.io/unsafe-sysctls",
        "non-functional in v1.11+; use the \"sysctls\" field instead",
    ),
];
const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
const VOLUMES: [(&str, &str); 9] = [
    ("gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

/// Warnings on what a template asks for; `path` is where the template stands (empty for a pod).
pub(crate) fn warnings(template: &Value, path: &str) -> Vec<String> {
    let below = |part: &str| {
        if path.is_empty() {
            part.to_owned()
        } else {
            format!("{path}.{part}")
        }
    };
    let mut warnings = Vec::new();
    let Some(spec) = template.get("spec") else {
        return warnings;
    };
    let (spec_path, meta_path) = (below("spec"), below("metadata"));
    warn_of_nodes(spec, &spec_path, &mut warnings);
    warn_of_annotations(template, &meta_path, &mut warnings);
    warn_of_volumes(spec, &spec_path, &mut warnings);
    for (index, alias) in items(spec, "hostAliases").iter().enumerate() {
        warn_of_address(
            text(alias, "ip"),
            &format!("{spec_path}.hostAliases[{index}].ip"),
            &mut warnings,
        );
    }
    if let Some(config) = spec.get("dnsConfig") {
        for (index, server) in items(config, "nameservers").iter().enumerate() {
            let at = format!("{spec_path}.dnsConfig.nameservers[{index}]");
            warn_of_address(server.as_str().unwrap_or_default(), &at, &mut warnings);
        }
    }
    warn_of_repeats(
        items(spec, "hostAliases"),
        "ip",
        &format!("{spec_path}.hostAliases"),
        &mut warnings,
    );
    warn_of_repeats(
        items(spec, "imagePullSecrets"),
        "name",
        &format!("{spec_path}.imagePullSecrets"),
        &mut warnings,
    );
    for (index, secret) in items(spec, "imagePullSecrets").iter().enumerate() {
        if text(secret, "name").is_empty() {
            warnings.push(format!(
                "{spec_path}.imagePullSecrets[{index}].name: invalid empty name \"\""
            ));
        }
    }
    for list in ["initContainers", "containers"] {
        for (index, container) in items(spec, list).iter().enumerate() {
            warn_of_container(container, &format!("{spec_path}.{list}[{index}]"), &mut warnings);
        }
    }
    if spec
        .get("terminationGracePeriodSeconds")
        .and_then(Value::as_i64)
        .is_some_and(|seconds| seconds < 0)
    {
        warnings.push(format!(
            "{spec_path}.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1"
        ));
    }
    warnings
}

fn warn_of_nodes(spec: &Value, path: &str, warnings: &mut Vec<String>) {
    let advice = |key: &str| {
        NODE_LABELS
            .iter()
            .find(|(label, _)| *label == key)
            .map(|(_, advice)| *advice)
    };
    for (key, _) in entries(spec, "nodeSelector") {
        if let Some(advice) = advice(key) {
            warnings.push(format!("{path}.nodeSelector[{key}]: {advice}"));
        }
    }
    let terms = spec
        .pointer("/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution")
        .map_or(&[][..], |required| items(required, "nodeSelectorTerms"));
    let base = format!("{path}.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms");
    for (at, term) in terms.iter().enumerate() {
        for (index, expression) in items(term, "matchExpressions").iter().enumerate() {
            let key = text(expression, "key");
            if let Some(advice) = advice(key) {
                warnings.push(format!("{base}[{at}].matchExpressions[{index}].key: {key} is {advice}"));
            }
        }
    }
    for (index, constraint) in items(spec, "topologySpreadConstraints").iter().enumerate() {
        let at = format!("{path}.topologySpreadConstraints[{index}]");
        let key = text(constraint, "topologyKey");
        if let Some(advice) = advice(key) {
            warnings.push(format!("{at}.topologyKey: {key} is {advice}"));
        }
        if constraint.get("labelSelector").is_none() {
            warnings.push(format!(
                "{at}.labelSelector: a null labelSelector results in matching no pod"
            ));
        }
    }
}

fn warn_of_annotations(template: &Value, path: &str, warnings: &mut Vec<String>) {
    let Some(metadata) = template.get("metadata") else {
        return;
    };
    for (key, _) in entries(metadata, "annotations") {
        let fixed = ANNOTATIONS
            .iter()
            .find(|(annotation, _)| *annotation == key)
            .map(|(_, advice)| *advice);
        let advice = if key.starts_with(SECCOMP_CONTAINER) {
            Some("non-functional in v1.27+; use the \"seccompProfile\" field instead")
        } else if key.starts_with(APP_ARMOR) {
            Some("deprecated since v1.30; use the \"appArmorProfile\" field instead")
        } else {
            fixed
        };
        if let Some(advice) = advice {
            warnings.push(format!("{path}.annotations[{key}]: {advice}"));
        }
    }
}

fn warn_of_volumes(spec: &Value, path: &str, warnings: &mut Vec<String>) {
    for (index, volume) in items(spec, "volumes").iter().enumerate() {
        for (kind, advice) in VOLUMES.iter().filter(|(kind, _)| volume.get(kind).is_some()) {
            warnings.push(format!("{path}.volumes[{index}].{kind}: {advice}"));
        }
    }
}

fn warn_of_address(address: &str, path: &str, warnings: &mut Vec<String>) {
    let canonical = match names::parse_ip_sloppy(address) {
        Some(parsed) => parsed.to_string(),
        None => return,
    };
    if canonical != address {
        warnings.push(format!(
            "{path}: non-standard IP address \"{address}\" will be considered invalid in a future Kubernetes release: use \"{canonical}\""
        ));
    }
}

fn warn_of_repeats(list: &[Value], field: &str, path: &str, warnings: &mut Vec<String>) {
    let mut first: BTreeMap<&str, usize> = BTreeMap::new();
    for (index, item) in list.iter().enumerate() {
        let value = text(item, field);
        match first.get(value) {
            Some(earlier) => {
                warnings.push(format!(
                    "{path}[{index}].{field}: duplicate {field} \"{value}\", conflicts with [{earlier}]"
                ));
            }
            None => {
                first.insert(value, index);
            }
        }
    }
}

fn warn_of_container(container: &Value, path: &str, warnings: &mut Vec<String>) {
    let mut seen = BTreeSet::new();
    for (index, variable) in items(container, "env").iter().enumerate() {
        let (name, value) = (text(variable, "name"), text(variable, "value"));
        if !seen.insert(name) && !value.contains(&format!("$({name})")) {
            warnings.push(format!(
                "{path}.env[{index}]: hides previous definition of \"{name}\", which may be dropped when using apply"
            ));
        }
    }
    for list in ["limits", "requests"] {
        let Some(resources) = container.get("resources") else {
            continue;
        };
        for (name, amount) in
            entries(resources, list).filter(|(name, _)| matches!(*name, "memory" | "ephemeral-storage"))
        {
            let milli = quantity(amount).milli_value();
            if milli % 1000 != 0 {
                let amount = amount.as_str().unwrap_or_default();
                warnings.push(format!(
                    "{path}.resources.{list}[{name}]: fractional byte value \"{amount}\" is invalid, must be an integer"
                ));
            }
        }
    }
    let mut ports: BTreeMap<(i64, &str), usize> = BTreeMap::new();
    for (index, port) in items(container, "ports").iter().enumerate() {
        let number = port.get("containerPort").and_then(Value::as_i64).unwrap_or(0);
        if let Some(earlier) = ports.insert((number, text(port, "protocol")), index) {
            warnings.push(format!(
                "{path}.ports[{index}]: duplicate port definition with {path}.ports[{earlier}]"
            ));
        }
    }
}
