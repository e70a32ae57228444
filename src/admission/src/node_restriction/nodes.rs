//! A node's own Node: not its taints, owners and the labels by which workloads are steered.

use std::collections::BTreeSet;

use serde_json::Value;
use trireme_machinery::{ApiError, go_text::quote};
use trireme_registry::Operation;

use super::NodeWrite;

/// The labels of Kubernetes that a kubelet sets (`KubeletLabels`).
const KUBELET_LABELS: [&str; 11] = [
    "kubernetes.io/hostname",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "beta.kubernetes.io/instance-type",
    "node.kubernetes.io/instance-type",
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
];
/// The same by their prefixes, and by whatever ends in a dot and one of these.
const KUBELET_PREFIXES: [&str; 2] = ["kubelet.kubernetes.io", "node.kubernetes.io"];

pub(super) fn check(node: &NodeWrite<'_>) -> Result<(), ApiError> {
    let attributes = node.attributes;
    if attributes.name != node.name {
        let other = quote(&attributes.name);
        return node.forbid_node(format!("is not allowed to modify node {other}"));
    }
    match attributes.operation {
        Operation::Create => creation(node),
        Operation::Update => update(node),
        Operation::Delete | Operation::Connect => Ok(()),
    }
}

fn creation(node: &NodeWrite<'_>) -> Result<(), ApiError> {
    let new = node.object();
    if !new["spec"]["configSource"].is_null() {
        return node.forbid_node("is not allowed to create pods with a non-nil configSource");
    }
    let labels = forbidden_labels(new, &Value::Null);
    if labels.is_empty() {
        return Ok(());
    }
    node.forbid_node(format!("is not allowed to set the following labels: {labels}"))
}

fn update(node: &NodeWrite<'_>) -> Result<(), ApiError> {
    let (new, old) = (node.object(), node.old_object());
    let source = |object: &Value| object["spec"]["configSource"].clone();
    if !source(new).is_null() && source(new) != source(old) {
        return node.forbid_node("is not allowed to update configSource to a new non-nil configSource");
    }
    if differ(&new["spec"]["taints"], &old["spec"]["taints"]) {
        return node.forbid_node("is not allowed to modify taints");
    }
    if differ(&new["metadata"]["ownerReferences"], &old["metadata"]["ownerReferences"]) {
        return node.forbid_node("is not allowed to modify ownerReferences");
    }
    let labels = forbidden_labels(new, old);
    if labels.is_empty() {
        return Ok(());
    }
    node.forbid(format!("is not allowed to modify labels: {labels}"))
}

/// Compares lists; an absent one is empty.
fn differ(one: &Value, other: &Value) -> bool {
    let items = |list: &Value| list.as_array().cloned().unwrap_or_default();
    items(one) != items(other)
}

/// The labels that differ and that a node may not set, in a row.
fn forbidden_labels(new: &Value, old: &Value) -> String {
    let labels = |object: &'_ Value| object["metadata"]["labels"].as_object().cloned().unwrap_or_default();
    let (new, old) = (labels(new), labels(old));
    let keys: BTreeSet<&String> = new.keys().chain(old.keys()).collect();
    let changed = keys.into_iter().filter(|key| new.get(*key) != old.get(*key));
    let forbidden: Vec<&str> = changed
        .map(String::as_str)
        .filter(|key| is_forbidden_label(key))
        .collect();
    forbidden.join(", ")
}

fn is_or_ends_in(prefix: &str, domain: &str) -> bool {
    prefix == domain || prefix.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'))
}

/// Reports whether a label is not for kubelets to set (`getForbiddenLabels`).
pub(super) fn is_forbidden_label(label: &str) -> bool {
    let prefix = label.split_once('/').map_or("", |(prefix, _)| prefix);
    let is_of = |domains: &[&str]| domains.iter().any(|domain| is_or_ends_in(prefix, domain));
    is_of(&["node-restriction.kubernetes.io"])
        || (is_of(&["kubernetes.io", "k8s.io"]) && !KUBELET_LABELS.contains(&label) && !is_of(&KUBELET_PREFIXES))
}
