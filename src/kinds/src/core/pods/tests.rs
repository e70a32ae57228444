//! Tests of pods through their strategy.

use serde_json::{Value, json};
use trireme_machinery::field::ErrorList;
use trireme_registry::{Deletion, Strategy};

use super::{Capabilities, Pods, columns, qos, update};

fn cells(pod: &Value) -> Vec<String> {
    let now = "2026-01-01T00:10:00Z".parse().unwrap();
    let shown = columns::columns()
        .into_iter()
        .filter(|column| column.kind == "string" && &*column.name != "Age");
    shown
        .map(|column| (column.cell)(pod, now).as_str().unwrap_or_default().to_owned())
        .collect()
}

#[test]
fn columns_sum_containers_up() {
    let spec = json!({"containers": [{"name": "a"}], "initContainers": [{"name": "i"}, {"name": "s", "restartPolicy": "Always"}]});
    let cases = [
        (json!({"phase": "Pending"}), json!({}), ["0/2", "Pending", "0"]),
        (
            json!({"phase": "Pending", "initContainerStatuses": [{"name": "i", "restartCount": 2, "state": {"terminated": {"exitCode": 5}}}]}),
            json!({}),
            ["0/2", "Init:ExitCode:5", "2"],
        ),
        (
            json!({"phase": "Pending", "initContainerStatuses": [{"name": "i", "state": {"waiting": {}}}]}),
            json!({}),
            ["0/2", "Init:0/2", "0"],
        ),
        (
            json!({
                "phase": "Running",
                "initContainerStatuses": [{"name": "s", "restartCount": 4, "started": true, "ready": true, "state": {"running": {}}}],
                "containerStatuses": [{"name": "a", "restartCount": 1, "ready": true, "state": {"running": {}}, "lastState": {"terminated": {"finishedAt": "2026-01-01T00:05:00Z"}}}],
            }),
            json!({}),
            ["2/2", "Running", "5 (5m ago)"],
        ),
        (
            json!({"phase": "Running", "containerStatuses": [{"name": "a", "restartCount": 7, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}),
            json!({}),
            ["0/2", "CrashLoopBackOff", "7"],
        ),
        (
            json!({"phase": "Failed", "reason": "Evicted"}),
            json!({}),
            ["0/2", "Evicted", "0"],
        ),
        (
            json!({"phase": "Running"}),
            json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}),
            ["0/2", "Terminating", "0"],
        ),
        (
            json!({"phase": "Running", "reason": "NodeLost"}),
            json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}),
            ["0/2", "Unknown", "0"],
        ),
    ];
    for (status, metadata, expected) in cases {
        let pod = json!({"metadata": metadata, "spec": spec, "status": status});
        assert_eq!(cells(&pod)[1..4], expected, "{status}");
    }
}

/// The status of a pod whose containers are in these states, of a phase and with these conditions.
fn status_of(states: &[Value], conditions: Value) -> String {
    let statuses: Vec<Value> = states
        .iter()
        .map(|state| json!({"name": "c", "ready": state.get("running").is_some(), "state": state}))
        .collect();
    let status = json!({"phase": "Running", "containerStatuses": statuses, "conditions": conditions});
    cells(&json!({"spec": {}, "status": status}))[2].clone()
}

/// `TestPrintPod`
#[test]
fn a_failed_container_is_not_hidden_behind_a_completed_one() {
    let ready = |status: &str| json!({"type": "Ready", "status": status});
    let ended = |reason: &str, code: i64| json!({"terminated": {"reason": reason, "exitCode": code}});
    let (completed, failed, running) = (ended("Completed", 0), ended("Error", 1), json!({"running": {}}));
    let silent = json!({"terminated": {"exitCode": 0}});
    let killed = json!({"terminated": {"exitCode": 137, "signal": 9}});
    let waiting = json!({"waiting": {"reason": "CrashLoopBackOff"}});
    let all = |states: &[&Value]| states.iter().map(|state| (*state).clone()).collect::<Vec<_>>();
    for (states, conditions, expected) in [
        (all(&[&completed, &failed]), json!([]), "Error"),
        (all(&[&failed, &completed]), json!([]), "Error"),
        (all(&[&completed, &killed, &failed]), json!([]), "Signal:9"),
        (all(&[&completed, &failed, &running]), json!([]), "Error"),
        (all(&[&completed, &failed, &running]), json!([ready("False")]), "Error"),
        (all(&[&completed, &failed, &running]), json!([ready("True")]), "Running"),
        (all(&[&completed, &running]), json!([]), "NotReady"),
        (
            all(&[&completed, &running]),
            json!([ready("False"), ready("True")]),
            "Running",
        ),
        (all(&[&completed, &waiting]), json!([]), "Completed"),
        (all(&[&completed]), json!([]), "Completed"),
        (all(&[&running, &failed, &silent]), json!([]), "Error"),
        (all(&[&silent, &failed]), json!([]), "ExitCode:0"),
    ] {
        assert_eq!(
            status_of(&states, conditions.clone()),
            expected,
            "{states:?} {conditions}"
        );
    }
    let gated = json!([{"type": "PodScheduled"}, {"type": "PodScheduled", "reason": "SchedulingGated"}]);
    assert_eq!(status_of(&[], gated), "SchedulingGated");
}

#[test]
fn classes_follow_resources() {
    let class = |resources: Value| {
        qos::class(
            Default::default(),
            &json!({"spec": {"containers": [{"resources": resources}]}}),
        )
    };
    let full = json!({"cpu": "1", "memory": "1Gi"});
    assert_eq!(class(json!({})), "BestEffort");
    assert_eq!(
        class(json!({"limits": {"ex.test/gpu": "2"}, "requests": {"ex.test/gpu": "2"}})),
        "BestEffort"
    );
    assert_eq!(class(json!({"limits": full, "requests": full})), "Guaranteed");
    assert_eq!(
        class(json!({"limits": {"cpu": "1"}, "requests": {"cpu": "1"}})),
        "Burstable"
    );
}

#[test]
fn deletion_waits_for_nodes_only() {
    let pod = |node: &str, phase: &str| json!({"spec": {"nodeName": node, "terminationGracePeriodSeconds": 30}, "status": {"phase": phase}});
    assert_eq!(
        Pods::new(Capabilities::default()).deletion(&pod("n", "Running"), None),
        Deletion::Graceful(30)
    );
    assert_eq!(
        Pods::new(Capabilities::default()).deletion(&pod("n", "Running"), Some(-1)),
        Deletion::Graceful(1)
    );
    assert_eq!(
        Pods::new(Capabilities::default()).deletion(&pod("", "Pending"), None),
        Deletion::Graceful(0)
    );
    assert_eq!(
        Pods::new(Capabilities::default()).deletion(&pod("n", "Succeeded"), Some(5)),
        Deletion::Graceful(0)
    );
}

fn changes(patch: Value) -> Vec<String> {
    let old = json!({
        "containers": [{
            "name": "main", "image": "repo.test/app:1", "imagePullPolicy": "IfNotPresent",
            "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
        }],
        "dnsPolicy": "ClusterFirst", "enableServiceLinks": true, "restartPolicy": "Always", "nodeName": "n1",
        "schedulerName": "default-scheduler", "securityContext": {}, "terminationGracePeriodSeconds": 30,
        "tolerations": [{"key": "a", "operator": "Exists"}],
    });
    let mut new = old.clone();
    new.as_object_mut().unwrap().extend(patch.as_object().unwrap().clone());
    let mut errors = ErrorList::new();
    update::validate_pod_update(
        Default::default(),
        &json!({"spec": new}),
        &json!({"spec": old}),
        &mut errors,
    );
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn little_may_change() {
    assert!(changes(json!({"activeDeadlineSeconds": 5})).is_empty());
    assert_eq!(
        changes(json!({"containers": []})),
        ["spec.containers: Forbidden: pod updates may not add or remove containers"]
    );
    assert_eq!(
        changes(json!({"tolerations": []})),
        ["spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds"]
    );
    let messages = changes(json!({"nodeName": "n2"}));
    let expected = "\n@@ -42,7 +42,7 @@\n  \"NodeSelector\": null,\n  \"ServiceAccountName\": \"\",\n  \
                    \"AutomountServiceAccountToken\": null,\n- \"NodeName\": \"n1\",\n+ \"NodeName\": \"n2\",\n  \
                    \"SecurityContext\": {\n   \"HostNetwork\": false,\n   \"HostPID\": false,\n";
    assert!(messages.len() == 1 && messages[0].ends_with(expected), "{messages:?}");
}

#[test]
fn addresses_in_unusual_forms_are_warned_of_where_they_are_written() {
    let pod = json!({ "status": { "podIPs": [{ "ip": "10.0.0.1" }, { "ip": "FD00::1" }], "hostIPs": [{ "ip": "FD00::2" }] } });
    let text = |at: &str, given: &str, usual: &str| {
        format!("status.{at}.ip: IPv6 address \"{given}\" should be in RFC 5952 canonical format (\"{usual}\")")
    };
    assert_eq!(
        Pods::new(Capabilities::default()).status_warnings(&pod),
        [
            text("podIPs[1]", "FD00::1", "fd00::1"),
            text("hostIPs[0]", "FD00::2", "fd00::2")
        ]
    );
}
