//! The status of pods, which kubelets write.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use trireme_machinery::{
    Feature, Features,
    field::{Error, ErrorList, ErrorType, Path},
    names,
    pod_resources::is_native,
    quantity::Quantity,
};

use super::container_statuses;
use crate::{
    address_warnings::of_address,
    checks::{legacy_ip, push_invalid, quantity, require},
    pod_template::layout,
    values::{entries, integer_at, items, keep_field, text, text_at},
};

/// A list of addresses of the status.
pub(super) fn addresses<'a>(pod: &'a Value, list: &str) -> Vec<&'a str> {
    pod.get("status").map_or_else(Vec::new, |status| {
        items(status, list).iter().map(|item| text(item, "ip")).collect()
    })
}

/// Addresses of the pod and its host that are not written in their usual form.
pub(super) fn address_warnings(pod: &Value) -> Vec<String> {
    let of_list = |list: &'static str| {
        let all = addresses(pod, list).into_iter().enumerate();
        all.filter_map(move |(index, ip)| of_address(&format!("status.{list}[{index}].ip"), ip))
    };
    of_list("podIPs").chain(of_list("hostIPs")).collect()
}

/// `podIP` is the first of `podIPs`; where they differ, the single one wins.
pub(super) fn mirror_address(status: &mut Value) {
    let single = text(status, "podIP").to_owned();
    let first = items(status, "podIPs").first().map(|item| text(item, "ip").to_owned());
    let Some(fields) = status.as_object_mut() else { return };
    match (single.is_empty(), first) {
        (true, Some(first)) => {
            fields.insert("podIP".into(), first.into());
        }
        (false, first) if first.as_ref() != Some(&single) => {
            fields.insert("podIPs".into(), json!([{ "ip": single }]));
        }
        _ => {}
    }
}

/// Generations that were observed before are kept where a write names none: those of clients that do not know them.
pub(super) fn keep_generations(new: &mut Value, old: &Value) {
    const FIELD: &str = "observedGeneration";
    let was = old.get("status").unwrap_or(&Value::Null);
    let Some(status) = new.get_mut("status") else { return };
    let is_given = |owner: &Value| integer_at(owner, "/observedGeneration").unwrap_or(0) != 0;
    if !is_given(status) {
        keep_field(status, was, FIELD);
    }
    let conditions = status.get_mut("conditions").and_then(Value::as_array_mut);
    // Conditions may come twice; the first of a type is the successor of the first.
    let mut before: Vec<&Value> = items(was, "conditions").iter().collect();
    for condition in conditions.into_iter().flatten() {
        let found = before
            .iter()
            .position(|other| text(other, "type") == text(condition, "type"));
        if let Some(other) = found.map(|at| before.remove(at))
            && !is_given(condition)
        {
            keep_field(condition, other, FIELD);
        }
    }
}

/// Validates a change of the status (`ValidatePodStatusUpdate`).
pub(super) fn validate_pod_status_update(features: Features, new: &Value, old: &Value, errors: &mut ErrorList) {
    let none = Value::Null;
    let (is, was) = (new.get("status").unwrap_or(&none), old.get("status").unwrap_or(&none));
    let path = Path::new("status");
    validate_pod_conditions(is, &path.child("conditions"), errors);
    let nominated = text(is, "nominatedNodeName");
    if nominated != text(was, "nominatedNodeName") && !nominated.is_empty() {
        let at = path.child("nominatedNodeName");
        push_invalid(&at, nominated, names::dns1123_subdomain(nominated), errors);
        let clears_nominations = features.has(Feature::ClearingNominatedNodeNameAfterBinding);
        if clears_nominations && !text_at(old, "/spec/nodeName").is_empty() {
            let detail = "may not be set on pods that are already bound to a node";
            errors.push(Error::forbidden(&at, detail));
        }
    }
    if integer_at(is, "/observedGeneration").is_some_and(|generation| generation < 0) {
        validate_observed_generation(is, &path, errors);
    }
    let class = text(is, "qosClass");
    if class != text(was, "qosClass") {
        errors.push(Error::invalid_str(&path.child("qosClass"), class, "field is immutable"));
    }
    container_statuses::validate_container_state_transition(features, old, is, was, &path, errors);
    validate_pod_resource_claim_statuses(new, is, &path.child("resourceClaimStatuses"), errors);
    if let Some(claim) = is.get("extendedResourceClaimStatus") {
        validate_pod_extended_resource_claim_status(new, claim, &path.child("extendedResourceClaimStatus"), errors);
    }
    let claims = path.child("nodeAllocatableResourceClaimStatuses");
    validate_node_allocatable_resource_claim_status(new, is, &claims, errors);
    let ips = [new, old].map(|pod| addresses(pod, "podIPs"));
    validate_pod_ips(features, &ips, &path.child("podIPs"), errors);
    validate_host_ips(features, new, old, &path.child("hostIPs"), errors);
    container_statuses::validate_container_status_users(new, is, &path, errors);
    container_statuses::validate_container_status_allocated_resources_status(new, is, &path, errors);
    if features.has(Feature::ImageVolumeWithDigest) {
        container_statuses::validate_volume_statuses(is, &path, errors);
    }
}

/// As upstream's `validatePodConditions`.
fn validate_pod_conditions(status: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    for (index, condition) in items(status, "conditions").iter().enumerate() {
        let (at, kind) = (path.index(index), text(condition, "type"));
        if integer_at(condition, "/observedGeneration").is_some_and(|generation| generation < 0) {
            validate_observed_generation(condition, &at, errors);
        }
        push_invalid(&at.child("Type"), kind, names::qualified_name(kind), errors);
    }
}

fn validate_observed_generation(owner: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let generation = owner.get("observedGeneration").cloned().unwrap_or(Value::Null);
    errors.push(Error::invalid(
        &path.child("observedGeneration"),
        &generation,
        "must be a non-negative integer",
    ));
}

/// As upstream's `validatePodResourceClaimStatuses`.
fn validate_pod_resource_claim_statuses(new: &Value, is: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let claims = new.get("spec").map_or(&[][..], |spec| items(spec, "resourceClaims"));
    let mut seen = BTreeSet::new();
    for (index, status) in items(is, "resourceClaimStatuses").iter().enumerate() {
        let (at, name) = (path.index(index), text(status, "name"));
        let is_new = seen.insert(name);
        if !claims.iter().any(|claim| text(claim, "name") == name) {
            let detail = "must match the name of an entry in `spec.resourceClaims`";
            errors.push(Error::invalid_str(&at.child("name"), name, detail));
        }
        if !is_new {
            errors.push(Error::duplicate(&at.child("name"), &name.into()));
        }
        if let Some(claim) = status.get("resourceClaimName").and_then(Value::as_str) {
            push_invalid(
                &at.child("resourceClaimName"),
                claim,
                names::dns1123_subdomain(claim),
                errors,
            );
        }
    }
}

/// The claim that is made for extended resources: which container gets which resource by which of its requests.
/// Upstream: `validatePodExtendedResourceClaimStatus`.
fn validate_pod_extended_resource_claim_status(pod: &Value, claim: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let mappings_path = path.child("requestMappings");
    let mappings = items(claim, "requestMappings");
    if mappings.is_empty() {
        let detail = "at least one request mapping is required";
        errors.push(Error::required(&mappings_path, detail));
    }
    let none = Value::Null;
    let spec = pod.get("spec").unwrap_or(&none);
    let named = |name: &str| {
        let lists = ["containers", "initContainers"].into_iter();
        let mut all = lists.flat_map(|list| items(spec, list).iter().rev());
        all.find(|container| text(container, "name") == name)
    };
    for (index, mapping) in mappings.iter().enumerate() {
        let at = mappings_path.index(index);
        let fields = ["containerName", "resourceName", "requestName"];
        let values = fields.map(|field| text(mapping, field));
        let [container, resource, request] = values;
        let requests = named(container).map(|container| container.pointer("/resources/requests"));
        let error = match requests {
            None => Some((
                "containerName",
                "must match the name of an entry in spec.initContainers.name or spec.containers.name",
            )),
            Some(requests) if requests.is_none_or(|requests| requests.get(resource).is_none()) => Some((
                "resourceName",
                "must match the extended resource name of an entry in spec.initContainers.resources.requests or \
                 spec.containers.resources.requests",
            )),
            Some(_) => None,
        };
        errors.extend(error.map(|(field, detail)| Error::invalid_str(&at.child(field), text(mapping, field), detail)));
        push_invalid(
            &path.child("requestName"),
            request,
            names::dns1123_label(request),
            errors,
        );
        let repeats = |other: &Value| fields.map(|field| text(other, field)) == values;
        if mappings.iter().take(index).any(repeats) {
            let each = fields.into_iter().zip(values);
            errors.extend(each.map(|(field, value)| Error::duplicate(&at.child(field), &value.into())));
        }
    }
    if let Some(name) = require(claim, path, "resourceClaimName", errors) {
        push_invalid(
            &path.child("resourceClaimName"),
            name,
            names::dns1123_subdomain(name),
            errors,
        );
    }
}

/// Validates the shares of its node's own resources that claims of the pod take (`validateNodeAllocatableResourceClaimStatus`).
fn validate_node_allocatable_resource_claim_status(pod: &Value, is: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let none = Value::Null;
    let named = items(pod.get("spec").unwrap_or(&none), "resourceClaims").iter();
    let made = items(is, "resourceClaimStatuses").iter();
    let claims = named.chain(made).filter_map(|claim| claim.get("resourceClaimName"));
    for (index, status) in items(is, "nodeAllocatableResourceClaimStatuses").iter().enumerate() {
        let at = path.index(index);
        let name = text(status, "resourceClaimName");
        let name_path = at.child("resourceClaimName");
        if name.is_empty() {
            errors.push(Error::required(&name_path, "must not be empty"));
        }
        if !claims.clone().any(|claim| claim == name) {
            errors.push(Error::invalid_str(
                &name_path,
                name,
                "no mapping found in pod reference",
            ));
        }
        if items(status, "containers").is_empty() {
            errors.push(Error::required(&at.child("containers"), "must not be empty"));
        }
        let resources = at.child("resources");
        if entries(status, "resources").next().is_none() {
            errors.push(Error::required(&resources, "must not be empty"));
        }
        for (name, amount) in entries(status, "resources") {
            let at = resources.key(name);
            if !is_native(name) {
                errors.push(Error::invalid_str(
                    &at,
                    name,
                    "must be a node allocatable resource name",
                ));
            }
            let amount = quantity(amount);
            if amount < Quantity::ZERO {
                errors.push(Error::invalid_str(&at, &amount.to_string(), "must be non-negative"));
            }
        }
    }
}

/// The addresses of the pod or of its host, before and after: valid if they are new, and one a family.
/// Upstream: `validatePodIPs`.
fn validate_pod_ips(features: Features, [ips, were]: &[Vec<&str>; 2], path: &Path<'_>, errors: &mut ErrorList) {
    for (index, ip) in ips.iter().enumerate() {
        push_invalid(&path.index(index), ip, legacy_ip(features, ip, were), errors);
    }
    if ips.len() < 2 {
        return;
    }
    let parsed: Vec<_> = ips.iter().map(|ip| names::parse_ip_sloppy(ip)).collect();
    if let Some(at) = parsed.iter().position(Option::is_none) {
        let ip = ips.get(at).copied().unwrap_or_default();
        errors.push(Error {
            kind: ErrorType::Internal,
            field: path.to_string(),
            body: format!("Internal error: failed to check for dual stack with error:invalid IP[{at}]: {ip}"),
        });
    }
    let of_both = [true, false]
        .into_iter()
        .all(|v4| parsed.iter().flatten().any(|ip| ip.is_ipv4() == v4));
    if !of_both || parsed.iter().any(Option::is_none) || ips.len() > 2 {
        let listed: Vec<Value> = ips.iter().map(|ip| json!({ "ip": ip })).collect();
        let shown = layout::compact_list("PodIP", &listed);
        errors.push(Error::invalid_shown(
            path,
            shown,
            "may specify no more than one IP for each IP family",
        ));
    }
}

/// As upstream's `validateHostIPs`.
fn validate_host_ips(features: Features, new: &Value, old: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let ips = [new, old].map(|pod| addresses(pod, "hostIPs"));
    let Some(first) = ips[0].first().copied() else { return };
    if first != text_at(new, "/status/hostIP") {
        let at = path.index(0);
        errors.push(Error::invalid_str(&at.child("ip"), first, "must be equal to `hostIP`"));
    }
    validate_pod_ips(features, &ips, path, errors);
}
