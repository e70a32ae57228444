//! Warnings on what a pod or a template asks for (`pkg/api/pod/warnings.go`).

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use serde_json::Value;
use trireme_machinery::{field::Path, go_text::quote, names};

use super::{
    annotations,
    check::{CONTAINER_LISTS, number, quantity, visit_containers},
    overlaps,
};
use crate::{
    address_warnings::of_address,
    values::{at, entries, items, text},
    volumes::{claim_spec::claim_spec_warnings, deprecated_source_warnings},
};

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
const ANNOTATIONS: [(&str, &str); 3] = [
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
/// Resources that are measured in bytes.
const IN_BYTES: [&str; 2] = ["memory", "ephemeral-storage"];
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// Warnings on what a template asks for; `path` is where the template stands (empty for a pod).
pub(crate) fn warnings(template: &Value, path: &str) -> Vec<String> {
    let mut warnings = Vec::new();
    let Some(spec) = template.get("spec") else {
        return warnings;
    };
    let prefix = if path.is_empty() {
        String::new()
    } else {
        format!("{path}.")
    };
    let spec_path = format!("{prefix}spec");
    let none = Value::Null;
    let metadata = template.get("metadata").unwrap_or(&none);
    warn_of_nodes(spec, &spec_path, &mut warnings);
    for (key, advice) in ANNOTATIONS {
        if entries(metadata, "annotations").any(|(annotation, _)| annotation == key) {
            warnings.push(format!("{prefix}metadata.annotations[{key}]: {advice}"));
        }
    }
    warn_of_volumes(spec, &spec_path, &mut warnings);
    overlaps::warn_of_files(spec, &mut warnings);
    warn_of_repeats(spec, "hostAliases", "ip", &spec_path, &mut warnings);
    warn_of_repeats(spec, "imagePullSecrets", "name", &spec_path, &mut warnings);
    for (index, secret) in items(spec, "imagePullSecrets").iter().enumerate() {
        if text(secret, "name").is_empty() {
            warnings.push(format!(
                "{spec_path}.imagePullSecrets[{index}].name: invalid empty name \"\""
            ));
        }
    }
    for name in IN_BYTES {
        warn_of_fraction(spec, "overhead", name, &Path::new(&spec_path), &mut warnings);
    }
    warnings.extend(annotations::warning_of_pod(metadata, spec, &prefix));
    visit_containers(spec, &Path::new(&spec_path), |container, at| {
        warnings.extend(annotations::warnings_of_container(metadata, spec, container, &prefix));
        warn_of_container(container, at, &mut warnings);
    });
    warn_of_ports(spec, &spec_path, &mut warnings);
    warn_of_port_names(spec, &spec_path, &mut warnings);
    if spec
        .get("terminationGracePeriodSeconds")
        .and_then(Value::as_i64)
        .is_some_and(|seconds| seconds < 0)
    {
        warnings.push(format!(
            "{spec_path}.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1"
        ));
    }
    warn_of_company(spec, &spec_path, &mut warnings);
    warn_of_addresses(spec, &spec_path, &mut warnings);
    warnings
}

fn warn_of_nodes(spec: &Value, path: &str, warnings: &mut Vec<String>) {
    for (key, _) in entries(spec, "nodeSelector") {
        if let Some(advice) = node_label_advice(key) {
            warnings.push(format!("{path}.nodeSelector[{key}]: {advice}"));
        }
    }
    let none = Value::Null;
    let affinity = at(spec, "/affinity/nodeAffinity").unwrap_or(&none);
    let path_of = |field: &str| format!("{path}.affinity.nodeAffinity.{field}");
    let required = affinity.get(REQUIRED).unwrap_or(&none);
    for (at, term) in items(required, "nodeSelectorTerms").iter().enumerate() {
        let at = format!("{}.nodeSelectorTerms[{at}]", path_of(REQUIRED));
        warn_of_node_term(term, false, &at, warnings);
    }
    for (at, weighted) in items(affinity, PREFERRED).iter().enumerate() {
        let at = format!("{}[{at}].preference", path_of(PREFERRED));
        warn_of_node_term(weighted.get("preference").unwrap_or(&none), true, &at, warnings);
    }
    for (index, constraint) in items(spec, "topologySpreadConstraints").iter().enumerate() {
        let at = format!("{path}.topologySpreadConstraints[{index}]");
        let key = text(constraint, "topologyKey");
        if let Some(advice) = node_label_advice(key) {
            warnings.push(format!("{at}.topologyKey: {key} is {advice}"));
        }
        warn_of_no_selector(constraint, &at, warnings);
    }
}

/// The warning about a deprecated label of nodes.
pub(crate) fn node_label_advice(key: &str) -> Option<&'static str> {
    let found = NODE_LABELS.iter().find(|(label, _)| *label == key);
    found.map(|(_, advice)| *advice)
}

/// Values that cannot be labels are refused where a term must hold, and warned of where it is only preferred.
fn warn_of_node_term(term: &Value, check_values: bool, path: &str, warnings: &mut Vec<String>) {
    for (index, expression) in items(term, "matchExpressions").iter().enumerate() {
        let at = format!("{path}.matchExpressions[{index}]");
        let key = text(expression, "key");
        if let Some(advice) = node_label_advice(key) {
            warnings.push(format!("{at}.key: {key} is {advice}"));
        }
        for (index, value) in items(expression, "values").iter().enumerate().filter(|_| check_values) {
            let value = value.as_str().unwrap_or_default();
            let errors = names::label_value(value).into_iter();
            warnings.extend(errors.map(|error| format!("{at}.values[{index}]: {value} is invalid, {error}")));
        }
    }
}

fn warn_of_no_selector(term: &Value, path: &str, warnings: &mut Vec<String>) {
    if term.get("labelSelector").is_none() {
        warnings.push(format!(
            "{path}.labelSelector: a null labelSelector results in matching no pod"
        ));
    }
}

/// Other pods that a pod wants near or far.
fn warn_of_company(spec: &Value, path: &str, warnings: &mut Vec<String>) {
    let none = Value::Null;
    for field in ["podAffinity", "podAntiAffinity"] {
        let affinity = spec
            .get("affinity")
            .and_then(|affinity| affinity.get(field))
            .unwrap_or(&none);
        let path = format!("{path}.affinity.{field}");
        for (index, term) in items(affinity, REQUIRED).iter().enumerate() {
            warn_of_no_selector(term, &format!("{path}.{REQUIRED}[{index}]"), warnings);
        }
        for (index, weighted) in items(affinity, PREFERRED).iter().enumerate() {
            let term = weighted.get("podAffinityTerm").unwrap_or(&none);
            warn_of_no_selector(term, &format!("{path}.{PREFERRED}[{index}].podAffinityTerm"), warnings);
        }
    }
}

fn warn_of_volumes(spec: &Value, path: &str, warnings: &mut Vec<String>) {
    for (index, volume) in items(spec, "volumes").iter().enumerate() {
        warnings.extend(deprecated_source_warnings(volume, &format!("{path}.volumes[{index}]")));
        warn_of_claim(volume, &format!("{path}.volumes[{index}]"), warnings);
    }
}

fn warn_of_addresses(spec: &Value, path: &str, warnings: &mut Vec<String>) {
    let servers = spec
        .get("dnsConfig")
        .map_or(&[][..], |config| items(config, "nameservers"));
    for (index, server) in servers.iter().enumerate() {
        let at = format!("{path}.dnsConfig.nameservers[{index}]");
        warnings.extend(of_address(&at, server.as_str().unwrap_or_default()));
    }
    for (index, alias) in items(spec, "hostAliases").iter().enumerate() {
        warnings.extend(of_address(
            &format!("{path}.hostAliases[{index}].ip"),
            text(alias, "ip"),
        ));
    }
}

fn warn_of_repeats(spec: &Value, list: &str, field: &str, path: &str, warnings: &mut Vec<String>) {
    let mut seen = BTreeSet::new();
    for (index, item) in items(spec, list).iter().enumerate() {
        let value = text(item, field);
        if !seen.insert(value) {
            warnings.push(format!(
                "{path}.{list}[{index}].{field}: duplicate {field} {}",
                quote(value)
            ));
        }
    }
}

/// Bytes cannot be split.
fn warn_of_fraction(owner: &Value, list: &str, name: &str, path: &Path<'_>, warnings: &mut Vec<String>) {
    let amount = owner.get(list).and_then(|amounts| amounts.get(name));
    if let Some(amount) = amount.filter(|amount| quantity(amount).as_integer().is_none()) {
        let amount = amount.as_str().unwrap_or_default();
        warnings.push(format!(
            "{path}.{list}[{name}]: fractional byte value \"{amount}\" is invalid, must be an integer"
        ));
    }
}

fn warn_of_container(container: &Value, path: &Path<'_>, warnings: &mut Vec<String>) {
    if let Some(resources) = container.get("resources") {
        for name in IN_BYTES {
            for list in ["limits", "requests"] {
                warn_of_fraction(resources, list, name, &path.child("resources"), warnings);
            }
        }
    }
    let mut seen = BTreeSet::new();
    for (index, variable) in items(container, "env").iter().enumerate() {
        let name = text(variable, "name");
        if !seen.insert(name) && !extends(variable, name) {
            warnings.push(format!(
                "{path}.env[{index}]: hides previous definition of \"{name}\", which may be dropped when using apply"
            ));
        }
    }
}

/// True if a variable refers to the earlier one of its name.
fn extends(variable: &Value, name: &str) -> bool {
    let (value, reference) = (text(variable, "value"), format!("$({name})"));
    variable.get("valueFrom").is_none() && value != reference && value.contains(&reference)
}

/// A port of a container and where it is declared.
struct Declared<'a> {
    list: &'static str,
    container: usize,
    index: usize,
    host_ip: &'a str,
    host_port: i64,
}

/// The place below the spec.
impl fmt::Display for Declared<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}].ports[{}]", self.list, self.container, self.index)
    }
}

/// Ports that are declared twice, in one container or in several.
fn warn_of_ports(spec: &Value, path: &str, warnings: &mut Vec<String>) {
    let mut all: BTreeMap<(i64, &str), Vec<Declared<'_>>> = BTreeMap::new();
    for list in CONTAINER_LISTS {
        for (container, declared) in items(spec, list).iter().enumerate() {
            for (index, port) in items(declared, "ports").iter().enumerate() {
                let new = Declared {
                    list,
                    container,
                    index,
                    host_ip: text(port, "hostIP"),
                    host_port: number(port, "hostPort").unwrap_or(0),
                };
                let (number, protocol) = (number(port, "containerPort").unwrap_or(0), text(port, "protocol"));
                if !new.host_ip.is_empty() && new.host_port == 0 {
                    warnings.push(format!(
                        "{path}.{new}: hostIP set without hostPort: {{Name:{} HostPort:0 ContainerPort:{number} \
                         Protocol:{protocol} HostIP:{}}}",
                        text(port, "name"),
                        new.host_ip
                    ));
                }
                let others = all.entry((number, protocol)).or_default();
                warnings.extend(others.iter().filter_map(|other| {
                    let how = clash(&new, other)?;
                    Some(format!("{path}.{new}: {how} port definition with {path}.{other}"))
                }));
                others.push(new);
            }
        }
    }
}

/// Names of ports that were given before: probes and services take the first.
fn warn_of_port_names(spec: &Value, path: &str, warnings: &mut Vec<String>) {
    let mut all: BTreeMap<&str, String> = BTreeMap::new();
    for list in CONTAINER_LISTS {
        for (container, declared) in items(spec, list).iter().enumerate() {
            for (index, port) in items(declared, "ports").iter().enumerate() {
                let (name, at) = (text(port, "name"), format!("{path}.{list}[{container}].ports[{index}]"));
                match all.get(name) {
                    _ if name.is_empty() => {}
                    Some(first) => warnings.push(format!(
                        "{at}: duplicate port name {} with {first}, services and probes that select ports by name will use {first}",
                        quote(name)
                    )),
                    None => {
                        all.insert(name, at);
                    }
                }
            }
        }
    }
}

fn clash(new: &Declared<'_>, other: &Declared<'_>) -> Option<&'static str> {
    if new.host_ip == other.host_ip && new.host_port == other.host_port {
        Some("duplicate")
    } else if new.host_port == 0 || other.host_port == 0 {
        Some("overlapping")
    } else if new.host_port == other.host_port && new.host_ip.is_empty() != other.host_ip.is_empty() {
        Some("dangerously ambiguous")
    } else {
        None
    }
}

/// A claim that is made for the pod is warned of as other claims are.
fn warn_of_claim(volume: &Value, path: &str, warnings: &mut Vec<String>) {
    if let Some(spec) = at(volume, "/ephemeral/volumeClaimTemplate/spec") {
        let at = format!("{path}.ephemeral.volumeClaimTemplate.spec");
        warnings.extend(claim_spec_warnings(spec, &at));
    }
}
