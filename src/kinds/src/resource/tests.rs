use serde_json::{Value, json};
use trireme_machinery::{Feature, Features};

use super::{deviceclasses, resourceclaims, resourceclaimtemplates, resourceslices};
use crate::testing::{Trial, merged, named};

const GROUP: &str = "resource.k8s.io";

fn claims() -> Trial {
    Trial::new(GROUP, "resourceclaims", resourceclaims::kind(Features::default()))
}

fn claim(requests: Value) -> Value {
    named("c", json!({ "devices": { "requests": requests } }))
}

fn exactly(more: Value) -> Value {
    claim(json!([{ "name": "r", "exactly": merged(&json!({ "deviceClassName": "c" }), &more) }]))
}

#[test]
fn a_request_is_of_one_device_unless_it_says_otherwise() {
    let made = |body: Value| {
        let claim = claims().create(body).expect("a valid claim");
        claim["spec"]["devices"]["requests"][0].clone()
    };
    let one = json!({ "deviceClassName": "c", "allocationMode": "ExactCount", "count": 1 });
    assert_eq!(made(exactly(json!({}))), json!({ "name": "r", "exactly": one }));
    let empty = exactly(json!({ "allocationMode": "", "count": 0 }));
    assert_eq!(made(empty), json!({ "name": "r", "exactly": one }));
    let all = json!({ "deviceClassName": "c", "allocationMode": "All" });
    assert_eq!(made(exactly(json!({ "allocationMode": "All" })))["exactly"], all);
    let alternatives = json!([{ "name": "f", "firstAvailable": [{ "name": "s", "deviceClassName": "c" }] }]);
    assert_eq!(made(claim(alternatives))["firstAvailable"][0]["count"], 1);
}

#[test]
fn selectors_are_compiled() {
    let selected = |expression: &str| exactly(json!({ "selectors": [{ "cel": { "expression": expression } }] }));
    let at = "spec.devices.requests[0].exactly.selectors[0].cel.expression";
    let errors = |expression: &str| claims().errors(selected(expression));
    assert!(errors("device.driver == 'd' && device.attributes['d'].model == 'm'").is_empty());
    assert!(errors("device.attributes['d'].ok").is_empty());
    let not_bool = format!("{at}: Invalid value: \"1\": must evaluate to bool or the unknown type, not int");
    assert_eq!(errors("1"), [not_bool]);
    let undeclared = format!(
        "{at}: Invalid value: \"object.x\": compilation failed: ERROR: <input>:1:1: undeclared reference to 'object' (in container '')\n | object.x\n | ^"
    );
    assert_eq!(errors("object.x"), [undeclared]);
    let too_long = format!("{at}: Too long: may not be more than 10240 bytes");
    assert_eq!(errors(&"a".repeat(10_241)), [too_long]);
}

#[test]
fn requests_and_what_refers_to_them_are_checked() {
    let body = named(
        "c",
        json!({ "devices": {
            "requests": [
                { "name": "f", "firstAvailable": [{ "name": "s", "deviceClassName": "c" }] },
                { "name": "t", "exactly": { "deviceClassName": "c", "tolerations": [{ "key": "k", "value": "a b" }] } },
            ],
            "constraints": [
                { "requests": ["f/s", "f/x", "a/b/c"], "matchAttribute": "d.ex.com/a" },
                { "distinctAttribute": "D!/1x" },
            ],
            "config": [{ "requests": ["f"], "opaque": { "driver": "d", "parameters": [1] } }],
        }}),
    );
    let known = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";
    let errors = claims().errors(body);
    let starts = [
        "spec.devices.requests[1].exactly.tolerations[0].value: Invalid value: \"a b\": a valid label must be an empty string",
        &format!("spec.devices.constraints[0].requests[1]: Invalid value: \"f/x\": {known}"),
        &format!("spec.devices.constraints[0].requests[2]: Invalid value: \"a/b/c\": {known}"),
        "spec.devices.constraints[1].distinctAttribute: Invalid value: \"D!\": a lowercase RFC 1123 subdomain",
        "spec.devices.constraints[1].distinctAttribute: Invalid value: \"1x\": a valid C identifier",
        "spec.devices.config[0].opaque.parameters: Invalid value: \"<value omitted>\": must be a valid JSON object",
    ];
    assert_eq!(errors.len(), starts.len(), "{errors:#?}");
    for (error, start) in errors.iter().zip(starts) {
        assert!(error.starts_with(start), "{error}\n{start}");
    }
}

#[test]
fn a_claim_stays_and_its_status_is_apart() {
    let trial = claims();
    let old = trial
        .create(merged(&exactly(json!({})), &json!({ "status": { "reservedFor": [] } })))
        .expect("a valid claim");
    assert_eq!(old["status"], json!({}));
    let error =
        r#"spec: Invalid value: {"Devices":{"Requests":null,"Constraints":null,"Config":null}}: field is immutable"#;
    trial.expect_patch_errors(
        &old,
        &[
            (json!({ "metadata": { "labels": { "a": "b" } } }), &[]),
            (json!({ "spec": { "devices": { "requests": null } } }), &[error]),
        ],
    );
}

fn result(more: Value) -> Value {
    merged(
        &json!({ "request": "r", "driver": "d", "pool": "p", "device": "a" }),
        &more,
    )
}

fn allocation(more: Value) -> Value {
    json!({ "devices": { "results": [result(more)] } })
}

#[test]
fn an_allocation_is_checked_and_stays() {
    let trial = claims();
    let old = trial.create(exactly(json!({}))).expect("a valid claim");
    trial.expect_status_errors(&old, &[
        (json!({ "allocation": allocation(json!({})) }), &[]),
        (json!({ "allocation": allocation(json!({ "request": "x", "shareID": "1" })) }), &[
            "status.allocation.devices.results[0].request: Invalid value: \"x\": must be the name of a request in the claim or the name of a request and a subrequest separated by '/'",
            "status.allocation.devices.results[0].shareID: Invalid value: \"1\": error validating uid: invalid UUID length: 1",
        ]),
        (json!({ "allocation": allocation(json!({ "shareID": "{12345678-1234-1234-1234-123456789abc}" })) }), &[
            "status.allocation.devices.results[0].shareID: Invalid value: \"{12345678-1234-1234-1234-123456789abc}\": uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase hexadecimal characters",
        ]),
        (json!({ "allocation": allocation(json!({ "shareID": "12345678x1234x1234x1234x123456789abcxxxxxxxxx" })) }), &[
            "status.allocation.devices.results[0].shareID: Invalid value: \"12345678x1234x1234x1234x123456789abcxxxxxxxxx\": error validating uid: invalid urn prefix: \"12345678x\"",
        ]),
        (json!({ "reservedFor": [{ "resource": "pods", "name": "p", "uid": "u" }] }), &[
            "status.reservedFor: Forbidden: may not be specified when `allocated` is not set",
        ]),
        (json!({ "allocation": allocation(json!({})), "devices": [{ "driver": "d", "pool": "p", "device": "b" }] }), &[
            r#"status.devices[0]: Invalid value: {"Driver":"d","Pool":"p","Device":"b","ShareID":""}: must be an allocated device in the claim"#,
        ]),
        (json!({ "allocation": allocation(json!({})), "devices": [{
            "driver": "d", "pool": "p", "device": "a", "networkData": { "ips": ["10.0.0.1/8", "10.0.0.01/8", "x", "::ffff:1.2.3.4/120", "::ffff:1.2.3.4/40"] },
        }] }), &[
            "status.devices[0].networkData.ips[1]: Invalid value: \"10.0.0.01/8\": must be in canonical form (\"10.0.0.1/8\")",
            "status.devices[0].networkData.ips[2]: Invalid value: \"x\": must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)",
            "status.devices[0].networkData.ips[3]: Invalid value: \"::ffff:1.2.3.4/120\": must be in canonical form (\"1.2.3.4/24\")",
            "status.devices[0].networkData.ips[4]: Invalid value: \"::ffff:1.2.3.4/40\": must be in canonical form (\"1.2.3.4/-56\")",
        ]),
    ]);
    let status =
        json!({ "allocation": allocation(json!({})), "devices": [{ "driver": "d", "pool": "p", "device": "a" }] });
    let allocated = trial.status(&old, status).expect("a valid status");
    let error = r#"status.allocation: Invalid value: {"Devices":{"Results":[{"Request":"r","Driver":"d","Pool":"p","Device":"b","AdminAccess":null,"Tolerations":null,"BindingConditions":null,"BindingFailureConditions":null,"ShareID":null,"ConsumedCapacity":null}],"Config":null},"NodeSelector":null,"AllocationTimestamp":null}: field is immutable"#;
    let other = json!({ "allocation": allocation(json!({ "device": "b" })) });
    trial.expect_status_errors(&allocated, &[(other, &[error])]);
    let freed = trial
        .status(&allocated, json!({ "devices": allocated["status"]["devices"] }))
        .expect("an allocation can be given up");
    assert_eq!(
        freed.pointer("/status/devices"),
        None,
        "it goes with what is said of its devices"
    );
}

#[test]
fn a_template_gives_labels_and_annotations_only() {
    let trial = Trial::new(
        GROUP,
        "resourceclaimtemplates",
        resourceclaimtemplates::kind(Features::default()),
    );
    let inner = exactly(json!({}))["spec"].clone();
    let body = named(
        "t",
        json!({ "metadata": { "name": "x", "labels": { "a": "b" } }, "spec": inner }),
    );
    trial.expect_errors(&[(body, &["spec.metadata.name: Forbidden: cannot be set"])]);
    let old = trial
        .create(named("t", json!({ "spec": inner })))
        .expect("a valid template");
    assert_eq!(old["spec"]["spec"]["devices"]["requests"][0]["exactly"]["count"], 1);
    let shown = r#"{"labels":{"q":"r"},"Spec":{"Devices":{"Requests":[{"Name":"r","Exactly":{"DeviceClassName":"c","Selectors":null,"AllocationMode":"ExactCount","Count":1,"AdminAccess":null,"Tolerations":null,"Capacity":null},"FirstAvailable":null}],"Constraints":null,"Config":null}}}"#;
    let error = format!("spec: Invalid value: {shown}: field is immutable");
    trial.expect_patch_errors(
        &old,
        &[(json!({ "spec": { "metadata": { "labels": { "q": "r" } } } }), &[&error])],
    );
}

#[test]
fn a_stored_template_is_not_validated_again() {
    let kind = resourceclaimtemplates::kind(Features::default());
    let trial = Trial::new(GROUP, "resourceclaimtemplates", kind);
    let dear = format!("{}true{}", "device.attributes.all(a, ".repeat(4), ")".repeat(4));
    let selectors = json!([{ "cel": { "expression": dear } }]);
    let inner = exactly(json!({ "selectors": selectors }))["spec"].clone();
    let body = named("t", json!({ "spec": inner }));
    assert_eq!(trial.errors(body.clone()).len(), 1);
    let labelled = merged(&body, &json!({ "metadata": { "labels": { "a": "b" } } }));
    assert!(trial.update(&trial.decode(body), labelled).is_ok());
}

#[test]
fn tolerations_are_as_many_as_one_likes_and_those_of_results_are_not_looked_at() {
    let many: Vec<Value> = (0..17).map(|_| json!({ "operator": "Exists" })).collect();
    let trial = claims();
    let old = trial
        .create(exactly(json!({ "tolerations": many })))
        .expect("a valid claim");
    let unknown = allocation(json!({ "tolerations": [{ "operator": "Unknown" }] }));
    trial.expect_status_errors(&old, &[(json!({ "allocation": unknown }), &[])]);
}

#[test]
fn selectors_may_cost_so_much_and_know_the_fields_of_features() {
    let class = |expression: &str| named("c", json!({ "selectors": [{ "cel": { "expression": expression } }] }));
    let dear = format!("{}true{}", "device.attributes.all(a, ".repeat(4), ")".repeat(4));
    let at = "spec.selectors[0].cel.expression";
    let with = |features| Trial::new(GROUP, "deviceclasses", deviceclasses::kind(features));
    let shared = "device.allowMultipleAllocations";
    with(Features::default()).expect_errors(&[
        (
            class(&dear),
            &[&format!("{at}: Forbidden: too complex, exceeds cost limit")],
        ),
        (
            class("device.driver"),
            &[&format!(
                "{at}: Invalid value: \"device.driver\": must evaluate to bool or the unknown type, not string"
            )],
        ),
        (class(shared), &[]),
    ]);
    let unknown = format!(
        "{at}: Invalid value: \"{shared}\": compilation failed: ERROR: <input>:1:7: undefined field 'allowMultipleAllocations'\n | {shared}\n | ......^"
    );
    with(Features::without(&[Feature::DraConsumableCapacity])).expect_errors(&[(class(shared), &[&unknown])]);
    let listed = class("device.attributes[\"d\"].names.exists(name, name == \"x\")");
    assert_eq!(with(Features::default()).errors(listed.clone()).len(), 1);
    let attribute = class("device.attributes[\"d\"].healthy");
    with(Features::default()).expect_errors(&[(attribute.clone(), &[])]);
    with(Features::with(&[Feature::DraListTypeAttributes])).expect_errors(&[(listed, &[]), (attribute, &[])]);
}

#[test]
fn a_class_is_compiled_again_only_when_it_changes() {
    let trial = Trial::new(GROUP, "deviceclasses", deviceclasses::kind(Features::default()));
    let class = |spec: Value| named("c", spec);
    trial.expect_errors(&[
        (class(json!({ "extendedResourceName": "ex.com/gpu" })), &[]),
        (
            class(json!({ "extendedResourceName": "cpu" })),
            &["spec.extendedResourceName: Invalid value: \"cpu\": must be a valid extended resource name"],
        ),
        (
            class(json!({ "selectors": [{}], "config": [{}] })),
            &[
                "spec.selectors[0].cel: Required value",
                "spec.config[0].opaque: Required value",
            ],
        ),
    ]);
}

fn slices() -> Trial {
    Trial::new(GROUP, "resourceslices", resourceslices::kind(Features::default()))
}

fn slice(more: Value) -> Value {
    let base = json!({ "driver": "d", "allNodes": true, "pool": { "name": "p", "resourceSliceCount": 1 } });
    named("s", merged(&base, &more))
}

fn device(more: Value) -> Value {
    slice(json!({ "devices": [merged(&json!({ "name": "a" }), &more)] }))
}

#[test]
fn a_slice_is_for_one_sort_of_nodes() {
    let one_of = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
    slices().expect_errors(&[
        (slice(json!({})), &[]),
        (slice(json!({ "allNodes": null })), &[&format!("spec: Required value: {one_of}")]),
        (slice(json!({ "nodeName": "n" })), &[
            &format!("spec: Invalid value: \"{{`nodeName`, `allNodes`}}\": {one_of}, but multiple fields are set"),
        ]),
        (slice(json!({ "pool": { "name": "A/b", "resourceSliceCount": 0, "generation": -1 } })), &[
            "spec.pool.name: Invalid value: \"A\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
            "spec.pool.resourceSliceCount: Invalid value: 0: must be greater than zero",
            "spec.pool.generation: Invalid value: -1: must be greater than or equal to zero",
        ]),
        (slice(json!({ "nodeSelector": { "nodeSelectorTerms": [] }, "allNodes": null })), &[
            "spec.nodeSelector.nodeSelectorTerms: Required value: must have at least one node selector term",
            "spec.nodeSelector.nodeSelectorTerms: Invalid value: null: must have exactly one node selector term",
        ]),
    ]);
}

#[test]
fn devices_are_checked() {
    slices().expect_errors(&[
        (device(json!({ "attributes": { "a": { "int": 1 }, "d.com/b": { "version": "1.2.3-a+b" } } })), &[]),
        (device(json!({ "attributes": { "a": {}, "b": { "version": "1.2" }, "c": { "int": 1, "bool": true } } })), &[
            "spec.devices[0].attributes[a]: Invalid value: \"\": exactly one value must be specified",
            "spec.devices[0].attributes[b].version: Invalid value: \"1.2\": must be a string compatible with semver.org spec 2.0.0",
            "spec.devices[0].attributes[c]: Invalid value: {\"IntValue\":1,\"BoolValue\":true,\"StringValue\":null,\"VersionValue\":null,\"BoolValues\":null,\"IntValues\":null,\"StringValues\":null,\"VersionValues\":null}: exactly one value must be specified",
        ]),
        (device(json!({ "taints": [{ "key": "k", "effect": "X" }] })), &[
            r#"spec.devices[0].taints[0].effect: Unsupported value: "X": supported values: "NoExecute", "NoSchedule", "None""#,
        ]),
        (device(json!({ "nodeName": "n" })), &[
            "spec.devices[0]: Invalid value: null: `nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec",
        ]),
        (device(json!({ "bindingConditions": ["a", "a"], "bindingFailureConditions": ["a"] })), &[
            "spec.devices[0].bindingConditions[1]: Duplicate value: \"a\"",
            "spec.devices[0].bindingFailureConditions[0]: Invalid value: \"a\": bindingFailureConditions must not overlap with bindingConditions",
        ]),
        (device(json!({ "bindingConditions": ["a"] })), &[
            "spec.devices[0].bindingFailureConditions: Invalid value: null: bindingFailureConditions are required to use bindingConditions",
        ]),
        (device(json!({ "consumesCounters": [{ "counterSet": "", "counters": {} }] })), &[
            "spec.devices[0].consumesCounters[0].counterSet: Required value",
            "spec.devices[0].consumesCounters[0].counters: Required value",
        ]),
        (slice(json!({ "devices": [{ "name": "a" }, { "name": "a" }] })), &[
            "spec.devices[1]: Duplicate value: \"a\"",
        ]),
    ]);
}

#[test]
fn attributes_are_counted() {
    let attributes: serde_json::Map<String, Value> = (0..49)
        .map(|number| (format!("a{number}"), json!({ "int": number })))
        .collect();
    slices().expect_errors(&[(
        device(json!({ "attributes": attributes })),
        &[
            "spec.devices[0]: Invalid value: 49: the total number of attributes and capacities must not exceed 32",
            "spec.devices[0]: Invalid value: 49: the total number of attribute values must not exceed 48",
        ],
    )]);
}

#[test]
fn shared_capacity_has_a_policy() {
    let shared = |policy: Value| {
        let capacity = json!({ "mem": { "value": "10", "requestPolicy": policy } });
        device(json!({ "allowMultipleAllocations": true, "capacity": capacity }))
    };
    let at = "spec.devices[0].capacity[mem].requestPolicy";
    let error = |text: &str| format!("{at}{text}");
    slices().expect_errors(&[
        (shared(json!({ "default": "2", "validValues": ["1", "2"] })), &[]),
        (
            shared(json!({ "default": "3", "validValues": ["4", "2"] })),
            &[
                &error(".validValues[1]: Invalid value: \"2\": values must be sorted in ascending order"),
                &error(".validValues: Invalid value: \"3\": default value is not valid according to the requestPolicy"),
            ],
        ),
        (
            shared(json!({ "validRange": {} })),
            &[&error(".default: Required value: required when validRange is defined")],
        ),
        (
            shared(json!({ "default": "3", "validRange": { "min": "2", "max": "11", "step": "2" } })),
            &[
                &error(".validRange.max: Invalid value: \"11\": max is larger than capacity value: 10"),
                &error(".validRange.step: Invalid value: \"3\": value is not a multiple of a given step (2) from (2)"),
                &error(".validRange.step: Invalid value: \"11\": value is not a multiple of a given step (2) from (2)"),
            ],
        ),
        (
            shared(json!({ "default": "1", "validRange": { "min": "2", "max": "1" } })),
            &[
                &error(".validRange.min: Invalid value: \"1\": default is less than min: 2"),
                &error(".validRange.max: Invalid value: \"2\": min is larger than max: 1"),
            ],
        ),
        (
            shared(json!({ "default": "9", "validRange": { "min": "2", "max": "4" } })),
            &[&error(
                ".validRange.max: Invalid value: \"9\": default is more than max: 4",
            )],
        ),
        (
            device(json!({ "capacity": { "mem": { "value": "1", "requestPolicy": {} } } })),
            &[&error(": Forbidden: allowMultipleAllocations must be true")],
        ),
    ]);
}

#[test]
fn a_slice_keeps_its_driver_and_dates_its_taints() {
    let trial = slices();
    let taints =
        json!({ "taints": [{ "key": "k", "effect": "NoSchedule" }], "attributes": { "a": { "int": 1, "ints": [1] } } });
    let old = trial.create(device(taints)).expect("a valid slice");
    let made = &old["spec"]["devices"][0];
    assert_eq!(made["taints"][0]["timeAdded"], "1970-01-01T00:00:00Z");
    assert_eq!(made["attributes"]["a"], json!({ "int": 1 }), "lists are off by default");
    trial.expect_patch_errors(
        &old,
        &[(
            json!({ "spec": { "driver": "e" } }),
            &[r#"spec.driver: Invalid value: "e": field is immutable"#],
        )],
    );
    let warning = r#"spec.driver: driver names should be lowercase; "D" contains uppercase characters"#;
    assert_eq!(trial.warnings(&slice(json!({ "driver": "D" })), None), [warning]);
}

#[test]
fn managed_fields_of_a_template_are_refused() {
    let trial = Trial::new(
        GROUP,
        "resourceclaimtemplates",
        resourceclaimtemplates::kind(Features::default()),
    );
    let metadata = json!({ "name": "", "uid": "u", "generation": 0, "managedFields": [{ "manager": "m" }] });
    let body = named("t", json!({ "metadata": metadata, "spec": {} }));
    let errors = ["uID", "managedFields"].map(|field| format!("spec.metadata.{field}: Forbidden: cannot be set"));
    assert_eq!(trial.errors(body), errors);
}

#[test]
fn a_claim_may_be_sent_with_its_quantities_in_other_words() {
    let request = |size: &str| exactly(json!({ "capacity": { "requests": { "memory": size } } }));
    let mut old = claims().create(request("1024")).expect("a valid claim");
    assert!(claims().update(&old, request("1Ki")).is_ok());
    assert!(claims().update(&old, request("1025")).is_err());
    let status = |size: &str| {
        let result = json!({ "request": "r", "driver": "d", "pool": "p", "device": "x", "consumedCapacity": { "memory": size } });
        json!({ "allocation": { "devices": { "results": [result] } } })
    };
    old["status"] = status("1024");
    assert!(claims().status(&old, status("1Ki")).is_ok());
    assert!(claims().status(&old, status("1025")).is_err());
}
