//! Errors of services (`ValidateService` of `pkg/apis/core/validation`).

use std::{
    collections::BTreeSet,
    net::{IpAddr, Ipv6Addr},
};

use serde_json::Value;
use trireme_machinery::{
    Features,
    field::{Error, ErrorList, Path},
    names,
    selector::validate_labels,
};

use super::{
    fields::{
        NONE, cluster_ips, health_check_port, is_external_name, is_externally_accessible, is_headless,
        is_load_balancer, needs_health_check_port, service_type, shown_list, spec, texts,
    },
    ports,
};
use crate::{
    checks::{legacy_cidr, legacy_ip, push_invalid},
    values::{items, text, text_at},
};

const SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
const TOPOLOGY_MODE: &str = "service.kubernetes.io/topology-mode";
const TOPOLOGY_HINTS: &str = "service.kubernetes.io/topology-aware-hints";
const ONLY_BALANCED: &str = "may only be used when `type` is 'LoadBalancer'";
const NOT_FOR_NAMES: &str = "may not be set for ExternalName services";
/// The longest time in seconds that a client stays with an endpoint.
const MAX_AFFINITY_SECONDS: i64 = 86400;

/// All errors of a service beyond its metadata; `old` is there on update, and what stands in it may stay.
/// Upstream: `validateService`.
pub(super) fn validate_service(features: Features, object: &Value, old: Option<&Value>) -> ErrorList {
    let mut errors = ErrorList::new();
    validate_topology_annotations(object, &mut errors);
    validate_service_type(object, &mut errors);
    errors.extend(ports::validate_service_ports(object));
    errors.extend(validate_labels(
        spec(object).get("selector").and_then(Value::as_object),
        &Path::new("spec.selector"),
    ));
    validate_session_affinity(object, &mut errors);
    errors.extend(validate_service_cluster_ips_related_fields(features, object, old));
    validate_external_ips(features, object, old, &mut errors);
    let kinds = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    validate_choice(object, "type", &kinds, true, &mut errors);
    errors.extend(ports::validate_node_ports(object));
    validate_load_balancer_source_ranges(features, object, old, &mut errors);
    validate_load_balancer_fields(object, &mut errors);
    validate_service_traffic_fields(object, &mut errors);
    errors
}

/// The annotation that chooses how traffic is kept near has an old name; both must say the same.
fn validate_topology_annotations(object: &Value, errors: &mut ErrorList) {
    let annotations = object.pointer("/metadata/annotations");
    let given = |key: &str| annotations?.get(key)?.as_str();
    if let (Some(mode), Some(hints)) = (given(TOPOLOGY_MODE), given(TOPOLOGY_HINTS))
        && mode != hints
    {
        let path = Path::new("metadata.annotations");
        let why = format!("must match annotations[{TOPOLOGY_HINTS}] when both are specified");
        errors.push(Error::invalid_str(&path.key(TOPOLOGY_MODE), mode, &why));
    }
}

fn validate_service_type(object: &Value, errors: &mut ErrorList) {
    let path = Path::new("spec");
    if super::fields::ports(object).is_empty() && !is_headless(object) && !is_external_name(object) {
        errors.push(Error::required(&path.child("ports"), ""));
    }
    match service_type(object) {
        kind @ ("LoadBalancer" | "NodePort") if is_headless(object) => {
            let why = format!("may not be set to 'None' for {kind} services");
            errors.push(Error::invalid_str(&path.child("clusterIPs").index(0), NONE, &why));
        }
        "ExternalName" => {
            for name in ["clusterIPs", "ipFamilies"]
                .into_iter()
                .filter(|name| !texts(object, name).is_empty())
            {
                errors.push(Error::forbidden(&path.child(name), NOT_FOR_NAMES));
            }
            if spec(object).get("ipFamilyPolicy").is_some() {
                errors.push(Error::forbidden(&path.child("ipFamilyPolicy"), NOT_FOR_NAMES));
            }
            let given = text_at(object, "/spec/externalName");
            let name = given.strip_suffix('.').unwrap_or(given);
            let path = path.child("externalName");
            if name.is_empty() {
                errors.push(Error::required(&path, ""));
            } else {
                errors.extend(
                    names::dns1123_subdomain(name)
                        .iter()
                        .map(|why| Error::invalid_str(&path, name, why)),
                );
            }
        }
        _ => {}
    }
}

/// A field that must be one of a few words.
fn validate_choice(object: &Value, name: &str, words: &[&str], is_required: bool, errors: &mut ErrorList) {
    let spec_path = Path::new("spec");
    let path = spec_path.child(name);
    match text(spec(object), name) {
        "" if is_required => errors.push(Error::required(&path, "")),
        word if spec(object).get(name).is_some() && !words.contains(&word) => {
            errors.push(Error::not_supported(&path, word, words));
        }
        _ => {}
    }
}

fn validate_session_affinity(object: &Value, errors: &mut ErrorList) {
    validate_choice(object, "sessionAffinity", &["ClientIP", "None"], true, errors);
    let path = Path::new("spec.sessionAffinityConfig");
    let why = "when session affinity type is ClientIP";
    let config = spec(object).get("sessionAffinityConfig");
    match (text(spec(object), "sessionAffinity"), config) {
        ("ClientIP", None) => errors.push(Error::required(&path, why)),
        ("ClientIP", Some(config)) => {
            let path = path.child("clientIP");
            let Some(client) = config.get("clientIP") else {
                return errors.push(Error::required(&path, why));
            };
            let path = path.child("timeoutSeconds");
            match client.get("timeoutSeconds").and_then(Value::as_i64) {
                None => errors.push(Error::required(&path, why)),
                Some(seconds) if !(1..=MAX_AFFINITY_SECONDS).contains(&seconds) => {
                    let why = format!("must be greater than 0 and less than {MAX_AFFINITY_SECONDS}");
                    errors.push(Error::invalid(&path, &seconds.into(), &why));
                }
                Some(_) => {}
            }
        }
        ("None", Some(_)) => errors.push(Error::forbidden(&path, "must not be set when session affinity is None")),
        _ => {}
    }
}

/// Validates `clusterIP`, `clusterIPs`, `ipFamilies` and `ipFamilyPolicy` together.
/// Upstream: `ValidateServiceClusterIPsRelatedFields`.
pub(super) fn validate_service_cluster_ips_related_fields(
    features: Features,
    object: &Value,
    old: Option<&Value>,
) -> ErrorList {
    let mut errors = ErrorList::new();
    if is_external_name(object) {
        return errors;
    }
    let spec_path = Path::new("spec");
    let path = spec_path.child("clusterIPs");
    let single = text(spec(object), "clusterIP");
    let list = cluster_ips(object);
    let shown = shown_list(object, "clusterIPs");
    match (single, list.first()) {
        ("", Some(_)) => {
            errors.push(Error::invalid(
                &path,
                shown,
                "must be empty when `clusterIP` is not specified",
            ));
        }
        ("", None) => {}
        (_, None) => errors.push(Error::required(&path, "")),
        (_, Some(first)) if *first != single => {
            errors.push(Error::invalid(&path, shown, "first value must match `clusterIP`"));
        }
        _ => {}
    }
    validate_ip_families(object, &spec_path, &mut errors);
    let known = old.map(cluster_ips).unwrap_or_default();
    let before = errors.len();
    for (index, ip) in list.iter().enumerate() {
        if index == 0 && *ip == NONE {
            if list.len() > 1 {
                errors.push(Error::invalid(&path, shown, "'None' must be the first and only value"));
            }
            continue;
        }
        push_invalid(&path.index(index), ip, legacy_ip(features, ip, &known), &mut errors);
    }
    let has_bad_address = errors.len() > before;
    if list.len() > 2 {
        errors.push(Error::invalid(&path, shown, "may only hold up to 2 values"));
    }
    if !has_bad_address {
        validate_dual_stack_pair(object, &list, &path, &mut errors);
    }
    errors
}

fn validate_ip_families(object: &Value, spec_path: &Path<'_>, errors: &mut ErrorList) {
    let path = spec_path.child("ipFamilies");
    let mut seen = BTreeSet::new();
    for (index, family) in texts(object, "ipFamilies").into_iter().enumerate() {
        if !matches!(family, "IPv4" | "IPv6") {
            errors.push(Error::not_supported(&path.index(index), family, &["IPv4", "IPv6"]));
        }
        if !seen.insert(family) {
            errors.push(Error::duplicate(&path.index(index), &family.into()));
        }
    }
    validate_choice(
        object,
        "ipFamilyPolicy",
        &["PreferDualStack", "RequireDualStack", "SingleStack"],
        false,
        errors,
    );
}

fn validate_dual_stack_pair(object: &Value, list: &[&str], path: &Path<'_>, errors: &mut ErrorList) {
    let is_v6 = |ip: &&str| names::parse_ip_sloppy(ip).is_some_and(|ip| ip.is_ipv6());
    if list.len() > 1 && list.iter().all(&is_v6) == list.iter().any(&is_v6) {
        let shown = shown_list(object, "clusterIPs");
        errors.push(Error::invalid(
            path,
            shown,
            "may specify no more than one IP for each IP family",
        ));
    }
    if is_headless(object) {
        return;
    }
    for (index, (ip, family)) in list.iter().zip(texts(object, "ipFamilies")).enumerate() {
        let is_wrong = match family {
            "IPv4" => is_v6(ip),
            "IPv6" => !is_v6(ip),
            _ => false,
        };
        if is_wrong {
            let why = format!("expected an {family} value as indicated by `ipFamilies[{index}]`");
            errors.push(Error::invalid_str(&path.index(index), ip, &why));
        }
    }
}

fn validate_external_ips(features: Features, object: &Value, old: Option<&Value>, errors: &mut ErrorList) {
    let path = Path::new("spec.externalIPs");
    let known = old.map(|old| texts(old, "externalIPs")).unwrap_or_default();
    for (index, ip) in texts(object, "externalIPs").into_iter().enumerate() {
        let path = path.index(index);
        let messages = legacy_ip(features, ip, &known);
        if messages.is_empty() {
            errors.extend(validate_external_endpoint_ip(ip, &path));
        }
        push_invalid(&path, ip, messages, errors);
    }
}

/// Validates that an address can be reached from outside.
fn validate_external_endpoint_ip(text: &str, path: &Path<'_>) -> ErrorList {
    let Some(ip) = names::parse_ip_sloppy(text) else {
        return vec![Error::invalid_str(path, text, "must be a valid IP address")];
    };
    let is_link_local = match ip {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    };
    let is_local_multicast = match ip {
        IpAddr::V4(v4) => v4.octets().starts_with(&[224, 0, 0]),
        IpAddr::V6(v6) => is_local_multicast(v6),
    };
    let errors = [
        (ip.is_unspecified(), format!("may not be unspecified ({text})")),
        (
            ip.is_loopback(),
            "may not be in the loopback range (127.0.0.0/8, ::1/128)".to_owned(),
        ),
        (
            is_link_local,
            "may not be in the link-local range (169.254.0.0/16, fe80::/10)".to_owned(),
        ),
        (
            is_local_multicast,
            "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)".to_owned(),
        ),
    ];
    errors
        .into_iter()
        .filter(|(is_error, _)| *is_error)
        .map(|(_, why)| Error::invalid_str(path, text, &why))
        .collect()
}

fn is_local_multicast(v6: Ipv6Addr) -> bool {
    let [first, second, ..] = v6.octets();
    first == 0xff && second & 0x0f == 0x02
}

fn validate_load_balancer_source_ranges(
    features: Features,
    object: &Value,
    old: Option<&Value>,
    errors: &mut ErrorList,
) {
    let ranges = texts(object, "loadBalancerSourceRanges");
    if !ranges.is_empty() {
        let path = Path::new("spec.LoadBalancerSourceRanges");
        if !is_load_balancer(object) {
            errors.push(Error::forbidden(&path, ONLY_BALANCED));
        }
        let known = old
            .map(|old| texts(old, "loadBalancerSourceRanges"))
            .unwrap_or_default();
        let known: Vec<&str> = known.into_iter().map(str::trim).collect();
        for (index, range) in ranges.into_iter().enumerate() {
            let range = range.trim();
            push_invalid(&path.index(index), range, legacy_cidr(features, range, &known), errors);
        }
        return;
    }
    let annotation = |object: &Value| {
        let annotations = object.pointer("/metadata/annotations")?;
        annotations.get(SOURCE_RANGES)?.as_str().map(str::to_owned)
    };
    let Some(value) = annotation(object) else { return };
    let annotations = Path::new("metadata.annotations");
    let path = annotations.key(SOURCE_RANGES);
    if !is_load_balancer(object) {
        errors.push(Error::forbidden(&path, ONLY_BALANCED));
    }
    let is_known = old.and_then(annotation).is_some_and(|old| old == value);
    if is_known || value.trim().is_empty() {
        return;
    }
    for range in value.trim().split(',').map(str::trim) {
        push_invalid(&path, range, legacy_cidr(features, range, &[]), errors);
    }
}

fn validate_load_balancer_fields(object: &Value, errors: &mut ErrorList) {
    let path = Path::new("spec.allocateLoadBalancerNodePorts");
    match (
        spec(object).get("allocateLoadBalancerNodePorts"),
        is_load_balancer(object),
    ) {
        (Some(_), false) => errors.push(Error::forbidden(&path, ONLY_BALANCED)),
        (None, true) => errors.push(Error::required(&path, "")),
        _ => {}
    }
    errors.extend(validate_load_balancer_class_field(object));
}

/// Validates `loadBalancerClass` (`validateLoadBalancerClassField`).
pub(super) fn validate_load_balancer_class_field(object: &Value) -> ErrorList {
    let path = Path::new("spec.loadBalancerClass");
    let Some(class) = spec(object).get("loadBalancerClass").and_then(Value::as_str) else {
        return ErrorList::new();
    };
    if !is_load_balancer(object) {
        return vec![Error::forbidden(&path, ONLY_BALANCED)];
    }
    names::qualified_name(class)
        .iter()
        .map(|why| Error::invalid_str(&path, class, why))
        .collect()
}

fn validate_service_traffic_fields(object: &Value, errors: &mut ErrorList) {
    let policy = text(spec(object), "externalTrafficPolicy");
    if is_externally_accessible(object) {
        validate_choice(object, "externalTrafficPolicy", &["Cluster", "Local"], true, errors);
    } else if !policy.is_empty() {
        let why = "may only be set for externally-accessible services";
        errors.push(Error::invalid_str(
            &Path::new("spec.externalTrafficPolicy"),
            policy,
            why,
        ));
    }
    let path = Path::new("spec.healthCheckNodePort");
    match (needs_health_check_port(object), health_check_port(object)) {
        // One is given by the allocation that follows.
        (_, 0) => {}
        (true, port) => {
            let messages = names::port_number(port);
            errors.extend(messages.iter().map(|why| Error::invalid(&path, &port.into(), why)));
        }
        (false, port) => {
            let why = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
            errors.push(Error::invalid(&path, &port.into(), why));
        }
    }
    let is_required = matches!(service_type(object), "ClusterIP" | "NodePort" | "LoadBalancer")
        && spec(object).get("internalTrafficPolicy").is_none();
    let policies = ["Cluster", "Local"];
    validate_choice(object, "internalTrafficPolicy", &policies, is_required, errors);
    let known = ["PreferClose", "PreferSameZone", "PreferSameNode"];
    validate_choice(object, "trafficDistribution", &known, false, errors);
}

/// Validates a status; addresses that were there before may stay (`ValidateServiceStatusUpdate`).
pub(super) fn validate_service_status_update(features: Features, new: &Value, old: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let path = Path::new("status.loadBalancer.ingress");
    let null = Value::Null;
    let entries = |object| {
        items(
            Value::pointer(object, "/status/loadBalancer").unwrap_or(&null),
            "ingress",
        )
    };
    let ingress = entries(new);
    if !ingress.is_empty() && !is_load_balancer(new) {
        return vec![Error::forbidden(
            &path,
            "may only be used when `spec.type` is 'LoadBalancer'",
        )];
    }
    let known: Vec<&str> = entries(old).iter().map(|entry| text(entry, "ip")).collect();
    for (index, entry) in ingress.iter().enumerate() {
        let path = path.index(index);
        let ip = text(entry, "ip");
        if !ip.is_empty() {
            push_invalid(&path.child("ip"), ip, legacy_ip(features, ip, &known), &mut errors);
        }
        let mode_path = path.child("ipMode");
        match (entry.get("ipMode").and_then(Value::as_str), ip.is_empty()) {
            (None, true) | (Some("VIP" | "Proxy"), false) => {}
            (None, false) => errors.push(Error::required(&mode_path, "must be specified when `ip` is set")),
            (Some(_), true) => errors.push(Error::forbidden(
                &mode_path,
                "may not be specified when `ip` is not set",
            )),
            (Some(mode), false) => errors.push(Error::not_supported(&mode_path, mode, &["Proxy", "VIP"])),
        }
        let host = text(entry, "hostname");
        if !host.is_empty() {
            let path = path.child("hostname");
            errors.extend(
                names::dns1123_subdomain(host)
                    .iter()
                    .map(|why| Error::invalid_str(&path, host, why)),
            );
            if names::is_legacy_ip(host) {
                errors.push(Error::invalid_str(&path, host, "must be a DNS name, not an IP address"));
            }
        }
    }
    errors
}
