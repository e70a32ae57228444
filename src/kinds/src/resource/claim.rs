//! The requests of a claim, or a template of one (`validateDeviceClaim`), and the defaults of it.

use std::collections::{HashMap, HashSet};

use serde_json::Value;
use trireme_machinery::{
    Feature, Features,
    field::{Error, ErrorList, Path},
    names,
};

use super::{
    gated::{self, GatedFields},
    lists::{by, validate_label_value, validate_set, validate_slice},
    names::validate_fully_qualified_name,
    selectors::{validate_device_configuration, validate_selector_slice},
    taints::validate_device_tolerations,
};
use crate::{
    checks::{number, push_invalid, require},
    values::{items, set_default, text},
};

const MAX_REQUESTS: usize = 32;
const MAX_CONSTRAINTS: usize = 32;
/// The most configurations of a claim or class.
pub(super) const MAX_CONFIGURATIONS: usize = 32;
const MAX_ALTERNATIVES: usize = 8;
const UNKNOWN_REQUEST: &str =
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";

/// The fields of a claim's `spec` that depend on features.
const GATED: [GatedFields; 3] = [
    GatedFields::new(
        &[Feature::DraPrioritizedList],
        &["spec/devices/requests/*/firstAvailable"],
    ),
    GatedFields::new(
        &[Feature::DraDeviceTaints],
        &[
            "spec/devices/requests/*/exactly/tolerations",
            "spec/devices/requests/*/firstAvailable/*/tolerations",
        ],
    ),
    GatedFields::new(&[Feature::DraConsumableCapacity], CONSUMABLE_CAPACITY),
];

/// The fields of a claim's `spec` that are about shared capacity.
pub(super) const CONSUMABLE_CAPACITY: &[&str] = &[
    "spec/devices/constraints/*/distinctAttribute",
    "spec/devices/requests/*/exactly/capacity",
    "spec/devices/requests/*/firstAvailable/*/capacity",
];

/// Drops fields whose features are off from the `spec` of a claim, or of what has a claim's `spec` in a template.
pub(super) fn drop_disabled(features: Features, claim: &mut Value, old: Option<&Value>) {
    gated::drop_disabled(features, &GATED, claim, old);
}

/// Fills in what a claim's `spec` leaves open: one device of each request.
pub(super) fn default_spec(spec: Option<&mut Value>) {
    let requests = spec.and_then(|spec| spec.pointer_mut("/devices/requests"));
    for request in requests.and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(exactly) = request.get_mut("exactly") {
            default_count(exactly);
        }
        let alternatives = request.get_mut("firstAvailable").and_then(Value::as_array_mut);
        alternatives.into_iter().flatten().for_each(default_count);
    }
}

/// One device, unless the request says otherwise; a mode that is there but empty is that of a request of version 1beta1 without a
/// class, which has no defaults.
fn default_count(request: &mut Value) {
    let Some(fields) = request.as_object_mut() else { return };
    set_default(fields, "allocationMode", "ExactCount");
    let is_counted = fields.get("allocationMode").is_some_and(|mode| mode == "ExactCount");
    if is_counted && fields.get("count").and_then(Value::as_i64).unwrap_or(0) == 0 {
        fields.insert("count".to_owned(), 1.into());
    }
}

/// Validates a claim's `spec` (`validateResourceClaimSpec`).
pub(super) fn validate_resource_claim_spec(features: Features, spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let devices = spec.get("devices").unwrap_or(&Value::Null);
    let path = path.child("devices");
    let names = RequestNames::of(devices);
    validate_set(
        devices,
        &path,
        ("requests", MAX_REQUESTS),
        by("name"),
        |request, at, errors| validate_device_request(features, request, at, errors),
        errors,
    );
    validate_slice(
        devices,
        &path,
        ("constraints", MAX_CONSTRAINTS),
        |constraint, at, errors| validate_device_constraint(features, constraint, at, &names, errors),
        errors,
    );
    validate_slice(
        devices,
        &path,
        ("config", MAX_CONFIGURATIONS),
        |config, at, errors| {
            names.validate_request_name_refs(config, at, errors);
            validate_device_configuration(config, at, false, errors);
        },
        errors,
    );
}

/// The names of a claim's requests, each with those of its alternatives.
pub(super) struct RequestNames<'a>(HashMap<&'a str, HashSet<&'a str>>);

impl<'a> RequestNames<'a> {
    /// The names in a claim's `spec.devices`.
    pub(super) fn of(devices: &'a Value) -> Self {
        let names = items(devices, "requests").iter().map(|request| {
            let alternatives = items(request, "firstAvailable").iter().map(|one| text(one, "name"));
            (text(request, "name"), alternatives.collect())
        });
        Self(names.collect())
    }

    fn has(&self, name: &str) -> bool {
        match name.split_once('/') {
            Some((request, alternative)) => self.0.get(request).is_some_and(|all| all.contains(alternative)),
            None => self.0.contains_key(name),
        }
    }

    /// Validates a name of a request, or of one of its alternatives (`validateRequestNameRef`).
    pub(super) fn validate_request_name_ref(&self, name: &str, path: &Path<'_>, errors: &mut ErrorList) {
        if name.split('/').count() > 2 {
            errors.push(Error::invalid_str(path, name, UNKNOWN_REQUEST));
            return;
        }
        for part in name.split('/') {
            validate_label_value(part, path, errors);
        }
        if !self.has(name) {
            errors.push(Error::invalid_str(path, name, UNKNOWN_REQUEST));
        }
    }

    /// Validates the list `requests`.
    pub(super) fn validate_request_name_refs(&self, holder: &Value, path: &Path<'_>, errors: &mut ErrorList) {
        validate_set(
            holder,
            path,
            ("requests", MAX_REQUESTS),
            Value::clone,
            |name, at, errors| self.validate_request_name_ref(name.as_str().unwrap_or_default(), at, errors),
            errors,
        );
    }
}

fn validate_device_request(features: Features, request: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    validate_label_value(text(request, "name"), &path.child("name"), errors);
    let alternatives = !items(request, "firstAvailable").is_empty();
    match (request.get("exactly"), alternatives) {
        (None, false) => {
            let detail = "exactly one of `exactly` or `firstAvailable` is required";
            errors.push(Error::required(path, detail));
        }
        (Some(_), true) => {
            let detail = "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set";
            errors.push(Error::invalid(path, &Value::Null, detail));
        }
        (Some(exactly), false) => validate_device_request_common(features, exactly, &path.child("exactly"), errors),
        (None, true) => validate_set(
            request,
            path,
            ("firstAvailable", MAX_ALTERNATIVES),
            by("name"),
            |alternative, at, errors| {
                validate_label_value(text(alternative, "name"), &at.child("name"), errors);
                validate_device_request_common(features, alternative, at, errors);
            },
            errors,
        ),
    }
}

/// Validates the fields that a request and its alternatives share (`validateDeviceRequest`, `validateDeviceSubRequest`).
fn validate_device_request_common(features: Features, wanted: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    if let Some(class) = require(wanted, path, "deviceClassName", errors) {
        let at = path.child("deviceClassName");
        push_invalid(&at, class, names::dns1123_subdomain(class), errors);
    }
    validate_selector_slice(features, wanted, path, false, errors);
    validate_device_allocation_mode(wanted, path, errors);
    validate_device_tolerations(wanted, path, errors);
}

/// As upstream's `validateDeviceAllocationMode`.
fn validate_device_allocation_mode(wanted: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let (at, count) = (path.child("count"), number(wanted, "count").unwrap_or(0));
    match text(wanted, "allocationMode") {
        "All" if count != 0 => {
            let detail = "must not be specified when allocationMode is 'All'";
            errors.push(Error::invalid(&at, &count.into(), detail));
        }
        "ExactCount" if count <= 0 => {
            errors.push(Error::invalid(&at, &count.into(), "must be greater than zero"));
        }
        "All" | "ExactCount" => {}
        other => errors.push(Error::not_supported(
            &path.child("allocationMode"),
            other,
            &["All", "ExactCount"],
        )),
    }
}

/// As upstream's `validateDeviceConstraint`.
fn validate_device_constraint(
    features: Features,
    constraint: &Value,
    path: &Path<'_>,
    names: &RequestNames<'_>,
    errors: &mut ErrorList,
) {
    names.validate_request_name_refs(constraint, path, errors);
    let attribute = ["matchAttribute", "distinctAttribute"]
        .into_iter()
        .find_map(|name| Some((name, constraint.get(name)?.as_str()?)));
    match attribute {
        Some((name, attribute)) => validate_fully_qualified_name(attribute, &path.child(name), errors),
        None if !features.has(Feature::DraConsumableCapacity) => {
            errors.push(Error::required(&path.child("matchAttribute"), ""));
        }
        None => {
            // The words are upstream's, though no field is set.
            let detail =
                r#"exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set"#;
            errors.push(Error::required(path, detail));
        }
    }
}
