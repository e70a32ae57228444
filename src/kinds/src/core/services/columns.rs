//! Columns of services.

use std::collections::BTreeSet;

use serde_json::Value;
use trireme_registry::Column;

use super::fields::{cluster_ips, node_port, ports, service_type, spec, texts};
use crate::{
    columns::{self, column, documented, or_none, wide},
    values::{entries, items, text, text_at},
};

const SPEC: &str = "io.k8s.api.core.v1.ServiceSpec";

/// The columns in order.
pub(super) fn columns() -> Vec<Column> {
    let cluster_ip = |object: &Value| or_none(cluster_ips(object).first().copied().unwrap_or_default());
    let selector = |object: &Value| {
        let pairs: Vec<String> = entries(spec(object), "selector")
            .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
            .collect();
        or_none(&pairs.join(","))
    };
    vec![
        columns::name(),
        column("Type", "string", documented(SPEC, "type"), |object| {
            Value::from(service_type(object))
        }),
        column("Cluster-IP", "string", documented(SPEC, "clusterIP"), cluster_ip),
        column("External-IP", "string", documented(SPEC, "externalIPs"), |object| {
            Value::from(external(object))
        }),
        column("Port(s)", "string", documented(SPEC, "ports"), |object| {
            or_none(&port_texts(object))
        }),
        columns::age(),
        wide(column("Selector", "string", documented(SPEC, "selector"), selector)),
    ]
}

fn external(object: &Value) -> String {
    let own = texts(object, "externalIPs").join(",");
    match service_type(object) {
        "ClusterIP" | "NodePort" if own.is_empty() => "<none>".to_owned(),
        "ClusterIP" | "NodePort" => own,
        "LoadBalancer" => {
            let balanced = balanced(object);
            let parts: Vec<String> = [balanced, own].into_iter().filter(|part| !part.is_empty()).collect();
            if parts.is_empty() {
                "<pending>".to_owned()
            } else {
                parts.join(",")
            }
        }
        "ExternalName" => text_at(object, "/spec/externalName").to_owned(),
        _ => "<unknown>".to_owned(),
    }
}

fn balanced(object: &Value) -> String {
    let Some(status) = object.pointer("/status/loadBalancer") else {
        return String::new();
    };
    let points = items(status, "ingress").iter().map(|entry| match text(entry, "ip") {
        "" => text(entry, "hostname"),
        ip => ip,
    });
    points
        .filter(|point| !point.is_empty())
        .collect::<BTreeSet<&str>>()
        .into_iter()
        .collect::<Vec<_>>()
        .join(",")
}

fn port_texts(object: &Value) -> String {
    let texts: Vec<String> = ports(object)
        .iter()
        .map(|port| {
            let number = port.get("port").and_then(Value::as_i64).unwrap_or(0);
            let protocol = text(port, "protocol");
            match node_port(port) {
                0 => format!("{number}/{protocol}"),
                node => format!("{number}:{node}/{protocol}"),
            }
        })
        .collect();
    texts.join(",")
}
