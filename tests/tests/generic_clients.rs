//! Tests of behaviour that generic clients rely on (informers, printers, drainers), where no recording shows it.

use std::time::Duration;

use serde_json::{Value, json};
use trireme_tests::http::{Answer, Body, Client, Request};
use trireme_tests::{Server, StoreChoice};

const PATIENCE: Duration = Duration::from_secs(20);
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const NAMESPACE: &str = "/api/v1/namespaces/default";

fn send(client: &Client, method: &str, path: &str, accept: &str, body: Option<&Value>) -> Answer {
    let request = Request {
        method,
        path,
        accept: Some(accept),
        body: body.map(|body| body.to_string().into_bytes()),
        content_type: body.map(|_| "application/json"),
        lines: path.contains("watch=1").then_some((1, PATIENCE)),
        headers: &[],
    };
    client.send(&request).expect("an answer")
}

fn make(client: &Client, collection: &str, object: &Value) {
    let made = client.json("POST", collection, object).expect("an answer");
    assert_eq!(made.code, 201, "{}", made.text());
}

fn pod(name: &str) -> Value {
    json!({ "metadata": { "name": name }, "spec": { "containers": [{ "name": "c", "image": "i" }] } })
}

/// The kind of the object in the first event.
fn first_kind(answer: &Answer) -> String {
    let Body::Lines(lines) = &answer.body else {
        panic!("no events: {}", answer.text())
    };
    let event: Value = serde_json::from_str(&lines[0]).expect("an event");
    event["object"]["kind"].as_str().unwrap_or_default().to_owned()
}

/// Watches that begin with the objects that there are show them as Tables, too.
fn a_watch_that_begins_with_a_list_has_tables(client: &Client) {
    let all = format!("{NAMESPACE}/configmaps?watch=1");
    let with_bookmarks = format!("{all}&allowWatchBookmarks=true");
    let streamed = format!("{with_bookmarks}&sendInitialEvents=true&resourceVersionMatch=NotOlderThan");
    for path in [&streamed, &with_bookmarks, &all] {
        for accept in [TABLE.to_owned(), format!("{TABLE},application/json")] {
            let shown = send(client, "GET", path, &accept, None);
            assert_eq!(
                (shown.code, first_kind(&shown).as_str()),
                (200, "Table"),
                "{path}: {accept}"
            );
        }
        let plain = send(client, "GET", path, "application/json", None);
        assert_eq!((plain.code, first_kind(&plain).as_str()), (200, "ConfigMap"), "{path}");
    }
}

/// test/e2e/apimachinery/table_conversion.go
fn what_has_no_columns_is_never_a_table(client: &Client) {
    make(client, &format!("{NAMESPACE}/pods"), &pod("shown"));
    for (path, body) in [
        (
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            json!({ "spec": { "nonResourceAttributes": { "path": "/", "verb": "get" } } }),
        ),
        ("/apis/authentication.k8s.io/v1/selfsubjectreviews", json!({})),
        (
            "/api/v1/namespaces/default/pods/shown/eviction",
            json!({ "metadata": { "name": "shown" } }),
        ),
    ] {
        let refused = send(client, "POST", path, TABLE, Some(&body));
        assert_eq!(refused.code, 406, "{path}: {}", refused.text());
    }
    let kept = client.get(&format!("{NAMESPACE}/pods/shown")).expect("an answer");
    assert_eq!(kept.code, 200, "a refused eviction evicts no pod");
}

/// test/integration/evictions/evictions_test.go
fn evictions_of_the_older_version_evict(client: &Client) {
    for version in ["policy/v1beta1", "policy/v1"] {
        make(client, &format!("{NAMESPACE}/pods"), &pod("leaves"));
        let eviction = json!({ "apiVersion": version, "kind": "Eviction", "metadata": { "name": "leaves" } });
        make(client, &format!("{NAMESPACE}/pods/leaves/eviction"), &eviction);
        let gone = client.get(&format!("{NAMESPACE}/pods/leaves")).expect("an answer");
        assert_eq!(gone.code, 404, "{version}");
    }
}

/// pkg/registry/core/pod/storage/eviction.go: the options of the deletion are held against the pod before it goes.
fn evictions_that_cannot_be_are_refused(client: &Client) {
    make(client, &format!("{NAMESPACE}/pods"), &pod("stays"));
    for (options, code) in [
        (json!({ "ignoreStoreReadErrorWithClusterBreakingPotential": true }), 422),
        (json!({ "preconditions": { "uid": "" } }), 409),
        (json!({ "preconditions": { "uid": "another" } }), 409),
        (
            json!({ "preconditions": { "resourceVersion": "" }, "dryRun": ["All"] }),
            409,
        ),
    ] {
        let eviction = json!({ "metadata": { "name": "stays" }, "deleteOptions": options });
        let refused = client.json("POST", &format!("{NAMESPACE}/pods/stays/eviction"), &eviction);
        let refused = refused.expect("an answer");
        assert_eq!(refused.code, code, "{options}: {}", refused.text());
        let kept = client.get(&format!("{NAMESPACE}/pods/stays")).expect("an answer");
        assert_eq!(kept.code, 200, "{options}");
    }
}

/// pkg/registry/core/pod/storage/eviction.go: also a pod that no budget protects says in its status why it goes.
fn evicted_pods_say_why_they_go(client: &Client) {
    let mut held = pod("held");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    make(client, &format!("{NAMESPACE}/pods"), &held);
    let eviction = json!({ "apiVersion": "policy/v1", "kind": "Eviction", "metadata": { "name": "held" } });
    make(client, &format!("{NAMESPACE}/pods/held/eviction"), &eviction);
    let held = client.get(&format!("{NAMESPACE}/pods/held")).expect("an answer");
    let held: Value = serde_json::from_str(&held.text()).expect("JSON");
    assert!(held["metadata"]["deletionTimestamp"].is_string(), "{held}");
    let conditions = held["status"]["conditions"].as_array().expect("conditions");
    let why = conditions
        .iter()
        .find(|condition| condition["type"] == "DisruptionTarget");
    let why = why.expect("the condition of an eviction");
    assert_eq!(
        (&why["status"], &why["reason"]),
        (&json!("True"), &json!("EvictionByEvictionAPI"))
    );
}

/// test/integration/apiserver/apidefinitions/default_behaviors_test.go
fn events_wait_for_no_dependents(client: &Client) {
    let newer = json!({
        "metadata": { "name": "e" }, "regarding": { "namespace": "default" }, "action": "a", "reason": "r",
        "type": "Normal", "eventTime": "2026-01-01T00:00:00.000000Z", "reportingController": "example.com/c",
        "reportingInstance": "i",
    });
    let events = "/apis/events.k8s.io/v1/namespaces/default/events";
    for policy in ["Foreground", "Orphan", "Background"] {
        make(client, events, &newer);
        let options = json!({ "propagationPolicy": policy });
        let deleted = client
            .json("DELETE", &format!("{events}/e"), &options)
            .expect("an answer");
        let status: Value = serde_json::from_str(&deleted.text()).expect("JSON");
        assert_eq!((deleted.code, &status["kind"]), (200, &json!("Status")), "{policy}");
        let gone = client.get(&format!("{events}/e")).expect("an answer");
        assert_eq!(gone.code, 404, "{policy}");
    }
}

fn check(store: StoreChoice) {
    let server = Server::start(store);
    let client = server.client();
    make(
        &client,
        &format!("{NAMESPACE}/configmaps"),
        &json!({ "metadata": { "name": "listed" } }),
    );
    a_watch_that_begins_with_a_list_has_tables(&client);
    what_has_no_columns_is_never_a_table(&client);
    evictions_that_cannot_be_are_refused(&client);
    evictions_of_the_older_version_evict(&client);
    evicted_pods_say_why_they_go(&client);
    events_wait_for_no_dependents(&client);
}

#[test]
fn clients_that_know_no_kinds_are_served_over_the_embedded_store() {
    check(StoreChoice::Embedded);
}

#[test]
fn clients_that_know_no_kinds_are_served_over_etcd() {
    check(StoreChoice::Etcd);
}
