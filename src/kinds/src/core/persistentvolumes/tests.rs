//! Volumes put to the test.

use serde_json::{Value, json};
use trireme_machinery::{Feature, Features};

use super::kind;
use crate::testing::Trial;

fn trial() -> Trial {
    Trial::new("", "persistentvolumes", kind(Features::default()))
}

fn volume(more: Value) -> Value {
    let spec =
        json!({ "accessModes": ["ReadWriteOnce"], "capacity": { "storage": "1" }, "hostPath": { "path": "/x" } });
    json!({ "metadata": { "name": "v" }, "spec": crate::testing::merged(&spec, &more) })
}

#[test]
fn errors() {
    trial().expect_errors(&[
        (volume(json!({})), &[]),
        (
            json!({ "metadata": { "name": "v" }, "spec": {} }),
            &[
                "spec.accessModes: Required value",
                "spec.capacity: Required value",
                "spec.capacity: Unsupported value: null: supported values: \"storage\"",
                "spec: Required value: must specify a volume type",
            ],
        ),
        (
            volume(json!({ "nfs": { "path": "rel", "server": "" } })),
            &["spec.nfs: Forbidden: may not specify more than 1 volume type"],
        ),
        (
            volume(json!({ "capacity": { "storage": "-1" } })),
            &[
                "spec.capacity[storage]: Invalid value: -1: must be a valid resource quantity",
                "spec.capacity[storage]: Invalid value: \"-1\": must be greater than zero",
            ],
        ),
        (
            volume(json!({ "hostPath": null, "local": { "path": "/x" } })),
            &["spec.nodeAffinity: Required value: Local volume requires node affinity"],
        ),
        (
            volume(json!({ "hostPath": { "path": "/a/.." }, "persistentVolumeReclaimPolicy": "Recycle" })),
            &[
                "spec.hostPath.path: Invalid value: \"/a/..\": must not contain '..'",
                "spec.persistentVolumeReclaimPolicy: Forbidden: may not be 'recycle' for a hostPath mount of '/'",
            ],
        ),
        (
            volume(json!({ "hostPath": { "path": "/" }, "persistentVolumeReclaimPolicy": "Recycle" })),
            &["spec.persistentVolumeReclaimPolicy: Forbidden: may not be 'recycle' for a hostPath mount of '/'"],
        ),
    ]);
}

#[test]
fn the_source_stays_what_it_is() {
    let old = trial().create(volume(json!({}))).expect("a valid volume");
    let difference = "@@ -2,7 +2,7 @@\n  \"GCEPersistentDisk\": null,\n  \"AWSElasticBlockStore\": null,\n  \"HostPath\": {\n-  \"Path\": \"/x\",\n+  \"Path\": \"/y\",\n   \"Type\": \"\"\n  },\n  \"Glusterfs\": null,\n";
    let error = format!(
        "spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation\n{difference}"
    );
    trial().expect_patch_errors(
        &old,
        &[
            (json!({ "spec": { "hostPath": { "path": "/y" } } }), &[&error]),
            (
                json!({ "spec": { "volumeMode": "Block" } }),
                &["volumeMode: Invalid value: \"Block\": field is immutable"],
            ),
            (
                json!({ "spec": { "capacity": { "storage": "2" }, "storageClassName": "x" } }),
                &[],
            ),
        ],
    );
}

#[test]
fn labels_of_nodes_may_get_their_new_names() {
    let affinity = |key: &str| {
        let term = json!({ "matchExpressions": [{ "key": key, "operator": "Exists" }] });
        json!({ "nodeAffinity": { "required": { "nodeSelectorTerms": [term] } } })
    };
    let old = trial()
        .create(volume(affinity("beta.kubernetes.io/os")))
        .expect("a valid volume");
    let spec = |key: &str| json!({ "spec": affinity(key) });
    let error = "nodeAffinity: Invalid value: {\"Required\":{\"NodeSelectorTerms\":[{\"MatchExpressions\":[{\"Key\":\"y\",\"Operator\":\"Exists\",\"Values\":null}],\"MatchFields\":null}]}}: field is immutable, except for updating from beta label to GA";
    trial().expect_patch_errors(&old, &[(spec("kubernetes.io/os"), &[]), (spec("y"), &[error])]);
    let features = Features::with(&[Feature::MutablePvNodeAffinity]);
    Trial::new("", "persistentvolumes", kind(features)).expect_patch_errors(
        &old,
        &[(spec("y"), &[]), (json!({ "spec": { "nodeAffinity": null } }), &[])],
    );
}

#[test]
fn a_new_phase_has_its_time() {
    let old = trial().create(volume(json!({}))).expect("a valid volume");
    assert_eq!(
        old["status"],
        json!({ "phase": "Pending", "lastPhaseTransitionTime": "1970-01-01T00:00:00Z" })
    );
    let given = json!({ "phase": "Bound", "lastPhaseTransitionTime": "2020-01-01T00:00:00Z" });
    assert_eq!(
        trial().status(&old, given.clone()).expect("a valid status")["status"],
        given
    );
    let kept = trial()
        .status(&old, json!({ "phase": "Pending" }))
        .expect("a valid status");
    assert_eq!(kept["status"], old["status"]);
}

#[test]
fn sources_that_volumes_have_their_own_rules_for() {
    let of = |source: Value| volume(crate::testing::merged(&json!({ "hostPath": null }), &source));
    let label = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and \
                 end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
                 '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
    trial().expect_errors(&[
        (
            of(json!({ "gcePersistentDisk": { "partition": 300 } })),
            &[
                "spec.persistentDisk.pdName: Required value",
                "spec.persistentDisk.partition: Invalid value: 300: must be between 1 and 255, inclusive",
            ],
        ),
        (
            volume(json!({ "flexVolume": { "driver": "" }, "cephfs": { "monitors": ["m"] } })),
            &[
                "spec.cephFS: Forbidden: may not specify more than 1 volume type",
                "spec.flexVolume.driver: Required value",
            ],
        ),
        (
            of(json!({ "storageos": { "volumeName": "B_", "secretRef": {} } })),
            &[
                &format!("spec.storageos.volumeName: Invalid value: \"B_\": {label}"),
                "spec.storageos.secretRef.name: Required value",
                "spec.storageos.secretRef.namespace: Required value",
            ],
        ),
        (
            of(json!({ "iscsi": { "targetPortal": "p".repeat(70), "iqn": "odd", "lun": 0, "initiatorName": "odd", "secretRef": {} } })),
            &[
                &format!(
                    "spec.iscsi.targetportal: Invalid value: \"{}\": Total length of <volume name>:<iscsi.targetPortal> \
                     must be under 64 characters if iscsi.initiatorName is specified.",
                    "p".repeat(70)
                ),
                "spec.iscsi.iqn: Invalid value: \"odd\": must be valid format",
                "spec.iscsi.secretRef.name: Required value",
                "spec.iscsi.initiatorname: Invalid value: \"odd\": must be valid format",
            ],
        ),
    ]);
}

#[test]
fn sources_that_are_on_their_way_out_are_warned_of() {
    let warnings = |more: Value| trial().warnings(&trial().decode(volume(more)), None);
    let terms = json!([{ "matchExpressions": [{ "key": "beta.kubernetes.io/os", "operator": "Exists" }] }]);
    assert_eq!(
        warnings(json!({
            "hostPath": null,
            "storageos": { "volumeName": "v" },
            "nodeAffinity": { "required": { "nodeSelectorTerms": terms } },
        })),
        [
            "spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0].key: beta.kubernetes.io/os is deprecated \
             since v1.14; use \"kubernetes.io/os\" instead",
            "spec.storageOS: deprecated in v1.22, non-functional in v1.25+",
        ]
    );
}

#[test]
fn a_class_of_attributes_is_not_taken_away() {
    let csi = json!({ "driver": "d.test", "volumeHandle": "h" });
    let more = json!({ "hostPath": null, "csi": csi, "storageClassName": "s", "volumeAttributesClassName": "a" });
    let old = trial().create(volume(more)).expect("a valid volume");
    trial().expect_patch_errors(
        &old,
        &[
            (json!({ "spec": { "volumeAttributesClassName": "b" } }), &[]),
            (
                json!({ "spec": { "volumeAttributesClassName": null } }),
                &["spec.volumeAttributesClassName: Forbidden: update from non-nil value to nil is forbidden"],
            ),
        ],
    );
}

#[test]
fn a_stored_volume_may_keep_values_of_its_nodes() {
    let expression = json!({ "key": "a", "operator": "In", "values": ["a b"] });
    let nodes = json!({ "required": { "nodeSelectorTerms": [{ "matchExpressions": [expression] }] } });
    let body = volume(json!({ "nodeAffinity": nodes }));
    assert_eq!(trial().errors(body.clone()).len(), 1);
    let old = trial().decode(body.clone());
    assert!(trial().update(&old, body).is_ok());
}
