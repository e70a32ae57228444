//! Resources that users define, most on three replicas over one etcd.

use std::{
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use trireme_tests::group::{Group, until};
use trireme_tests::http::Client;
use trireme_tests::server::CONTROLLERS;
use trireme_tests::{Server, StoreChoice};

/// Debug builds on a machine that compiles beside them take their time.
const PATIENCE: Duration = Duration::from_secs(60);
/// A definition sent to one replica is in effect on all within this time. A second is promised, for a machine that does nothing else.
const FOLLOWED_WITHIN: Duration = Duration::from_secs(5);
/// The number of times that a name changes hands: the bug was seen in one of thirty.
const ROUNDS: usize = 60;
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

fn version(name: &str, is_stored: bool, properties: &Value) -> Value {
    let spec = json!({"type": "object", "default": {}, "properties": properties});
    json!({
        "name": name, "served": true, "storage": is_stored,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
    })
}

fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [version("v1", true, &json!({"size": {"type": "integer", "default": 3}}))],
        },
    })
}

fn code(client: &Client, path: &str) -> u16 {
    client.get(path).map_or(0, |answer| answer.code)
}

fn read(client: &Client, path: &str) -> Value {
    let answer = client.get(path).expect("the replica answers");
    serde_json::from_str(&answer.text()).unwrap_or_default()
}

fn send(client: &Client, method: &str, path: &str, body: &Value) -> Value {
    let answer = client.json(method, path, body).expect("the replica answers");
    let text = answer.text();
    assert!(answer.code < 300, "{method} {path}: {text}");
    serde_json::from_str(&text).expect("the answer is JSON")
}

fn is_established(definition: &Value) -> bool {
    let conditions = definition["status"]["conditions"].as_array();
    conditions
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Established" && condition["status"] == "True")
}

/// Asks without a pause, so that no state between two others is missed.
fn ask_until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "not in time: {what}");
    }
}

/// A definition of widgets in a group of this number, the path of the definition and that of its group version.
fn numbered_definition(number: usize) -> (Value, String, String) {
    let group = format!("group{number}.example.com");
    let mut one = definition();
    one["metadata"]["name"] = format!("widgets.{group}").into();
    one["spec"]["group"] = group.as_str().into();
    (
        one,
        format!("{DEFINITIONS}/widgets.{group}"),
        format!("/apis/{group}/v1"),
    )
}

#[test]
fn what_is_defined_on_one_replica_is_served_changed_and_removed_on_all() {
    let group = Group::start(3, &[]).unwrap_or_else(|error| panic!("{error}"));
    let clients: Vec<Client> = group.replicas.iter().map(|replica| replica.server.client()).collect();

    send(&clients[0], "POST", DEFINITIONS, &definition());
    until("the definition is established", PATIENCE, || {
        is_established(&read(&clients[0], DEFINITION))
    });
    for client in &clients {
        assert_eq!(
            code(client, WIDGETS),
            200,
            "it is served everywhere before it is said to be established"
        );
    }

    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}});
    let made = send(&clients[1], "POST", WIDGETS, &widget);
    assert_eq!(made["spec"]["size"], 3, "{made}");
    let found = read(&clients[2], &format!("{WIDGETS}/a"));
    assert_eq!(found["metadata"]["uid"], made["metadata"]["uid"]);

    let mut changed = read(&clients[2], DEFINITION);
    let properties = json!({"size": {"type": "integer", "default": 3}, "colour": {"type": "string", "default": "red"}});
    changed["spec"]["versions"] = json!([version("v1", true, &properties), version("v2", false, &properties)]);
    send(&clients[2], "PUT", DEFINITION, &changed);
    let newer = "/apis/example.com/v2/namespaces/default/widgets/a";
    let has_changed = |client: &Client| read(client, newer)["spec"]["colour"] == "red";
    until("all replicas follow a change", FOLLOWED_WITHIN, || {
        clients.iter().all(has_changed)
    });
    for client in &clients {
        let discovery = read(client, "/apis/example.com");
        assert_eq!(discovery["preferredVersion"]["version"], "v2", "{discovery}");
        let documents = read(client, "/openapi/v3")["paths"].clone();
        assert!(documents.get("apis/example.com/v2").is_some());
    }

    send(&clients[1], "DELETE", DEFINITION, &json!({}));
    let is_gone = |client: &Client| code(client, WIDGETS) == 404 && code(client, DEFINITION) == 404;
    until("the definition and its objects are gone", PATIENCE, || {
        clients.iter().all(is_gone)
    });
    assert!(!read(&clients[0], "/apis").to_string().contains("example.com"));

    // The objects went with it.
    send(&clients[0], "POST", DEFINITIONS, &definition());
    until("the definition is established again", PATIENCE, || {
        is_established(&read(&clients[0], DEFINITION))
    });
    let list = read(&clients[2], WIDGETS);
    assert_eq!(list["items"], json!([]), "{list}");
}

#[test]
fn requests_out_of_scope_get_404() {
    let server = trireme_tests::Server::start(trireme_tests::StoreChoice::Embedded);
    let client = server.client();
    send(&client, "POST", DEFINITIONS, &definition());
    let mut of_cluster = definition();
    of_cluster["metadata"]["name"] = "hulls.example.com".into();
    of_cluster["spec"]["scope"] = "Cluster".into();
    of_cluster["spec"]["names"] = json!({"plural": "hulls", "kind": "Hull"});
    send(&client, "POST", DEFINITIONS, &of_cluster);
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}});
    for path in ["/apis/example.com/v1/widgets", "/apis/example.com/v1/hulls"] {
        until("the resource is served", PATIENCE, || code(&client, path) == 200);
    }
    for (method, path) in [
        ("POST", "widgets"),
        ("DELETE", "widgets"),
        ("GET", "widgets/a"),
        ("POST", "namespaces/default/hulls"),
        ("GET", "namespaces/default/hulls"),
        ("DELETE", "namespaces/default/hulls/a"),
    ] {
        let answer = client.json(method, &format!("/apis/example.com/v1/{path}"), &widget);
        let answer = answer.expect("the server answers");
        assert_eq!(
            (answer.code, answer.text().as_str()),
            (404, "404 page not found\n"),
            "{method} {path}"
        );
    }
}

/// Objects of a version that is not the stored one cannot be shown without the webhook; to delete them, it is not needed.
#[test]
fn objects_are_deleted_while_their_conversion_webhook_does_not_answer() {
    let server = trireme_tests::Server::try_start(trireme_tests::StoreChoice::Embedded, &[CONTROLLERS]);
    let server = server.unwrap_or_else(|error| panic!("{error}"));
    let client = server.client();
    let mut converted = definition();
    let properties = json!({"size": {"type": "integer"}});
    converted["spec"]["versions"] = json!([version("v2", false, &properties), version("v1", true, &properties)]);
    converted["spec"]["conversion"] = json!({
        "strategy": "Webhook",
        "webhook": {
            "clientConfig": {"url": "https://127.0.0.1:1/convert"},
            "conversionReviewVersions": ["v1"],
        },
    });
    send(&client, "POST", DEFINITIONS, &converted);
    let list = "/apis/example.com/v1/widgets";
    until("the resource is served", PATIENCE, || code(&client, list) == 200);
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "short-lived"}});
    send(&client, "POST", "/api/v1/namespaces", &namespace);
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}});
    for namespace in ["default", "short-lived"] {
        send(
            &client,
            "POST",
            &list.replace("widgets", &format!("namespaces/{namespace}/widgets")),
            &widget,
        );
    }
    assert_eq!(
        code(&client, &WIDGETS.replace("v1", "v2")),
        500,
        "the webhook is needed to read"
    );

    send(&client, "DELETE", "/api/v1/namespaces/short-lived", &json!({}));
    until("the namespace is gone with its objects", PATIENCE, || {
        code(&client, "/api/v1/namespaces/short-lived") == 404
    });
    let left = read(&client, list)["items"].as_array().map(Vec::len);
    assert_eq!(left, Some(1), "the objects of other namespaces are left alone");

    send(&client, "DELETE", DEFINITION, &json!({}));
    until("the definition is gone with its objects", PATIENCE, || {
        code(&client, DEFINITION) == 404
    });
}

/// A hundred definitions one after the other: each is established, and what is not concerned goes on being answered.
#[test]
fn many_definitions_do_not_hold_each_other_up() {
    let server = trireme_tests::Server::start(trireme_tests::StoreChoice::Embedded);
    let client = server.client();
    let count = std::env::var("DEFINITIONS")
        .ok()
        .and_then(|count| count.parse().ok())
        .unwrap_or(100);
    let resident = || {
        let metrics = client.get("/metrics").expect("the server answers").text();
        let line = metrics
            .lines()
            .find(|line| line.starts_with("process_resident_memory_bytes"));
        line.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
            .unwrap_or_default()
    };
    let before = resident();
    let begun = std::time::Instant::now();
    for number in 0..count {
        let mut one = definition();
        let plural = format!("widgets{number}");
        one["metadata"]["name"] = format!("{plural}.example.com").into();
        one["spec"]["names"] = json!({"plural": plural, "kind": format!("Widget{number}")});
        send(&client, "POST", DEFINITIONS, &one);
    }
    let served = || {
        let list = read(&client, DEFINITIONS);
        list["items"]
            .as_array()
            .is_some_and(|all| all.len() == count && all.iter().all(is_established))
    };
    while !served() {
        assert!(begun.elapsed() < PATIENCE * 4, "not all are established");
        thread::sleep(Duration::from_millis(100));
    }
    let took = begun.elapsed();
    println!(
        "{count} definitions in {took:?}, {} KiB each",
        (resident() - before) / 1024.0 / count as f64
    );
    assert_eq!(
        code(&client, &format!("/apis/example.com/v1/widgets{}", count - 1)),
        200
    );
}

#[test]
fn a_name_that_becomes_free_goes_to_who_waits_for_it() {
    let server = trireme_tests::Server::start(trireme_tests::StoreChoice::Embedded);
    let client = server.client();
    let named = |plural: &str| {
        let mut definition = definition();
        definition["metadata"]["name"] = format!("{plural}.example.com").into();
        definition["spec"]["names"] = json!({"plural": plural, "kind": "Boat"});
        definition
    };
    let path = |plural: &str| format!("{DEFINITIONS}/{plural}.example.com");
    let has_conflict = |plural: &str| {
        let conditions = read(&client, &path(plural))["status"]["conditions"].clone();
        let conditions = conditions.as_array().cloned().unwrap_or_default();
        conditions
            .iter()
            .any(|condition| condition["reason"] == "ListKindConflict")
    };
    let (mut holder, mut waiting) = ("boats", "ships");
    send(&client, "POST", DEFINITIONS, &named(holder));
    for round in 0..ROUNDS {
        until("the holder is established", PATIENCE, || {
            is_established(&read(&client, &path(holder)))
        });
        send(&client, "POST", DEFINITIONS, &named(waiting));
        until("the other waits for the name", PATIENCE, || has_conflict(waiting));
        send(&client, "DELETE", &path(holder), &json!({}));
        until(&format!("the name is taken over, round {round}"), PATIENCE, || {
            is_established(&read(&client, &path(waiting)))
        });
        (holder, waiting) = (waiting, holder);
    }
}

/// A client that waits for discovery alone finds all written of the definition, so that its update is no conflict.
#[test]
fn a_definition_is_discovered_once_it_is_established() {
    let server = Server::start(StoreChoice::Embedded);
    let client = server.client();
    for number in 0..20 {
        let (one, path, discovery) = numbered_definition(number);
        send(&client, "POST", DEFINITIONS, &one);
        ask_until("it is discovered", || code(&client, &discovery) == 200);
        let mut discovered = read(&client, &path);
        assert!(is_established(&discovered), "{discovered}");
        discovered["metadata"]["labels"] = json!({"discovered": "true"});
        send(&client, "PUT", &path, &discovered);
    }
}

#[test]
fn an_established_definition_is_discovered_at_once() {
    let server = Server::start(StoreChoice::Embedded);
    let client = server.client();
    for number in 0..20 {
        let (one, path, discovery) = numbered_definition(number);
        send(&client, "POST", DEFINITIONS, &one);
        ask_until("it is established", || is_established(&read(&client, &path)));
        assert_eq!(code(&client, &discovery), 200);
        assert_eq!(code(&client, &format!("{discovery}/widgets")), 200);
    }
}
