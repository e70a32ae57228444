//! What clients are warned of (`pkg/api/service/warnings.go`).

use std::net::IpAddr;

use serde_json::Value;
use trireme_machinery::{field::quote, names};

use super::fields::{NONE, cluster_ips, is_external_name, is_headless, spec, texts};
use crate::values::{text, text_at};

/// All warnings of a service.
pub(super) fn of(object: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    if object
        .pointer("/metadata/annotations/service.kubernetes.io~1topology-aware-hints")
        .is_some()
    {
        warnings.push(
            "annotation service.kubernetes.io/topology-aware-hints is deprecated, please use \
             service.kubernetes.io/topology-mode instead"
                .to_owned(),
        );
    }
    let external = texts(object, "externalIPs");
    let balancer = text_at(object, "/spec/loadBalancerIP");
    if is_headless(object) {
        if !balancer.is_empty() {
            warnings.push("spec.loadBalancerIP is ignored for headless services".to_owned());
        }
        if !external.is_empty() {
            warnings.push("spec.externalIPs is ignored for headless services".to_owned());
        }
        if text(spec(object), "sessionAffinity") != NONE {
            warnings.push("spec.SessionAffinity is ignored for headless services".to_owned());
        }
    } else {
        for (index, ip) in cluster_ips(object).into_iter().enumerate() {
            warnings.extend(of_address(&format!("spec.clusterIPs[{index}]"), ip));
        }
    }
    if !balancer.is_empty() {
        warnings.extend(of_address("spec.loadBalancerIP", balancer));
    }
    for (index, ip) in external.iter().enumerate() {
        warnings.extend(of_address(&format!("spec.externalIPs[{index}]"), ip));
    }
    for (index, range) in texts(object, "loadBalancerSourceRanges").into_iter().enumerate() {
        warnings.extend(of_range(
            &format!("spec.loadBalancerSourceRanges[{index}]"),
            range.trim(),
        ));
    }
    if !external.is_empty() {
        if is_external_name(object) {
            warnings.push("spec.externalIPs is ignored when spec.type is \"ExternalName\"".to_owned());
        } else if !is_headless(object) {
            let deprecated = "spec.externalIPs is deprecated and may no longer be implemented in some clusters";
            warnings.push(deprecated.to_owned());
        }
    }
    if text(spec(object), "trafficDistribution") == "PreferClose" {
        warnings.push("spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"".to_owned());
    }
    warnings
}

/// An address that later versions will not read, or that is not in its usual form.
fn of_address(path: &str, ip: &str) -> Option<String> {
    let canonical = names::parse_ip_sloppy(ip)?.to_string();
    if ip.parse::<IpAddr>().is_err() || !names::ip(ip).is_empty() {
        return Some(nonstandard(path, "IP address", ip, &canonical));
    }
    (canonical != ip).then(|| off_form(path, "IPv6 address", ip, &canonical))
}

fn of_range(path: &str, range: &str) -> Option<String> {
    let (address, length) = names::parse_cidr_sloppy(range)?;
    let canonical = format!("{address}/{length}");
    if !names::cidr(range).is_empty() {
        return Some(nonstandard(path, "CIDR value", range, &canonical));
    }
    (canonical != range).then(|| off_form(path, "IPv6 CIDR value", range, &canonical))
}

fn nonstandard(path: &str, what: &str, given: &str, canonical: &str) -> String {
    let (given, canonical) = (quote(given), quote(canonical));
    format!(
        "{path}: non-standard {what} {given} will be considered invalid in a future Kubernetes release: use {canonical}"
    )
}

fn off_form(path: &str, what: &str, given: &str, canonical: &str) -> String {
    format!(
        "{path}: {what} {} should be in RFC 5952 canonical format ({})",
        quote(given),
        quote(canonical)
    )
}
