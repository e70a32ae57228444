//! Custom resources and policies as a client sees them, where no recorded scenario looks.

use std::time::Duration;

use serde_json::{Value, json};
use trireme_tests::group::until;
use trireme_tests::http::{Answer, Client};
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
    until("widgets are served", PATIENCE, || code(client, &widgets("v1")) == 200);
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
