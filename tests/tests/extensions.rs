//! Custom resources and policies as a client sees them, where no recorded scenario looks.

use std::{collections::BTreeSet, thread, time::Duration};

use serde_json::{Value, json};
use trireme_tests::group::until;
use trireme_tests::http::{Answer, Client, Request};
use trireme_tests::receiver::Receiver;
use trireme_tests::{Server, StoreChoice};

const PATIENCE: Duration = Duration::from_secs(60);
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com";
const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn widgets(version: &str) -> String {
    format!("/apis/example.com/{version}/namespaces/default/widgets")
}

fn send(client: &Client, method: &str, path: &str, body: &Value) -> (Answer, Value) {
    let answer = client.json(method, path, body).expect("an answer");
    let value = serde_json::from_str(&answer.text()).unwrap_or_default();
    (answer, value)
}

fn sent(client: &Client, method: &str, path: &str, body: &Value) -> Value {
    let (answer, value) = send(client, method, path, body);
    assert!(answer.code < 300, "{method} {path}: {value}");
    value
}

fn read(client: &Client, path: &str) -> Value {
    let answer = client.get(path).expect("an answer");
    serde_json::from_str(&answer.text()).unwrap_or_default()
}

fn code(client: &Client, path: &str) -> u16 {
    client.get(path).map_or(0, |answer| answer.code)
}

fn version(name: &str, spec: &Value) -> Value {
    let properties = json!({"spec": spec, "status": {"type": "object", "properties": {"seen": {"type": "integer"}}}});
    json!({
        "name": name, "served": true, "storage": name == "v1",
        "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
    })
}

fn define(client: &Client, versions: &[Value]) {
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": versions,
        },
    });
    sent(client, "POST", DEFINITIONS, &definition);
    until("widgets are discovered", PATIENCE, || {
        code(client, "/apis/example.com/v1") == 200
    });
}

fn widget(spec: &Value, more: &Value) -> Value {
    let mut widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": spec});
    for (name, value) in more.as_object().into_iter().flatten() {
        widget[name] = value.clone();
    }
    widget
}

#[test]
fn a_version_has_its_own_subresources_alone() {
    let server = Server::start(StoreChoice::Embedded);
    let client = server.client();
    let spec = json!({"type": "object", "properties": {"replicas": {"type": "integer"}}});
    let mut with = version("v1", &spec);
    with["subresources"] = json!({
        "status": {},
        "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.seen"},
    });
    define(&client, &[with, version("v2", &spec)]);
    sent(
        &client,
        "POST",
        &widgets("v1"),
        &widget(&json!({"replicas": 3}), &json!({})),
    );

    let names = |version: &str| {
        let list = read(&client, &format!("/apis/example.com/{version}"));
        let resources = list["resources"].as_array().cloned().unwrap_or_default();
        let names = resources
            .iter()
            .map(|resource| resource["name"].as_str().unwrap_or_default().to_owned());
        names.collect::<Vec<_>>()
    };
    assert_eq!(names("v1"), ["widgets", "widgets/status", "widgets/scale"]);
    assert_eq!(names("v2"), ["widgets"]);
    for (version, code_of_parts) in [("v1", 200), ("v2", 404)] {
        for part in ["status", "scale"] {
            assert_eq!(
                code(&client, &format!("{}/a/{part}", widgets(version))),
                code_of_parts,
                "{version} {part}"
            );
        }
    }
    // The status is written with the rest where it has no endpoint of its own, and owned by who did.
    let mut object = read(&client, &format!("{}/a", widgets("v2")));
    object["status"] = json!({"seen": 2});
    let written = sent(&client, "PUT", &format!("{}/a", widgets("v2")), &object);
    assert_eq!(written["status"]["seen"], 2);
    let managers = written["metadata"]["managedFields"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let of_v2 = managers.iter().find(|entry| entry["apiVersion"] == "example.com/v2");
    assert!(
        of_v2.is_some_and(|entry| entry["fieldsV1"]["f:status"].is_object()),
        "{managers:?}"
    );
    assert_eq!(
        read(&client, &format!("{}/a/scale", widgets("v1")))["status"]["replicas"],
        2
    );
}

#[test]
fn a_rule_that_was_broken_before_gives_a_warning() {
    let server = Server::start(StoreChoice::Embedded);
    let client = server.client();
    let spec = |rules: Value| {
        json!({"type": "object", "properties": {
            "count": {"type": "integer", "x-kubernetes-validations": rules},
            "other": {"type": "string"},
        }})
    };
    define(&client, &[version("v1", &spec(json!([])))]);
    sent(
        &client,
        "POST",
        &widgets("v1"),
        &widget(&json!({"count": 1}), &json!({})),
    );
    // The server writes the definition's status meanwhile.
    until("the definition is replaced", PATIENCE, || {
        let mut definition = read(&client, DEFINITION);
        definition["spec"]["versions"] = json!([version("v1", &spec(json!([{"rule": "self > 5"}])))]);
        send(&client, "PUT", DEFINITION, &definition).0.code == 200
    });
    let refused = || {
        let path = format!("{}?dryRun=All", widgets("v1"));
        let mut other = widget(&json!({"count": 1}), &json!({}));
        other["metadata"]["name"] = "b".into();
        send(&client, "POST", &path, &other).0.code == 422
    };
    until("the rule is in effect", PATIENCE, refused);

    let path = format!("{}/a", widgets("v1"));
    let mut object = read(&client, &path);
    object["spec"]["other"] = "x".into();
    let (answer, _) = send(&client, "PUT", &path, &object);
    let warnings: Vec<&str> = answer.header("warning").collect();
    assert_eq!(answer.code, 200);
    assert_eq!(
        warnings,
        [r#"299 - "spec.count: Invalid value: 1: failed rule: self > 5""#]
    );
    let mut object = read(&client, &path);
    object["spec"]["count"] = 2.into();
    let (answer, status) = send(&client, "PUT", &path, &object);
    assert_eq!(answer.code, 422, "{status}");
    assert_eq!(answer.header("warning").count(), 0);
}

#[test]
fn patches_of_policies_make_objects_of_the_kind_that_is_written() {
    let server = Server::start(StoreChoice::Embedded);
    let client = server.client();
    let policy = |name: &str, patch: &str| {
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicy", "metadata": {"name": name},
            "spec": {
                "reinvocationPolicy": "Never", "failurePolicy": "Fail",
                "matchConstraints": {"resourceRules": [{
                    "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"],
                    "resourceNames": [name],
                }]},
                "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": format!("[JSONPatch{{{patch}}}]")}}],
            },
        })
    };
    for (name, patch, text) in [
        (
            "unknown",
            r#"op: "add", path: "/bogus", value: "x""#,
            r#"strict decoding error: unknown field "bogus""#,
        ),
        (
            "secret",
            r#"op: "replace", path: "/kind", value: "Secret""#,
            "illegal base64 data at input byte 0",
        ),
        (
            "nothing",
            r#"op: "replace", path: "/kind", value: "Nothing""#,
            r#"no kind "Nothing" is registered for version "v1""#,
        ),
        (
            "account",
            r#"op: "replace", path: "/kind", value: "ServiceAccount"}, JSONPatch{op: "remove", path: "/data""#,
            "converting (v1.ServiceAccount) to (core.ConfigMap): unknown conversion",
        ),
    ] {
        sent(&client, "POST", POLICIES, &policy(name, patch));
        let binding = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicyBinding",
            "metadata": {"name": name}, "spec": {"policyName": name},
        });
        sent(&client, "POST", BINDINGS, &binding);
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": "v"}});
        let mut message = String::new();
        until("the policy is in effect", PATIENCE, || {
            let (answer, status) = send(&client, "POST", &format!("{CONFIG_MAPS}?dryRun=All"), &object);
            message = status["message"].as_str().unwrap_or_default().to_owned();
            answer.code == 500
        });
        assert!(message.contains(text), "{name}: {message}");
    }
}

/// A version whose `spec` has one text, by which objects can be selected.
fn selectable_version(name: &str, field: &str) -> Value {
    let mut version = version(
        name,
        &json!({"type": "object", "properties": {field: {"type": "string"}}}),
    );
    version["selectableFields"] = json!([{"jsonPath": format!(".spec.{field}")}]);
    version
}

/// Names of objects in a list.
fn listed(client: &Client, path: &str) -> Vec<String> {
    let answer = client.get(path).expect("an answer");
    assert_eq!(answer.code, 200, "{path}: {}", answer.text());
    let list: Value = serde_json::from_str(&answer.text()).expect("a list");
    list["items"].as_array().into_iter().flatten().map(name_of).collect()
}

/// Kinds of the first `count` events of a watch, and the names of their objects.
fn watched(client: &Client, path: &str, count: usize) -> Vec<String> {
    let watch = Request {
        method: "GET",
        path,
        lines: Some((count, PATIENCE)),
        ..Request::default()
    };
    let answer = client.send(&watch).expect("an answer");
    assert_eq!(answer.code, 200, "{path}: {}", answer.text());
    let text = answer.text();
    let shown = |line| {
        let event: Value = serde_json::from_str(line).expect("an event");
        let kind = event["type"].as_str().unwrap_or_default();
        format!("{kind} {}", name_of(&event["object"]))
    };
    text.lines().map(shown).collect()
}

fn name_of(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

/// A webhook that moves `spec.colour` of version 1 to `spec.hue` of version 2, and back.
fn start_converter() -> Receiver {
    let rules = json!({
        "v1": [{"move": "spec.hue", "to": "spec.colour"}],
        "v2": [
            {"move": "spec.colour", "to": "spec.hue"},
            {"set": "metadata.labels.made", "value": "by-webhook"},
        ],
    });
    let answer = json!({"result": {"status": "Success"}, "convertedObjects": "${converted}"});
    let script = json!({"path": "/convert", "convert": rules, "review": answer, "keep": true});
    Receiver::start(vec![script], "default", None).expect("a port")
}

/// Widgets that are stored in version 1 and converted by a webhook.
fn define_converted(client: &Client, receiver: &Receiver) {
    let url = format!("https://127.0.0.1:{}/convert", receiver.port());
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [selectable_version("v1", "colour"), selectable_version("v2", "hue")],
            "conversion": {"strategy": "Webhook", "webhook": {
                "clientConfig": {"url": url, "caBundle": receiver.ca_bundle()},
                "conversionReviewVersions": ["v1"],
            }},
        },
    });
    sent(client, "POST", DEFINITIONS, &definition);
    until("widgets are discovered", PATIENCE, || {
        code(client, "/apis/example.com/v2") == 200
    });
}

#[test]
fn selectors_are_held_against_the_version_that_a_webhook_makes() {
    let receiver = start_converter();
    let server = Server::start(StoreChoice::Embedded);
    let client = server.client();
    define_converted(&client, &receiver);
    let put = |name: &str, colour: &str| {
        let object = json!({
            "apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": {"colour": colour},
        });
        let made = sent(&client, "POST", &widgets("v1"), &object);
        made["metadata"]["resourceVersion"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    let (first, _, last) = (put("a", "red"), put("b", "blue"), put("c", "red"));
    let (old, new) = (widgets("v1"), widgets("v2"));
    for (query, expected) in [
        (format!("{new}?fieldSelector=spec.hue%3Dred"), ["a", "c"].as_slice()),
        (format!("{new}?fieldSelector=spec.hue!%3Dred"), &["b"]),
        (format!("{new}?fieldSelector=spec.hue%3Dred&limit=1"), &["a"]),
        (format!("{new}?labelSelector=made%3Dby-webhook"), &["a", "b", "c"]),
        (format!("{old}?fieldSelector=spec.colour%3Dred"), &["a", "c"]),
        (format!("{old}?labelSelector=made%3Dby-webhook"), &[]),
    ] {
        assert_eq!(listed(&client, &query), expected, "{query}");
    }
    let red = format!("{new}?fieldSelector=spec.hue%3Dred&watch=true");
    assert_eq!(
        watched(&client, &format!("{red}&resourceVersion={first}"), 1),
        ["ADDED c"]
    );
    assert_eq!(watched(&client, &red, 2), ["ADDED a", "ADDED c"]);

    let change = json!({"spec": {"hue": "red"}});
    let changed = Request {
        method: "PATCH",
        path: &format!("{new}/b"),
        content_type: Some("application/merge-patch+json"),
        body: Some(change.to_string().into_bytes()),
        ..Request::default()
    };
    assert_eq!(client.send(&changed).expect("an answer").code, 200);
    let deleted = client.json(
        "DELETE",
        &format!("{new}?fieldSelector=spec.hue%3Dred,metadata.name!%3Da"),
        &json!({}),
    );
    assert_eq!(deleted.expect("an answer").code, 200);
    assert_eq!(
        watched(&client, &format!("{red}&resourceVersion={last}"), 3)
            .into_iter()
            .collect::<BTreeSet<_>>(),
        BTreeSet::from(["ADDED b", "DELETED b", "DELETED c"].map(str::to_owned))
    );
    assert_eq!(listed(&client, &new), ["a"]);
    let unknown = client.get(&format!("{new}?fieldSelector=spec.colour%3Dred"));
    assert_eq!(unknown.expect("an answer").code, 400, "it is no field of this version");
}

#[test]
fn all_watchers_of_a_version_share_the_calls_of_the_webhook_that_converts_to_it() {
    const WATCHERS: usize = 20;
    const CHANGES: usize = 10;
    let receiver = start_converter();
    let server = Server::start(StoreChoice::Embedded);
    let client = server.client();
    define_converted(&client, &receiver);
    let watch = Request {
        method: "GET",
        path: &format!("{}?watch=true", widgets("v2")),
        lines: Some((CHANGES, PATIENCE)),
        ..Request::default()
    };
    let seen = || client.send(&watch).expect("an answer").text();
    let texts: Vec<String> = thread::scope(|scope| {
        let watchers: Vec<_> = (0..WATCHERS).map(|_| scope.spawn(seen)).collect();
        until("all watches have begun", PATIENCE, || open_watches(&client) == WATCHERS);
        for number in 0..CHANGES {
            let object = json!({
                "apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": format!("w{number}")},
                "spec": {"colour": number.to_string()},
            });
            sent(&client, "POST", &widgets("v1"), &object);
        }
        watchers
            .into_iter()
            .map(|watcher| watcher.join().expect("it saw all"))
            .collect()
    });
    let expected: Vec<Value> = (0..CHANGES)
        .map(|number| json!([format!("w{number}"), number.to_string()]))
        .collect();
    for text in texts {
        let events = text
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).expect("an event")["object"].take());
        let events: Vec<Value> = events
            .map(|object| json!([object["metadata"]["name"], object["spec"]["hue"]]))
            .collect();
        assert_eq!(events, expected, "in order, in the version that is watched");
    }
    let calls = receiver.received();
    let objects = calls
        .iter()
        .filter_map(|call| call["body"]["request"]["objects"].as_array());
    assert_eq!(
        objects.map(Vec::len).sum::<usize>(),
        CHANGES,
        "each change is converted once: {calls:?}"
    );
}

/// The number of watches of widgets that are open.
fn open_watches(client: &Client) -> usize {
    let metrics = client.get("/metrics").map(|answer| answer.text()).unwrap_or_default();
    let of_widgets =
        |line: &&str| line.starts_with("apiserver_longrunning_requests{") && line.contains("resource=\"widgets\"");
    let counts = metrics
        .lines()
        .filter(of_widgets)
        .filter_map(|line| line.rsplit(' ').next());
    counts.filter_map(|count| count.parse::<usize>().ok()).sum()
}

#[test]
fn defaults_within_metadata_of_a_wrong_type_are_refused() {
    let server = Server::start(StoreChoice::Embedded);
    let client = server.client();
    let template = json!({
        "type": "object",
        "x-kubernetes-embedded-resource": true,
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object", "properties": {
                "labels": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "default": {"a": 1}},
            }},
        },
    });
    let spec = json!({"type": "object", "properties": {"template": template}});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [version("v1", &spec)],
        },
    });
    let (answer, status) = send(&client, "POST", DEFINITIONS, &definition);
    assert_eq!(answer.code, 422, "{status}");
    let cause = &status["details"]["causes"][0];
    let at =
        "spec.validation.openAPIV3Schema.properties[spec].properties[template].properties[metadata].properties[labels]";
    assert_eq!(cause["field"], format!("{at}.default"));
    assert_eq!(
        cause["message"],
        "Invalid value: {\"a\":1}: must result in valid metadata: metadata: Invalid value: {\"labels\":{\"a\":1}}: json: \
         cannot unmarshal number into Go struct field ObjectMeta.labels of type string"
    );
}

#[test]
fn a_definition_goes_with_its_objects_whatever_the_delete_says_of_dependents() {
    let server = Server::start(StoreChoice::Embedded);
    let client = server.client();
    for policy in ["Orphan", "Foreground"] {
        define(&client, &[version("v1", &json!({"type": "object"}))]);
        sent(&client, "POST", &widgets("v1"), &widget(&json!({}), &json!({})));
        let path = format!("{DEFINITIONS}/widgets.example.com");
        let deleted = sent(&client, "DELETE", &path, &json!({"propagationPolicy": policy}));
        assert_eq!(
            deleted["metadata"]["finalizers"],
            json!(["customresourcecleanup.apiextensions.k8s.io"]),
            "{policy}"
        );
        until("the definition is gone", PATIENCE, || code(&client, &path) == 404);
    }
}
