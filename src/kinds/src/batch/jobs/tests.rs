//! Tests of the defaults and the validation of jobs.

use serde_json::{Value, json};
use trireme_machinery::{Feature, Features};

use super::kind;
use crate::{
    pod_template::Capabilities,
    testing::{Trial, merged, named},
};

fn trial() -> Trial {
    Trial::new("batch", "jobs", kind(Default::default()))
}

fn job(patch: &Value) -> Value {
    let template = json!({ "spec": { "restartPolicy": "Never", "containers": [{ "name": "c", "image": "img:1" }] } });
    named("a", merged(&json!({ "template": template }), patch))
}

#[test]
fn pods_of_a_job_are_its_own() {
    let stored = trial().create(job(&json!({}))).expect("the job is valid");
    let labels = json!({
        "batch.kubernetes.io/controller-uid": "u-1", "batch.kubernetes.io/job-name": "a",
        "controller-uid": "u-1", "job-name": "a",
    });
    assert_eq!(stored["spec"]["template"]["metadata"]["labels"], labels);
    assert_eq!(stored["metadata"]["labels"], labels);
    assert_eq!(
        stored["spec"]["selector"],
        json!({ "matchLabels": { "batch.kubernetes.io/controller-uid": "u-1" } })
    );
}

#[test]
fn defaults_depend_on_each_other() {
    let cases = [
        (
            json!({}),
            json!({ "completions": 1, "parallelism": 1, "backoffLimit": 6 }),
        ),
        (json!({ "parallelism": 3 }), json!({ "parallelism": 3 })),
        (
            json!({ "backoffLimitPerIndex": 1 }),
            json!({ "backoffLimit": 2_147_483_647 }),
        ),
        (
            json!({ "podFailurePolicy": { "rules": [] } }),
            json!({ "podReplacementPolicy": "Failed" }),
        ),
    ];
    for (given, expected) in cases {
        let spec = trial().decode(job(&given))["spec"].clone();
        assert_eq!(merged(&spec, &expected), spec, "{given}");
    }
    assert!(
        trial().decode(job(&json!({ "parallelism": 3 })))["spec"]
            .get("completions")
            .is_none()
    );
}

#[test]
fn errors_of_the_spec() {
    let rules = |rule: Value| json!({ "podFailurePolicy": { "rules": [rule] } });
    let succeed =
        |rule: Value| json!({ "completionMode": "Indexed", "completions": 3, "successPolicy": { "rules": [rule] } });
    let cases: [(Value, &[&str]); 9] = [
        (json!({}), &[]),
        (
            json!({ "parallelism": -1, "managedBy": "mine", "completionMode": "Odd", "maxFailedIndexes": 1 }),
            &[
                "spec.parallelism: Invalid value: -1: must be greater than or equal to 0",
                "spec.backoffLimitPerIndex: Required value: when maxFailedIndexes is specified",
                r#"spec.managedBy: Invalid value: "mine": must be a domain-prefixed path (such as "acme.io/foo")"#,
                r#"spec.completionMode: Unsupported value: "Odd": supported values: "NonIndexed", "Indexed""#,
            ],
        ),
        (
            json!({ "backoffLimitPerIndex": 1, "successPolicy": { "rules": [{ "succeededCount": 1 }] } }),
            &[
                "spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode",
                r#"spec.successPolicy: Invalid value: {"Rules":[{"SucceededIndexes":null,"SucceededCount":1}]}: requires indexed completion mode"#,
            ],
        ),
        (
            json!({ "template": { "spec": { "restartPolicy": null } } }),
            &[r#"spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never""#],
        ),
        (
            json!({ "selector": { "matchLabels": { "app": "x" } } }),
            &[
                r#"spec.selector: Invalid value: {"matchLabels":{"app":"x","batch.kubernetes.io/controller-uid":"u-1"}}: `selector` not auto-generated"#,
                r#"spec.template.metadata.labels: Invalid value: {"batch.kubernetes.io/controller-uid":"u-1","batch.kubernetes.io/job-name":"a","controller-uid":"u-1","job-name":"a"}: `selector` does not match template `labels`"#,
            ],
        ),
        (
            rules(
                json!({ "action": "", "onExitCodes": { "operator": "In", "values": [3, 0, 3], "containerName": "z" } }),
            ),
            &[
                r#"spec.podFailurePolicy.rules[0].action: Required value: valid values: ["Count" "FailIndex" "FailJob" "Ignore"]"#,
                r#"spec.podFailurePolicy.rules[0].onExitCodes.containerName: Invalid value: "z": must be one of the container or initContainer names in the pod template"#,
                "spec.podFailurePolicy.rules[0].onExitCodes.values[1]: Invalid value: 0: must not be 0 for the In operator",
                "spec.podFailurePolicy.rules[0].onExitCodes.values[2]: Duplicate value: 3",
                "spec.podFailurePolicy.rules[0].onExitCodes.values: Invalid value: [3,0,3]: must be ordered",
            ],
        ),
        (
            rules(json!({ "action": "FailIndex" })),
            &[
                r#"spec.podFailurePolicy.rules[0].action: Invalid value: "FailIndex": requires the backoffLimitPerIndex to be set"#,
                "spec.podFailurePolicy.rules[0]: Invalid value: specifying one of OnExitCodes and OnPodConditions is required",
            ],
        ),
        (
            succeed(json!({ "succeededIndexes": "2-9" })),
            &[
                r#"spec.successPolicy.rules[0].succeededIndexes: Invalid value: "2-9": error parsing succeededIndexes: too large index: "9""#,
            ],
        ),
        (
            succeed(json!({ "succeededIndexes": "0-1", "succeededCount": 3 })),
            &[
                "spec.successPolicy.rules[0].succeededCount: Invalid value: 3: must be less than or equal to 2 (the number of indexes in the specified succeededIndexes field)",
            ],
        ),
    ];
    trial().expect_errors(&cases.map(|(patch, errors)| (job(&patch), errors)));
}

#[test]
fn suspended_jobs_may_be_scheduled_anew() {
    let trial = trial();
    let old = trial
        .create(job(&json!({ "suspend": true })))
        .expect("the job is valid");
    let template = |spec: Value| json!({ "spec": { "template": { "spec": spec } } });
    let errors = |spec: Value| trial.patch(&old, &template(spec)).err().unwrap_or_default().len();
    assert_eq!(errors(json!({ "nodeSelector": { "a": "b" } })), 0);
    assert_eq!(errors(json!({ "affinity": { "nodeAffinity": {} } })), 0);
    assert_eq!(errors(json!({ "affinity": { "podAffinity": {} } })), 1);
    assert_eq!(errors(json!({ "hostNetwork": true })), 1);
}

#[test]
fn immutable_fields_are_reported_at_the_pods_or_at_the_template() {
    let trial = trial();
    let old = trial
        .create(job(&json!({ "suspend": true })))
        .expect("the job is valid");
    let mut busy = old.clone();
    busy["status"] = json!({ "active": 1 });
    let place = |old: &Value, pod: Value| {
        let patch = json!({ "spec": { "template": { "spec": pod } } });
        let errors = trial.patch(old, &patch).err().unwrap_or_default();
        let places = errors.iter().filter_map(|error| error.split(':').next());
        places.map(str::to_owned).collect::<Vec<_>>()
    };
    let selector = json!({ "nodeSelector": { "a": "b" } });
    assert_eq!(
        place(&old, json!({ "terminationGracePeriodSeconds": 5 })),
        ["spec.template.spec"]
    );
    assert_eq!(place(&old, selector.clone()), Vec::<String>::new());
    assert_eq!(place(&busy, selector), ["spec.template"]);
}

/// The places of the errors of a patch of a suspended job's template.
fn places_of_errors(without: &[Feature], status: Value, template: Value) -> Vec<String> {
    let features = Features::without(without);
    let capabilities = Capabilities {
        features,
        ..Capabilities::default()
    };
    let trial = Trial::new("batch", "jobs", kind(capabilities));
    let mut old = trial
        .create(job(&json!({ "suspend": true })))
        .expect("the job is valid");
    old["status"] = status;
    let patch = json!({ "spec": { "template": template } });
    let errors = trial.patch(&old, &patch).err().unwrap_or_default();
    let places = errors.iter().filter_map(|error| error.split(':').next());
    places.map(str::to_owned).collect()
}

#[test]
fn scheduling_of_jobs_that_were_stopped_changes_with_its_feature_only() {
    let without = &[Feature::MutableSchedulingDirectivesForSuspendedJobs];
    let never = json!({});
    let stopped = json!({
        "startTime": "2024-01-01T00:00:00Z",
        "conditions": [{ "type": "Suspended", "status": "True" }],
    });
    let patch = json!({ "spec": { "nodeSelector": { "a": "b" } } });
    let none = Vec::<String>::new();
    assert_eq!(places_of_errors(&[], stopped.clone(), patch.clone()), none);
    assert_eq!(
        places_of_errors(without, stopped, patch.clone()),
        ["spec.template.spec"]
    );
    assert_eq!(places_of_errors(without, never, patch.clone()), none);
    let ending = json!({ "active": 1 });
    assert_eq!(places_of_errors(&[], ending.clone(), patch.clone()), ["spec.template"]);
    assert_eq!(places_of_errors(without, ending, patch), none, "it has not started");
}

#[test]
fn resources_of_suspended_jobs_change_with_their_feature_only() {
    let container = json!({ "name": "c", "image": "img:1", "resources": { "requests": { "cpu": "1" } } });
    let resources = json!({ "spec": { "containers": [container] } });
    let without = &[Feature::MutablePodResourcesForSuspendedJobs];
    assert_eq!(
        places_of_errors(&[], json!({}), resources.clone()),
        Vec::<String>::new()
    );
    assert_eq!(places_of_errors(without, json!({}), resources), ["spec.template"]);
    let annotations = json!({ "metadata": { "annotations": { "a": "b" } } });
    assert_eq!(
        places_of_errors(without, json!({}), annotations.clone()),
        Vec::<String>::new()
    );
    let neither = &[
        Feature::MutablePodResourcesForSuspendedJobs,
        Feature::MutableSchedulingDirectivesForSuspendedJobs,
    ];
    let started = json!({ "startTime": "2024-01-01T00:00:00Z" });
    assert_eq!(places_of_errors(neither, started, annotations), ["spec.template"]);
}

#[test]
fn completions_of_indexed_jobs_change_with_the_parallelism() {
    let trial = trial();
    let old = trial.create(job(
        &json!({ "completionMode": "Indexed", "completions": 2, "parallelism": 2 }),
    ));
    let old = old.expect("the job is valid");
    trial.expect_patch_errors(
        &old,
        &[
            (json!({ "spec": { "completions": 3, "parallelism": 3 } }), &[]),
            (
                json!({ "spec": { "completions": 3 } }),
                &["spec.completions: Invalid value: 3: can only be modified in tandem with spec.parallelism"],
            ),
            (
                json!({ "spec": { "completionMode": "NonIndexed" } }),
                &[r#"spec.completionMode: Invalid value: "NonIndexed": field is immutable"#],
            ),
        ],
    );
}

#[test]
fn a_status_cannot_contradict_itself() {
    let trial = trial();
    let old = trial.create(job(&json!({}))).expect("the job is valid");
    let condition = |name: &str| json!({ "type": name, "status": "True" });
    trial.expect_status_errors(&old, &[
        (json!({ "active": 1, "ready": 2 }), &["status.ready: Invalid value: 2: cannot set more ready pods than active"]),
        (
            json!({ "conditions": [condition("Complete")] }),
            &[
                "status.completionTime: Required value: completionTime is required for Complete jobs",
                "status.conditions: Invalid value: cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
                "status.startTime: Required value: startTime is required for finished job",
            ],
        ),
        (
            json!({ "completedIndexes": "0" }),
            &[r#"status.completedIndexes: Invalid value: "0": cannot set non-empty completedIndexes when non-indexed completion mode"#],
        ),
    ]);
    let started = trial.status(&old, json!({ "failed": 2, "startTime": "2024-01-01T00:00:00Z" }));
    let started = started.expect("the status is consistent");
    trial.expect_status_errors(
        &started,
        &[(
            json!({ "failed": 1 }),
            &[
                "status.failed: Invalid value: 1: cannot decrease the failed counter",
                "status.startTime: Invalid value: null: field is immutable for unsuspended job once set",
            ],
        )],
    );
}

#[test]
fn a_resumed_job_starts_anew() {
    let trial = trial();
    let suspended = |value: &str| json!([{ "type": "Suspended", "status": value }]);
    let old = trial.create(job(&json!({}))).expect("the job is valid");
    let first = json!({ "startTime": "2024-01-01T00:00:00Z", "conditions": suspended("True") });
    let old = trial.status(&old, first).expect("the status is consistent");
    let again = "2024-01-02T00:00:00Z";
    trial.expect_status_errors(
        &old,
        &[
            (json!({ "startTime": again, "conditions": suspended("False") }), &[]),
            (
                json!({ "startTime": again, "conditions": suspended("True") }),
                &[r#"status.startTime: Invalid value: "2024-01-02T00:00:00Z": field is immutable for unsuspended job once set"#],
            ),
        ],
    );
}

#[test]
fn a_suspended_job_that_wants_nothing_ends_without_a_start() {
    let trial = trial();
    let ended = json!({
        "completionTime": "2024-01-01T00:00:00Z",
        "conditions": [{ "type": "SuccessCriteriaMet", "status": "True" }, { "type": "Complete", "status": "True" }],
    });
    let missing = "status.startTime: Required value: startTime is required for finished job";
    let cases: [(bool, &[&str]); 2] = [(true, &[]), (false, &[missing])];
    for (suspend, errors) in cases {
        let old = trial.create(job(&json!({ "completions": 0, "suspend": suspend })));
        trial.expect_status_errors(&old.expect("the job is valid"), &[(ended.clone(), errors)]);
    }
}

#[test]
fn an_end_comes_after_the_start_and_stays() {
    let trial = trial();
    let old = trial.create(job(&json!({}))).expect("the job is valid");
    let ended = |start: &str, end: &str| {
        json!({
            "startTime": start, "completionTime": end,
            "conditions": [{ "type": "SuccessCriteriaMet", "status": "True" }, { "type": "Complete", "status": "True" }],
        })
    };
    let [first, second] = ["2024-01-01T00:00:00Z", "2024-01-02T00:00:00Z"];
    trial.expect_status_errors(
        &old,
        &[(
            ended(second, first),
            &[r#"status.completionTime: Invalid value: "2024-01-01T00:00:00Z": must be equal to or after `startTime`"#],
        )],
    );
    let done = trial
        .status(&old, ended(first, first))
        .expect("the status is consistent");
    trial.expect_status_errors(
        &done,
        &[(
            ended(first, second),
            &[r#"status.completionTime: Invalid value: "2024-01-02T00:00:00Z": field is immutable"#],
        )],
    );
}

#[test]
fn jobs_too_large_to_be_tracked_are_warned_of() {
    let large = json!({ "completionMode": "Indexed", "completions": 100_001, "parallelism": 10_001 });
    for (patch, warned) in [(large, true), (json!({ "parallelism": 10_001 }), false)] {
        let warnings = trial().warnings(&trial().decode(job(&patch)), None);
        let is_warned = warnings
            .iter()
            .any(|text| text.starts_with("spec: In Indexed Jobs with "));
        assert_eq!(is_warned, warned, "{patch}: {warnings:?}");
    }
}

#[test]
fn values_that_no_label_can_have_may_stay_in_a_selector() {
    let wanted = json!({ "key": "app", "operator": "NotIn", "values": ["bad value"] });
    let with = |name: &str| {
        let mut template = crate::testing::template();
        template["spec"]["restartPolicy"] = "Never".into();
        named(
            name,
            json!({ "manualSelector": true, "selector": { "matchExpressions": [wanted] }, "template": template }),
        )
    };
    assert!(!trial().errors(with("j")).is_empty());
    let old = trial().decode(with("j"));
    assert_eq!(trial().update(&old, with("j")).err(), None);
}
