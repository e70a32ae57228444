//! Validation of a pod's spec as a whole, in the order of Kubernetes.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use trireme_machinery::{
    Feature,
    field::{Error, ErrorList, Path},
    names,
    selector::validate_labels,
};

use super::{
    annotations::{WHOLE_POD, is_mirror},
    check::{is_true, number, push_invalid, push_invalid_number, require_one_of, valid_if_set},
    containers, env, layout, resources, scheduling,
    security::{self, Capabilities},
    systems, volumes, windows,
};
use crate::{
    checks::legacy_ip,
    values::{items, text},
};

const DNS_POLICIES: [&str; 4] = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
const MAX_NAMESERVERS: usize = 3;
const MAX_SEARCHES: usize = 32;
const MAX_SEARCH_BYTES: usize = 2048;
const MAX_HOSTNAME_OVERRIDE: usize = 64;

/// Volumes without errors by their names.
pub(super) type Volumes<'a> = BTreeMap<&'a str, &'a Value>;

/// A pod's spec and what its containers may refer to.
pub(super) struct Pod<'a> {
    pub(super) capabilities: Capabilities,
    pub(super) spec: &'a Value,
    /// Nothing if the spec is a part of a template.
    pub(super) metadata: Option<&'a Value>,
    pub(super) volumes: Volumes<'a>,
    pub(super) claims: BTreeSet<&'a str>,
    pub(super) grace_period: i64,
}

/// Validates a pod's spec as a part of a template, or of a pod with this metadata. `path` is where the spec stands.
/// Upstream: `ValidatePodSpec`.
pub(crate) fn validate_pod_spec(
    capabilities: Capabilities,
    spec: &Value,
    metadata: Option<&Value>,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    let pod = Pod {
        capabilities,
        spec,
        metadata,
        volumes: volumes::validate_volumes(spec, metadata, capabilities.tolerated, &path.child("volumes"), errors),
        claims: items(spec, "resourceClaims")
            .iter()
            .map(|claim| text(claim, "name"))
            .filter(|name| !name.is_empty())
            .collect(),
        grace_period: number(spec, "terminationGracePeriodSeconds").unwrap_or(0),
    };
    validate_pod_resource_claims(&pod, &path.child("resourceClaims"), errors);
    containers::validate_containers(&pod, &path.child("containers"), errors);
    containers::validate_init_containers(&pod, &path.child("initContainers"), errors);
    containers::validate_ephemeral_containers(&pod, &path.child("ephemeralContainers"), errors);
    if capabilities.features.has(Feature::PodLevelResources) {
        resources::validate_pod_resource_requirements(&pod, &path.child("resources"), errors);
    }
    security::validate_pod_host_network_deps(&pod, &path.child("containers"), errors);
    require_one_of(spec, path, "restartPolicy", &["Always", "OnFailure", "Never"], errors);
    require_one_of(spec, path, "dnsPolicy", &DNS_POLICIES, errors);
    errors.extend(validate_labels(
        spec.get("nodeSelector").and_then(Value::as_object),
        &path.child("nodeSelector"),
    ));
    security::validate_pod_spec_security_context(&pod, &path.child("securityContext"), errors);
    if let Some(affinity) = spec.get("affinity") {
        scheduling::validate_affinity(affinity, capabilities.tolerated, &path.child("affinity"), errors);
    }
    validate_pod_dns_config(&pod, &path.child("dnsConfig"), errors);
    for (index, gate) in items(spec, "readinessGates").iter().enumerate() {
        let kind = text(gate, "conditionType");
        let gates = path.child("readinessGates");
        push_invalid(
            &gates.index(index).child("conditionType"),
            kind,
            names::qualified_name(kind),
            errors,
        );
    }
    scheduling::validate_scheduling_gates(spec, &path.child("schedulingGates"), errors);
    let constraints = path.child("topologySpreadConstraints");
    scheduling::validate_topology_spread_constraints(capabilities, spec, &constraints, errors);
    windows::validate_windows_host_process_pod(&pod, path, errors);
    security::validate_host_users(&pod, path, errors);
    validate_hostname_override(spec, path, errors);
    validate_names(&pod, path, errors);
    if let Some(overhead) = spec.get("overhead") {
        resources::validate_overhead(overhead, capabilities.tolerated, &path.child("overhead"), errors);
    }
    systems::validate_os(spec, path, errors);
    scheduling::validate_scheduling_group(spec, path, errors);
    env::validate_file_key_ref_volumes(spec, path, errors);
}

fn validate_names(pod: &Pod<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let spec = pod.spec;
    valid_if_set(spec, path, "serviceAccountName", names::dns1123_subdomain, errors);
    valid_if_set(spec, path, "nodeName", names::dns1123_subdomain, errors);
    if let Some(seconds) = number(spec, "activeDeadlineSeconds") {
        let messages = names::in_range(seconds, 1, i64::from(i32::MAX));
        push_invalid_number(&path.child("activeDeadlineSeconds"), seconds, messages, errors);
    }
    valid_if_set(spec, path, "hostname", names::dns1123_label, errors);
    valid_if_set(spec, path, "subdomain", names::dns1123_label, errors);
    let tolerations = items(spec, "tolerations");
    scheduling::validate_tolerations(
        pod.capabilities.features,
        tolerations,
        &path.child("tolerations"),
        errors,
    );
    validate_host_aliases(pod, &path.child("hostAliases"), errors);
    valid_if_set(spec, path, "priorityClassName", names::dns1123_subdomain, errors);
    if let Some(class) = spec.get("runtimeClassName").and_then(Value::as_str) {
        push_invalid(
            &path.child("runtimeClassName"),
            class,
            names::dns1123_subdomain(class),
            errors,
        );
    }
    validate_preemption_policy(spec, path, errors);
}

/// Validates `preemptionPolicy`, if it is set (`ValidatePreemptionPolicy`).
pub(crate) fn validate_preemption_policy(fields: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    if fields.get("preemptionPolicy").is_some() {
        require_one_of(
            fields,
            path,
            "preemptionPolicy",
            &["PreemptLowerPriority", "Never"],
            errors,
        );
    }
}

fn validate_hostname_override(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(name) = spec.get("hostnameOverride").and_then(Value::as_str) else {
        return;
    };
    let path = path.child("hostnameOverride");
    for field in ["setHostnameAsFQDN", "hostNetwork"] {
        if is_true(spec, field) {
            let detail = format!("may not be specified when {field} is true");
            errors.push(Error::forbidden(&path, &detail));
        }
    }
    if name.len() > MAX_HOSTNAME_OVERRIDE {
        errors.push(Error::too_long(&path, MAX_HOSTNAME_OVERRIDE));
    }
    push_invalid(&path, name, names::dns1123_subdomain(name), errors);
}

/// As upstream's `validatePodResourceClaims`.
fn validate_pod_resource_claims(pod: &Pod<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let mut seen = BTreeSet::new();
    for (index, claim) in items(pod.spec, "resourceClaims").iter().enumerate() {
        if pod.metadata.is_some_and(is_mirror) {
            let detail = "static pods do not support resource claims";
            errors.push(Error::forbidden(&WHOLE_POD, detail));
            continue;
        }
        let at = path.index(index);
        let name = text(claim, "name");
        if super::check::require(claim, &at, "name", errors) {
            if seen.insert(name) {
                push_invalid(&at.child("name"), name, names::dns1123_label(name), errors);
            } else {
                errors.push(Error::duplicate(&at.child("name"), &name.into()));
            }
        }
        let sources = ["resourceClaimName", "resourceClaimTemplateName"];
        let detail = match sources.map(|source| claim.get(source).is_some()) {
            [true, true] => "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified",
            [false, false] => "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
            _ => "",
        };
        if !detail.is_empty() {
            errors.push(Error::invalid_shown(
                &at,
                layout::compact("PodResourceClaim", claim),
                detail,
            ));
        }
        for source in sources {
            if let Some(name) = claim.get(source).and_then(Value::as_str) {
                push_invalid(&at.child(source), name, names::dns1123_subdomain(name), errors);
            }
        }
    }
}

/// As upstream's `validatePodDNSConfig`.
fn validate_pod_dns_config(pod: &Pod<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let (config, none) = (pod.spec.get("dnsConfig"), text(pod.spec, "dnsPolicy") == "None");
    let Some(config) = config else {
        if none {
            errors.push(Error::required(
                path,
                "must provide `dnsConfig` when `dnsPolicy` is None",
            ));
        }
        return;
    };
    let servers = items(config, "nameservers");
    let servers_path = path.child("nameservers");
    if none && servers.is_empty() {
        let detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
        errors.push(Error::required(&servers_path, detail));
        return;
    }
    if servers.len() > MAX_NAMESERVERS {
        let detail = format!("must not have more than {MAX_NAMESERVERS} nameservers");
        errors.push(Error::invalid(&servers_path, &servers.to_vec().into(), &detail));
    }
    for (index, server) in servers.iter().enumerate() {
        let server = server.as_str().unwrap_or_default();
        let messages = legacy_ip(pod.capabilities.features, server, &[]);
        push_invalid(&servers_path.index(index), server, messages, errors);
    }
    validate_searches(items(config, "searches"), &path.child("searches"), errors);
    let options = path.child("options");
    for (index, option) in items(config, "options").iter().enumerate() {
        if text(option, "name").is_empty() {
            errors.push(Error::required(&options.index(index), "must not be empty"));
        }
    }
}

fn validate_searches(searches: &[Value], path: &Path<'_>, errors: &mut ErrorList) {
    let listed = Value::from(searches.to_vec());
    if searches.len() > MAX_SEARCHES {
        let detail = format!("must not have more than {MAX_SEARCHES} search paths");
        errors.push(Error::invalid(path, &listed, &detail));
    }
    let texts: Vec<&str> = searches.iter().filter_map(Value::as_str).collect();
    if texts.join(" ").len() > MAX_SEARCH_BYTES {
        let detail =
            format!("must not have more than {MAX_SEARCH_BYTES} characters (including spaces) in the search list");
        errors.push(Error::invalid(path, &listed, &detail));
    }
    for (index, search) in texts.into_iter().enumerate().filter(|(_, search)| *search != ".") {
        let search = search.strip_suffix('.').unwrap_or(search);
        push_invalid(
            &path.index(index),
            search,
            names::dns1123_subdomain_with_underscore(search),
            errors,
        );
    }
}

/// As upstream's `ValidateHostAliases`.
fn validate_host_aliases(pod: &Pod<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    for (index, alias) in items(pod.spec, "hostAliases").iter().enumerate() {
        let at = path.index(index);
        let address = text(alias, "ip");
        let messages = legacy_ip(pod.capabilities.features, address, &[]);
        push_invalid(&at.child("ip"), address, messages, errors);
        let hostnames = at.child("hostnames");
        for (index, name) in items(alias, "hostnames").iter().enumerate() {
            let name = name.as_str().unwrap_or_default();
            push_invalid(&hostnames.index(index), name, names::dns1123_subdomain(name), errors);
        }
    }
}
