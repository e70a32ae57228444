//! The objects that are written, and the few bytes of them that are read or changed in place.

use bytes::Bytes;
use memchr::memmem;
use serde_json::{Value, json};

/// Characters of a config map's one value.
const PAYLOAD_BYTES: usize = 1024;
/// So many labels `app=app-N` and nodes `node-N` are spread over all pods.
pub(crate) const POD_GROUPS: u64 = 100;
/// The annotation that updates change.
pub(crate) const TURN: &str = "bench.trireme.dev/turn";
/// The text of the annotation in an answer, up to its digits.
const TURN_IN_JSON: &[u8] = b"\"bench.trireme.dev/turn\":\"";
/// Digits of the annotation, so that a change never moves other bytes.
const TURN_DIGITS: usize = 12;
const VERSION_IN_JSON: &[u8] = b"\"resourceVersion\":\"";

/// A config map with 1 KiB of data.
pub(crate) fn config_map(name: &str, turn: u64) -> Bytes {
    let object = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "annotations": {TURN: turn_text(turn)}},
        "data": {"payload": "0123456789abcdef".repeat(PAYLOAD_BYTES / 16)},
    });
    Bytes::from(object.to_string())
}

/// Definitions of one group.
const DEFINITIONS_OF_GROUP: u64 = 50;
/// Fields of the spec of a custom resource.
const FIELDS: usize = 50;

/// The name of the definition with this number.
pub(crate) fn definition_name(number: u64) -> String {
    format!("widget{number}s.{}", group(number))
}

fn group(number: u64) -> String {
    format!("group{}.bench.trireme.dev", number / DEFINITIONS_OF_GROUP)
}

/// A definition with a schema of 50 fields, a printer column and a status, 12 KB of JSON.
pub(crate) fn definition(number: u64) -> Bytes {
    let text =
        "The desired state of this part of the widget, which its operator brings about; empty for the usual one.";
    let fields = (0..FIELDS).map(|field| {
        let schema = json!({"type": "string", "description": text, "maxLength": 253});
        (format!("field{field}"), schema)
    });
    let spec = json!({"type": "object", "properties": serde_json::Map::from_iter(fields)});
    let status = json!({"type": "object", "properties": {"phase": {"type": "string"}}});
    let schema = json!({"type": "object", "properties": {"spec": spec, "status": status}});
    let object = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": definition_name(number)},
        "spec": {
            "group": group(number),
            "scope": "Namespaced",
            "names": {"plural": format!("widget{number}s"), "kind": format!("Widget{number}")},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema},
                "subresources": {"status": {}},
                "additionalPrinterColumns": [{"name": "Phase", "type": "string", "jsonPath": ".status.phase"}],
            }],
        },
    });
    Bytes::from(object.to_string())
}

/// The name of the pod with this number.
pub(crate) fn pod_name(number: u64) -> String {
    format!("{POD_PREFIX}{number:06}")
}

/// The common start of the names of all pods; no other string in a pod has it.
pub(crate) const POD_PREFIX: &str = "bench-pod-";

/// A pod as a Deployment's template makes it, bound to one of 100 nodes. It is served with 3.6 KB and what its
/// `managedFields` take, which is about 0.85 times as much where there are any.
pub(crate) fn pod(number: u64) -> Bytes {
    let group = number % POD_GROUPS;
    pod_on(&pod_name(number), &format!("app-{group}"), &format!("node-{group}"))
}

/// A pod with this name, label `app` and node.
pub(crate) fn pod_on(name: &str, app: &str, node: &str) -> Bytes {
    let metadata = json!({
        "name": name,
        "labels": {"app": app, "app.kubernetes.io/name": "shop", "app.kubernetes.io/part-of": "store",
            "pod-template-hash": "7c5ddbdf54", "tier": "backend"},
        "annotations": {TURN: turn_text(0), "prometheus.io/scrape": "true", "prometheus.io/port": "9090",
            "kubectl.kubernetes.io/restartedAt": "2026-01-01T00:00:00Z"},
    });
    let object = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod_spec(node)});
    Bytes::from(object.to_string())
}

/// A Deployment whose template makes such pods.
pub(crate) fn deployment(name: &str, turn: u64) -> Bytes {
    let object = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": {"app": name}, "annotations": {TURN: turn_text(turn)}},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name, "tier": "backend"}}, "spec": template_spec()},
        },
    });
    Bytes::from(object.to_string())
}

fn pod_spec(node: &str) -> Value {
    let mut spec = template_spec();
    spec["nodeName"] = node.into();
    spec
}

fn template_spec() -> Value {
    json!({
        "serviceAccountName": "default",
        "automountServiceAccountToken": false,
        "terminationGracePeriodSeconds": 45,
        "securityContext": {"runAsNonRoot": true, "runAsUser": 1000, "fsGroup": 2000},
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [
            {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
            {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
            {"key": "dedicated", "operator": "Equal", "value": "shop", "effect": "NoSchedule"},
        ],
        "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{
            "weight": 100,
            "podAffinityTerm": {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"tier": "backend"}}},
        }]}},
        "containers": [web(), exporter()],
        "volumes": [
            {"name": "settings", "configMap": {"name": "shop-settings"}},
            {"name": "tls", "secret": {"secretName": "shop-tls"}},
            {"name": "scratch", "emptyDir": {"sizeLimit": "1Gi"}},
        ],
    })
}

fn web() -> Value {
    let probe = |path: &str| json!({"httpGet": {"path": path, "port": 8080}, "periodSeconds": 10, "timeoutSeconds": 2});
    json!({
        "name": "web",
        "image": "registry.example.com/shop/web:1.42.0",
        "args": ["--listen", ":8080", "--config", "/etc/shop/shop.yaml", "--log-format", "json"],
        "ports": [{"name": "http", "containerPort": 8080}],
        "env": environment(),
        "resources": {"requests": {"cpu": "250m", "memory": "256Mi"}, "limits": {"cpu": "1", "memory": "512Mi"}},
        "livenessProbe": probe("/healthz"),
        "readinessProbe": probe("/readyz"),
        "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [
            {"name": "settings", "mountPath": "/etc/shop", "readOnly": true},
            {"name": "tls", "mountPath": "/etc/tls", "readOnly": true},
            {"name": "scratch", "mountPath": "/tmp"},
        ],
    })
}

fn exporter() -> Value {
    json!({
        "name": "exporter",
        "image": "registry.example.com/shop/exporter:1.42.0",
        "ports": [{"name": "metrics", "containerPort": 9090}],
        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}},
    })
}

fn environment() -> Value {
    let field = |path: &str| json!({"fieldRef": {"fieldPath": path}});
    json!([
        {"name": "POD_NAME", "valueFrom": field("metadata.name")},
        {"name": "POD_NAMESPACE", "valueFrom": field("metadata.namespace")},
        {"name": "POD_IP", "valueFrom": field("status.podIP")},
        {"name": "SHOP_DATABASE", "value": "postgres://shop.database.svc.cluster.local:5432/shop"},
        {"name": "SHOP_PASSWORD", "valueFrom": {"secretKeyRef": {"name": "shop-database", "key": "password"}}},
    ])
}

/// A merge patch that sets one annotation.
pub(crate) fn annotation_patch(annotation: &str, turn: u64) -> Bytes {
    Bytes::from(json!({"metadata": {"annotations": {annotation: turn_text(turn)}}}).to_string())
}

fn turn_text(turn: u64) -> String {
    format!("{turn:0TURN_DIGITS$}")
}

/// The number in an object's [`TURN`] annotation.
pub(crate) fn turn(object: &[u8]) -> Option<u64> {
    let begin = memmem::find(object, TURN_IN_JSON)? + TURN_IN_JSON.len();
    let digits = object.get(begin..begin + TURN_DIGITS)?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// The same object with another number in its [`TURN`] annotation.
pub(crate) fn with_turn(object: &[u8], turn: u64) -> Option<Vec<u8>> {
    let begin = memmem::find(object, TURN_IN_JSON)? + TURN_IN_JSON.len();
    let mut changed = object.to_vec();
    changed
        .get_mut(begin..begin + TURN_DIGITS)?
        .copy_from_slice(turn_text(turn).as_bytes());
    Some(changed)
}

/// The first resourceVersion in a piece of JSON: the object's own, as nothing that is written here has another.
pub(crate) fn resource_version(object: &[u8]) -> Option<u64> {
    let begin = memmem::find(object, VERSION_IN_JSON)? + VERSION_IN_JSON.len();
    let rest = object.get(begin..)?;
    let end = memchr::memchr(b'"', rest)?;
    std::str::from_utf8(&rest[..end]).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_turn_is_found_and_changed_in_place() {
        let object = config_map("a", 41);
        assert_eq!(turn(&object), Some(41));
        let changed = with_turn(&object, 999_999_999_999).unwrap();
        assert_eq!(turn(&changed), Some(999_999_999_999));
        assert_eq!(changed.len(), object.len());
        assert_eq!(turn(b"{}"), None);
        assert_eq!(with_turn(b"{\"bench.trireme.dev/turn\":\"00", 1), None);
    }

    #[test]
    fn the_resource_version_is_found() {
        assert_eq!(
            resource_version(br#"{"metadata":{"resourceVersion":"1234"}}"#),
            Some(1234)
        );
        assert_eq!(resource_version(br#"{"metadata":{"resourceVersion":"12"#), None);
    }

    #[test]
    fn a_config_map_has_a_kibibyte_and_a_pod_is_as_large_as_real_ones() {
        let map: Value = serde_json::from_slice(&config_map("a", 0)).unwrap();
        assert_eq!(map["data"]["payload"].as_str().map(str::len), Some(1024));
        let pod = pod(7);
        assert!((2_000..3_500).contains(&pod.len()), "{}", pod.len());
        assert_eq!(memmem::find_iter(&pod, POD_PREFIX).count(), 1, "a pod is counted once");
    }
}
