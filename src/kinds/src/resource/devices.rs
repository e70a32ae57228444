//! The devices of a slice (`validateDevice`).

use serde_json::Value;
use trireme_machinery::{
    field::{Error, ErrorList, Path},
    go_text::structs::{self, PrintedShape},
    names,
    pod_resources::is_native,
};

use super::{
    capacity::validate_request_policy,
    lists::{by, shown_key, validate_counters, validate_label_value, validate_set, validate_slice},
    names::{MAX_DOMAIN_BYTES, MAX_ID_BYTES, validate_qualified_name},
    taints::{MAX_TAINTS, validate_device_binding_parameters, validate_device_taint},
};
use crate::{
    checks::{push_invalid, quantity, require},
    pod_template::validate_node_selector,
    values::{entries, is_true_at, items, set_default, text},
};

const MAX_DEVICES: usize = 128;
const MAX_DEVICES_WITH_ADVANCED_FEATURES: usize = 64;
const MAX_ATTRIBUTES: usize = 32;
const MAX_ATTRIBUTE_VALUES: usize = 48;
const MAX_KEY_BYTES: usize = MAX_DOMAIN_BYTES + 1 + MAX_ID_BYTES;
const MAX_VALUE_BYTES: usize = 64;
const MAPPINGS: &str = "nodeAllocatableResourceMappings";
const MAX_CONSUMED_SETS: usize = 2;
const MAX_CONSUMED_COUNTERS: usize = 32;
const ONE_OF: &str = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec";

/// `resource.DeviceAttribute`.
const ATTRIBUTE: PrintedShape = PrintedShape::Struct(&[
    ("IntValue", "int", PrintedShape::Plain),
    ("BoolValue", "bool", PrintedShape::Plain),
    ("StringValue", "string", PrintedShape::Plain),
    ("VersionValue", "version", PrintedShape::Plain),
    ("BoolValues", "bools", PrintedShape::Plain),
    ("IntValues", "ints", PrintedShape::Plain),
    ("StringValues", "strings", PrintedShape::Plain),
    ("VersionValues", "versions", PrintedShape::Plain),
]);

/// Fills in what a device leaves open: the multiplier of each mapping (`SetDefaults_Device`).
pub(super) fn default_device(device: &mut Value) {
    let mappings = device.get_mut(MAPPINGS).and_then(Value::as_object_mut);
    for (_, mapping) in mappings.into_iter().flatten() {
        if let Some(fields) = mapping.as_object_mut() {
            set_default(fields, "allocationMultiplier", "1");
        }
    }
}

/// Validates the devices of a slice's `spec`; what is as it was in the `old` one is not held against newer rules.
pub(super) fn validate_devices(spec: &Value, old: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let most = match items(spec, "devices").iter().any(has_advanced_features) {
        true => MAX_DEVICES_WITH_ADVANCED_FEATURES,
        false => MAX_DEVICES,
    };
    let selects_itself = is_true_at(spec, "/perDeviceNodeSelection");
    validate_set(
        spec,
        path,
        ("devices", most),
        by("name"),
        |device, at, errors| {
            let before = items(old, "devices")
                .iter()
                .find(|before| text(before, "name") == text(device, "name"));
            validate_device(device, before, at, errors);
            validate_device_nodes(device, at, selects_itself, errors);
            validate_device_binding_parameters(device, at, errors);
            validate_node_allocatable_resource_mappings(device, at, errors);
        },
        errors,
    );
}

/// Reports whether a device has taints, consumes counters, or has attributes that are lists.
fn has_advanced_features(device: &Value) -> bool {
    let has = |list: &str| !items(device, list).is_empty();
    has("taints") || has("consumesCounters") || attributes(device).any(|(_, attribute)| list_items(attribute) > 0)
}

fn attributes(device: &Value) -> impl Iterator<Item = (&str, &Value)> {
    entries(device, "attributes")
}

/// The number of items of an attribute's lists.
fn list_items(attribute: &Value) -> usize {
    let fields = attribute.as_object().into_iter().flatten();
    fields.filter_map(|(_, field)| field.as_array()).map(Vec::len).sum()
}

fn validate_device(device: &Value, before: Option<&Value>, path: &Path<'_>, errors: &mut ErrorList) {
    validate_label_value(text(device, "name"), &path.child("name"), errors);
    let count = attributes(device).count() + entries(device, "capacity").count();
    if count > MAX_ATTRIBUTES {
        let detail = format!("the total number of attributes and capacities must not exceed {MAX_ATTRIBUTES}");
        errors.push(Error::invalid(path, &count.into(), &detail));
    }
    // A list counts by its items.
    let values: usize = attributes(device)
        .map(|(_, attribute)| list_items(attribute).max(1))
        .sum();
    if values > MAX_ATTRIBUTE_VALUES {
        let detail = format!("the total number of attribute values must not exceed {MAX_ATTRIBUTE_VALUES}");
        errors.push(Error::invalid(path, &values.into(), &detail));
    }
    let at = path.child("attributes");
    for (name, attribute) in attributes(device) {
        validate_qualified_name(name, &at, errors);
        validate_device_attribute(attribute, &at.key(&shown_key(name, MAX_KEY_BYTES)), errors);
    }
    validate_device_capacities(device, &path.child("capacity"), errors);
    if before.is_none_or(|before| before.get("taints") != device.get("taints")) {
        validate_slice(device, path, ("taints", MAX_TAINTS), validate_device_taint, errors);
    }
    validate_set(
        device,
        path,
        ("consumesCounters", MAX_CONSUMED_SETS),
        by("counterSet"),
        |consumed, at, errors| {
            if let Some(set) = require(consumed, at, "counterSet", errors) {
                validate_label_value(set, &at.child("counterSet"), errors);
            }
            validate_counters(consumed, at, MAX_CONSUMED_COUNTERS, errors);
        },
        errors,
    );
}

fn validate_device_capacities(device: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let is_shared = is_true_at(device, "/allowMultipleAllocations");
    for (name, capacity) in entries(device, "capacity") {
        validate_qualified_name(name, path, errors);
        let Some(policy) = capacity.get("requestPolicy") else {
            continue;
        };
        let shown = shown_key(name, MAX_KEY_BYTES);
        let at = path.key(&shown);
        let at = at.child("requestPolicy");
        if is_shared {
            validate_request_policy(capacity.get("value"), policy, &at, errors);
        } else {
            errors.push(Error::forbidden(&at, "allowMultipleAllocations must be true"));
        }
    }
}

type TextCheck = fn(&str, &Path<'_>, &mut ErrorList);

/// The fields of an attribute that are texts, or lists of them, each with its check.
const TEXTS: [(&str, &str, TextCheck); 2] = [
    ("string", "strings", validate_device_attribute_string_value),
    ("version", "versions", validate_device_attribute_version_value),
];

/// As upstream's `validateDeviceAttribute`.
fn validate_device_attribute(attribute: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    for (one, many, validate) in TEXTS {
        if let Some(value) = attribute.get(one).and_then(Value::as_str) {
            validate(value, &path.child(one), errors);
        }
        for (index, value) in items(attribute, many).iter().enumerate() {
            validate(
                value.as_str().unwrap_or_default(),
                &path.child(many).index(index),
                errors,
            );
        }
    }
    let detail = "exactly one value must be specified";
    match attribute.as_object().map_or(0, serde_json::Map::len) {
        0 => errors.push(Error::invalid_str(path, "", detail)),
        1 => {}
        _ => {
            let shown = structs::compact(Some(attribute), ATTRIBUTE);
            errors.push(Error::invalid_shown(path, shown, detail));
        }
    }
}

/// As upstream's `validateDeviceAttributeStringValue`.
fn validate_device_attribute_string_value(value: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if value.len() > MAX_VALUE_BYTES {
        errors.push(Error::too_long(path, MAX_VALUE_BYTES));
    }
}

/// As upstream's `validateDeviceAttributeVersionValue`.
fn validate_device_attribute_version_value(version: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if !is_semantic_version(version) {
        let detail = "must be a string compatible with semver.org spec 2.0.0";
        errors.push(Error::invalid_str(path, version, detail));
    }
    validate_device_attribute_string_value(version, path, errors);
}

fn is_semantic_version(version: &str) -> bool {
    let is_number = |part: &str| {
        let digits = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        digits && (part == "0" || !part.starts_with('0'))
    };
    let is_word = |part: &str| {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        !part.is_empty() && part.bytes().all(fits)
    };
    let is_prerelease = |part: &str| is_number(part) || (is_word(part) && !part.bytes().all(|b| b.is_ascii_digit()));
    let (version, build) = match version.split_once('+') {
        Some((version, build)) => (version, Some(build)),
        None => (version, None),
    };
    let (core, prerelease) = match version.split_once('-') {
        Some((core, prerelease)) => (core, Some(prerelease)),
        None => (version, None),
    };
    core.split('.').count() == 3
        && core.split('.').all(is_number)
        && prerelease.is_none_or(|prerelease| prerelease.split('.').all(is_prerelease))
        && build.is_none_or(|build| build.split('.').all(is_word))
}

/// As upstream's `validateNodeAllocatableResourceMappings`; a mapping has a multiplier by default.
fn validate_node_allocatable_resource_mappings(device: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let path = path.child(MAPPINGS);
    for (name, mapping) in entries(device, MAPPINGS) {
        let at = path.key(name);
        if !is_native(name) {
            errors.push(Error::invalid_str(
                &at,
                name,
                "must be a node allocatable resource name",
            ));
        }
        if let Some(multiplier) = mapping.get("allocationMultiplier").map(quantity)
            && multiplier.signum() <= 0
        {
            let at = at.child("allocationMultiplier");
            errors.push(Error::invalid_str(&at, &multiplier.to_string(), "must be positive"));
        }
        if let Some(key) = mapping.get("capacityKey").and_then(Value::as_str) {
            validate_capacity_key(device, key, &at.child("capacityKey"), errors);
        }
    }
}

fn validate_capacity_key(device: &Value, key: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if key.is_empty() {
        errors.push(Error::invalid_str(path, "", "capacityKey must not be an empty string"));
    } else if entries(device, "capacity").all(|(name, _)| name != key) {
        errors.push(Error::not_found(path, &key.into()));
    }
}

/// Validates the node selection of a device, which it has if each device of the slice selects for itself.
fn validate_device_nodes(device: &Value, path: &Path<'_>, selects_itself: bool, errors: &mut ErrorList) {
    const FIELDS: [&str; 3] = ["nodeName", "nodeSelector", "allNodes"];
    if !selects_itself {
        if FIELDS.iter().any(|name| device.get(name).is_some()) {
            let detail = "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
            errors.push(Error::invalid(path, &Value::Null, detail));
        }
        return;
    }
    let mut set = Vec::new();
    match device.get("nodeName").and_then(Value::as_str) {
        None => {}
        Some("") => errors.push(Error::invalid_str(&path.child("nodeName"), "", "must not be empty")),
        Some(name) => {
            set.push("`nodeName`");
            push_invalid(&path.child("nodeName"), name, names::dns1123_subdomain(name), errors);
        }
    }
    if let Some(selector) = device.get("nodeSelector") {
        set.push("`nodeSelector`");
        validate_node_selector(selector, &path.child("nodeSelector"), errors);
    }
    match device.get("allNodes").and_then(Value::as_bool) {
        None => {}
        Some(true) => set.push("`allNodes`"),
        Some(false) => {
            let detail = "must be either unset or set to true";
            errors.push(Error::invalid(&path.child("allNodes"), &false.into(), detail));
        }
    }
    match set.len() {
        0 => errors.push(Error::required(path, ONE_OF)),
        1 => {}
        _ => errors.push(Error::invalid_str(path, &format!("{{{}}}", set.join(", ")), ONE_OF)),
    }
}
