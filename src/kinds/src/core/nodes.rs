//! Nodes (`pkg/registry/core/node`).

use std::collections::BTreeSet;

use serde_json::{Value, json};
use trireme_machinery::{Feature, Features, field::ErrorList};
use trireme_registry::{Column, Strategy, WriteContext, subresource::SubresourceRole};

use crate::{
    address_warnings::of_range,
    columns::{self, column, described, documented, or_none, wide},
    kind::{Kind, selectable},
    values::{entries, is_true_at, items, keep_field, remove, struct_mut, text, text_at},
};

mod config;
mod proxy;
mod validation;

#[cfg(test)]
mod tests;

const STATUS: &str = "io.k8s.api.core.v1.NodeStatus";
const INFO: &str = "io.k8s.api.core.v1.NodeSystemInfo";
const ROLE_PREFIX: &str = "node-role.kubernetes.io/";
const ROLE_LABEL: &str = "kubernetes.io/role";

/// The kind's parts.
pub(crate) fn kind(features: Features) -> Kind {
    Kind::new("", "nodes", Nodes { features })
        .columns(node_columns())
        .selectable(vec![selectable(
            "spec.unschedulable",
            &["spec.unschedulable"],
            |node| is_unschedulable(node).to_string(),
        )])
}

fn is_unschedulable(node: &Value) -> bool {
    is_true_at(node, "/spec/unschedulable")
}

struct Nodes {
    features: Features,
}

impl Strategy for Nodes {
    fn default(&self, object: &mut Value) {
        let status = struct_mut(object, "status");
        if let Some(capacity) = status.get("capacity").cloned() {
            status.entry("allocatable").or_insert(capacity);
        }
        join_pod_ranges(object);
    }

    fn subresource(&self, name: &str) -> Option<SubresourceRole<'_>> {
        (name == "proxy").then_some(SubresourceRole::Connect(&proxy::NodeProxy))
    }

    fn prepare_for_create(&self, _context: &WriteContext, object: &mut Value) {
        config::drop_source(object, None);
        config::drop_status(object, None);
        // An update never drops them: it keeps the status, and that of the status may set them whatever is off.
        if let Some(status) = object
            .get_mut("status")
            .filter(|_| !self.features.has(Feature::NodeDeclaredFeatures))
        {
            remove(status, "declaredFeatures");
        }
    }

    fn validate(&self, _context: &WriteContext, object: &Value) -> ErrorList {
        validation::validate_node(self.features, object)
    }

    fn prepare_for_update(&self, _context: &WriteContext, new: &mut Value, old: &Value) {
        keep_field(new, old, "status");
        config::drop_source(new, Some(old));
    }

    fn validate_update(&self, _context: &WriteContext, new: &Value, old: &Value) -> ErrorList {
        let mut errors = validation::validate_node(self.features, new);
        errors.extend(validation::validate_node_update(new, old));
        errors
    }

    fn warnings(&self, new: &Value, _old: Option<&Value>) -> Vec<String> {
        let spec = new.get("spec").unwrap_or(&Value::Null);
        let mut warnings = Vec::new();
        if !text(spec, "externalID").is_empty() {
            warnings.push("spec.externalID: this field is deprecated, and is unused by Kubernetes".to_owned());
        }
        let ranges = items(spec, "podCIDRs").iter().filter_map(Value::as_str).enumerate();
        warnings.extend(ranges.flat_map(|(index, range)| of_range(&format!("spec.podCIDRs[{index}]"), range)));
        warnings
    }

    fn prepare_for_status_update(&self, _context: &WriteContext, new: &mut Value, old: &Value) {
        keep_field(new, old, "spec");
        config::drop_status(new, Some(old));
    }

    fn validate_status_update(&self, _context: &WriteContext, new: &Value, old: &Value) -> ErrorList {
        validation::validate_node_update(new, old)
    }
}

/// `podCIDR` is the first of `podCIDRs`, whichever of the two the client knows.
fn join_pod_ranges(object: &mut Value) {
    let spec = struct_mut(object, "spec");
    let first = spec
        .get("podCIDRs")
        .and_then(|list| list.get(0))
        .and_then(Value::as_str)
        .unwrap_or_default();
    let single = spec.get("podCIDR").and_then(Value::as_str).unwrap_or_default();
    if single == first {
        return;
    }
    if single.is_empty() {
        let first = Value::from(first);
        spec.insert("podCIDR".into(), first);
    } else {
        let list = json!([single]);
        spec.insert("podCIDRs".into(), list);
    }
}

fn node_columns() -> Vec<Column> {
    let address = |kind: &'static str| move |node: &Value| or_none(address_of(node, kind));
    let info = |field: &'static str| move |node: &Value| or_unknown(info_of(node, field));
    let version = |node: &Value| Value::from(info_of(node, "kubeletVersion"));
    vec![
        columns::name(),
        column("Status", "string", described("The status of the node"), |node| {
            Value::from(readiness(node))
        }),
        column("Roles", "string", described("The roles of the node"), |node| {
            or_none(&roles(node))
        }),
        columns::age(),
        column("Version", "string", documented(INFO, "kubeletVersion"), version),
        wide(column(
            "Internal-IP",
            "string",
            documented(STATUS, "addresses"),
            address("InternalIP"),
        )),
        wide(column(
            "External-IP",
            "string",
            documented(STATUS, "addresses"),
            address("ExternalIP"),
        )),
        wide(column(
            "OS-Image",
            "string",
            documented(INFO, "osImage"),
            info("osImage"),
        )),
        wide(column(
            "Kernel-Version",
            "string",
            documented(INFO, "kernelVersion"),
            |node| kernel(node).into(),
        )),
        wide(column(
            "Container-Runtime",
            "string",
            documented(INFO, "containerRuntimeVersion"),
            info("containerRuntimeVersion"),
        )),
    ]
}

fn info_of<'a>(node: &'a Value, field: &str) -> &'a str {
    node.pointer("/status/nodeInfo").map_or("", |info| text(info, field))
}

fn or_unknown(text: &str) -> Value {
    Value::from(if text.is_empty() { "<unknown>" } else { text })
}

fn kernel(node: &Value) -> String {
    let version = Some(info_of(node, "kernelVersion")).filter(|version| !version.is_empty());
    let version = version.unwrap_or("<unknown>");
    match info_of(node, "architecture") {
        "" => version.to_owned(),
        architecture => format!("{version} ({architecture})"),
    }
}

fn readiness(node: &Value) -> String {
    let status = node.get("status").unwrap_or(&Value::Null);
    let ready = items(status, "conditions")
        .iter()
        .rfind(|condition| text(condition, "type") == "Ready");
    let word = match ready.map(|condition| text(condition, "status")) {
        None => "Unknown",
        Some("True") => "Ready",
        Some(_) => "NotReady",
    };
    let suffix = if is_unschedulable(node) {
        ",SchedulingDisabled"
    } else {
        ""
    };
    format!("{word}{suffix}")
}

fn roles(node: &Value) -> String {
    let metadata = node.get("metadata").unwrap_or(&Value::Null);
    let roles = entries(metadata, "labels").filter_map(|(key, value)| match key.strip_prefix(ROLE_PREFIX) {
        Some(role) => Some(role),
        None => value.as_str().filter(|_| key == ROLE_LABEL),
    });
    roles
        .filter(|role| !role.is_empty())
        .collect::<BTreeSet<&str>>()
        .into_iter()
        .collect::<Vec<_>>()
        .join(",")
}

fn address_of<'a>(node: &'a Value, kind: &str) -> &'a str {
    let addresses = node.get("status").map_or(&[][..], |status| items(status, "addresses"));
    addresses
        .iter()
        .find(|address| text(address, "type") == kind)
        .map_or("", |found| text_at(found, "/address"))
}
