//! Each feature on and off: what a new object keeps, and what stays because the old object uses it.

use serde_json::{Value, json};
use trireme_machinery::{Feature, Features};

use super::{deviceclasses, resourceclaims, resourceclaimtemplates, resourceslices};
use crate::{
    kind::Kind,
    testing::{Trial, merged, named},
};

const SHARE: &str = "12345678-1234-1234-1234-123456789abc";

/// A kind while a feature is on, and while it is off.
struct BothStates {
    on: Trial,
    off: Trial,
}

impl BothStates {
    fn of(plural: &str, kind: fn(Features) -> Kind, feature: Feature) -> Self {
        let trial = |features| Trial::new("resource.k8s.io", plural, kind(features));
        Self {
            on: trial(Features::with(&[feature])),
            off: trial(Features::without(&[feature])),
        }
    }

    /// Creates an object in both states, the one that uses the feature and the one that lost its fields, and holds that an
    /// update keeps the fields of the first.
    fn create(&self, body: &Value) -> [Value; 2] {
        let made = |trial: &Trial| trial.create(body.clone()).unwrap_or_else(|errors| panic!("{errors:?}"));
        let (used, bare) = (made(&self.on), made(&self.off));
        let label = json!({ "metadata": { "labels": { "a": "b" } } });
        let kept = self.off.patch(&used, &label).expect("a label is allowed");
        assert_eq!(kept["spec"], used["spec"], "fields that are in use stay");
        let again = self.off.patch(&bare, body).expect("dropped once more");
        assert_eq!(again["spec"], bare["spec"], "fields that are not in use are dropped");
        [used, bare]
    }

    /// The errors of a create in both states.
    fn errors(&self, body: &Value) -> [Vec<String>; 2] {
        [&self.on, &self.off].map(|trial| trial.errors(body.clone()))
    }

    /// The statuses that an update of the status makes in both states.
    fn status(&self, old: &Value, status: &Value) -> [Value; 2] {
        [&self.on, &self.off].map(|trial| {
            let new = trial.status(old, status.clone());
            new.unwrap_or_else(|errors| panic!("{errors:?}"))["status"].clone()
        })
    }
}

fn claims(feature: Feature) -> BothStates {
    BothStates::of("resourceclaims", resourceclaims::kind, feature)
}

fn slices(feature: Feature) -> BothStates {
    BothStates::of("resourceslices", resourceslices::kind, feature)
}

fn spec_of_claim(requests: Value) -> Value {
    json!({ "devices": { "requests": requests } })
}

fn exactly(more: Value) -> Value {
    let request = merged(&json!({ "deviceClassName": "c" }), &more);
    spec_of_claim(json!([{ "name": "r", "exactly": request }]))
}

fn slice(more: Value) -> Value {
    let base = json!({ "driver": "d", "allNodes": true, "pool": { "name": "p", "resourceSliceCount": 1 } });
    named("s", merged(&base, &more))
}

fn device(more: Value) -> Value {
    slice(json!({ "devices": [merged(&json!({ "name": "a" }), &more)] }))
}

/// The names of the fields of a slice's first device.
fn fields(slice: &Value) -> Vec<&str> {
    let device = slice["spec"]["devices"][0].as_object().expect("a device");
    device.keys().map(String::as_str).collect()
}

#[test]
fn extended_resources_of_classes_depend_on_dra_extended_resource() {
    let classes = BothStates::of("deviceclasses", deviceclasses::kind, Feature::DraExtendedResource);
    let [used, bare] = classes.create(&named("c", json!({ "extendedResourceName": "ex.com/gpu" })));
    assert_eq!(used["spec"]["extendedResourceName"], "ex.com/gpu");
    assert_eq!(bare["spec"], json!({}));
}

#[test]
fn alternatives_of_requests_depend_on_dra_prioritized_list() {
    let alternatives = json!([{ "name": "f", "firstAvailable": [{ "name": "s", "deviceClassName": "c" }] }]);
    let spec = spec_of_claim(alternatives);
    let templates = BothStates::of(
        "resourceclaimtemplates",
        resourceclaimtemplates::kind,
        Feature::DraPrioritizedList,
    );
    for (kind, body, path) in [
        (claims(Feature::DraPrioritizedList), named("c", spec.clone()), "spec"),
        (templates, named("t", json!({ "spec": spec })), "spec.spec"),
    ] {
        let error = format!(
            "{path}.devices.requests[0]: Required value: exactly one of `exactly` or `firstAvailable` is required"
        );
        assert_eq!(kind.errors(&body), [vec![], vec![error]]);
        let used = kind.on.create(body).expect("a valid object");
        let label = json!({ "metadata": { "labels": { "a": "b" } } });
        let kept = kind.off.patch(&used, &label).expect("a label is allowed");
        assert_eq!(kept["spec"], used["spec"]);
    }
}

#[test]
fn taints_and_tolerations_depend_on_dra_device_taints() {
    let tolerations = json!({ "tolerations": [{ "operator": "Exists" }] });
    let [used, bare] = claims(Feature::DraDeviceTaints).create(&named("c", exactly(tolerations.clone())));
    let request = |claim: &Value| claim["spec"]["devices"]["requests"][0]["exactly"].clone();
    assert_eq!(request(&used)["tolerations"][0]["operator"], "Exists");
    assert_eq!(request(&bare)["tolerations"], Value::Null);
    let alternative = merged(&json!({ "name": "s", "deviceClassName": "c" }), &tolerations);
    let spec = spec_of_claim(json!([{ "name": "f", "firstAvailable": [alternative] }]));
    let [used, bare] = claims(Feature::DraDeviceTaints).create(&named("c", spec));
    let tolerated = |claim: &Value| claim["spec"]["devices"]["requests"][0]["firstAvailable"][0]["tolerations"].clone();
    assert_ne!(tolerated(&used), Value::Null);
    assert_eq!(tolerated(&bare), Value::Null);
    let taints = json!({ "taints": [{ "key": "k", "effect": "NoSchedule" }] });
    let [used, bare] = slices(Feature::DraDeviceTaints).create(&device(taints));
    assert_eq!(fields(&used), ["name", "taints"]);
    assert_eq!(fields(&bare), ["name"]);
}

#[test]
fn requests_for_capacity_depend_on_dra_consumable_capacity() {
    let claims = claims(Feature::DraConsumableCapacity);
    let [used, bare] = claims.create(&named(
        "c",
        exactly(json!({ "capacity": { "requests": { "mem": "1" } } })),
    ));
    let capacity = |claim: &Value| claim["spec"]["devices"]["requests"][0]["exactly"]["capacity"].clone();
    assert_eq!(capacity(&used), json!({ "requests": { "mem": "1" } }));
    assert_eq!(capacity(&bare), Value::Null);
    let constrained = |attribute: Value| named("c", json!({ "devices": { "constraints": [attribute] } }));
    let on = r#"spec.devices.constraints[0]: Required value: exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set"#;
    let off = "spec.devices.constraints[0].matchAttribute: Required value";
    let both = [vec![on.to_owned()], vec![off.to_owned()]];
    assert_eq!(claims.errors(&constrained(json!({}))), both);
    let distinct = json!({ "distinctAttribute": "d.ex.com/a" });
    assert_eq!(claims.errors(&constrained(distinct)), [vec![], vec![off.to_owned()]]);
}

#[test]
fn shared_devices_depend_on_dra_consumable_capacity() {
    let policy = json!({ "mem": { "value": "10", "requestPolicy": { "default": "2" } } });
    let shared = json!({ "allowMultipleAllocations": true, "capacity": policy });
    let [used, bare] = slices(Feature::DraConsumableCapacity).create(&device(shared));
    assert_eq!(fields(&used), ["allowMultipleAllocations", "capacity", "name"]);
    assert_eq!(
        used["spec"]["devices"][0]["capacity"]["mem"]["requestPolicy"]["default"],
        "2"
    );
    assert_eq!(
        bare["spec"]["devices"][0]["capacity"],
        json!({ "mem": { "value": "10" } })
    );
    assert_eq!(fields(&bare), ["capacity", "name"]);
}

#[test]
fn shares_in_a_status_depend_on_dra_consumable_capacity() {
    let claims = claims(Feature::DraConsumableCapacity);
    let share = json!({ "driver": "d", "pool": "p", "device": "a", "shareID": SHARE });
    let result = merged(&share, &json!({ "request": "r", "consumedCapacity": { "mem": "1" } }));
    let status = json!({ "allocation": { "devices": { "results": [result] } }, "devices": [share] });
    let plain = claims
        .off
        .create(named("c", exactly(json!({}))))
        .expect("a valid claim");
    let [on, off] = claims.status(&plain, &status);
    let shown = |status: &Value| {
        let result = &status["allocation"]["devices"]["results"][0];
        [
            &result["shareID"],
            &result["consumedCapacity"]["mem"],
            &status["devices"][0]["shareID"],
        ]
        .map(Value::clone)
    };
    let all = [json!(SHARE), json!("1"), json!(SHARE)];
    assert_eq!(shown(&on), all);
    assert_eq!(shown(&off), [Value::Null, Value::Null, Value::Null]);
    let capacity = exactly(json!({ "capacity": { "requests": { "mem": "1" } } }));
    let asking = claims.on.create(named("c", capacity)).expect("a valid claim");
    assert_eq!(
        shown(&claims.status(&asking, &status)[1]),
        all,
        "the spec uses the feature"
    );
    let shared = claims.on.status(&plain, status.clone()).expect("a valid status");
    assert_eq!(
        shown(&claims.status(&shared, &status)[1]),
        all,
        "the old status uses the feature"
    );
}

#[test]
fn states_of_devices_depend_on_dra_resource_claim_device_status() {
    let claims = claims(Feature::DraResourceClaimDeviceStatus);
    let old = claims
        .off
        .create(named("c", exactly(json!({}))))
        .expect("a valid claim");
    let device = json!({ "driver": "d", "pool": "p", "device": "a" });
    let result = merged(&device, &json!({ "request": "r" }));
    let status = json!({ "allocation": { "devices": { "results": [result] } }, "devices": [device] });
    let [on, off] = claims.status(&old, &status);
    assert_eq!(on["devices"][0]["device"], "a");
    assert_eq!(off["devices"], Value::Null);
    let used = claims.on.status(&old, status.clone()).expect("a valid status");
    assert_eq!(claims.status(&used, &status), [on.clone(), on]);
    let freed = json!({ "devices": status["devices"] });
    assert_eq!(
        claims.status(&used, &freed).map(|status| status["devices"].clone()),
        [Value::Null, Value::Null]
    );
}

#[test]
fn conditions_of_binding_depend_on_two_features() {
    let conditions = json!({ "bindingConditions": ["a"], "bindingFailureConditions": ["b"] });
    let of_device = device(merged(&conditions, &json!({ "bindsToNode": true })));
    for feature in [
        Feature::DraDeviceBindingConditions,
        Feature::DraResourceClaimDeviceStatus,
    ] {
        let [used, bare] = slices(feature).create(&of_device);
        assert_eq!(
            fields(&used),
            ["bindingConditions", "bindingFailureConditions", "bindsToNode", "name"]
        );
        assert_eq!(fields(&bare), ["name"]);
    }
    let claims = claims(Feature::DraDeviceBindingConditions);
    let old = claims
        .off
        .create(named("c", exactly(json!({}))))
        .expect("a valid claim");
    let result = json!({ "request": "r", "driver": "d", "pool": "p", "device": "a" });
    let status = json!({ "allocation": { "devices": { "results": [merged(&result, &conditions)] } } });
    let [on, off] = claims.status(&old, &status);
    assert_eq!(
        on["allocation"]["devices"]["results"][0]["bindingConditions"],
        json!(["a"])
    );
    assert_eq!(off["allocation"]["devices"]["results"], json!([result]));
    let used = claims.on.status(&old, status.clone()).expect("a valid status");
    assert_eq!(claims.status(&used, &status), [on.clone(), on]);
}

#[test]
fn partitions_depend_on_dra_partitionable_devices() {
    let slices = slices(Feature::DraPartitionableDevices);
    let consumed = json!([{ "counterSet": "c", "counters": { "mem": { "value": "1" } } }]);
    let [used, bare] = slices.create(&device(json!({ "consumesCounters": consumed })));
    assert_eq!(fields(&used), ["consumesCounters", "name"]);
    assert_eq!(fields(&bare), ["name"]);
    let shared = json!([{ "name": "c", "counters": { "mem": { "value": "1" } } }]);
    let [used, bare] = slices.create(&slice(json!({ "sharedCounters": shared })));
    assert_eq!(used["spec"]["sharedCounters"], shared);
    assert_eq!(bare["spec"]["sharedCounters"], Value::Null);
    let selecting = slice(json!({
        "allNodes": null, "perDeviceNodeSelection": true, "devices": [{ "name": "a", "nodeName": "n" }],
    }));
    let error = "spec: Required value: exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
    assert_eq!(slices.errors(&selecting), [vec![], vec![error.to_owned()]]);
    let used = slices.on.create(selecting).expect("a valid slice");
    let other = json!({ "spec": { "devices": [{ "name": "a", "allNodes": true }] } });
    let kept = slices
        .off
        .patch(&used, &other)
        .expect("the slice selects for each device already");
    assert_eq!(fields(&kept), ["allNodes", "name"]);
}

#[test]
fn mappings_to_resources_of_nodes_depend_on_dra_node_allocatable_resources() {
    let slices = slices(Feature::DraNodeAllocatableResources);
    let mapped = |mappings: Value| {
        let capacity = json!({ "mem": { "value": "10" } });
        device(json!({ "capacity": capacity, "nodeAllocatableResourceMappings": mappings }))
    };
    let [used, bare] = slices.create(&mapped(json!({ "memory": { "capacityKey": "mem" }, "cpu": {} })));
    assert_eq!(
        used["spec"]["devices"][0]["nodeAllocatableResourceMappings"],
        json!({ "cpu": { "allocationMultiplier": "1" }, "memory": { "allocationMultiplier": "1", "capacityKey": "mem" } })
    );
    assert_eq!(fields(&bare), ["capacity", "name"]);
    let at = |rest: &str| format!("spec.devices[0].nodeAllocatableResourceMappings{rest}");
    slices.on.expect_errors(&[(
        mapped(json!({
            "cpu": { "allocationMultiplier": "-1" },
            "ex.com/gpu": {},
            "memory": { "capacityKey": "" },
            "pods": { "capacityKey": "disk" },
        })),
        &[
            &at("[cpu].allocationMultiplier: Invalid value: \"-1\": must be positive"),
            &at("[ex.com/gpu]: Invalid value: \"ex.com/gpu\": must be a node allocatable resource name"),
            &at("[memory].capacityKey: Invalid value: \"\": capacityKey must not be an empty string"),
            &at("[pods].capacityKey: Not found: \"disk\""),
        ],
    )]);
}

#[test]
fn attributes_with_lists_depend_on_dra_list_type_attributes() {
    let slices = slices(Feature::DraListTypeAttributes);
    let with = |attributes: Value| device(json!({ "attributes": attributes }));
    let attributes = json!({ "a": { "ints": [1, 2] }, "b": { "versions": ["1.2.3"] }, "c": { "int": 1 } });
    let body = with(attributes.clone());
    let error = |name: &str| {
        format!("spec.devices[0].attributes[{name}]: Invalid value: \"\": exactly one value must be specified")
    };
    assert_eq!(slices.errors(&body), [vec![], vec![error("a"), error("b")]]);
    let used = slices.on.create(body).expect("a valid slice");
    let label = json!({ "metadata": { "labels": { "a": "b" } } });
    let kept = slices.off.patch(&used, &label).expect("a label is allowed");
    assert_eq!(kept["spec"]["devices"][0]["attributes"], attributes);
}

#[test]
fn lists_in_attributes_are_checked_and_counted() {
    let slices = slices(Feature::DraListTypeAttributes).on;
    let with = |attributes: Value| device(json!({ "attributes": attributes }));
    let at = |rest: &str| format!("spec.devices[0].attributes[a]{rest}");
    let semver = "must be a string compatible with semver.org spec 2.0.0";
    slices.expect_errors(&[
        (
            with(json!({ "a": { "versions": ["1.2.3", "1"] } })),
            &[&at(&format!(".versions[1]: Invalid value: \"1\": {semver}"))],
        ),
        (
            with(json!({ "a": { "strings": ["b".repeat(65)] } })),
            &[&at(".strings[0]: Too long: may not be more than 64 bytes")],
        ),
        (
            with(json!({ "a": { "bools": [true], "int": 1 } })),
            &[&at(": Invalid value: {\"IntValue\":1,\"BoolValue\":null,\"StringValue\":null,\"VersionValue\":null,\"BoolValues\":[true],\"IntValues\":null,\"StringValues\":null,\"VersionValues\":null}: exactly one value must be specified")],
        ),
        (
            with(json!({ "a": { "ints": vec![1; 48] }, "b": { "int": 1 } })),
            &["spec.devices[0]: Invalid value: 49: the total number of attribute values must not exceed 48"],
        ),
    ]);
    let many: Vec<Value> = (0..65)
        .map(|number| json!({ "name": format!("d{number}"), "attributes": { "a": { "ints": [1] } } }))
        .collect();
    let error = "spec.devices: Too many: 65: must have at most 64 items";
    slices.expect_errors(&[(slice(json!({ "devices": many })), &[error])]);
}
