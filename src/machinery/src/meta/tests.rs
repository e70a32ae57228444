//! Tests of the validation and the changes of metadata.

use serde_json::{Value, json};

use super::*;
use crate::{
    field::{ErrorList, Path},
    names,
};

fn texts(errors: &ErrorList) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

/// Asserts that the errors begin with these texts, one each.
fn assert_errors(errors: &ErrorList, expected: &[&str]) {
    let texts = texts(errors);
    let fits = texts.len() == expected.len() && texts.iter().zip(expected).all(|(t, e)| t.starts_with(e));
    assert!(fits, "{texts:#?}\nshould be\n{expected:#?}");
}

fn check(metadata: Value, expected: &[&str]) {
    let object = json!({ "metadata": metadata });
    let name_check = names::name_is_dns_subdomain;
    assert_errors(
        &validate_builtin_object_meta(object.meta(), true, name_check, &Path::new("metadata")),
        expected,
    );
}

#[test]
fn good_metadata_passes() {
    check(
        json!({
            "name": "a.b", "generateName": "x-", "namespace": "n", "generation": 1,
            "labels": {"a.io/b": "c"}, "annotations": {"UPPER.io/x": "any thing"},
            "finalizers": ["a.io/b", "foregroundDeletion"],
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "K", "name": "o", "uid": "u", "controller": true}],
            "managedFields": [{"manager": "kubectl edit", "operation": "Update", "fieldsType": "FieldsV1"}],
        }),
        &[],
    );
}

#[test]
fn names_and_namespaces_are_checked() {
    check(
        json!({}),
        &[
            "metadata.name: Required value: name or generateName is required",
            "metadata.namespace: Required value",
        ],
    );
    check(
        json!({"name": "A", "generateName": "BB-", "namespace": "a.b", "generation": -1}),
        &[
            "metadata.generateName: Invalid value: \"BB-\": a lowercase RFC 1123 subdomain",
            "metadata.name: Invalid value: \"A\": a lowercase RFC 1123 subdomain",
            "metadata.namespace: Invalid value: \"a.b\": must not contain dots",
            "metadata.generation: Invalid value: -1: must be greater than or equal to 0",
        ],
    );
    let node = json!({"metadata": {"name": "a", "namespace": "n"}});
    assert_errors(
        &validate_object_meta(node.meta(), false, names::name_is_dns_subdomain, &Path::new("metadata")),
        &["metadata.namespace: Forbidden: not allowed on this type"],
    );
}

#[test]
fn labels_annotations_and_finalizers_are_checked_in_order() {
    check(
        json!({
            "name": "x", "namespace": "n", "labels": {"ok": "not ok!"}, "annotations": {"bad key": "x"},
            "finalizers": ["nodomain", "bad name"],
            "ownerReferences": [{"apiVersion": "v1", "kind": "", "name": "", "uid": ""}],
        }),
        &[
            "metadata.labels: Invalid value: \"not ok!\": a valid label must be an empty string",
            "metadata.annotations: Invalid value: \"bad key\": name part must consist of",
            "metadata.ownerReferences.kind: Invalid value: \"\": must not be empty",
            "metadata.ownerReferences.name: Invalid value: \"\": must not be empty",
            "metadata.ownerReferences.uid: Invalid value: \"\": must not be empty",
            "metadata.finalizers: Invalid value: \"bad name\": name part must consist of",
            "metadata.finalizers[0]: Invalid value: \"nodomain\": name is neither a standard finalizer name nor is it",
            "metadata.finalizers[1]: Invalid value: \"bad name\": name is neither a standard finalizer name nor is it",
        ],
    );
    check(
        json!({"name": "x", "namespace": "n", "annotations": {"big": "x".repeat(ANNOTATIONS_MAX_BYTES)}}),
        &["metadata.annotations: Too long: may not be more than 262144 bytes"],
    );
    check(
        json!({"name": "x", "namespace": "n", "finalizers": ["orphan", "foregroundDeletion"]}),
        &[
            "metadata.finalizers: Invalid value: [\"orphan\",\"foregroundDeletion\"]: finalizer orphan and \
           foregroundDeletion cannot be both set",
        ],
    );
}

#[test]
fn owners_are_checked() {
    check(
        json!({"name": "x", "namespace": "n", "ownerReferences": [
            {"apiVersion": "v1", "kind": "Event"},
            {"controller": true, "name": "x", "uid": "y"},
            {"apiVersion": "a/b/c", "kind": "P", "name": "x", "uid": "y", "controller": true},
        ]}),
        &[
            "metadata.ownerReferences.name: Invalid value: \"\": must not be empty",
            "metadata.ownerReferences.uid: Invalid value: \"\": must not be empty",
            "metadata.ownerReferences: Invalid value: {\"apiVersion\":\"v1\",\"kind\":\"Event\",\"name\":\"\",\"uid\":\"\"}: \
             /v1, Kind=Event is disallowed from being an owner",
            "metadata.ownerReferences.apiVersion: Invalid value: \"\": version must not be empty",
            "metadata.ownerReferences.kind: Invalid value: \"\": must not be empty",
            "metadata.ownerReferences.apiVersion: Invalid value: \"a/b/c\": version must not be empty",
            "metadata.ownerReferences: Invalid value: [{\"apiVersion\":\"v1\",\"kind\":\"Event\",\"name\":\"\",\"uid\":\"\"},\
             {\"apiVersion\":\"\",\"kind\":\"\",\"name\":\"x\",\"uid\":\"y\",\"controller\":true},\
             {\"apiVersion\":\"a/b/c\",\"kind\":\"P\",\"name\":\"x\",\"uid\":\"y\",\"controller\":true}]: Only one reference \
             can have Controller set to true. Found \"true\" in references for /x and P/x",
        ],
    );
}

#[test]
fn managed_fields_are_checked() {
    check(
        json!({"name": "x", "namespace": "n", "managedFields": [
            {"manager": "a\nb", "operation": "Patch", "fieldsType": "V2", "subresource": "s".repeat(257)},
            {"manager": "m".repeat(129), "operation": "Apply"},
        ]}),
        &[
            "metadata.managedFields[0].operation: Invalid value: \"Patch\": must be `Apply` or `Update`",
            "metadata.managedFields[0].fieldsType: Invalid value: \"V2\": must be `FieldsV1`",
            "metadata.managedFields[0].manager: Invalid value: \"a\\nb\": invalid character U+000A (at position 1)",
            "metadata.managedFields[0].subresource: Too long: may not be more than 256 bytes",
            "metadata.managedFields[1].manager: Too long: may not be more than 128 bytes",
        ],
    );
}

#[test]
fn updates_keep_the_identity() {
    let old = json!({"metadata": {
        "name": "a", "namespace": "n", "uid": "u", "resourceVersion": "5", "generation": 3,
        "creationTimestamp": "2001-01-01T00:00:00Z", "deletionTimestamp": "2001-01-02T00:00:00Z",
        "deletionGracePeriodSeconds": 0, "finalizers": ["a/b"],
    }});
    let same = validate_builtin_object_meta_update(old.meta(), old.meta(), &Path::new("metadata"));
    assert_errors(&same, &[]);

    let new = json!({"metadata": {
        "name": "b", "namespace": "m", "uid": "v", "generation": 2, "deletionGracePeriodSeconds": 4,
        "finalizers": ["z", "a/b", "ex.test/new"], "labels": {"": ""},
    }});
    assert_errors(
        &validate_builtin_object_meta_update(new.meta(), old.meta(), &Path::new("metadata")),
        &[
            "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new \
             finalizers []string{\"ex.test/new\", \"z\"}",
            "metadata.resourceVersion: Invalid value: \"\": must be specified for an update",
            "metadata.generation: Invalid value: 2: must not be decremented",
            "metadata.name: Invalid value: \"b\": field is immutable",
            "metadata.namespace: Invalid value: \"m\": field is immutable",
            "metadata.uid: Invalid value: \"v\": field is immutable",
            "metadata.creationTimestamp: Invalid value: null: field is immutable",
            "metadata.deletionTimestamp: Invalid value: null: field is immutable",
            "metadata.deletionGracePeriodSeconds: Invalid value: 4: field is immutable",
            "metadata.labels: Invalid value: \"\": name part must be non-empty",
            "metadata.labels: Invalid value: \"\": name part must consist of",
            "metadata.finalizers[0]: Invalid value: \"z\": name is neither a standard finalizer name",
        ],
    );
}

#[test]
fn metadata_is_read_and_written_in_place() {
    let mut object = json!({"apiVersion": "apps/v1", "kind": "Deployment"});
    assert_eq!(object.meta().name(), "");
    assert_eq!(object.gvk().expect("a kind").to_string(), "apps/v1, Kind=Deployment");

    let mut meta = object.meta_mut();
    meta.set_name("a");
    meta.set_label("x", "y");
    assert!(meta.add_finalizer("a/b"));
    assert!(!meta.add_finalizer("a/b"));
    meta.set_annotation("k", "v");
    meta.set_generation(7);
    assert_eq!(
        object["metadata"],
        json!({"name": "a", "labels": {"x": "y"}, "finalizers": ["a/b"], "annotations": {"k": "v"}, "generation": 7})
    );

    let mut meta = object.meta_mut();
    assert!(meta.remove_label("x"));
    assert!(meta.remove_finalizer("a/b"));
    assert!(meta.remove_annotation("k"));
    assert!(!meta.remove_annotation("k"));
    meta.set_generation(0);
    meta.set_name("");
    assert_eq!(object["metadata"], json!({}));
}
