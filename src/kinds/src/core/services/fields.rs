//! Accessors of a service's fields, in the words of `pkg/api/service` and the storage's helpers.

use serde_json::Value;

use crate::values::{is_true_at, items, text, text_at};

/// The address of a service without one.
pub(super) const NONE: &str = "None";

static NULL: Value = Value::Null;

pub(super) fn spec(object: &Value) -> &Value {
    object.get("spec").unwrap_or(&NULL)
}

pub(super) fn service_type(object: &Value) -> &str {
    text_at(object, "/spec/type")
}

pub(super) fn ports(object: &Value) -> &[Value] {
    items(spec(object), "ports")
}

/// The texts of a list in the spec.
pub(super) fn texts<'a>(object: &'a Value, name: &str) -> Vec<&'a str> {
    items(spec(object), name)
        .iter()
        .map(|item| item.as_str().unwrap_or_default())
        .collect()
}

pub(super) fn cluster_ips(object: &Value) -> Vec<&str> {
    texts(object, "clusterIPs")
}

/// A list of the spec as errors show it.
pub(super) fn shown_list<'a>(object: &'a Value, name: &str) -> &'a Value {
    spec(object).get(name).unwrap_or(&NULL)
}

pub(super) fn is_external_name(object: &Value) -> bool {
    service_type(object) == "ExternalName"
}

pub(super) fn is_load_balancer(object: &Value) -> bool {
    service_type(object) == "LoadBalancer"
}

pub(super) fn needs_cluster_ip(object: &Value) -> bool {
    !is_external_name(object)
}

/// Returns true if the type is one whose ports may have node ports.
pub(super) fn may_have_node_ports(object: &Value) -> bool {
    matches!(service_type(object), "NodePort" | "LoadBalancer")
}

/// Returns true if ports without a node port get one.
pub(super) fn needs_node_ports(object: &Value) -> bool {
    match service_type(object) {
        "NodePort" => true,
        "LoadBalancer" => {
            spec(object).get("allocateLoadBalancerNodePorts").is_none()
                || is_true_at(object, "/spec/allocateLoadBalancerNodePorts")
        }
        _ => false,
    }
}

pub(super) fn is_externally_accessible(object: &Value) -> bool {
    match service_type(object) {
        "LoadBalancer" | "NodePort" => true,
        "ClusterIP" => !items(spec(object), "externalIPs").is_empty(),
        _ => false,
    }
}

pub(super) fn needs_health_check_port(object: &Value) -> bool {
    is_load_balancer(object) && text(spec(object), "externalTrafficPolicy") == "Local"
}

pub(super) fn is_headless(object: &Value) -> bool {
    cluster_ips(object) == [NONE]
}

pub(super) fn node_port(port: &Value) -> i64 {
    port.get("nodePort").and_then(Value::as_i64).unwrap_or(0)
}

pub(super) fn health_check_port(object: &Value) -> i64 {
    spec(object)
        .get("healthCheckNodePort")
        .and_then(Value::as_i64)
        .unwrap_or(0)
}

/// The node ports that are set.
pub(super) fn node_ports(object: &Value) -> Vec<i64> {
    ports(object).iter().map(node_port).filter(|port| *port != 0).collect()
}

pub(super) fn same(new: &Value, old: &Value, name: &str) -> bool {
    spec(new).get(name) == spec(old).get(name)
}

/// Returns true if the service has an address of its own.
pub(super) fn has_address(object: &Value) -> bool {
    needs_cluster_ip(object) && !is_headless(object)
}
