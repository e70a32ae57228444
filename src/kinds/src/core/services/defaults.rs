//! Defaults of services, and what an update keeps of or drops from the old service.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::fields::{
    cluster_ips, is_externally_accessible, is_load_balancer, may_have_node_ports, needs_cluster_ip,
    needs_health_check_port, needs_node_ports, node_port, node_ports, ports, same, spec,
};
use crate::values::{set_default, struct_mut, text};

/// Sets what depends on other fields.
pub(super) fn set(object: &mut Value) {
    let is_external = super::fields::is_external_name(object);
    let is_accessible = is_externally_accessible(object);
    let is_balanced = is_load_balancer(object);
    let fields = struct_mut(object, "spec");
    set_affinity(fields);
    set_target_ports(fields);
    drop_empty(fields, "externalTrafficPolicy");
    drop_empty(fields, "clusterIP");
    if is_accessible {
        set_default(fields, "externalTrafficPolicy", "Cluster");
    }
    if !is_external {
        set_default(fields, "internalTrafficPolicy", "Cluster");
    }
    if is_balanced {
        set_default(fields, "allocateLoadBalancerNodePorts", true);
        set_ip_modes(object);
    }
}

fn set_affinity(fields: &mut Map<String, Value>) {
    match fields.get("sessionAffinity").and_then(Value::as_str) {
        Some("None") => {
            fields.remove("sessionAffinityConfig");
        }
        Some("ClientIP") => {
            let config = fields.entry("sessionAffinityConfig").or_insert_with(|| json!({}));
            set_default(struct_mut(config, "clientIP"), "timeoutSeconds", 10800);
        }
        _ => {}
    }
}

fn set_target_ports(fields: &mut Map<String, Value>) {
    for port in fields
        .get_mut("ports")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        let number = port.get("port").and_then(Value::as_i64).unwrap_or(0);
        let target = port.get("targetPort");
        if target.is_none_or(|target| *target == json!(0) || *target == json!("") || target.is_null()) {
            port["targetPort"] = number.into();
        }
    }
}

fn set_ip_modes(object: &mut Value) {
    let ingress = object
        .pointer_mut("/status/loadBalancer/ingress")
        .and_then(Value::as_array_mut);
    for entry in ingress.into_iter().flatten() {
        if !text(entry, "ip").is_empty()
            && let Some(fields) = entry.as_object_mut()
        {
            set_default(fields, "ipMode", "VIP");
        }
    }
}

fn drop_empty(fields: &mut Map<String, Value>, name: &str) {
    if fields.get(name).is_some_and(|value| value.as_str() == Some("")) {
        fields.remove(name);
    }
}

/// Fills in what was allocated and the client did not send again.
pub(super) fn keep_allocated(new: &mut Value, old: &Value) {
    if needs_cluster_ip(old) && needs_cluster_ip(new) {
        let kept = spec(old).get("clusterIP").cloned();
        let fields = struct_mut(new, "spec");
        if let Some(kept) = &kept {
            set_default(fields, "clusterIP", kept.clone());
        }
        let is_unset = fields
            .get("clusterIPs")
            .is_none_or(|list| list.as_array().is_none_or(Vec::is_empty));
        if let Some(list) = spec(old).get("clusterIPs").filter(|_| is_unset) {
            fields.insert("clusterIPs".into(), list.clone());
        }
    }
    if needs_node_ports(old) && needs_node_ports(new) {
        keep_node_ports(new, old);
    }
    if needs_health_check_port(old)
        && needs_health_check_port(new)
        && super::fields::health_check_port(new) == 0
        && let Some(port) = spec(old).get("healthCheckNodePort")
    {
        struct_mut(new, "spec").insert("healthCheckNodePort".into(), port.clone());
    }
}

/// Ports are known again by their names; a number that another port took is not given twice.
fn keep_node_ports(new: &mut Value, old: &Value) {
    let sent = node_ports(new);
    let mut used: Vec<i64> = node_ports(old).into_iter().filter(|port| sent.contains(port)).collect();
    let by_name: BTreeMap<&str, i64> = ports(old)
        .iter()
        .map(|port| (text(port, "name"), node_port(port)))
        .collect();
    for port in new
        .pointer_mut("/spec/ports")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        let known = by_name.get(text(port, "name")).copied().unwrap_or(0);
        if node_port(port) == 0 && known != 0 && !used.contains(&known) {
            port["nodePort"] = known.into();
            used.push(known);
        }
    }
}

/// Brings `clusterIP` and `clusterIPs` together for clients that know only the first.
pub(super) fn normalize_cluster_ips(new: &mut Value, old: Option<&Value>) {
    let single = text(spec(new), "clusterIP").to_owned();
    let is_unset = cluster_ips(new).is_empty();
    let Some(old) = old else {
        if !single.is_empty() && is_unset {
            struct_mut(new, "spec").insert("clusterIPs".into(), json!([single]));
        }
        return;
    };
    let before = text(spec(old), "clusterIP");
    let is_same_list = cluster_ips(old) == cluster_ips(new);
    let fields = struct_mut(new, "spec");
    if before == single {
        if let Some(list) = spec(old).get("clusterIPs").filter(|_| is_unset) {
            fields.insert("clusterIPs".into(), list.clone());
        }
    } else if is_same_list {
        if single.is_empty() {
            fields.remove("clusterIPs");
        } else {
            fields.insert("clusterIPs".into(), json!([single]));
        }
    }
}

/// Drops what no longer applies after a change of the type, unless the client changed it as well.
pub(super) fn drop_by_type(new: &mut Value, old: &Value) {
    let mut dropped: Vec<&str> = Vec::new();
    if needs_cluster_ip(old) && !needs_cluster_ip(new) {
        if same(new, old, "clusterIP") && same(new, old, "clusterIPs") {
            dropped.extend(["clusterIP", "clusterIPs"]);
        }
        dropped.extend(
            ["ipFamilies", "ipFamilyPolicy"]
                .into_iter()
                .filter(|name| same(new, old, name)),
        );
    }
    let no_longer = |needs: fn(&Value) -> bool, name: &str| needs(old) && !needs(new) && same(new, old, name);
    if no_longer(needs_health_check_port, "healthCheckNodePort") {
        dropped.push("healthCheckNodePort");
    }
    for name in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
        if no_longer(is_load_balancer, name) {
            dropped.push(name);
        }
    }
    if no_longer(is_externally_accessible, "externalTrafficPolicy") {
        dropped.push("externalTrafficPolicy");
    }
    let drops_ports = may_have_node_ports(old) && !may_have_node_ports(new) && has_known_node_ports(new, old);
    let fields = struct_mut(new, "spec");
    dropped.into_iter().for_each(|name| {
        fields.remove(name);
    });
    if drops_ports {
        for port in fields
            .get_mut("ports")
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            crate::values::remove(port, "nodePort");
        }
    }
}

/// Ports may come, go and change with the type, as long as none asks for a node port that the service did not have.
fn has_known_node_ports(new: &Value, old: &Value) -> bool {
    let known = node_ports(old);
    node_ports(new).iter().all(|port| known.contains(port))
}
