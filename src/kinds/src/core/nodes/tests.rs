//! Tests of the defaults and the validation of nodes.

use serde_json::{Value, json};
use trireme_machinery::{Feature, Features};
use trireme_registry::Strategy as _;

use super::{Nodes, kernel, kind, readiness, roles, validation};
use crate::testing::Trial;

fn nodes() -> Nodes {
    Nodes {
        features: Features::default(),
    }
}

fn texts(errors: &[trireme_machinery::field::Error]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn defaults_join_what_belongs_together() {
    for (given, want) in [
        (
            json!({"status": {"capacity": {"cpu": "1"}}}),
            json!({"spec": {}, "status": {"capacity": {"cpu": "1"}, "allocatable": {"cpu": "1"}}}),
        ),
        (
            json!({"status": {"capacity": {"cpu": "2"}, "allocatable": {}}}),
            json!({"spec": {}, "status": {"capacity": {"cpu": "2"}, "allocatable": {}}}),
        ),
        (
            json!({"spec": {"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.9.0.0/24"]}}),
            json!({"spec": {"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"]}, "status": {}}),
        ),
        (
            json!({"spec": {"podCIDRs": ["10.9.0.0/24"]}}),
            json!({"spec": {"podCIDR": "10.9.0.0/24", "podCIDRs": ["10.9.0.0/24"]}, "status": {}}),
        ),
    ] {
        let mut object = given.clone();
        nodes().default(&mut object);
        assert_eq!(object, want, "{given}");
    }
    let object = json!({"metadata": {"name": "n"}, "spec": {"configSource": {}}, "status": {"config": {}}});
    let object = Trial::new("", "nodes", kind(Features::default())).create(object);
    let object = object.expect("a valid node");
    let dropped = ["/spec/configSource", "/status/config"].map(|field| object.pointer(field));
    assert_eq!(dropped, [None, None]);
}

#[test]
fn invalid_nodes_are_refused() {
    let cases: [(Value, &[&str]); 9] = [
        (json!({}), &[]),
        (
            json!({"metadata": {"annotations": {"scheduler.alpha.kubernetes.io/preferAvoidPods": "{\"preferAvoidPods\":[{}]}"}}}),
            &["metadata.annotations.scheduler.alpha.kubernetes.io/preferAvoidPods[0].PodSignature: Required value"],
        ),
        (
            json!({"status": {"nodeInfo": {"swap": {"capacity": 0}}}}),
            &["metadata.nodeSwapStatus.capacity: Invalid value: 0: must be greater than zero"],
        ),
        (
            json!({"status": {"declaredFeatures": ["B/x", "B/x", "A", "a"]}}),
            &[
                "status.declaredFeatures[1]: Duplicate value: \"B/x\"",
                "status.declaredFeatures[2]: Invalid value: \"A\": list must be sorted alphabetically",
                "status.declaredFeatures[3]: Invalid value: \"a\": invalid feature name \"a\": must start with an \
                 UpperCamelCase segment, with subsequent segments separated by '/' (e.g., MyFeature or \
                 MyFeature/mySubFeature), and contain only alphanumeric characters and slashes",
            ],
        ),
        (
            json!({"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}, {"key": "a", "value": "x", "effect": "NoSchedule"}]}}),
            &[
                "metadata.taints[1]: Duplicate value: {\"Key\":\"a\",\"Value\":\"x\",\"Effect\":\"NoSchedule\",\"TimeAdded\":null}: \
                 taints must be unique by key and effect pair",
            ],
        ),
        (
            json!({"spec": {"taints": [{"key": "a"}, {"key": "b", "effect": "Odd"}]}}),
            &[
                "metadata.taints[0].effect: Required value",
                "metadata.taints[1].effect: Unsupported value: \"Odd\": supported values: \"NoSchedule\", \
                 \"PreferNoSchedule\", \"NoExecute\"",
            ],
        ),
        (
            json!({"spec": {"podCIDRs": ["bad", "10.0.0.0/24"]}}),
            &[
                "spec.podCIDRs[0]: Invalid value: \"bad\": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
                "spec.podCIDRs: Internal error: invalid PodCIDRs. failed to check with dual stack with error:invalid \
                 CIDR[0]: <nil> (invalid CIDR address: bad)",
                "spec.podCIDRs: Invalid value: [\"bad\",\"10.0.0.0/24\"]: may specify no more than one CIDR for each IP family",
            ],
        ),
        (
            json!({"status": {"capacity": {"cpu": "-4", "ex.test/gpu": "1500m"}}}),
            &[
                "status.capacity.cpu: Invalid value: \"-4\": must be greater than or equal to 0",
                "status.capacity.ex.test/gpu: Invalid value: \"1500m\": must be an integer",
            ],
        ),
        (
            json!({"metadata": {"annotations": {"scheduler.alpha.kubernetes.io/taints": "x"}}}),
            &[
                "metadata.annotations: Invalid value: \"scheduler.alpha.kubernetes.io/taints\": invalid character 'x' \
                 looking for beginning of value",
            ],
        ),
    ];
    for (node, want) in cases {
        assert_eq!(
            texts(&validation::validate_node(Features::default(), &node)),
            want,
            "{node}"
        );
    }
}

#[test]
fn what_is_set_once_stays() {
    let old = json!({"spec": {"podCIDRs": ["10.0.0.0/24"], "providerID": "a", "externalID": "e"}});
    let new = json!({"spec": {"podCIDRs": ["10.1.0.0/24"], "providerID": "b"}, "status": {
        "addresses": [{"type": "Hostname", "address": "h"}, {"type": "Hostname", "address": "h"}]
    }});
    assert_eq!(
        texts(&validation::validate_node_update(&new, &old)),
        [
            "status.addresses[1]: Duplicate value: {\"Type\":\"Hostname\",\"Address\":\"h\"}",
            "spec.podCIDRs: Forbidden: node updates may not change podCIDR except from \"\" to valid",
            "spec.providerID: Forbidden: node updates may not change providerID except from \"\" to valid",
            "spec.externalID: Forbidden: may not be updated",
        ]
    );
    assert!(validation::validate_node_update(&old, &json!({"spec": {"externalID": "e"}})).is_empty());
}

#[test]
fn cells_and_selectors() {
    let node = json!({
        "metadata": {"labels": {"node-role.kubernetes.io/edge": "", "kubernetes.io/role": "extra", "x": "y"}},
        "spec": {"unschedulable": true},
        "status": {
            "conditions": [{"type": "Ready", "status": "False"}],
            "nodeInfo": {"kernelVersion": "6.1.0", "architecture": "arm64"},
        },
    });
    assert_eq!(roles(&node), "edge,extra");
    assert_eq!(readiness(&node), "NotReady,SchedulingDisabled");
    assert_eq!(kernel(&node), "6.1.0 (arm64)");
    let without_version = json!({"status": {"nodeInfo": {"architecture": "arm64"}}});
    assert_eq!(kernel(&without_version), "<unknown> (arm64)");
    assert_eq!(kernel(&json!({})), "<unknown>");
    assert_eq!(readiness(&json!({})), "Unknown");
    let kind = kind(Features::default());
    let field = kind.selectable.first().expect("one field");
    assert_eq!([&node, &json!({})].map(|node| (field.read)(node)), ["true", "false"]);
}

#[test]
fn what_is_no_longer_read_is_warned_of() {
    let node = json!({"spec": {"externalID": "e", "podCIDRs": ["10.0.0.0/24", "FD00::/64"]}});
    assert_eq!(
        nodes().warnings(&node, None),
        [
            "spec.externalID: this field is deprecated, and is unused by Kubernetes",
            "spec.podCIDRs[1]: IPv6 CIDR value \"FD00::/64\" should be in RFC 5952 canonical format (\"fd00::/64\")",
        ]
    );
    assert!(nodes().status_warnings(&node).is_empty());
}

#[test]
fn features_are_declared_by_the_status_whatever_is_off() {
    let declared = json!({ "declaredFeatures": ["A"] });
    let body = json!({ "metadata": { "name": "n" }, "status": declared });
    for (features, created) in [
        (Features::default(), json!(["A"])),
        (Features::without(&[Feature::NodeDeclaredFeatures]), Value::Null),
    ] {
        let trial = Trial::new("", "nodes", kind(features));
        let made = trial.create(body.clone()).expect("a valid node");
        assert_eq!(made["status"]["declaredFeatures"], created);
        let written = trial.status(&made, declared.clone()).expect("a valid status");
        assert_eq!(written["status"]["declaredFeatures"], json!(["A"]));
        let patch = json!({ "metadata": { "labels": { "a": "b" } } });
        let kept = trial.patch(&written, &patch).expect("a valid node");
        assert_eq!(kept["status"]["declaredFeatures"], json!(["A"]));
    }
}

#[test]
fn ranges_in_odd_forms_may_stay_where_they_are_not_held_against_the_strict_rules() {
    let node = |range: &str| json!({ "metadata": { "name": "n" }, "spec": { "podCIDRs": [range] } });
    let strict = Trial::new("", "nodes", kind(Features::default()));
    let error = r#"spec.podCIDRs[0]: Invalid value: "10.0.0.1/24": must not have bits set beyond the prefix length"#;
    strict.expect_errors(&[(node("10.0.0.1/24"), &[error])]);
    let features = Features::without(&[Feature::StrictIpCidrValidation]);
    let lenient = Trial::new("", "nodes", kind(features));
    lenient.expect_errors(&[(node("10.0.0.1/24"), &[]), (node("10.00.0.0/24"), &[])]);
}

#[test]
fn stored_sources_of_configuration_stay_and_are_validated() {
    let trial = Trial::new("", "nodes", kind(Features::default()));
    let map = json!({"namespace": "n", "name": "m", "kubeletConfigKey": "k", "uid": "u", "resourceVersion": "1"});
    let node = |source: Value, active: Value| {
        let (spec, status) = (json!({"configSource": source}), json!({"config": {"active": active}}));
        json!({"metadata": {"name": "n"}, "spec": spec, "status": status})
    };
    let old = trial.decode(node(json!({}), json!({"configMap": map})));
    let nothing =
        "spec.configSource: Invalid value: {\"ConfigMap\":null}: exactly one reference subfield must be non-nil";
    let errors = trial.update(&old, node(json!({}), json!({})));
    assert_eq!(errors.map(drop), Err(vec![nothing.to_owned()]));
    let errors = trial.update(&old, node(json!({"configMap": map}), json!({})));
    let set = ["uid", "resourceVersion"]
        .map(|field| format!("spec.configSource.configMap.{field}: Forbidden: {field} must not be set in spec"));
    assert_eq!(errors.map(drop), Err(set.to_vec()));
    let anonymous =
        json!({"config": {"active": {"configMap": {"namespace": "n", "name": "m", "kubeletConfigKey": ""}}}});
    let missing = ["uid", "resourceVersion", "kubeletConfigKey"]
        .map(|field| format!("status.config.active.configMap.{field}: Required value"));
    let errors = [&[nothing.to_owned()], missing.as_slice()].concat();
    assert_eq!(trial.status(&old, anonymous).map(drop), Err(errors));
}
