//! Errors of nodes (`ValidateNode` and `ValidateNodeUpdate` of `pkg/apis/core/validation`).

use std::{cmp::Ordering, collections::BTreeSet};

use serde_json::Value;
use trireme_machinery::{
    Features,
    field::{Error, ErrorList, ErrorType, Path},
    go_text::quote,
    json, names,
};

use super::config::validate_node_config;
use crate::{
    checks::{legacy_cidr, push_invalid},
    resource_names::validate_resource_quantity_value,
    values::{entries, items, text, text_at},
};

const TAINTS: &str = "scheduler.alpha.kubernetes.io/taints";
const AVOID_PODS: &str = "scheduler.alpha.kubernetes.io/preferAvoidPods";
const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

static NULL: Value = Value::Null;

fn part<'a>(object: &'a Value, name: &str) -> &'a Value {
    object.get(name).unwrap_or(&NULL)
}

/// All errors of a node beyond its metadata.
pub(super) fn validate_node(features: Features, node: &Value) -> ErrorList {
    let mut errors = validate_node_specific_annotations(node);
    errors.extend(validate_node_taints(
        items(part(node, "spec"), "taints"),
        &Path::new("metadata.taints"),
    ));
    errors.extend(validate_node_resources(node));
    if let Some(swap) = node.pointer("/status/nodeInfo/swap/capacity").and_then(Value::as_i64)
        && swap <= 0
    {
        let path = Path::new("metadata.nodeSwapStatus.capacity");
        errors.push(Error::invalid(&path, &swap.into(), "must be greater than zero"));
    }
    errors.extend(validate_node_declared_features(node));
    validate_pod_cidrs(features, node, &mut errors);
    errors
}

/// Validates the fields that may not change; Kubernetes repeats most of [`validate_node`] here, and clients see every
/// repetition as a cause.
pub(super) fn validate_node_update(new: &Value, old: &Value) -> ErrorList {
    let mut errors = validate_node_specific_annotations(new);
    errors.extend(validate_node_resources(new));
    errors.extend(validate_node_declared_features(new));
    validate_node_addresses(new, &mut errors);
    let (after, before) = (part(new, "spec"), part(old, "spec"));
    let path = Path::new("spec");
    let (ranges, old_ranges) = (items(after, "podCIDRs"), items(before, "podCIDRs"));
    if !old_ranges.is_empty() {
        let changes = if ranges.len() == old_ranges.len() {
            ranges.iter().zip(old_ranges).filter(|(new, old)| new != old).count()
        } else {
            1
        };
        let why = "node updates may not change podCIDR except from \"\" to valid";
        errors.extend((0..changes).map(|_| Error::forbidden(&path.child("podCIDRs"), why)));
    }
    let provider = text(before, "providerID");
    if !provider.is_empty() && provider != text(after, "providerID") {
        let why = "node updates may not change providerID except from \"\" to valid";
        errors.push(Error::forbidden(&path.child("providerID"), why));
    }
    validate_node_config(new, &mut errors);
    errors.extend(validate_node_taints(
        items(after, "taints"),
        &Path::new("metadata.taints"),
    ));
    if text(after, "externalID") != text(before, "externalID") {
        errors.push(Error::forbidden(&path.child("externalID"), "may not be updated"));
    }
    errors
}

/// Annotations from before taints were fields (`ValidateNodeSpecificAnnotations`).
fn validate_node_specific_annotations(node: &Value) -> ErrorList {
    let path = Path::new("metadata.annotations");
    let annotations = node.pointer("/metadata/annotations").unwrap_or(&NULL);
    let mut errors = ErrorList::new();
    let given = text(annotations, TAINTS);
    if !given.is_empty() {
        match json::decode(given.as_bytes()) {
            Ok(taints) => {
                let list = taints.value.as_array().map_or(&[][..], Vec::as_slice);
                errors.extend(validate_node_taints(list, &path.child(TAINTS)));
            }
            Err(error) => errors.push(Error::invalid_str(&path, TAINTS, &error.to_string())),
        }
    }
    let given = text(annotations, AVOID_PODS);
    if !given.is_empty() {
        match json::decode(given.as_bytes()) {
            Ok(avoided) => validate_avoid_pods_in_node_annotations(&avoided.value, &path, &mut errors),
            Err(error) => {
                errors.push(Error::invalid_str(
                    &path.child("AvoidPods"),
                    AVOID_PODS,
                    &error.to_string(),
                ));
            }
        }
    }
    errors
}

/// As upstream's `ValidateAvoidPodsInNodeAnnotations`.
fn validate_avoid_pods_in_node_annotations(avoided: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let path = path.child(AVOID_PODS);
    for (index, entry) in items(avoided, "preferAvoidPods").iter().enumerate() {
        let path = path.index(index);
        let path = path.child("PodSignature");
        match entry.pointer("/podSignature/podController") {
            None => errors.push(Error::required(&path, "")),
            Some(owner) if owner.get("controller") != Some(&Value::Bool(true)) => {
                let path = path.child("PodController");
                let shown = owner.get("controller").unwrap_or(&NULL);
                errors.push(Error::invalid(
                    &path.child("Controller"),
                    shown,
                    "must point to a controller",
                ));
            }
            Some(_) => {}
        }
    }
}

/// As upstream's `validateNodeTaints`.
fn validate_node_taints(taints: &[Value], path: &Path<'_>) -> ErrorList {
    let mut errors = ErrorList::new();
    let mut seen = BTreeSet::new();
    for (index, taint) in taints.iter().enumerate() {
        let path = path.index(index);
        let (key, value, effect) = (text(taint, "key"), text(taint, "value"), text(taint, "effect"));
        let key_path = path.child("key");
        errors.extend(
            names::qualified_name(key)
                .iter()
                .map(|why| Error::invalid_str(&key_path, key, why)),
        );
        let messages = names::label_value(value);
        if !messages.is_empty() {
            errors.push(Error::invalid_str(&path.child("value"), value, &messages.join(";")));
        }
        if effect.is_empty() {
            errors.push(Error::required(&path.child("effect"), ""));
        } else if !EFFECTS.contains(&effect) {
            errors.push(Error::not_supported(&path.child("effect"), effect, &EFFECTS));
        }
        if !seen.insert((effect, key)) {
            let mut error = Error::duplicate_shown(&path, shown_taint(taint));
            error.body.push_str(": taints must be unique by key and effect pair");
            errors.push(error);
        }
    }
    errors
}

/// A taint as errors show it: the Go struct.
fn shown_taint(taint: &Value) -> String {
    let field = |name| quote(text(taint, name));
    let added = taint.get("timeAdded").unwrap_or(&NULL);
    format!(
        "{{\"Key\":{},\"Value\":{},\"Effect\":{},\"TimeAdded\":{added}}}",
        field("key"),
        field("value"),
        field("effect")
    )
}

/// As upstream's `ValidateNodeResources`.
fn validate_node_resources(node: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let status_path = Path::new("status");
    for list in ["capacity", "allocatable"] {
        let path = status_path.child(list);
        for (name, value) in entries(part(node, "status"), list) {
            validate_resource_quantity_value(name, value, &path.child(name), &mut errors);
        }
    }
    errors
}

/// Features that the kubelet says it has: well-formed, sorted, each once (`validateNodeDeclaredFeatures`).
fn validate_node_declared_features(node: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let path = Path::new("status.declaredFeatures");
    let features: Vec<&str> = items(part(node, "status"), "declaredFeatures")
        .iter()
        .map(|feature| feature.as_str().unwrap_or_default())
        .collect();
    for (index, feature) in features.iter().enumerate() {
        if let Some(error) = validate_node_declared_feature_name(feature) {
            let why = format!("invalid feature name {}: {error}", quote(feature));
            errors.push(Error::invalid_str(&path.index(index), feature, &why));
        }
        let at = path.index(index + 1);
        match features.get(index + 1).map(|next| (next, feature.cmp(next))) {
            Some((next, Ordering::Equal)) => errors.push(Error::duplicate(&at, &(*next).into())),
            Some((next, Ordering::Greater)) => {
                errors.push(Error::invalid_str(&at, next, "list must be sorted alphabetically"));
            }
            _ => {}
        }
    }
    errors
}

/// As upstream's `validateNodeDeclaredFeatureName`.
fn validate_node_declared_feature_name(name: &str) -> Option<String> {
    let max = names::DNS1123_SUBDOMAIN_MAX_LENGTH;
    if name.len() > max {
        return Some(format!("must be no more than {max} characters"));
    }
    let is_segment = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric());
    let is_well_formed = name.starts_with(|c: char| c.is_ascii_uppercase()) && name.split('/').all(is_segment);
    (!is_well_formed).then(|| {
        "must start with an UpperCamelCase segment, with subsequent segments separated by '/' (e.g., MyFeature or \
         MyFeature/mySubFeature), and contain only alphanumeric characters and slashes"
            .to_owned()
    })
}

fn validate_pod_cidrs(features: Features, node: &Value, errors: &mut ErrorList) {
    let ranges = items(part(node, "spec"), "podCIDRs");
    let path = Path::new("spec.podCIDRs");
    for (index, range) in ranges.iter().enumerate() {
        let range = range.as_str().unwrap_or_default();
        push_invalid(&path.index(index), range, legacy_cidr(features, range, &[]), errors);
    }
    if ranges.len() < 2 {
        return;
    }
    let parsed = ranges
        .iter()
        .map(|range| names::parse_cidr_sloppy(range.as_str().unwrap_or_default()));
    let parsed: Vec<_> = parsed.collect();
    let unreadable = parsed
        .iter()
        .zip(ranges)
        .enumerate()
        .find(|(_, (parsed, _))| parsed.is_none());
    if let Some((index, (_, range))) = unreadable {
        let range = range.as_str().unwrap_or_default();
        errors.push(Error {
            kind: ErrorType::Internal,
            field: path.to_string(),
            body: format!(
                "Internal error: invalid PodCIDRs. failed to check with dual stack with error:invalid CIDR[{index}]: \
                 <nil> (invalid CIDR address: {range})"
            ),
        });
    }
    let count = |is_v4: bool| {
        parsed
            .iter()
            .flatten()
            .filter(|(address, _)| address.is_ipv4() == is_v4)
            .count()
    };
    if (count(true), count(false)) != (1, 1) || ranges.len() > 2 {
        let shown = part(part(node, "spec"), "podCIDRs");
        errors.push(Error::invalid(
            &path,
            shown,
            "may specify no more than one CIDR for each IP family",
        ));
    }
}

fn validate_node_addresses(node: &Value, errors: &mut ErrorList) {
    let path = Path::new("status.addresses");
    let mut seen = BTreeSet::new();
    for (index, address) in items(part(node, "status"), "addresses").iter().enumerate() {
        let (kind, text) = (text_at(address, "/type"), text_at(address, "/address"));
        if !seen.insert((kind, text)) {
            let shown = format!("{{\"Type\":{},\"Address\":{}}}", quote(kind), quote(text));
            errors.push(Error::duplicate_shown(&path.index(index), shown));
        }
    }
}
