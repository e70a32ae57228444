use trireme_machinery::Features;

use super::*;
use crate::testing::{self, Trial, named};

fn trial() -> Trial {
    Trial::new("apps", "statefulsets", kind(Default::default()))
}

fn stateful_set(patch: &Value) -> Value {
    let spec = json!({ "selector": testing::selector(), "template": testing::template() });
    named("a", testing::merged(&spec, patch))
}

#[test]
fn claims_and_the_strategy_are_filled_in() {
    let claim = json!({ "metadata": { "name": "d" }, "spec": { "accessModes": ["ReadWriteOnce"] } });
    let spec = trial().decode(stateful_set(&json!({ "volumeClaimTemplates": [claim] })))["spec"].clone();
    assert_eq!(
        spec["updateStrategy"],
        json!({ "type": "RollingUpdate", "rollingUpdate": { "partition": 0 } })
    );
    assert_eq!(spec["volumeClaimTemplates"][0]["kind"], "PersistentVolumeClaim");
    assert_eq!(spec["volumeClaimTemplates"][0]["status"], json!({ "phase": "Pending" }));
}

#[test]
fn a_strategy_whose_type_is_named_is_not_filled_in() {
    let decoded = |strategy: Value| {
        let spec = trial().decode(stateful_set(&json!({ "updateStrategy": strategy })))["spec"].clone();
        spec["updateStrategy"].clone()
    };
    let named = json!({ "type": "RollingUpdate" });
    assert_eq!(decoded(named.clone()), named);
    let with_partition = json!({ "type": "RollingUpdate", "rollingUpdate": { "partition": 0 } });
    assert_eq!(
        decoded(json!({ "type": "RollingUpdate", "rollingUpdate": {} })),
        with_partition
    );
    assert_eq!(decoded(json!({ "type": "OnDelete" })), json!({ "type": "OnDelete" }));
}

fn rolling(unavailable: Value) -> Value {
    stateful_set(&json!({ "updateStrategy": { "rollingUpdate": { "maxUnavailable": unavailable } } }))
}

fn with_max_unavailable() -> Trial {
    let features = Features::with(&[Feature::MaxUnavailableStatefulSet]);
    let capabilities = Capabilities {
        features,
        ..Capabilities::default()
    };
    Trial::new("apps", "statefulsets", kind(capabilities))
}

#[test]
fn max_unavailable_is_dropped_unless_it_was_stored() {
    let on = with_max_unavailable();
    let bound = |object: &Value| object["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"].clone();
    let dropped = trial().create(rolling(json!(2))).expect("the stateful set is valid");
    assert_eq!(bound(&dropped), Value::Null);
    let stored = on.create(stateful_set(&json!({}))).expect("the stateful set is valid");
    assert_eq!(bound(&stored), 1, "by default");
    let kept = trial()
        .update(&stored, rolling(json!("50%")))
        .expect("the stateful set is valid");
    assert_eq!(bound(&kept), "50%");
    let dropped = trial()
        .update(&dropped, rolling(json!(2)))
        .expect("the stateful set is valid");
    assert_eq!(bound(&dropped), Value::Null);
}

#[test]
fn max_unavailable_is_some_of_the_pods() {
    let at = "spec.updateStrategy.rollingUpdate.maxUnavailable: Invalid value:";
    let errors = |unavailable: Value| with_max_unavailable().errors(rolling(unavailable));
    assert_eq!(errors(json!(3)), Vec::<String>::new());
    assert_eq!(errors(json!(0)), [format!("{at} 0: cannot be 0")]);
    assert_eq!(
        errors(json!("101%")),
        [format!("{at} \"101%\": must not be greater than 100%")]
    );
    assert_eq!(
        errors(json!(-1)),
        [format!("{at} -1: must be greater than or equal to 0")]
    );
}

#[test]
fn errors_of_the_spec() {
    let mounting = json!({ "spec": { "containers": [
        { "name": "c", "image": "i", "volumeMounts": [{ "name": "d", "mountPath": "/d" }] },
    ] } });
    let claim = |spec: Value| json!([{ "metadata": { "name": "d" }, "spec": spec }]);
    let whole = json!({ "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } });
    let cases: [(Value, &[&str]); 6] = [
        (
            json!({ "template": mounting, "volumeClaimTemplates": claim(whole) }),
            &[],
        ),
        (
            json!({ "template": mounting }),
            &[r#"spec.template.spec.containers[0].volumeMounts[0].name: Not found: "d""#],
        ),
        (
            json!({ "volumeClaimTemplates": claim(json!({})), "serviceName": "a.b" }),
            &[
                "spec.volumeClaimTemplates[0].spec.accessModes: Required value: at least 1 access mode is required",
                "spec.volumeClaimTemplates[0].spec.resources[storage]: Required value",
                r#"spec.serviceName: Invalid value: "a.b": must not contain dots"#,
            ],
        ),
        (
            json!({ "podManagementPolicy": "Q", "replicas": -1, "ordinals": { "start": -1 } }),
            &[
                r#"spec.podManagementPolicy: Invalid value: "Q": must be 'OrderedReady' or 'Parallel'"#,
                "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
                "spec.ordinals.start: Invalid value: -1: must be greater than or equal to 0",
            ],
        ),
        (
            json!({ "updateStrategy": { "type": "OnDelete", "rollingUpdate": { "partition": 1 } } }),
            &[
                r#"spec.updateStrategy.rollingUpdate: Invalid value: {"Partition":1,"MaxUnavailable":null}: only allowed for updateStrategy 'RollingUpdate'"#,
            ],
        ),
        (
            json!({ "updateStrategy": { "type": "Z" } }),
            &[
                r#"spec.updateStrategy: Invalid value: {"Type":"Z","RollingUpdate":null}: must be 'RollingUpdate' or 'OnDelete'"#,
            ],
        ),
    ];
    trial().expect_errors(&cases.map(|(patch, errors)| (stateful_set(&patch), errors)));
}

#[test]
fn only_some_fields_may_change() {
    let trial = trial();
    let old = trial
        .create(stateful_set(&json!({})))
        .expect("the stateful set is valid");
    let mutable = json!({ "spec": { "replicas": 3, "minReadySeconds": 1, "ordinals": { "start": 1 } } });
    let forbidden = "spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', \
                     'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' \
                     and 'minReadySeconds' are forbidden";
    trial.expect_patch_errors(
        &old,
        &[
            (mutable, &[]),
            (json!({ "spec": { "podManagementPolicy": "Parallel" } }), &[forbidden]),
        ],
    );
}

#[test]
fn what_cannot_be_meant_is_warned_of() {
    let claim = json!({ "metadata": { "name": "d" }, "spec": { "resources": { "requests": { "storage": "1500m" }, "limits": { "storage": "2500m" } } } });
    let patch = json!({ "revisionHistoryLimit": -1, "volumeClaimTemplates": [claim] });
    let warnings = trial().warnings(&trial().decode(stateful_set(&patch)), None);
    assert_eq!(
        warnings,
        [
            "spec.volumeClaimTemplates[0].spec.resources.requests[storage]: fractional byte value \"1500m\" is invalid, \
         must be an integer",
            "spec.volumeClaimTemplates[0].spec.resources.limits[storage]: fractional byte value \"2500m\" is invalid, \
             must be an integer",
            "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended",
        ]
    );
}

#[test]
fn names_that_the_controller_gives_pods_are_not_looked_at() {
    let names = json!({ "template": { "spec": { "hostname": "Not A Name", "subdomain": "NO=" } } });
    assert_eq!(trial().errors(stateful_set(&names)), [""; 0]);
}
