//! Tests of both states of the features of pods.

mod status_tests;

use serde_json::{Value, json};
use trireme_machinery::{Feature, Features};

use super::{Capabilities, kind};
use crate::testing::{Trial, merged};

fn trial(features: Features) -> Trial {
    let capabilities = Capabilities {
        features,
        ..Capabilities::default()
    };
    Trial::new("", "pods", kind(capabilities))
}

/// Pods where a feature is on, and where it is off.
fn states(feature: Feature) -> (Trial, Trial) {
    (trial(Features::with(&[feature])), trial(Features::without(&[feature])))
}

/// A pod that can be, with this merged into its spec.
fn pod(spec: Value) -> Value {
    let base = json!({
        "metadata": { "name": "p", "namespace": "n", "labels": { "app": "x" } },
        "spec": { "containers": [{ "name": "c", "image": "i:1" }], "serviceAccountName": "default" },
    });
    merged(&base, &json!({ "spec": spec }))
}

fn container(fields: Value) -> Value {
    pod(json!({ "containers": [merged(&json!({ "name": "c", "image": "i:1" }), &fields)] }))
}

/// A change of the labels alone.
fn relabeled() -> Value {
    json!({ "metadata": { "labels": { "app": "y" } } })
}

/// Checks that a field is there where the feature is on, that it is dropped from what is new where it is off, and that
/// what has it keeps it.
fn expect_gated(feature: Feature, asked: &Value, field: &str) {
    let (on, off) = states(feature);
    let made = on.create(asked.clone()).unwrap();
    assert!(made.pointer(field).is_some(), "{made}");
    let without = off.create(asked.clone()).unwrap();
    assert_eq!(without.pointer(field), None);
    let kept = off.patch(&made, &relabeled()).unwrap();
    assert_eq!(kept.pointer(field), made.pointer(field));
    assert_eq!(kept["metadata"]["labels"]["app"], "y");
    let unchanged = off.patch(&without, &json!({ "spec": asked["spec"] })).unwrap();
    assert_eq!(unchanged.pointer(field), None);
}

/// Checks the same of the status. `base` is a status without the field.
fn expect_gated_status(feature: Feature, asked: &Value, (base, fields): (Value, Value), field: &str) {
    let (on, off) = states(feature);
    let made = on.create(asked.clone()).unwrap();
    let given = merged(&base, &fields);
    let with = on.status(&made, given.clone()).unwrap();
    assert!(with.pointer(field).is_some(), "{with}");
    let old = off.status(&made, base).unwrap();
    let without = off.status(&old, given.clone()).unwrap();
    assert_eq!(without.pointer(field), None);
    let kept = off.status(&with, given).unwrap();
    assert_eq!(kept.pointer(field), with.pointer(field));
    assert_eq!(off.patch(&with, &relabeled()).unwrap()["status"], with["status"]);
}

fn status(fields: Value) -> Value {
    merged(&json!({ "phase": "Running", "qosClass": "BestEffort" }), &fields)
}

/// The status of the container.
fn container_status(fields: Value) -> Value {
    let base = json!({ "name": "c", "ready": false, "restartCount": 0, "image": "i", "imageID": "" });
    json!({ "containerStatuses": [merged(&base, &fields)] })
}

#[test]
fn stop_signals_come_with_their_feature() {
    let with = |signal: &str, os: Value| {
        let spec = container(json!({ "lifecycle": { "stopSignal": signal } }));
        merged(&spec, &json!({ "spec": { "os": os } }))
    };
    let feature = Feature::ContainerStopSignals;
    let asked = with("SIGRTMIN+1", json!({ "name": "linux" }));
    expect_gated(feature, &asked, "/spec/containers/0/lifecycle");
    let at = "spec.containers[0].lifecycle.stopSignal";
    states(feature).0.expect_errors(&[
        (
            with("SIGTERM", Value::Null),
            &[&format!(
                "{at}: Forbidden: may not be set for containers with empty `spec.os.name`"
            )],
        ),
        (
            with("SIGHUP", json!({ "name": "windows" })),
            &[&format!(
                "{at}: Unsupported value: \"SIGHUP\": supported values: \"SIGKILL\", \"SIGTERM\""
            )],
        ),
    ]);
    let errors = states(feature).0.errors(with("SIGNO", json!({ "name": "linux" })));
    let (first, last) = ("\"SIGABRT\", \"SIGALRM\"", "\"SIGXCPU\", \"SIGXFSZ\"");
    assert!(errors.len() == 1 && errors[0].contains(first) && errors[0].ends_with(last));
}

#[test]
fn a_hook_stays_where_a_stop_signal_is_dropped() {
    let hook = json!({ "preStop": { "sleep": { "seconds": 1 } } });
    let lifecycle = merged(&hook, &json!({ "stopSignal": "SIGTERM" }));
    let made = trial(Features::default()).create(container(json!({ "lifecycle": lifecycle })));
    assert_eq!(made.unwrap()["spec"]["containers"][0]["lifecycle"], hook);
}

#[test]
fn rules_of_restarts_come_with_their_feature() {
    let rule = json!({ "action": "Restart", "exitCodes": { "operator": "In", "values": [3] } });
    let feature = Feature::ContainerRestartRules;
    let asked = container(json!({ "restartPolicy": "Never", "restartPolicyRules": [rule] }));
    expect_gated(feature, &asked, "/spec/containers/0/restartPolicyRules");
    expect_gated(feature, &asked, "/spec/containers/0/restartPolicy");
    let inits = pod(json!({ "initContainers": [
        { "name": "i", "image": "i:1", "restartPolicy": "OnFailure" },
        { "name": "s", "image": "i:1", "restartPolicy": "Always" },
    ] }));
    expect_gated(feature, &inits, "/spec/initContainers/0/restartPolicy");
    let made = states(feature).1.create(inits).unwrap();
    assert_eq!(made["spec"]["initContainers"][1]["restartPolicy"], "Always");
}

#[test]
fn without_rules_of_restarts_the_policy_of_the_pod_is_that_of_unknown_containers() {
    let (on, off) = states(Feature::ContainerRestartRules);
    let made = on.create(pod(json!({ "restartPolicy": "OnFailure" }))).unwrap();
    let of = |name: &str, state: Value| status(container_status(json!({ "name": name, "state": state })));
    let at = "status.containerStatuses[0].state";
    let refused = format!("{at}: Forbidden: may not be transitioned to non-terminated state");
    for (name, exit_code, with_rules, without) in [("c", 1, 0, 0), ("c", 0, 1, 1), ("unknown", 1, 1, 0)] {
        let ended = of(name, json!({ "terminated": { "exitCode": exit_code } }));
        let old = on.status(&made, ended).unwrap();
        for (trial, count) in [(&on, with_rules), (&off, without)] {
            let errors = trial.status(&old, of(name, json!({ "running": {} }))).err();
            assert_eq!(errors.unwrap_or_default(), vec![refused.clone(); count], "{name}");
        }
    }
}

#[test]
fn restarts_of_all_containers_come_with_their_feature() {
    let rules = json!([{ "action": "RestartAllContainers", "exitCodes": { "operator": "In", "values": [3] } }]);
    let with = container(json!({ "restartPolicy": "Never", "restartPolicyRules": rules }));
    let plain_rules = json!([{ "action": "Restart", "exitCodes": { "operator": "In", "values": [3] } }]);
    let sidecar = pod(json!({ "initContainers": [
        { "name": "s", "image": "i:1", "restartPolicy": "Always", "restartPolicyRules": plain_rules },
    ] }));
    let (on, off) = states(Feature::RestartAllContainersOnContainerExits);
    off.expect_errors(&[
        (
            with.clone(),
            &[
                "spec.containers[0].restartPolicyRules[0].action: Unsupported value: \"RestartAllContainers\": \
               supported values: \"Restart\"",
            ],
        ),
        (
            sidecar.clone(),
            &[
                "spec.initContainers[0].restartPolicyRules: Forbidden: restartPolicyRules are not allowed for init \
               containers with restart policy Always",
            ],
        ),
    ]);
    for asked in [with, sidecar] {
        let old = on.create(asked).unwrap();
        off.patch(&old, &relabeled()).unwrap();
    }
}

#[test]
fn variables_in_files_come_with_their_feature() {
    let variable = |name: &str, source: Value| json!({ "name": name, "valueFrom": source });
    let key = json!({ "fileKeyRef": { "key": "K", "path": "p", "volumeName": "v" } });
    let asked = merged(
        &container(json!({ "env": [variable("A", key)] })),
        &json!({ "spec": { "volumes": [{ "name": "v", "emptyDir": {} }] } }),
    );
    let (on, off) = states(Feature::EnvFiles);
    let old = on.create(asked.clone()).unwrap();
    let at = "spec.containers[0].env[0].valueFrom: Invalid value: \"\": must specify one of: `fieldRef`, \
              `resourceFieldRef`, `configMapKeyRef`";
    off.expect_errors(&[(asked, &[&format!("{at} or `secretKeyRef`")])]);
    on.expect_errors(&[(
        container(json!({ "env": [variable("A", json!({}))] })),
        &[&format!("{at}, `secretKeyRef` or `fileKeyRef`")],
    )]);
    let kept = off.patch(&old, &relabeled()).unwrap();
    assert_eq!(kept["spec"], old["spec"]);
}

#[test]
fn host_names_of_pods_come_with_their_feature() {
    let asked = pod(json!({ "hostnameOverride": "h" }));
    expect_gated(Feature::HostnameOverride, &asked, "/spec/hostnameOverride");
}

#[test]
fn user_namespaces_in_the_network_of_the_host_come_with_their_feature() {
    let asked = pod(json!({ "hostNetwork": true, "hostUsers": false, "hostPID": true }));
    let (on, off) = states(Feature::UserNamespacesHostNetworkSupport);
    let detail = "Forbidden: when `hostUsers` is false";
    let of_processes = format!("spec.HostPID: {detail}");
    off.expect_errors(&[(asked.clone(), &[&format!("spec.hostNetwork: {detail}"), &of_processes])]);
    on.expect_errors(&[(asked, &[&of_processes])]);
    let old = on
        .create(pod(json!({ "hostNetwork": true, "hostUsers": false })))
        .unwrap();
    off.patch(&old, &relabeled()).unwrap();
}

#[test]
fn tolerations_compare_where_the_feature_is_on() {
    let with = |value: &str| pod(json!({ "tolerations": [{ "key": "k", "operator": "Gt", "value": value }] }));
    let (on, off) = states(Feature::TaintTolerationComparisonOperators);
    let at = "spec.tolerations[0]";
    off.expect_errors(&[(
        with("1"),
        &[&format!(
            "{at}.operator: Unsupported value: \"Gt\": supported values: \"Equal\", \"Exists\", \"Lt\", \"Gt\""
        )],
    )]);
    let canonical = "must be a valid decimal integer in canonical form";
    on.expect_errors(&[
        (
            with(""),
            &[
                &format!("{at}.value: Invalid value: \"\": must be non-empty"),
                &format!("{at}.value: Invalid value: \"\": strconv.ParseInt: parsing \"\": invalid syntax"),
            ],
        ),
        (
            with("9223372036854775808"),
            &[&format!(
                "{at}.value: Invalid value: \"9223372036854775808\": strconv.ParseInt: parsing \
                 \"9223372036854775808\": value out of range"
            )],
        ),
        (
            with("-0"),
            &[&format!("{at}.value: Invalid value: \"-0\": {canonical}")],
        ),
        (
            with("+1"),
            &[&format!("{at}.value: Invalid value: \"+1\": {canonical}")],
        ),
        (
            with("007"),
            &[&format!("{at}.value: Invalid value: \"007\": {canonical}")],
        ),
        (with("0"), &[]),
    ]);
    let old = on.create(with("-17")).unwrap();
    off.patch(&old, &relabeled()).unwrap();
}

#[test]
fn resources_of_pods_come_with_their_feature() {
    let feature = Feature::PodLevelResources;
    let asked = pod(json!({ "resources": { "limits": { "cpu": "1", "memory": "1Gi" } } }));
    expect_gated(feature, &asked, "/spec/resources");
    let (on, off) = states(feature);
    let old = on.create(asked.clone()).unwrap();
    assert_eq!(old["spec"]["resources"]["requests"], old["spec"]["resources"]["limits"]);
    assert_eq!(old["status"]["qosClass"], "Guaranteed");
    assert_eq!(off.create(asked).unwrap()["status"]["qosClass"], "BestEffort");
    let wrong = pod(json!({ "resources": { "claims": [{ "name": "r" }], "limits": { "cpu": "1" } } }));
    assert!(!on.errors(wrong.clone()).is_empty());
    assert!(off.errors(wrong).is_empty());
}

#[test]
fn pods_with_resources_are_resized_where_the_feature_is_on() {
    let (on, off) = states(Feature::InPlacePodLevelResourcesVerticalScaling);
    let sized = |cpu: &str| json!({ "spec": { "resources": { "requests": { "cpu": cpu } } } });
    let old = on.create(merged(&pod(json!({})), &sized("1"))).unwrap();
    let resized = on.patch_part("resize", &old, &sized("2")).unwrap();
    assert_eq!(resized["spec"]["resources"]["requests"]["cpu"], "2");
    assert_eq!(
        off.patch_part("resize", &old, &sized("2")).unwrap_err(),
        [
            "[]: Forbidden: resize of pods with pod-level resources is forbidden when \
          InPlacePodLevelResourcesVerticalScalingEnabled feature gate is disabled"
        ]
    );
    let plain = on.create(pod(json!({}))).unwrap();
    assert_eq!(off.patch_part("resize", &plain, &sized("2")).unwrap(), plain);
}

#[test]
fn resources_in_statuses_of_pods_come_with_resizes_of_pods() {
    for (field, value) in [
        ("resources", json!({ "requests": { "cpu": "1" } })),
        ("allocatedResources", json!({ "cpu": "1" })),
    ] {
        expect_gated_status(
            Feature::InPlacePodLevelResourcesVerticalScaling,
            &pod(json!({})),
            (status(json!({})), json!({ field: value })),
            &format!("/status/{field}"),
        );
    }
}

#[test]
fn init_containers_are_resized_where_the_feature_is_on() {
    let (on, off) = states(Feature::InPlacePodVerticalScalingInitContainers);
    let inits = |cpu: &str, of_sidecar: &str| {
        let container = |name: &str, cpu: &str, rest: Value| {
            let resources = json!({ "requests": { "cpu": cpu, "memory": "1Mi" } });
            merged(&json!({ "name": name, "image": "i:1", "resources": resources }), &rest)
        };
        json!({ "initContainers": [
            container("i", cpu, json!({})),
            container("s", of_sidecar, json!({ "restartPolicy": "Always" })),
        ] })
    };
    let old = on.create(pod(inits("1", "1"))).unwrap();
    let resize = |trial: &Trial, cpu: &str, of_sidecar: &str| {
        let errors = trial
            .patch_part("resize", &old, &json!({ "spec": inits(cpu, of_sidecar) }))
            .err();
        errors.unwrap_or_default()
    };
    let refused = ["spec: Forbidden: resources for non-sidecar init containers are immutable"];
    assert!(resize(&on, "2", "2").is_empty());
    assert!(resize(&off, "1", "2").is_empty());
    assert_eq!(resize(&off, "2", "1"), refused);
    let mut shrunk = inits("1", "1");
    shrunk["initContainers"][0]["resources"]["requests"] = json!({ "cpu": "1" });
    let shrunk = json!({ "spec": shrunk });
    assert_eq!(off.patch_part("resize", &old, &shrunk).unwrap_err(), refused);
    assert_eq!(
        on.patch_part("resize", &old, &shrunk).unwrap_err(),
        ["spec.initContainers[0].resources.requests: Forbidden: resource requests cannot be removed"]
    );
}

/// A pod that is spread with the value of the label `app` of its own.
fn spread(selector: Value) -> Value {
    pod(json!({ "topologySpreadConstraints": [{
        "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "matchLabelKeys": ["app"],
        "labelSelector": selector,
    }] }))
}

#[test]
fn label_keys_of_spreads_come_with_their_feature() {
    let feature = Feature::MatchLabelKeysInPodTopologySpread;
    let (on, off) = states(feature);
    let asked = spread(json!({ "matchLabels": { "b": "c" } }));
    let constraint = |made: Value| made["spec"]["topologySpreadConstraints"][0].clone();
    let made = constraint(off.create(asked.clone()).unwrap());
    assert_eq!(made.get("matchLabelKeys"), None);
    assert_eq!(made["labelSelector"], json!({ "matchLabels": { "b": "c" } }));
    // Those of a pod whose selector has its key are kept, but cannot be.
    let merging = on.create(asked.clone()).unwrap();
    assert_eq!(
        off.patch(&merging, &relabeled()).unwrap_err(),
        [
            "spec.topologySpreadConstraints[0].matchLabelKeys[0]: Invalid value: \"app\": exists in both \
          matchLabelKeys and labelSelector"
        ]
    );
    let unmerged = trial(Features::without(&[
        Feature::MatchLabelKeysInPodTopologySpreadSelectorMerge,
    ]));
    let old = unmerged.create(asked).unwrap();
    let kept = off.patch(&old, &relabeled()).unwrap();
    assert_eq!(kept["spec"], old["spec"]);
}

#[test]
fn label_keys_of_spreads_are_merged_where_the_feature_is_on() {
    let (on, off) = states(Feature::MatchLabelKeysInPodTopologySpreadSelectorMerge);
    let selector = |made: &Value| made["spec"]["topologySpreadConstraints"][0]["labelSelector"].clone();
    let asked = spread(json!({ "matchLabels": { "b": "c" } }));
    let merging = on.create(asked.clone()).unwrap();
    assert_eq!(
        selector(&merging)["matchExpressions"],
        json!([{ "key": "app", "operator": "In", "values": ["x"] }])
    );
    let unmerged = off.create(asked).unwrap();
    assert_eq!(selector(&unmerged), json!({ "matchLabels": { "b": "c" } }));
    off.patch(&merging, &relabeled()).unwrap();
    on.patch(&unmerged, &relabeled()).unwrap();
    let at = "spec.topologySpreadConstraints[0].matchLabelKeys";
    off.expect_errors(&[
        (
            spread(Value::Null),
            &[&format!(
                "{at}: Forbidden: must not be specified when labelSelector is not set"
            )],
        ),
        (
            spread(json!({ "matchExpressions": [{ "key": "app", "operator": "Exists" }] })),
            &[&format!(
                "{at}[0]: Invalid value: \"app\": exists in both matchLabelKeys and labelSelector"
            )],
        ),
    ]);
    // A pod that cannot be where keys are merged is validated as one where they are not.
    let twice = json!([{ "key": "app", "operator": "Exists" }, { "key": "app", "operator": "Exists" }]);
    let mut old = unmerged;
    old["spec"]["topologySpreadConstraints"][0]["labelSelector"]["matchExpressions"] = twice;
    assert_eq!(
        on.patch(&old, &relabeled()).unwrap_err(),
        [format!(
            "{at}[0]: Invalid value: \"app\": exists in both matchLabelKeys and labelSelector"
        )]
    );
}

#[test]
fn costs_of_deletion_are_validated_where_the_feature_is_on() {
    let (on, off) = states(Feature::PodDeletionCost);
    let costs =
        |cost: &str| json!({ "metadata": { "annotations": { "controller.kubernetes.io/pod-deletion-cost": cost } } });
    let asked = merged(&pod(json!({})), &costs("+1"));
    let error = "metadata.annotations[controller.kubernetes.io/pod-deletion-cost]: Invalid value: \"+1\": must be a \
                 32bit integer";
    on.expect_errors(&[(asked.clone(), &[error])]);
    let old = off.create(asked).unwrap();
    on.patch(&old, &relabeled()).unwrap();
    on.patch(&old, &costs("1.5")).unwrap();
    on.status(&old, status(json!({}))).unwrap();
    let valid = on.patch(&old, &costs("1")).unwrap();
    assert_eq!(on.patch(&valid, &costs("+1")).unwrap_err(), [error, error]);
    off.patch(&valid, &costs("+1")).unwrap();
}

#[test]
fn any_selinux_change_policy_comes_with_the_feature() {
    let asked = pod(json!({ "securityContext": { "seLinuxChangePolicy": "MountOption" } }));
    let (on, off) = states(Feature::SelinuxMount);
    off.expect_errors(&[(
        asked.clone(),
        &[
            "spec.securityContext.seLinuxChangePolicy: Unsupported value: \"MountOption\": supported values: \
           \"Recursive\"",
        ],
    )]);
    let old = on.create(asked).unwrap();
    off.patch(&old, &relabeled()).unwrap();
}

#[test]
fn addresses_may_be_written_oddly_where_the_rules_are_not_strict() {
    let (strict, lax) = states(Feature::StrictIpCidrValidation);
    let servers = pod(json!({ "dnsConfig": { "nameservers": ["010.0.0.1"] } }));
    let aliases = pod(json!({ "hostAliases": [{ "ip": "010.0.0.1", "hostnames": ["h"] }] }));
    let detail = "must not have leading 0s";
    for (asked, at) in [
        (servers, "spec.dnsConfig.nameservers[0]"),
        (aliases, "spec.hostAliases[0].ip"),
    ] {
        let errors = strict.errors(asked.clone());
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert!(errors[0].starts_with(&format!("{at}: Invalid value: \"010.0.0.1\"")) && errors[0].contains(detail));
        lax.create(asked).expect("it may be");
    }
    let made = strict.create(pod(json!({}))).expect("a valid pod");
    let odd =
        status(json!({ "podIPs": [{ "ip": "010.0.0.1" }], "hostIP": "010.0.0.2", "hostIPs": [{ "ip": "010.0.0.2" }] }));
    assert_eq!(strict.status(&made, odd.clone()).expect_err("both are new").len(), 2);
    let kept = lax.status(&made, odd.clone()).expect("it may be");
    strict.status(&kept, odd).expect("what was there may stay");
}
