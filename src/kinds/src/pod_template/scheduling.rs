//! Validation of what a pod asks of nodes: affinity, spreading, tolerations, gates.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use trireme_machinery::{
    Feature, Features,
    field::{Error, ErrorList, Path},
    go_text::parse_int,
    names,
    selector::validate_label_selector,
};

use super::{
    check::{label_name, number, one_of_if_set, push_invalid},
    security::Capabilities,
    tolerated::Tolerated,
};
use crate::values::{at, entries, items, text};

pub(super) const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
pub(super) const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// The group that a pod is scheduled with, if it has one (`validateSchedulingGroup`).
pub(super) fn validate_scheduling_group(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(group) = spec.get("schedulingGroup").filter(|group| !group.is_null()) else {
        return;
    };
    let at = path.child("schedulingGroup.podGroupName");
    match group.get("podGroupName").and_then(Value::as_str) {
        None => errors.push(Error::invalid(&at, &Value::Null, "must specify one of: `podGroupName`")),
        Some(name) => push_invalid(&at, name, names::dns1123_subdomain(name), errors),
    }
}

/// The nodes and the company that a pod wants (`validateAffinity`).
pub(super) fn validate_affinity(affinity: &Value, tolerated: Tolerated, path: &Path<'_>, errors: &mut ErrorList) {
    if let Some(nodes) = affinity.get("nodeAffinity") {
        validate_node_affinity(nodes, tolerated, &path.child("nodeAffinity"), errors);
    }
    for field in ["podAffinity", "podAntiAffinity"] {
        let Some(pods) = affinity.get(field) else { continue };
        let path = path.child(field);
        let required = path.child(REQUIRED);
        for (index, term) in items(pods, REQUIRED).iter().enumerate() {
            validate_pod_affinity_term(term, tolerated, &required.index(index), errors);
        }
        let preferred = path.child(PREFERRED);
        for (index, weighted) in items(pods, PREFERRED).iter().enumerate() {
            let at = preferred.index(index);
            validate_weight(weighted, &at, errors);
            let empty = Value::Object(Map::new());
            let term = weighted.get("podAffinityTerm").unwrap_or(&empty);
            validate_pod_affinity_term(term, tolerated, &at.child("podAffinityTerm"), errors);
        }
    }
}

/// As upstream's `validateNodeAffinity`.
fn validate_node_affinity(affinity: &Value, tolerated: Tolerated, path: &Path<'_>, errors: &mut ErrorList) {
    if let Some(required) = affinity.get(REQUIRED) {
        let tolerate_values = tolerated.has(Tolerated::NODE_AFFINITY_VALUES);
        validate_tolerated_node_selector(required, tolerate_values, &path.child(REQUIRED), errors);
    }
    let preferred = path.child(PREFERRED);
    for (index, term) in items(affinity, PREFERRED).iter().enumerate() {
        let at = preferred.index(index);
        validate_weight(term, &at, errors);
        if let Some(preference) = term.get("preference") {
            validate_node_selector_term(preference, false, &at.child("preference"), errors);
        }
    }
}

fn validate_weight(weighted: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let weight = number(weighted, "weight").unwrap_or(0);
    if !(1..=100).contains(&weight) {
        errors.push(Error::invalid(
            &path.child("weight"),
            &weight.into(),
            "must be in the range 1-100",
        ));
    }
}

/// A selector of nodes: terms of which one must hold (`ValidateNodeSelector`).
pub(crate) fn validate_node_selector(selector: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    validate_tolerated_node_selector(selector, false, path, errors);
}

/// A selector of nodes; `tolerate_values` lets pass values that no label can have.
pub(crate) fn validate_tolerated_node_selector(
    selector: &Value,
    tolerate_values: bool,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    let path = path.child("nodeSelectorTerms");
    let terms = items(selector, "nodeSelectorTerms");
    if terms.is_empty() {
        errors.push(Error::required(&path, "must have at least one node selector term"));
    }
    for (index, term) in terms.iter().enumerate() {
        validate_node_selector_term(term, !tolerate_values, &path.index(index), errors);
    }
}

/// As upstream's `ValidateNodeSelectorTerm`.
fn validate_node_selector_term(term: &Value, check_values: bool, path: &Path<'_>, errors: &mut ErrorList) {
    let expressions = path.child("matchExpressions");
    for (index, requirement) in items(term, "matchExpressions").iter().enumerate() {
        validate_node_selector_requirement(requirement, check_values, &expressions.index(index), errors);
    }
    let fields = path.child("matchFields");
    for (index, requirement) in items(term, "matchFields").iter().enumerate() {
        validate_node_field_selector_requirement(requirement, &fields.index(index), errors);
    }
}

/// As upstream's `ValidateNodeSelectorRequirement`.
fn validate_node_selector_requirement(
    requirement: &Value,
    check_values: bool,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    let (operator, values) = (text(requirement, "operator"), items(requirement, "values"));
    let values_path = path.child("values");
    match operator {
        "In" | "NotIn" if values.is_empty() => {
            errors.push(Error::required(
                &values_path,
                "must be specified when `operator` is 'In' or 'NotIn'",
            ));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.push(Error::forbidden(&values_path, detail));
        }
        "Gt" | "Lt" if values.len() != 1 => {
            let detail = "must be specified single value when `operator` is 'Lt' or 'Gt'";
            errors.push(Error::required(&values_path, detail));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        _ => {
            errors.push(Error::invalid_str(
                &path.child("operator"),
                operator,
                "not a valid selector operator",
            ));
        }
    }
    label_name(text(requirement, "key"), &path.child("key"), errors);
    for (index, value) in values.iter().enumerate().filter(|_| check_values) {
        let value = value.as_str().unwrap_or_default();
        push_invalid(&values_path.index(index), value, names::label_value(value), errors);
    }
}

/// As upstream's `ValidateNodeFieldSelectorRequirement`.
fn validate_node_field_selector_requirement(requirement: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let (operator, values) = (text(requirement, "operator"), items(requirement, "values"));
    match operator {
        "In" | "NotIn" if values.len() != 1 => {
            let detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
            errors.push(Error::required(&path.child("values"), detail));
        }
        "In" | "NotIn" => {}
        _ => {
            errors.push(Error::invalid_str(
                &path.child("operator"),
                operator,
                "not a valid selector operator",
            ));
        }
    }
    let key = text(requirement, "key");
    if key != "metadata.name" {
        errors.push(Error::invalid_str(
            &path.child("key"),
            key,
            "not a valid field selector key",
        ));
        return;
    }
    let path = path.child("values");
    for (index, value) in values.iter().enumerate() {
        let value = value.as_str().unwrap_or_default();
        push_invalid(&path.index(index), value, names::dns1123_subdomain(value), errors);
    }
}

/// As upstream's `ValidatePodAffinityTermSelector`.
pub(super) fn validate_affinity_selectors(term: &Value, tolerated: Tolerated, path: &Path<'_>, errors: &mut ErrorList) {
    let any_value = tolerated.has(Tolerated::SELECTOR_VALUES);
    for field in ["labelSelector", "namespaceSelector"] {
        if let Some(selector) = term.get(field).and_then(Value::as_object) {
            errors.extend(validate_label_selector(selector, any_value, &path.child(field)));
        }
    }
}

/// As upstream's `validatePodAffinityTerm`.
fn validate_pod_affinity_term(term: &Value, tolerated: Tolerated, path: &Path<'_>, errors: &mut ErrorList) {
    validate_affinity_selectors(term, tolerated, path, errors);
    for namespace in items(term, "namespaces") {
        let namespace = namespace.as_str().unwrap_or_default();
        push_invalid(
            &path.child("namespace"),
            namespace,
            names::dns1123_label(namespace),
            errors,
        );
    }
    validate_match_label_keys_and_mismatch_label_keys(term, path, errors);
    let key = text(term, "topologyKey");
    if key.is_empty() {
        errors.push(Error::required(&path.child("topologyKey"), "can not be empty"));
    }
    label_name(key, &path.child("topologyKey"), errors);
}

/// Label keys whose values are taken from the pod itself. By the time of this the selectors of pods have them too.
/// Upstream: `ValidateMatchLabelKeysAndMismatchLabelKeys`.
fn validate_match_label_keys_and_mismatch_label_keys(term: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let keys = |field: &str| items(term, field).iter().map(|key| key.as_str().unwrap_or_default());
    let selector = term.get("labelSelector");
    for field in ["matchLabelKeys", "mismatchLabelKeys"] {
        let at = path.child(field);
        if selector.is_some() {
            keys(field)
                .enumerate()
                .for_each(|(index, key)| label_name(key, &at.index(index), errors));
        } else if keys(field).next().is_some() {
            let detail = "must not be specified when labelSelector is not set";
            errors.push(Error::forbidden(&at, detail));
        }
    }
    let Some(selector) = selector else { return };
    let mut seen: BTreeSet<&str> = entries(selector, "matchLabels").map(|(key, _)| key).collect();
    for expression in items(selector, "matchExpressions") {
        let key = text(expression, "key");
        let matched = keys("matchLabelKeys").collect::<Vec<_>>();
        if let Some(index) = matched.iter().rposition(|matched| *matched == key)
            && seen.contains(key)
        {
            let detail = "exists in both matchLabelKeys and labelSelector";
            errors.push(Error::invalid_str(&path.index(index), key, detail));
        }
        seen.insert(key);
    }
    let at = path.child("matchLabelKeys");
    for (index, key) in keys("matchLabelKeys").enumerate() {
        if keys("mismatchLabelKeys").any(|other| other == key) {
            let detail = "exists in both matchLabelKeys and mismatchLabelKeys";
            errors.push(Error::invalid_str(&at.index(index), key, detail));
        }
    }
}

/// Adds the requirements that label keys stand for, with the pod's own values, to the selectors of a new pod.
pub(crate) fn apply_label_keys(features: Features, pod: &mut Value) {
    let labels = at(pod, "/metadata/labels").cloned().unwrap_or_default();
    let Some(spec) = pod.get_mut("spec") else { return };
    let apply_all = |owner: Option<&mut Value>, pointer: &str| {
        let terms = owner.and_then(Value::as_array_mut).into_iter().flatten();
        terms
            .filter_map(|term| term.pointer_mut(pointer))
            .for_each(|term| apply_to_term(term, &labels));
    };
    for field in ["podAffinity", "podAntiAffinity"] {
        let Some(affinity) = spec.pointer_mut(&format!("/affinity/{field}")) else {
            continue;
        };
        apply_all(affinity.get_mut(PREFERRED), "/podAffinityTerm");
        apply_all(affinity.get_mut(REQUIRED), "");
    }
    if merges_label_keys(features) {
        apply_all(spec.get_mut("topologySpreadConstraints"), "");
    }
}

/// Reports whether the selectors of spread constraints get their label keys.
fn merges_label_keys(features: Features) -> bool {
    features.has(Feature::MatchLabelKeysInPodTopologySpread)
        && features.has(Feature::MatchLabelKeysInPodTopologySpreadSelectorMerge)
}

/// Reports whether a spread constraint has label keys that cannot be where selectors get them, or where they do not.
pub(super) fn has_invalid_label_keys(spec: &Value, are_merged: bool) -> bool {
    let is_invalid = |constraint: &Value| {
        let mut errors = ErrorList::new();
        validate_label_keys_of_spread(constraint, are_merged, &Path::root(), &mut errors);
        !errors.is_empty()
    };
    items(spec, "topologySpreadConstraints").iter().any(is_invalid)
}

fn validate_label_keys_of_spread(constraint: &Value, are_merged: bool, path: &Path<'_>, errors: &mut ErrorList) {
    if are_merged {
        validate_match_label_keys_and_mismatch_label_keys(constraint, path, errors);
    } else {
        validate_match_label_keys_in_topology_spread(constraint, path, errors);
    }
}

/// Label keys beside a selector that does not get them (`ValidateMatchLabelKeysInTopologySpread`).
fn validate_match_label_keys_in_topology_spread(constraint: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let keys = items(constraint, "matchLabelKeys");
    if keys.is_empty() {
        return;
    }
    let path = path.child("matchLabelKeys");
    let selector = constraint.get("labelSelector");
    if selector.is_none() {
        let detail = "must not be specified when labelSelector is not set";
        errors.push(Error::forbidden(&path, detail));
    }
    let selector = selector.unwrap_or(&Value::Null);
    let is_selected = |key: &str| {
        let mut expressions = items(selector, "matchExpressions").iter();
        entries(selector, "matchLabels").any(|(label, _)| label == key)
            || expressions.any(|expression| text(expression, "key") == key)
    };
    for (index, key) in keys.iter().enumerate() {
        let (at, key) = (path.index(index), key.as_str().unwrap_or_default());
        label_name(key, &at, errors);
        if is_selected(key) {
            let detail = "exists in both matchLabelKeys and labelSelector";
            errors.push(Error::invalid_str(&at, key, detail));
        }
    }
}

fn apply_to_term(term: &mut Value, labels: &Value) {
    let mut added = Vec::new();
    for (field, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
        let keys = items(term, field).iter().filter_map(Value::as_str);
        let owned = keys.filter_map(|key| Some((key, labels.get(key)?)));
        added.extend(owned.map(|(key, value)| json!({ "key": key, "operator": operator, "values": [value] })));
    }
    let Some(selector) = term.get_mut("labelSelector").and_then(Value::as_object_mut) else {
        return;
    };
    if !added.is_empty() {
        let expressions = selector.entry("matchExpressions").or_insert_with(|| json!([]));
        expressions
            .as_array_mut()
            .into_iter()
            .for_each(|list| list.append(&mut added));
    }
}

/// Validates the spreading of pods (`validateTopologySpreadConstraints`).
pub(super) fn validate_topology_spread_constraints(
    capabilities: Capabilities,
    spec: &Value,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    let constraints = items(spec, "topologySpreadConstraints");
    for (index, constraint) in constraints.iter().enumerate() {
        let at = path.index(index);
        let positive = "must be greater than zero";
        let skew = number(constraint, "maxSkew").unwrap_or(0);
        if skew <= 0 {
            errors.push(Error::invalid(&at.child("maxSkew"), &skew.into(), positive));
        }
        let (key, when) = (text(constraint, "topologyKey"), text(constraint, "whenUnsatisfiable"));
        if key.is_empty() {
            errors.push(Error::required(&at.child("topologyKey"), "can not be empty"));
        }
        if !matches!(when, "DoNotSchedule" | "ScheduleAnyway") {
            let path = at.child("whenUnsatisfiable");
            errors.push(Error::not_supported(&path, when, &["DoNotSchedule", "ScheduleAnyway"]));
        }
        let is_same = |other: &Value| text(other, "topologyKey") == key && text(other, "whenUnsatisfiable") == when;
        if constraints.iter().skip(index + 1).any(is_same) {
            let path = at.child("{topologyKey, whenUnsatisfiable}");
            errors.push(Error::duplicate(&path, &format!("{{{key}, {when}}}").into()));
        }
        if let Some(domains) = number(constraint, "minDomains") {
            let path = at.child("minDomains");
            if domains <= 0 {
                errors.push(Error::invalid(&path, &domains.into(), positive));
            }
            if when != "DoNotSchedule" {
                let detail = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {when}");
                errors.push(Error::invalid(&path, &domains.into(), &detail));
            }
        }
        for field in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            one_of_if_set(constraint, &at, field, &["Honor", "Ignore"], errors);
        }
        validate_label_keys_of_spread(constraint, merges_label_keys(capabilities.features), &at, errors);
        let is_tolerated = capabilities.tolerated.has(Tolerated::SPREAD_SELECTORS);
        let selector = constraint.get("labelSelector").filter(|_| !is_tolerated);
        if let Some(selector) = selector.and_then(Value::as_object) {
            errors.extend(validate_label_selector(selector, false, &at.child("labelSelector")));
        }
    }
}

/// The taints that a pod puts up with (`ValidateTolerations`).
pub(crate) fn validate_tolerations(features: Features, tolerations: &[Value], path: &Path<'_>, errors: &mut ErrorList) {
    let may_compare = features.has(Feature::TaintTolerationComparisonOperators);
    for (index, toleration) in tolerations.iter().enumerate() {
        let at = path.index(index);
        let (key, operator) = (text(toleration, "key"), text(toleration, "operator"));
        let (effect, value) = (text(toleration, "effect"), text(toleration, "value"));
        let operator_path = at.child("operator");
        if !key.is_empty() {
            label_name(key, &at.child("key"), errors);
        } else if operator != "Exists" {
            let detail = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            errors.push(Error::invalid_str(&operator_path, operator, detail));
        }
        if toleration.get("tolerationSeconds").is_some() && effect != "NoExecute" {
            let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            errors.push(Error::invalid_str(&at.child("effect"), effect, detail));
        }
        match operator {
            "Equal" | "" => {
                let messages = names::label_value(value);
                if !messages.is_empty() {
                    errors.push(Error::invalid_str(&operator_path, value, &messages.join(";")));
                }
            }
            "Exists" if !value.is_empty() => {
                errors.push(Error::invalid_str(
                    &operator_path,
                    value,
                    "value must be empty when `operator` is 'Exists'",
                ));
            }
            "Exists" => {}
            "Lt" | "Gt" if may_compare => validate_compared_value(value, &at.child("value"), errors),
            "Lt" | "Gt" => errors.push(Error::not_supported(
                &operator_path,
                operator,
                &["Equal", "Exists", "Lt", "Gt"],
            )),
            _ => errors.push(Error::not_supported(&operator_path, operator, &["Equal", "Exists"])),
        }
        if !effect.is_empty() {
            one_of_if_set(
                toleration,
                &at,
                "effect",
                &["NoSchedule", "PreferNoSchedule", "NoExecute"],
                errors,
            );
        }
    }
}

/// Validates the number that a toleration compares with that of a taint.
fn validate_compared_value(value: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let (digits, is_negative) = match value.strip_prefix('-') {
        Some(digits) => (digits, true),
        None => (value, false),
    };
    let is_canonical = digits.bytes().all(|digit| digit.is_ascii_digit())
        && !digits.is_empty()
        && (!digits.starts_with('0') || digits == "0" && !is_negative);
    if value.is_empty() {
        errors.push(Error::invalid_str(path, value, "must be non-empty"));
    } else if !is_canonical {
        let detail = "must be a valid decimal integer in canonical form";
        errors.push(Error::invalid_str(path, value, detail));
    }
    if let Err(error) = parse_int(value) {
        errors.push(Error::invalid_str(path, value, &error));
    }
}

/// Validates the gates that keep the scheduler from the pod (`validateSchedulingGates`).
pub(super) fn validate_scheduling_gates(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let mut seen = BTreeSet::new();
    for (index, gate) in items(spec, "schedulingGates").iter().enumerate() {
        let name = text(gate, "name");
        push_invalid(&path.index(index), name, names::qualified_name(name), errors);
        if !seen.insert(name) {
            errors.push(Error::duplicate(&path.index(index), &name.into()));
        }
    }
}
