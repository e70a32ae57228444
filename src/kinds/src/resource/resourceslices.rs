//! ResourceSlices (`pkg/registry/resource/resourceslice`).

use jiff::Timestamp;
use serde_json::Value;
use trireme_machinery::{
    Feature, Features, GroupVersion, GroupVersionKind,
    field::{Error, ErrorList, Path},
    go_text::structs,
    time,
};
use trireme_registry::{SelectableField, Strategy, WriteContext, strategy::MetadataChecks};

use super::{
    devices::{default_device, validate_devices},
    gated::{self, GatedFields},
    lists::{by, validate_counters, validate_label_value, validate_set},
    names::validate_pool_name,
    shapes::NODE_SELECTOR_TERMS,
    v1beta1,
};
use crate::{
    checks::{number, push_invalid, require, validate_immutable_fields, validate_immutable_texts},
    columns::{self, column, documented},
    kind::{Kind, selectable},
    pod_template::validate_csi_driver_name,
    pod_template::validate_node_selector,
    values::{is_true_at, items, text, text_at},
};

const SPEC: &str = "io.k8s.api.resource.v1.ResourceSliceSpec";
const POOL: &str = "io.k8s.api.resource.v1.ResourcePool";
const MAX_COUNTER_SETS: usize = 8;
const MAX_COUNTERS: usize = 32;
const ONE_OF: &str = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";

const GATED: [GatedFields; 6] = [
    GatedFields::new(&[Feature::DraDeviceTaints], &["spec/devices/*/taints"]),
    GatedFields::new(
        &[Feature::DraPartitionableDevices],
        &[
            "spec/sharedCounters",
            "spec/perDeviceNodeSelection",
            "spec/devices/*/consumesCounters",
            "spec/devices/*/nodeName",
            "spec/devices/*/nodeSelector",
            "spec/devices/*/allNodes",
        ],
    ),
    GatedFields::new(
        &[
            Feature::DraDeviceBindingConditions,
            Feature::DraResourceClaimDeviceStatus,
        ],
        &[
            "spec/devices/*/bindingConditions",
            "spec/devices/*/bindingFailureConditions",
            "spec/devices/*/bindsToNode",
        ],
    ),
    GatedFields::new(
        &[Feature::DraConsumableCapacity],
        &[
            "spec/devices/*/allowMultipleAllocations",
            "spec/devices/*/capacity/*/requestPolicy",
        ],
    ),
    GatedFields::new(
        &[Feature::DraNodeAllocatableResources],
        &["spec/devices/*/nodeAllocatableResourceMappings"],
    ),
    GatedFields::new(
        &[Feature::DraListTypeAttributes],
        &[
            "spec/devices/*/attributes/*/bools",
            "spec/devices/*/attributes/*/ints",
            "spec/devices/*/attributes/*/strings",
            "spec/devices/*/attributes/*/versions",
        ],
    ),
];

/// The kind's parts.
pub(crate) fn kind(features: Features) -> Kind {
    let at = |pointer: &'static str| move |object: &Value| Value::from(text_at(object, pointer));
    // Each kubelet watches the slices of its own node.
    let node_name = SelectableField {
        indexed: true,
        ..selectable("spec.nodeName", &["spec.nodeName"], |slice| {
            text_at(slice, "/spec/nodeName").to_owned()
        })
    };
    let kind = Kind::new("resource.k8s.io", "resourceslices", ResourceSlices { features }).selectable(vec![node_name]);
    kind.columns(vec![
        columns::name(),
        column("Node", "string", documented(SPEC, "nodeName"), at("/spec/nodeName")),
        column("Driver", "string", documented(SPEC, "driver"), at("/spec/driver")),
        column("Pool", "string", documented(POOL, "name"), at("/spec/pool/name")),
        columns::age(),
    ])
    .conversion(GroupVersion::new("resource.k8s.io", "v1beta1"), v1beta1::Slices)
}

struct ResourceSlices {
    features: Features,
}

impl Strategy for ResourceSlices {
    fn metadata_checks_of_update(&self, _context: &WriteContext) -> MetadataChecks {
        MetadataChecks::OfChange
    }

    fn default(&self, object: &mut Value) {
        devices_mut(object).for_each(default_device);
    }

    fn drop_disabled(&self, object: &mut Value, old: Option<&Value>) {
        gated::drop_disabled(self.features, &GATED, object, old);
    }

    fn prepare_for_create(&self, context: &WriteContext, object: &mut Value) {
        date_taints(object, context.now);
    }

    fn validate(&self, _context: &WriteContext, object: &Value) -> ErrorList {
        validate_resource_slice(object, None)
    }

    fn prepare_for_update(&self, context: &WriteContext, new: &mut Value, _old: &Value) {
        date_taints(new, context.now);
    }

    fn validate_update(&self, _context: &WriteContext, new: &Value, old: &Value) -> ErrorList {
        validate_resource_slice(new, Some(old))
    }

    fn refuse_field(&self, kind: &GroupVersionKind, field: &str) -> Option<String> {
        let is_known = matches!(field, "spec.nodeName" | "spec.driver");
        (!is_known).then(|| format!("field label not supported for {kind}: {field}"))
    }

    fn warnings(&self, new: &Value, _old: Option<&Value>) -> Vec<String> {
        let driver = text_at(new, "/spec/driver");
        let has_upper = driver.chars().any(char::is_uppercase);
        let warning =
            || format!("spec.driver: driver names should be lowercase; {driver:?} contains uppercase characters");
        has_upper.then(warning).into_iter().collect()
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn returns_deleted_object(&self) -> bool {
        true
    }
}

fn devices_mut(slice: &mut Value) -> impl Iterator<Item = &mut Value> {
    let devices = slice.pointer_mut("/spec/devices").and_then(Value::as_array_mut);
    devices.into_iter().flatten()
}

fn date_taints(slice: &mut Value, now: Timestamp) {
    let taints = devices_mut(slice).filter_map(|device| device.get_mut("taints")?.as_array_mut());
    for taint in taints.flatten().filter_map(Value::as_object_mut) {
        taint
            .entry("timeAdded")
            .or_insert_with(|| time::Time::from(now).to_string().into());
    }
}

/// As upstream's `ValidateResourceSlice`.
fn validate_resource_slice(new: &Value, old: Option<&Value>) -> ErrorList {
    let mut errors = ErrorList::new();
    let path = Path::new("spec");
    let spec = new.get("spec").unwrap_or(&Value::Null);
    validate_csi_driver_name(text(spec, "driver"), &path.child("driver"), &mut errors);
    validate_resource_pool(
        spec.get("pool").unwrap_or(&Value::Null),
        &path.child("pool"),
        &mut errors,
    );
    if let Some(old) = old {
        validate_immutable_texts(new, old, &["spec.pool.name", "spec.driver"], &mut errors);
        validate_immutable_fields(new, old, &["spec.nodeName"], &mut errors);
    }
    validate_slice_nodes(spec, &path, &mut errors);
    if spec.get("sharedCounters").is_some() && spec.get("devices").is_some() {
        let detail = "only one of `sharedCounters` or `devices` is allowed";
        errors.push(Error::invalid_str(&path, "", detail));
    }
    let old_spec = old.and_then(|old| old.get("spec")).unwrap_or(&Value::Null);
    validate_devices(spec, old_spec, &path, &mut errors);
    validate_set(
        spec,
        &path,
        ("sharedCounters", MAX_COUNTER_SETS),
        by("name"),
        |set, at, errors| {
            if let Some(name) = require(set, at, "name", errors) {
                validate_label_value(name, &at.child("name"), errors);
            }
            validate_counters(set, at, MAX_COUNTERS, errors);
        },
        &mut errors,
    );
    errors
}

/// As upstream's `validateResourcePool`.
fn validate_resource_pool(pool: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    validate_pool_name(text(pool, "name"), &path.child("name"), errors);
    let count = number(pool, "resourceSliceCount").unwrap_or(0);
    if count <= 0 {
        let at = path.child("resourceSliceCount");
        errors.push(Error::invalid(&at, &count.into(), "must be greater than zero"));
    }
    if let Some(generation) = number(pool, "generation").filter(|generation| *generation < 0) {
        let detail = "must be greater than or equal to zero";
        errors.push(Error::invalid(&path.child("generation"), &generation.into(), detail));
    }
}

/// Validates the node selection of a slice: one node, some, all, or one for each device.
fn validate_slice_nodes(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let mut set = Vec::new();
    if let Some(name) = spec.get("nodeName").and_then(Value::as_str) {
        let at = path.child("nodeName");
        if name.is_empty() {
            let detail = "must be either unset or set to a non-empty string";
            errors.push(Error::invalid_str(&at, name, detail));
        } else {
            set.push("`nodeName`");
            push_invalid(&at, name, trireme_machinery::names::dns1123_subdomain(name), errors);
        }
    }
    if let Some(selector) = spec.get("nodeSelector") {
        set.push("`nodeSelector`");
        validate_slice_node_selector(selector, &path.child("nodeSelector"), errors);
    }
    for (name, shown) in [
        ("allNodes", "`allNodes`"),
        ("perDeviceNodeSelection", "`perDeviceNodeSelection`"),
    ] {
        if spec.get(name).is_none() {
            continue;
        }
        if is_true_at(spec, &format!("/{name}")) {
            set.push(shown);
        } else {
            let detail = "must be either unset or set to true";
            errors.push(Error::invalid(&path.child(name), &false.into(), detail));
        }
    }
    match set.len() {
        0 => errors.push(Error::required(path, ONE_OF)),
        1 => {}
        _ => {
            let detail = format!("{ONE_OF}, but multiple fields are set");
            errors.push(Error::invalid_str(path, &format!("{{{}}}", set.join(", ")), &detail));
        }
    }
}

/// Selectors of several slices are merged, which takes each to be one term.
fn validate_slice_node_selector(selector: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    validate_node_selector(selector, path, errors);
    if items(selector, "nodeSelectorTerms").len() != 1 {
        let shown = structs::compact(selector.get("nodeSelectorTerms"), NODE_SELECTOR_TERMS);
        let detail = "must have exactly one node selector term";
        errors.push(Error::invalid_shown(&path.child("nodeSelectorTerms"), shown, detail));
    }
}
