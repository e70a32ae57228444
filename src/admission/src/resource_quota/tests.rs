//! Writes against quotas, as a client sees it.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use trireme_machinery::{GroupResource, pod_resources::resource_list};

use super::{
    check::Charge,
    evaluators::{Evaluator, Measure, PodScopes, Scopes},
    limited::{LimitedResources, RequiredCoverage},
    quota::QuotaState,
};

fn quota(hard: Value, used: Value) -> QuotaState {
    QuotaState::read(&json!({ "metadata": { "name": "q" }, "status": { "hard": hard, "used": used } }))
}

fn scoped(mut spec: Value) -> QuotaState {
    spec["hard"] = json!({});
    let one = json!({ "pods": "1" });
    let status = json!({ "hard": one, "used": one });
    QuotaState::read(&json!({ "metadata": { "name": "q" }, "spec": spec, "status": status }))
}

fn pod(usage: Value) -> Charge {
    Charge {
        evaluator: Evaluator::Pods,
        resource: GroupResource {
            group: "".into(),
            resource: "pods".into(),
        },
        name: "p".to_owned(),
        new: Measure {
            usage: resource_list(Some(&usage)),
            scopes: Scopes::Pod(PodScopes::default()),
            ..Measure::default()
        },
        limited: RequiredCoverage::default(),
        old: None,
        is_status: false,
        dry_run: false,
    }
}

/// The use afterwards, or the refusal.
fn verdict(charge: &Charge, quota: &QuotaState) -> String {
    match charge.against([quota]) {
        Ok(changes) => changes
            .iter()
            .flat_map(|(_, used)| used)
            .map(|(name, amount)| format!("{name}={amount}"))
            .collect::<Vec<_>>()
            .join(","),
        Err(refusal) => refusal.message,
    }
}

#[test]
fn only_what_is_limited_counts_and_all_that_exceeds_is_named() {
    let charge = pod(json!({ "pods": "1", "cpu": "600m", "memory": "1Gi" }));
    let limits = json!({ "pods": "2", "cpu": "1", "services": "1" });
    let used = |pods: &str, cpu: &str| quota(limits.clone(), json!({ "pods": pods, "cpu": cpu, "services": "1" }));
    assert_eq!(verdict(&charge, &used("1", "400m")), "cpu=1,pods=2,services=1");
    assert_eq!(
        verdict(&charge, &used("2", "500m")),
        "pods \"p\" is forbidden: exceeded quota: q, requested: cpu=600m,pods=1, used: cpu=500m,pods=2, \
         limited: cpu=1,pods=2"
    );
    assert_eq!(
        verdict(&charge, &quota(limits.clone(), json!({ "pods": "1" }))),
        "pods \"p\" is forbidden: status unknown for quota: q, resources: cpu,pods"
    );
    assert_eq!(verdict(&charge, &quota(json!({ "services": "0" }), json!({}))), "");
}

#[test]
fn limited_compute_resources_have_to_be_stated() {
    let mut charge = pod(json!({ "pods": "1" }));
    charge.new.unstated = BTreeMap::from([
        ("limits.cpu", vec!["a".to_owned(), "b".to_owned()]),
        ("requests.cpu", vec!["b".to_owned()]),
        ("memory", vec!["a".to_owned()]),
    ]);
    let limits = quota(json!({ "limits.cpu": "1", "requests.cpu": "1" }), json!({}));
    assert_eq!(
        verdict(&charge, &limits),
        "pods \"p\" is forbidden: failed quota: q: must specify limits.cpu for: a,b; requests.cpu for: b"
    );
}

#[test]
fn what_is_limited_has_to_be_covered() {
    let configuration = r#"{"apiVersion": "apiserver.config.k8s.io/v1", "kind": "ResourceQuotaConfiguration",
        "limitedResources": [
            {"resource": "pods", "matchContains": ["cpu"]},
            {"resource": "pods", "matchScopes": [{"scopeName": "PriorityClass", "operator": "In", "values": ["a"]}]}]}"#;
    let limited = LimitedResources::read(Some(configuration.as_bytes())).expect("it is good");
    let charge = |usage: Value, class: &str| {
        let mut charge = pod(usage);
        charge.new.scopes = Scopes::Pod(PodScopes {
            priority_class: class.to_owned(),
            ..PodScopes::default()
        });
        charge.limited = limited.of(&charge.resource, &charge.new);
        charge
    };
    let pods = || quota(json!({ "pods": "5" }), json!({ "pods": "0" }));
    let check = |charge: &Charge, quota: &QuotaState, expected: &str| assert_eq!(verdict(charge, quota), expected);
    check(
        &charge(json!({ "pods": "1", "requests.cpu": "1" }), ""),
        &pods(),
        "pods \"p\" is forbidden: insufficient quota to consume: requests.cpu",
    );
    check(
        &charge(json!({ "pods": "1" }), "a"),
        &pods(),
        "pods \"p\" is forbidden: insufficient quota to match these scopes: [{PriorityClass In [a]}]",
    );
    check(&charge(json!({ "pods": "1" }), "b"), &pods(), "pods=1");
}

#[test]
fn a_change_is_charged_for_what_it_adds() {
    let mut charge = pod(json!({ "cpu": "3", "memory": "1" }));
    let old = |usage: Value| {
        Some(Measure {
            usage: resource_list(Some(&usage)),
            scopes: Scopes::Pod(PodScopes::default()),
            ..Measure::default()
        })
    };
    let limits = quota(
        json!({ "cpu": "4", "memory": "1" }),
        json!({ "cpu": "2", "memory": "1" }),
    );
    charge.old = old(json!({ "cpu": "2", "memory": "2" }));
    assert_eq!(verdict(&charge, &limits), "cpu=3,memory=1");
    charge.old = old(json!({ "cpu": "4", "memory": "1" }));
    assert_eq!(verdict(&charge, &limits), "", "nothing is given back");
    charge.old = old(json!({ "cpu": "0", "memory": "1" }));
    assert!(verdict(&charge, &limits).contains("requested: cpu=3, used: cpu=2, limited: cpu=4"));
    charge.is_status = true;
    assert_eq!(verdict(&charge, &limits), "cpu=5,memory=1");
}

#[test]
fn scopes_say_which_pods_count() {
    let refuses = |spec: Value, scopes: PodScopes| {
        let mut charge = pod(json!({ "pods": "1" }));
        charge.new.scopes = Scopes::Pod(scopes);
        !verdict(&charge, &scoped(spec)).is_empty()
    };
    let terminating = || PodScopes {
        terminating: true,
        ..PodScopes::default()
    };
    assert!(refuses(json!({ "scopes": ["Terminating"] }), terminating()));
    assert!(!refuses(json!({ "scopes": ["Terminating"] }), PodScopes::default()));
    assert!(!refuses(
        json!({ "scopes": ["Terminating", "BestEffort"] }),
        terminating()
    ));
    let by_class = |operator: &str, class: &str| {
        let expression = json!({ "scopeName": "PriorityClass", "operator": operator, "values": ["high"] });
        let scopes = PodScopes {
            priority_class: class.to_owned(),
            ..PodScopes::default()
        };
        refuses(json!({ "scopeSelector": { "matchExpressions": [expression] } }), scopes)
    };
    let classes = ["high", "low", ""];
    for (operator, expected) in [
        ("In", [true, false, false]),
        ("NotIn", [false, true, true]),
        ("Exists", [true, true, false]),
        ("DoesNotExist", [false, false, true]),
    ] {
        assert_eq!(classes.map(|class| by_class(operator, class)), expected, "{operator}");
    }
}
