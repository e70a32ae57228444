//! Tests of claims through their strategy.

use super::*;
use crate::testing::{Trial, merged, named};

fn trial() -> Trial {
    Trial::new("", "persistentvolumeclaims", kind(Features::default()))
}

fn claim(more: Value) -> Value {
    let spec = json!({ "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } });
    named("c", merged(&spec, &more))
}

#[test]
fn errors() {
    trial().expect_errors(&[
        (claim(json!({})), &[]),
        (named("c", json!({})), &[
            "spec.accessModes: Required value: at least 1 access mode is required",
            "spec.resources[storage]: Required value",
        ]),
        (claim(json!({ "volumeMode": "Odd", "accessModes": ["Odd"] })), &[
            r#"spec.accessModes: Unsupported value: "Odd": supported values: "ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod""#,
            r#"spec.volumeMode: Unsupported value: "Odd": supported values: "Block", "Filesystem""#,
        ]),
        (claim(json!({ "accessModes": ["ReadWriteOncePod", "Odd"] })), &[
            r#"spec.accessModes: Unsupported value: "Odd": supported values: "ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod""#,
        ]),
        (
            claim(json!({ "accessModes": ["ReadWriteOncePod", "ReadOnlyMany"] })),
            &["spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes"],
        ),
        (
            claim(json!({
                "dataSource": { "kind": "PersistentVolumeClaim", "name": "a" },
                "dataSourceRef": { "kind": "PersistentVolumeClaim", "name": "b" },
            })),
            &["spec: Invalid value: {}: must match dataSourceRef"],
        ),
    ]);
}

#[test]
fn a_data_source_is_shown_in_both_forms() {
    let source = json!({ "apiGroup": null, "kind": "PersistentVolumeClaim", "name": "a" });
    let created = trial()
        .create(claim(json!({ "dataSource": source })))
        .expect("a valid claim");
    assert_eq!(created["spec"]["dataSourceRef"], source);
    let odd = trial()
        .create(claim(json!({ "dataSource": { "kind": "Pod", "name": "a" } })))
        .expect("a valid claim");
    assert_eq!(odd["spec"].get("dataSource"), None);
}

#[test]
fn a_data_source_of_another_namespace_is_dropped_unless_it_was_stored() {
    let source = json!({ "apiGroup": null, "kind": "PersistentVolumeClaim", "name": "a", "namespace": "other" });
    let body = claim(json!({ "dataSourceRef": source }));
    let features = Features::with(&[Feature::CrossNamespaceVolumeDataSource]);
    let on = Trial::new("", "persistentvolumeclaims", kind(features));
    let dropped = trial().create(body.clone()).expect("a valid claim");
    assert_eq!(dropped["spec"].get("dataSourceRef"), None);
    let stored = on.create(body.clone()).expect("a valid claim");
    assert_eq!(stored["spec"]["dataSourceRef"], source);
    assert_eq!(stored["spec"].get("dataSource"), None);
    let kept = trial().update(&stored, body).expect("it may stay");
    assert_eq!(kept["spec"]["dataSourceRef"], source);
    let both = claim(json!({
        "dataSource": { "kind": "PersistentVolumeClaim", "name": "a" },
        "dataSourceRef": source,
    }));
    on.expect_errors(&[(
        both,
        &["spec: Invalid value: {}: may not be specified when dataSourceRef.namespace is specified"],
    )]);
}

#[test]
fn errors_of_statuses() {
    let old = trial().create(claim(json!({}))).expect("a valid claim");
    let states = json!({ "allocatedResourceStatuses": { "cpu": "NodeResizePending", "storage": "Odd" } });
    trial().expect_status_errors(
        &old,
        &[
            (states, &[
                r#"status.allocatedResourceStatuses: Unsupported value: "cpu": supported values: "storage""#,
                r#"status.allocatedResourceStatuses: Unsupported value: "storage": supported values: "ControllerResizeInProgress", "ControllerResizeInfeasible", "NodeResizeInProgress", "NodeResizeInfeasible", "NodeResizePending""#,
            ]),
            (json!({ "allocatedResources": { "memory": "1", "storage": "-1" } }), &[
                r#"status.allocatedResources: Unsupported value: "memory": supported values: "storage""#,
                "status.allocatedResources[storage]: Invalid value: -1: must be a valid resource quantity",
            ]),
        ],
    );
}

#[test]
fn a_class_of_attributes_stays_once_it_was_reached() {
    let made = trial()
        .create(claim(json!({ "volumeAttributesClassName": "a" })))
        .expect("a valid claim");
    let bound = |more: Value| merged(&json!({ "phase": "Bound" }), &more);
    let wished = trial().status(&made, bound(json!({}))).expect("a status");
    let unset = json!({ "spec": { "volumeAttributesClassName": null } });
    trial().expect_patch_errors(&wished, &[(unset.clone(), &[])]);
    let reached = bound(json!({ "currentVolumeAttributesClassName": "a" }));
    let reached = trial().status(&made, reached).expect("a status");
    trial().expect_patch_errors(
        &reached,
        &[(
            unset,
            &[
                "spec.volumeAttributesClassName: Forbidden: update to nil is forbidden when \
             status.currentVolumeAttributesClassName is not nil",
            ],
        )],
    );
}

#[test]
fn a_change_of_the_spec_is_shown_as_a_difference() {
    let old = trial().create(claim(json!({}))).expect("a valid claim");
    let difference = "@@ -1,6 +1,6 @@\n {\n  \"AccessModes\": [\n-  \"ReadWriteOnce\"\n+  \"ReadOnlyMany\"\n  ],\n  \"Selector\": null,\n  \"Resources\": {\n";
    let error = format!("spec: Forbidden: {IMMUTABLE}\n{difference}");
    trial().expect_patch_errors(
        &old,
        &[
            (json!({ "spec": { "accessModes": ["ReadOnlyMany"] } }), &[&error]),
            (json!({ "spec": { "volumeName": "v" } }), &[]),
        ],
    );
}

#[test]
fn a_bound_claim_may_grow() {
    let old = trial()
        .create(claim(json!({ "volumeName": "v" })))
        .expect("a valid claim");
    let old = trial()
        .status(&old, json!({ "phase": "Bound", "capacity": { "storage": "1Gi" } }))
        .expect("a status");
    let size = |size: &str| json!({ "spec": { "resources": { "requests": { "storage": size } } } });
    let error = "spec.resources.requests.storage: Forbidden: field can not be less than status.capacity";
    trial().expect_patch_errors(&old, &[(size("2Gi"), &[]), (size("1Mi"), &[error])]);
    let grown = trial().patch(&old, &size("2Gi")).expect("a growth");
    trial().expect_patch_errors(&grown, &[(size("1Gi"), &[error])]);
}

#[test]
fn a_stored_claim_may_keep_its_selector_and_group() {
    let selector = json!({ "matchExpressions": [{ "key": "a", "operator": "In", "values": ["a b"] }] });
    let source = json!({ "apiGroup": "A_B", "kind": "K", "name": "n" });
    let body = claim(json!({ "selector": selector, "dataSourceRef": source, "dataSource": source }));
    let old = trial().decode(body.clone());
    assert_eq!(trial().errors(body.clone()).len(), 3);
    assert!(trial().update(&old, body).is_ok());
}
