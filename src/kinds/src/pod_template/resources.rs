//! Validation of resource requirements, of containers and of pods as a whole.

use std::collections::BTreeSet;

use serde_json::Value;
use trireme_machinery::{
    field::{Error, ErrorList, Path},
    names,
    pod_resources::{ListName, aggregate, is_pod_level, listed},
    quantity::Quantity,
};

use super::{check::push_invalid, spec::Pod, tolerated::Tolerated};
use crate::{
    checks::quantity,
    resource_names::{
        is_huge_pages, is_overcommit_allowed, validate_container_resource_name, validate_limit_range_resource_name,
        validate_resource_quantity_value,
    },
    values::{entries, items, text, text_at},
};

const POD_LEVEL: [&str; 3] = ["cpu", "hugepages-", "memory"];
const HUGE_PAGES: &str = "hugepages-";

/// The checks of the amounts of resources.
#[derive(Clone, Copy)]
struct AmountChecks {
    /// Validates the name of a resource.
    validate_name: fn(&str, &Path<'_>, &mut ErrorList),
    tolerated: Tolerated,
}

/// The requirements of one container (`ValidateContainerResourceRequirements`).
pub(super) fn validate_container_resource_requirements(
    requirements: &Value,
    pod: &Pod<'_>,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    let checks = AmountChecks {
        validate_name: validate_container_resource_name,
        tolerated: pod.capabilities.tolerated,
    };
    validate_resource_requirements(requirements, &pod.claims, path, checks, errors);
}

/// As upstream's `ValidateResourceRequirements`.
fn validate_resource_requirements(
    requirements: &Value,
    claims: &BTreeSet<&str>,
    path: &Path<'_>,
    checks: AmountChecks,
    errors: &mut ErrorList,
) {
    validate_amounts(requirements, path, checks, errors);
    let claims_path = path.child("claims");
    let mut seen = BTreeSet::new();
    for (index, claim) in items(requirements, "claims").iter().enumerate() {
        let (at, name) = (claims_path.index(index), text(claim, "name"));
        if name.is_empty() {
            errors.push(Error::required(&at, ""));
            continue;
        }
        validate_resource_claim_name(&mut seen, name, text(claim, "request"), &at, errors);
        if !claims.contains(name) {
            let listed: Vec<&str> = claims.iter().copied().collect();
            let listed = if listed.is_empty() {
                " which is empty".to_owned()
            } else {
                format!(": {}", listed.join(", "))
            };
            let mut error = Error::not_found(&at, &name.into());
            error
                .body
                .push_str(": must be one of the names in pod.spec.resourceClaims");
            error.body.push_str(&listed);
            errors.push(error);
        }
    }
}

/// A claim is referred to once as a whole, or once for each of its requests.
fn validate_resource_claim_name<'a>(
    seen: &mut BTreeSet<(&'a str, &'a str)>,
    name: &'a str,
    request: &'a str,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    if seen.contains(&(name, "")) {
        errors.push(Error::duplicate(path, &name.into()));
        return;
    }
    if request.is_empty() {
        let repeats = seen.range((name, "")..).take_while(|(other, _)| *other == name);
        errors.extend(repeats.map(|_| Error::duplicate(path, &name.into())));
    } else {
        push_invalid(&path.child("request"), request, names::dns1123_label(request), errors);
        if seen.contains(&(name, request)) {
            errors.push(Error::duplicate(path, &format!("{name}/{request}").into()));
        }
    }
    seen.insert((name, request));
}

fn validate_amounts(requirements: &Value, path: &Path<'_>, checks: AmountChecks, errors: &mut ErrorList) {
    let AmountChecks {
        validate_name,
        tolerated,
    } = checks;
    let (limits_path, requests_path) = (path.child("limits"), path.child("requests"));
    for (name, amount) in entries(requirements, "limits") {
        let at = limits_path.key(name);
        validate_name(name, &at, errors);
        validate_resource_quantity_value(name, amount, &at, errors);
        validate_huge_pages(name, amount, tolerated, &at, errors);
    }
    let limit_of = |name: &str| requirements.get("limits").and_then(|limits| limits.get(name));
    for (name, amount) in entries(requirements, "requests") {
        let at = requests_path.key(name);
        validate_name(name, &at, errors);
        validate_resource_quantity_value(name, amount, &at, errors);
        match limit_of(name) {
            Some(limit) => validate_request_against_limit(name, (amount, limit), &requests_path, errors),
            None if !is_overcommit_allowed(name) => {
                let detail = "Limit must be set for non overcommitable resources";
                errors.push(Error::required(&limits_path, detail));
            }
            None => {}
        }
        validate_huge_pages(name, amount, tolerated, &at, errors);
    }
    let listed: Vec<&str> = ["limits", "requests"]
        .into_iter()
        .flat_map(|list| entries(requirements, list))
        .map(|(name, _)| name)
        .collect();
    let computes = listed.iter().any(|name| matches!(*name, "cpu" | "memory"));
    if !computes && listed.iter().any(|name| is_huge_pages(name)) {
        errors.push(Error::forbidden(path, "HugePages require cpu or memory"));
    }
}

/// Where no more than there is can be promised, a request is as large as its limit.
fn validate_request_against_limit(
    name: &str,
    (request, limit): (&Value, &Value),
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    let (asked, allowed) = (quantity(request), quantity(limit));
    let word = match asked.cmp(&allowed) {
        std::cmp::Ordering::Equal => return,
        _ if !is_overcommit_allowed(name) => "equal to",
        std::cmp::Ordering::Less => return,
        std::cmp::Ordering::Greater => "less than or equal to",
    };
    let detail = format!("must be {word} {name} limit of {allowed}");
    errors.push(Error::invalid_str(path, &asked.to_string(), &detail));
}

/// Huge pages are asked for as a whole number of pages (`validateResourceQuantityHugePageValue`).
fn validate_huge_pages(name: &str, amount: &Value, tolerated: Tolerated, path: &Path<'_>, errors: &mut ErrorList) {
    if !tolerated.has(Tolerated::PARTIAL_PAGES) && !is_whole_pages(name, amount) {
        let amount = quantity(amount);
        let detail = format!("{amount} is not positive integer multiple of {name}");
        errors.push(Error::invalid_str(path, &amount.to_string(), &detail));
    }
}

/// Returns true if an amount is a multiple of a page, or the resource is no such pages (`IsHugePageResourceValueDivisible`).
pub(super) fn is_whole_pages(name: &str, amount: &Value) -> bool {
    let Some(size) = name.strip_prefix(HUGE_PAGES) else {
        return true;
    };
    Quantity::parse(size).is_ok_and(|page| {
        let is_whole_bytes = page.signum() > 0 && page.milli_value() % 1000 == 0;
        is_whole_bytes && quantity(amount).value().checked_rem(page.value()) == Some(0)
    })
}

/// The requirements of a pod as a whole, against those of its containers (`validatePodResourceRequirements`).
pub(super) fn validate_pod_resource_requirements(pod: &Pod<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let spec = pod.spec;
    let Some(resources) = spec.get("resources") else { return };
    if text_at(spec, "/os/name") == "windows" {
        errors.push(Error::forbidden(path, "may not be set for a windows pod"));
        return;
    }
    if resources.get("claims").is_some() {
        errors.push(Error::forbidden(
            &path.child("claims"),
            "claims may not be set for Resources at pod-level",
        ));
    }
    let claims = items(spec, "resourceClaims").iter().map(|claim| text(claim, "name"));
    let checks = AmountChecks {
        validate_name: validate_pod_resource_name,
        tolerated: pod.capabilities.tolerated,
    };
    validate_resource_requirements(resources, &claims.collect(), path, checks, errors);
    validate_pod_resource_consistency(spec, resources, path, errors);
    let containers = path.child("containers");
    for (index, container) in items(spec, "containers").iter().enumerate() {
        let at = containers.index(index);
        let own = container.get("resources").unwrap_or(&Value::Null);
        for (name, amount) in entries(own, "limits") {
            let Some(limit) = resources.get("limits").and_then(|limits| limits.get(name)) else {
                continue;
            };
            let (own, limit) = (quantity(amount), quantity(limit));
            if own > limit {
                let detail = format!("must be less than or equal to pod limits of {limit}");
                errors.push(Error::invalid_str(
                    &at.key(name).child("limits"),
                    &own.to_string(),
                    &detail,
                ));
            }
        }
    }
}

/// Checks that the pod's limits suffice for its containers together (`validatePodResourceConsistency`).
fn validate_pod_resource_consistency(spec: &Value, resources: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let together = aggregate(spec, |container| listed(container, ListName::Requests));
    for (name, amount) in entries(resources, "requests") {
        let asked = quantity(amount);
        if let Some(sum) = together.get(name).filter(|sum| asked < **sum) {
            let detail = format!("must be greater than or equal to aggregate container requests of {sum}");
            errors.push(Error::invalid_str(
                &path.child("requests").key(name),
                &asked.to_string(),
                &detail,
            ));
        }
    }
    let together = aggregate(spec, |container| listed(container, ListName::Limits));
    for (name, amount) in entries(resources, "limits").filter(|(name, _)| is_huge_pages(name)) {
        let allowed = quantity(amount);
        if let Some(sum) = together.get(name).filter(|sum| allowed < **sum) {
            let detail = format!("must be greater than or equal to aggregate container limits of {sum}");
            errors.push(Error::invalid_str(
                &path.child("limits").key(name),
                &allowed.to_string(),
                &detail,
            ));
        }
    }
}

/// As upstream's `validatePodResourceName`.
fn validate_pod_resource_name(name: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let before = errors.len();
    validate_limit_range_resource_name(name, path, errors);
    if errors.len() == before && !is_pod_level(name) {
        errors.push(Error::not_supported(path, name, &POD_LEVEL));
    }
}

/// Validates the cost of running the pod beside its containers (`validateOverhead`).
pub(crate) fn validate_overhead(overhead: &Value, tolerated: Tolerated, path: &Path<'_>, errors: &mut ErrorList) {
    let limits = serde_json::json!({ "limits": overhead });
    let checks = AmountChecks {
        validate_name: validate_container_resource_name,
        tolerated,
    };
    validate_amounts(&limits, path, checks, errors);
}
