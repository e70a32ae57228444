//! ResourceClaims (`pkg/registry/resource/resourceclaim`).

use std::collections::HashSet;

use serde_json::{Value, json};
use trireme_machinery::{
    Feature, Features, GroupVersion,
    field::{Error, ErrorList, Path},
    go_text::structs::{self, PrintedShape},
};
use trireme_registry::{ResetFields, Strategy, WriteContext, request::Subresource};

use super::{
    allocation::{self, SharedDeviceId},
    capacity::equal,
    claim::{self, default_spec, validate_resource_claim_spec},
    gated::{self, GatedFields},
    shapes::CLAIM_SPEC,
    v1beta1,
};
use crate::{
    columns::{self, column, described},
    kind::Kind,
    values::{items, keep_field, keep_metadata, remove},
};

/// The fields of a claim's status that depend on features.
const GATED_STATUS: [GatedFields; 3] = [
    GatedFields::new(&[Feature::DraResourceClaimDeviceStatus], &["status/devices"]),
    GatedFields::new(
        &[Feature::DraConsumableCapacity],
        &[
            "status/allocation/devices/results/*/shareID",
            "status/allocation/devices/results/*/consumedCapacity",
            "status/devices/*/shareID",
        ],
    )
    .kept_by(claim::CONSUMABLE_CAPACITY),
    GatedFields::new(
        &[Feature::DraDeviceBindingConditions],
        &[
            "status/allocation/devices/results/*/bindingConditions",
            "status/allocation/devices/results/*/bindingFailureConditions",
        ],
    ),
];

/// The kind's parts.
pub(crate) fn kind(features: Features) -> Kind {
    let description = "A summary of the current state (allocated, pending, reserved, etc.).";
    Kind::new("resource.k8s.io", "resourceclaims", ResourceClaims { features })
        .columns(vec![
            columns::name(),
            column("State", "string", described(description), |object| {
                Value::from(state(object))
            }),
            columns::age(),
        ])
        .conversion(
            GroupVersion::new("resource.k8s.io", "v1beta1"),
            v1beta1::RequestsOfClaims { spec: "/spec" },
        )
}

fn state(object: &Value) -> String {
    let is_deleted = object.pointer("/metadata/deletionTimestamp").is_some();
    let status = object.get("status").unwrap_or(&Value::Null);
    let is_allocated = status.get("allocation").is_some();
    let states = [
        (is_deleted, "deleted"),
        (!is_allocated && !is_deleted, "pending"),
        (is_allocated, "allocated"),
        (is_allocated && !items(status, "reservedFor").is_empty(), "reserved"),
    ];
    let states: Vec<&str> = states.iter().filter(|(is, _)| *is).map(|(_, state)| *state).collect();
    states.join(",")
}

struct ResourceClaims {
    features: Features,
}

impl Strategy for ResourceClaims {
    fn reset_fields(&self, subresource: Subresource) -> ResetFields {
        ResetFields::of_bare_status(subresource)
    }

    fn default(&self, object: &mut Value) {
        default_spec(object.get_mut("spec"));
    }

    fn drop_disabled(&self, object: &mut Value, old: Option<&Value>) {
        gated::drop_disabled(self.features, &GATED_STATUS, object, old);
        claim::drop_disabled(self.features, object, old);
    }

    fn prepare_for_create(&self, _context: &WriteContext, object: &mut Value) {
        object["status"] = json!({});
    }

    fn validate(&self, _context: &WriteContext, object: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        let spec = object.get("spec").unwrap_or(&Value::Null);
        validate_resource_claim_spec(self.features, spec, &Path::new("spec"), &mut errors);
        errors
    }

    fn prepare_for_update(&self, _context: &WriteContext, new: &mut Value, old: &Value) {
        keep_field(new, old, "status");
    }

    fn validate_update(&self, _context: &WriteContext, new: &Value, old: &Value) -> ErrorList {
        let spec = new.get("spec");
        if equal(spec, old.get("spec")) {
            return ErrorList::new();
        }
        let shown = structs::compact(spec, PrintedShape::Struct(CLAIM_SPEC));
        vec![Error::invalid_shown(&Path::new("spec"), shown, "field is immutable")]
    }

    fn prepare_for_status_update(&self, _context: &WriteContext, new: &mut Value, old: &Value) {
        keep_field(new, old, "spec");
        keep_metadata(new, old);
        drop_deallocated(new, old);
    }

    fn validate_status_update(&self, _context: &WriteContext, new: &Value, old: &Value) -> ErrorList {
        allocation::validate_resource_claim_status_update(new, old)
    }

    fn returns_deleted_object(&self) -> bool {
        true
    }
}

/// Drops the statuses of devices whose allocation is gone.
fn drop_deallocated(new: &mut Value, old: &Value) {
    let allocated = |object: &Value| -> HashSet<SharedDeviceId> {
        let results = object.pointer("/status/allocation/devices").unwrap_or(&Value::Null);
        items(results, "results").iter().map(SharedDeviceId::of).collect()
    };
    let kept = allocated(new);
    let deallocated: HashSet<SharedDeviceId> = allocated(old).into_iter().filter(|id| !kept.contains(id)).collect();
    let Some(status) = new.get_mut("status") else { return };
    let Some(devices) = status.get_mut("devices").and_then(Value::as_array_mut) else {
        return;
    };
    devices.retain(|device| !deallocated.contains(&SharedDeviceId::of(device)));
    if devices.is_empty() {
        remove(status, "devices");
    }
}
