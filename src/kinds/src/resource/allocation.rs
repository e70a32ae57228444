//! Validation of a claim's status, which schedulers and drivers write (`validateResourceClaimStatusUpdate`).

use std::{collections::HashSet, fmt};

use serde_json::Value;
use trireme_machinery::{
    field::{Error, ErrorList, Path},
    go_text::{
        quote,
        structs::{self, PrintedShape},
    },
    names::parse_cidr_sloppy,
};

use super::{
    capacity::equal,
    claim::{MAX_CONFIGURATIONS, RequestNames},
    lists::{by, validate_label_value, validate_set, validate_slice},
    names::{validate_pool_name, validate_uid},
    selectors::{MAX_PARAMETERS_BYTES, validate_device_configuration, validate_raw_extension},
    shapes::ALLOCATION,
    taints::validate_device_binding_parameters,
};
use crate::{
    checks::require,
    conditions::validate_conditions,
    pod_template::validate_csi_driver_name,
    pod_template::validate_node_selector,
    values::{items, text},
};

const MAX_CONSUMERS: usize = 256;
const MAX_RESULTS: usize = 32;
const MAX_CONDITIONS: usize = 8;
const MAX_ADDRESSES: usize = 16;
const MAX_INTERFACE_BYTES: usize = 256;
const MAX_HARDWARE_BYTES: usize = 128;

/// A device of a driver's pool, without the share of it.
#[derive(PartialEq, Eq, Hash)]
struct DeviceId([String; 3]);

impl DeviceId {
    /// The device that a result or a device's status is of.
    fn of(fields: &Value) -> Self {
        Self(["driver", "pool", "device"].map(|name| text(fields, name).to_owned()))
    }
}

/// A device with its share, as messages show it.
#[derive(PartialEq, Eq, Hash)]
pub(super) struct SharedDeviceId(DeviceId, String);

impl SharedDeviceId {
    /// The share that a result or a device's status is of.
    pub(super) fn of(fields: &Value) -> Self {
        Self(DeviceId::of(fields), text(fields, "shareID").to_owned())
    }
}

impl fmt::Display for SharedDeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [driver, pool, device] = self.0.0.each_ref().map(|name| Value::from(name.as_str()));
        let share = Value::from(self.1.as_str());
        write!(
            f,
            r#"{{"Driver":{driver},"Pool":{pool},"Device":{device},"ShareID":{share}}}"#
        )
    }
}

/// Validates a new status beside the old one (`ValidateResourceClaimStatusUpdate`).
pub(super) fn validate_resource_claim_status_update(new: &Value, old: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let path = Path::new("status");
    let null = Value::Null;
    let status = new.get("status").unwrap_or(&null);
    let old_status = old.get("status").unwrap_or(&null);
    validate_set(
        status,
        &path,
        ("reservedFor", MAX_CONSUMERS),
        by("uid"),
        |consumer, at, errors| {
            for field in ["resource", "name", "uid"] {
                require(consumer, at, field, errors);
            }
        },
        &mut errors,
    );
    let allocation = status.get("allocation");
    validate_device_statuses(status, allocation, &path, &mut errors);
    validate_resource_claim_user_references(new, status, old_status, &path.child("reservedFor"), &mut errors);
    let at = path.child("allocation");
    match (allocation, old_status.get("allocation")) {
        (Some(_), Some(before)) if !equal(allocation, Some(before)) => {
            let shown = structs::compact(allocation, PrintedShape::Pointer(ALLOCATION));
            errors.push(Error::invalid_shown(&at, shown, "field is immutable"));
        }
        (Some(allocation), None) => {
            let devices = new.pointer("/spec/devices").unwrap_or(&null);
            validate_allocation_result(allocation, &at, &RequestNames::of(devices), &mut errors);
        }
        _ => {}
    }
    errors
}

fn validate_resource_claim_user_references(
    new: &Value,
    status: &Value,
    old_status: &Value,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    let consumers = items(status, "reservedFor");
    if consumers.is_empty() {
        return;
    }
    if status.get("allocation").is_none() {
        let detail = "may not be specified when `allocated` is not set";
        errors.push(Error::forbidden(path, detail));
        return;
    }
    let is_deleted = new.pointer("/metadata/deletionTimestamp").is_some();
    let before = items(old_status, "reservedFor");
    if is_deleted && consumers.iter().any(|consumer| !before.contains(consumer)) {
        let detail = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set";
        errors.push(Error::forbidden(path, detail));
    }
}

/// As upstream's `validateAllocationResult`.
fn validate_allocation_result(allocation: &Value, path: &Path<'_>, names: &RequestNames<'_>, errors: &mut ErrorList) {
    let devices = allocation.get("devices").unwrap_or(&Value::Null);
    let at = path.child("devices");
    validate_slice(
        devices,
        &at,
        ("results", MAX_RESULTS),
        |result, at, errors| {
            names.validate_request_name_ref(text(result, "request"), &at.child("request"), errors);
            validate_device_request_allocation_result(result, at, errors);
            validate_device_binding_parameters(result, at, errors);
            validate_share_id(result, at, errors);
        },
        errors,
    );
    let most = 2 * MAX_CONFIGURATIONS;
    validate_slice(
        devices,
        &at,
        ("config", most),
        |config, at, errors| {
            match require(config, at, "source", errors) {
                None | Some("FromClaim" | "FromClass") => {}
                Some(other) => {
                    let at = at.child("source");
                    errors.push(Error::not_supported(&at, other, &["FromClaim", "FromClass"]));
                }
            }
            names.validate_request_name_refs(config, at, errors);
            validate_device_configuration(config, at, false, errors);
        },
        errors,
    );
    if let Some(selector) = allocation.get("nodeSelector") {
        validate_node_selector(selector, &path.child("nodeSelector"), errors);
    }
}

/// As upstream's `validateDeviceRequestAllocationResult`.
fn validate_device_request_allocation_result(device: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    validate_csi_driver_name(text(device, "driver"), &path.child("driver"), errors);
    validate_pool_name(text(device, "pool"), &path.child("pool"), errors);
    validate_label_value(text(device, "device"), &path.child("device"), errors);
}

fn validate_share_id(device: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    if let Some(share) = device.get("shareID").and_then(Value::as_str) {
        validate_uid(share, &path.child("shareID"), errors);
    }
}

fn validate_device_statuses(status: &Value, allocation: Option<&Value>, path: &Path<'_>, errors: &mut ErrorList) {
    let results = allocation.and_then(|allocation| allocation.get("devices"));
    let results = items(results.unwrap_or(&Value::Null), "results");
    let allocated: HashSet<SharedDeviceId> = results.iter().map(SharedDeviceId::of).collect();
    let at = path.child("devices");
    for (index, device) in items(status, "devices").iter().enumerate() {
        validate_device_status(device, &at.index(index), &allocated, errors);
    }
    let mut seen = HashSet::new();
    for (index, device) in items(status, "devices").iter().enumerate() {
        let id = SharedDeviceId::of(device);
        let shown = id.to_string();
        if !seen.insert(id) {
            errors.push(Error::duplicate_shown(&at.index(index), shown));
        }
    }
}

/// As upstream's `validateDeviceStatus`.
fn validate_device_status(
    device: &Value,
    path: &Path<'_>,
    allocated: &HashSet<SharedDeviceId>,
    errors: &mut ErrorList,
) {
    validate_device_request_allocation_result(device, path, errors);
    validate_share_id(device, path, errors);
    let id = SharedDeviceId::of(device);
    if !allocated.contains(&id) {
        let detail = "must be an allocated device in the claim";
        errors.push(Error::invalid_shown(path, id.to_string(), detail));
    }
    let (at, conditions) = (path.child("conditions"), items(device, "conditions").len());
    if conditions > MAX_CONDITIONS {
        errors.push(Error::too_many(&at, conditions, MAX_CONDITIONS));
    }
    validate_conditions(device, &at, errors);
    if let Some(data) = device.get("data") {
        validate_raw_extension(Some(data), &path.child("data"), MAX_PARAMETERS_BYTES, errors);
    }
    if let Some(network) = device.get("networkData") {
        validate_network_device_data(network, &path.child("networkData"), errors);
    }
}

/// As upstream's `validateNetworkDeviceData`.
fn validate_network_device_data(network: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    for (name, max) in [
        ("interfaceName", MAX_INTERFACE_BYTES),
        ("hardwareAddress", MAX_HARDWARE_BYTES),
    ] {
        if text(network, name).len() > max {
            errors.push(Error::too_long(&path.child(name), max));
        }
    }
    validate_set(
        network,
        path,
        ("ips", MAX_ADDRESSES),
        Value::clone,
        |address, at, errors| {
            let address = address.as_str().unwrap_or_default();
            if let Err(error) = check_interface_address(address) {
                errors.push(Error::invalid_str(at, address, &error));
            }
        },
        errors,
    );
}

/// As upstream's `IsValidInterfaceAddress`.
fn check_interface_address(address: &str) -> Result<(), String> {
    const FORM: &str = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)";
    let (ip, bits) = parse_cidr_sloppy(address).ok_or(FORM)?;
    // An address of IPv4 that is written as one of IPv6 counts the bits of that.
    let bits = i16::from(bits) - if ip.is_ipv4() && bits > 32 { 96 } else { 0 };
    let canonical = format!("{ip}/{bits}");
    match canonical == address {
        true => Ok(()),
        false => Err(format!("must be in canonical form ({})", quote(&canonical))),
    }
}
