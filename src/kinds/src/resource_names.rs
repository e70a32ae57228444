//! Names of resources: what containers may ask for, what quotas may count, and what numbers they may have.

use serde_json::Value;
use trireme_machinery::{
    field::{Error, ErrorList, Path},
    names,
    pod_resources::{is_extended, is_native},
};

use crate::checks::{push_invalid, quantity, validate_nonnegative_quantity};

const HUGE_PAGES: &str = "hugepages-";
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
    "persistentvolumeclaims",
    "configmaps",
    "services.nodeports",
    "services.loadbalancers",
    "storage",
    "requests.storage",
];
const QUOTA: [&str; 18] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.storage",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "persistentvolumeclaims",
    "configmaps",
    "services.nodeports",
];
/// Resources that are counted, not measured.
const INTEGERS: [&str; 9] = [
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];

/// Returns true if a resource is pages of one size.
pub(crate) fn is_huge_pages(name: &str) -> bool {
    name.starts_with(HUGE_PAGES)
}

/// Returns true if a container may get more of a resource than it asks for.
pub(crate) fn is_overcommit_allowed(name: &str) -> bool {
    is_native(name) && !is_huge_pages(name)
}

/// A name is well-formed, and standard if it has no domain (`validateLimitRangeResourceName`).
pub(crate) fn validate_limit_range_resource_name(name: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let messages = names::qualified_name(name);
    let is_well_formed = messages.is_empty();
    push_invalid(path, name, messages, errors);
    let is_standard = STANDARD.contains(&name) || is_huge_pages(name) || is_quota_huge_pages(name);
    if is_well_formed && !name.contains('/') && !is_standard {
        errors.push(Error::invalid_str(
            path,
            name,
            "must be a standard resource type or fully qualified",
        ));
    }
}

/// A name of what containers may ask for (`ValidateContainerResourceName`).
pub(crate) fn validate_container_resource_name(name: &str, path: &Path<'_>, errors: &mut ErrorList) {
    validate_limit_range_resource_name(name, path, errors);
    let is_container = matches!(name, "cpu" | "memory" | "ephemeral-storage") || is_huge_pages(name);
    let error = if !name.contains('/') {
        (!is_container).then_some("must be a standard resource for containers")
    } else {
        (!is_native(name) && !is_extended(name)).then_some("doesn't follow extended resource name standard")
    };
    errors.extend(error.map(|error| Error::invalid_str(path, name, error)));
}

fn is_quota_huge_pages(name: &str) -> bool {
    is_huge_pages(name) || name.strip_prefix("requests.").is_some_and(is_huge_pages)
}

/// Returns true if quotas know a resource by a name of its own.
pub(crate) fn is_standard_for_quotas(name: &str) -> bool {
    QUOTA.contains(&name) || name == "services.loadbalancers" || is_quota_huge_pages(name)
}

/// A name of what quotas may count (`ValidateResourceQuotaResourceName`).
pub(crate) fn validate_resource_quota_resource_name(name: &str, path: &Path<'_>, errors: &mut ErrorList) {
    validate_limit_range_resource_name(name, path, errors);
    if !name.contains('/') && !is_standard_for_quotas(name) {
        errors.push(Error::invalid_str(path, name, "must be a standard resource for quota"));
    }
}

/// A number of a resource: not negative, and whole if the resource is counted (`ValidateResourceQuantityValue`).
pub(crate) fn validate_resource_quantity_value(name: &str, value: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    validate_nonnegative_quantity(value, path, errors);
    let is_whole = INTEGERS.contains(&name) || is_extended(name);
    if is_whole && quantity(value).as_integer().is_none() {
        errors.push(Error::invalid(path, value, "must be an integer"));
    }
}
