//! Validation of resource requirements, of containers and of pods as a whole.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use trireme_machinery::{
    field::{Error, ErrorList, Path},
    names,
    quantity::Quantity,
};

use super::{
    check::{push_invalid, quantity},
    containers::is_sidecar,
};
use crate::values::{entries, items, text};

const COMPUTE: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
const STANDARD: [&str; 20] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "storage",
    "requests.storage",
    "services.nodeports",
    "services.loadbalancers",
];
const POD_LEVEL: [&str; 3] = ["cpu", "hugepages-", "memory"];
const HUGE_PAGES: &str = "hugepages-";

/// The requirements of one container.
pub(super) fn validate_requirements(
    requirements: &Value,
    claims: &BTreeSet<&str>,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    validate_amounts(requirements, path, validate_container_name, errors);
    let claims_path = path.child("claims");
    let mut seen = BTreeSet::new();
    for (index, claim) in items(requirements, "claims").iter().enumerate() {
        let (at, name) = (claims_path.index(index), text(claim, "name"));
        if name.is_empty() {
            errors.push(Error::required(&at, ""));
            continue;
        }
        if !seen.insert((name, text(claim, "request"))) {
            errors.push(Error::duplicate(&at, &name.into()));
        }
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

fn validate_amounts(
    requirements: &Value,
    path: &Path<'_>,
    validate_name: fn(&str, &Path<'_>, &mut ErrorList),
    errors: &mut ErrorList,
) {
    let (limits_path, requests_path) = (path.child("limits"), path.child("requests"));
    for (name, amount) in entries(requirements, "limits") {
        let at = limits_path.key(name);
        validate_name(name, &at, errors);
        validate_amount(name, amount, &at, errors);
    }
    let limit_of = |name: &str| requirements.get("limits").and_then(|limits| limits.get(name));
    for (name, amount) in entries(requirements, "requests") {
        let at = requests_path.key(name);
        validate_name(name, &at, errors);
        validate_amount(name, amount, &at, errors);
        let Some(limit) = limit_of(name) else {
            if !may_overcommit(name) {
                let detail = "Limit must be set for non overcommitable resources";
                errors.push(Error::required(&limits_path, detail));
            }
            continue;
        };
        let (asked, allowed) = (quantity(amount), quantity(limit));
        let word = match asked.cmp(&allowed) {
            std::cmp::Ordering::Equal => continue,
            _ if !may_overcommit(name) => "equal to",
            std::cmp::Ordering::Less => continue,
            std::cmp::Ordering::Greater => "less than or equal to",
        };
        let detail = format!("must be {word} {name} limit of {allowed}");
        errors.push(Error::invalid_str(&requests_path, &asked.to_string(), &detail));
    }
    let listed: Vec<&str> = ["limits", "requests"]
        .into_iter()
        .flat_map(|list| entries(requirements, list))
        .map(|(name, _)| name)
        .collect();
    let computes = listed.iter().any(|name| matches!(*name, "cpu" | "memory"));
    if !computes && listed.iter().any(|name| name.starts_with(HUGE_PAGES)) {
        errors.push(Error::forbidden(path, "HugePages require cpu or memory"));
    }
}

/// A resource's name as containers may ask for it.
fn validate_container_name(name: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let faults = names::qualified_name(name);
    let is_standard = name.starts_with(HUGE_PAGES) || COMPUTE.contains(&name);
    if faults.is_empty() && !name.contains('/') && !is_standard && !STANDARD.contains(&name) {
        errors.push(Error::invalid_str(
            path,
            name,
            "must be a standard resource type or fully qualified",
        ));
    }
    push_invalid(errors, path, name, faults);
    if !name.contains('/') {
        if !is_standard {
            errors.push(Error::invalid_str(
                path,
                name,
                "must be a standard resource for containers",
            ));
        }
    } else if !is_native(name) && !is_extended(name) {
        errors.push(Error::invalid_str(
            path,
            name,
            "doesn't follow extended resource name standard",
        ));
    }
}

fn validate_amount(name: &str, amount: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let amount = quantity(amount);
    if amount < zero() {
        errors.push(Error::invalid_str(
            path,
            &amount.to_string(),
            "must be greater than or equal to 0",
        ));
    }
    if is_extended(name) && amount.as_integer().is_none() {
        errors.push(Error::invalid_str(path, &amount.to_string(), "must be an integer"));
    }
    if let Some(size) = name
        .strip_prefix(HUGE_PAGES)
        .and_then(|size| Quantity::parse(size).ok())
    {
        let (amount_bytes, page) = (amount.value(), size.value());
        if page <= 0 || amount_bytes < 0 || amount_bytes % page != 0 {
            let detail = format!("{amount} is not positive integer multiple of {name}");
            errors.push(Error::invalid_str(path, &amount.to_string(), &detail));
        }
    }
}

fn zero() -> Quantity {
    Quantity::from_integer(0, trireme_machinery::quantity::Format::DecimalSi)
}

fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

fn is_extended(name: &str) -> bool {
    !is_native(name) && !name.starts_with("requests.") && names::qualified_name(&format!("requests.{name}")).is_empty()
}

fn may_overcommit(name: &str) -> bool {
    is_native(name) && !name.starts_with(HUGE_PAGES)
}

/// Whether a pod as a whole may ask for a resource.
pub(crate) fn is_pod_level(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with(HUGE_PAGES)
}

/// What the containers ask for together: sidecars count beside the others, other init containers one by one.
pub(crate) fn aggregate_requests(spec: &Value) -> BTreeMap<String, Quantity> {
    let mut sum: BTreeMap<String, Quantity> = BTreeMap::new();
    let add = |sum: &mut BTreeMap<String, Quantity>, container: &Value| {
        for (name, amount) in requests(container) {
            let total = sum
                .get(name)
                .map_or_else(|| quantity(amount), |so_far| *so_far + quantity(amount));
            sum.insert(name.to_owned(), total);
        }
    };
    items(spec, "containers")
        .iter()
        .for_each(|container| add(&mut sum, container));
    let (mut sidecars, mut peak) = (BTreeMap::new(), BTreeMap::new());
    for container in items(spec, "initContainers") {
        if is_sidecar(container) {
            add(&mut sum, container);
            add(&mut sidecars, container);
            raise(&mut peak, &sidecars);
        } else {
            let mut now = sidecars.clone();
            add(&mut now, container);
            raise(&mut peak, &now);
        }
    }
    raise(&mut sum, &peak);
    sum
}

fn raise(into: &mut BTreeMap<String, Quantity>, other: &BTreeMap<String, Quantity>) {
    for (name, amount) in other {
        if into.get(name).is_none_or(|so_far| so_far < amount) {
            into.insert(name.clone(), *amount);
        }
    }
}

fn requests(container: &Value) -> impl Iterator<Item = (&str, &Value)> {
    container
        .get("resources")
        .into_iter()
        .flat_map(|resources| entries(resources, "requests"))
}

/// The requirements of a pod as a whole, against those of its containers.
pub(super) fn validate_pod_level(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(resources) = spec.get("resources") else { return };
    validate_amounts(resources, path, validate_pod_level_name, errors);
    for (index, _) in items(resources, "claims").iter().enumerate() {
        let claims = path.child("claims");
        errors.push(Error::forbidden(
            &claims.index(index),
            "claims cannot be set for Resources at pod-level",
        ));
    }
    let together = aggregate_requests(spec);
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
    for list in ["containers", "initContainers"] {
        let list_path = path.child(list);
        for (index, container) in items(spec, list).iter().enumerate() {
            let at = list_path.index(index);
            let own = container
                .get("resources")
                .into_iter()
                .flat_map(|resources| entries(resources, "limits"));
            for (name, amount) in own {
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
}

fn validate_pod_level_name(name: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if !is_pod_level(name) {
        errors.push(Error::not_supported(path, name, &POD_LEVEL));
    }
}

/// What running the pod costs beside its containers.
pub(crate) fn validate_overhead(overhead: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let limits = serde_json::json!({ "limits": overhead });
    validate_amounts(&limits, path, validate_container_name, errors);
}
