//! The usage of services (`pkg/quota/v1/evaluator/core/services.go`).

use serde_json::Value;
use trireme_machinery::pod_resources::ResourceList;

use super::evaluators::{number, one};

pub(super) const NAMES: [&str; 3] = ["services", "services.nodeports", "services.loadbalancers"];

/// The amounts that a service uses.
pub(super) fn usage(service: &Value) -> ResourceList {
    let spec = service.get("spec").unwrap_or(&Value::Null);
    let ports = spec
        .get("ports")
        .and_then(Value::as_array)
        .map_or(&[][..], Vec::as_slice);
    let with_node_port = || {
        let numbers = ports.iter().filter_map(|port| port.get("nodePort")?.as_i64());
        numbers.filter(|number| *number != 0).count()
    };
    let kind = spec.get("type").and_then(Value::as_str).unwrap_or_default();
    let allocates = spec.get("allocateLoadBalancerNodePorts") != Some(&Value::Bool(false));
    let node_ports = match kind {
        "NodePort" => ports.len(),
        "LoadBalancer" if allocates => ports.len(),
        "LoadBalancer" => with_node_port(),
        _ => 0,
    };
    let balancers = i64::from(kind == "LoadBalancer");
    let amounts = [
        one(),
        number(i64::try_from(node_ports).unwrap_or(i64::MAX)),
        number(balancers),
    ];
    NAMES.map(str::to_owned).into_iter().zip(amounts).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn node_ports_count_where_there_are_any() {
        let counts = |kind: &str, allocates: bool| {
            let ports = json!([{ "port": 1, "nodePort": 30001 }, { "port": 2 }]);
            let spec = json!({ "type": kind, "ports": ports, "allocateLoadBalancerNodePorts": allocates });
            let usage = usage(&json!({ "spec": spec }));
            NAMES.map(|name| usage[name].value())
        };
        assert_eq!(counts("ClusterIP", true), [1, 0, 0]);
        assert_eq!(counts("NodePort", false), [1, 2, 0]);
        assert_eq!(counts("LoadBalancer", true), [1, 2, 1]);
        assert_eq!(counts("LoadBalancer", false), [1, 1, 1]);
    }
}
