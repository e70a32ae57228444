//! Warnings to clients (`pkg/api/service/warnings.go`).

use serde_json::Value;

use super::fields::{NONE, cluster_ips, is_external_name, is_headless, spec, texts};
use crate::{
    address_warnings::{of_address, of_range},
    values::{text, text_at},
};

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
    if !is_external_name(object) && !text_at(object, "/spec/externalName").is_empty() {
        warnings.push("spec.externalName is ignored when spec.type is not \"ExternalName\"".to_owned());
    }
    if text(spec(object), "trafficDistribution") == "PreferClose" {
        warnings.push("spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"".to_owned());
    }
    warnings
}
