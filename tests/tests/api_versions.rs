//! The versions and features that flags switch, and the pages that show them.

use std::time::Duration;

use serde_json::{Value, json};
use trireme_tests::group::until;
use trireme_tests::http::{Answer, Client, Request};
use trireme_tests::{Server, StoreChoice};

const PATIENCE: Duration = Duration::from_secs(60);

fn get(client: &Client, path: &str) -> Answer {
    client.get(path).expect("the server answers")
}

fn read(client: &Client, path: &str) -> Value {
    serde_json::from_str(&get(client, path).text()).expect("the answer is JSON")
}

fn accepting(client: &Client, path: &str, accept: &str) -> Answer {
    let request = Request {
        method: "GET",
        path,
        accept: Some(accept),
        ..Request::default()
    };
    client.send(&request).expect("the server answers")
}

#[test]
fn flags_choose_what_is_served_and_pages_tell_of_it() {
    let flags = [
        "--runtime-config=networking.k8s.io/v1beta1=true,batch/v1=false",
        "--feature-gates=ComponentStatusz=false,EventedPLEG=true,NoSuchGate=true",
    ];
    let server = Server::try_start(StoreChoice::Embedded, &flags).unwrap_or_else(|error| panic!("{error}"));
    let client = server.client();

    let group = read(&client, "/apis/networking.k8s.io");
    let versions: Vec<&Value> = group["versions"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|version| &version["version"])
        .collect();
    assert_eq!(versions, ["v1", "v1beta1"]);
    let beta = get(&client, "/apis/networking.k8s.io/v1beta1/ipaddresses");
    assert_eq!(beta.code, 200);
    assert!(
        beta.header("warning")
            .any(|warning| warning.contains("is deprecated in v1.34+"))
    );
    let metrics = get(&client, "/metrics").text();
    let counted = metrics
        .lines()
        .find(|line| line.starts_with("apiserver_requested_deprecated_apis{"));
    assert!(
        counted.is_some_and(|line| line.contains("removed_release=\"1.37\"")),
        "{counted:?}"
    );
    assert_eq!(get(&client, "/apis/batch/v1/jobs").code, 404);
    assert_eq!(get(&client, "/apis/resource.k8s.io/v1beta1/deviceclasses").code, 404);

    let page = get(&client, "/flagz").text();
    assert!(page.starts_with("\napiserver flagz\nWarning: "), "{page}");
    assert!(
        page.contains("\nruntime-config=networking.k8s.io/v1beta1=true,"),
        "{page}"
    );
    let object = accepting(&client, "/flagz", "application/json;as=Flagz;v=v1beta1;g=config.k8s.io");
    let object: Value = serde_json::from_str(&object.text()).expect("the page is JSON");
    assert_eq!(
        (&object["kind"], &object["metadata"]["name"]),
        (&json!("Flagz"), &json!("apiserver"))
    );
    assert_eq!(accepting(&client, "/flagz", "application/json").code, 406);
    assert_eq!(get(&client.anonymous(), "/flagz").code, 403);
    assert_eq!(get(&client, "/statusz").code, 404);

    let log = server.log();
    assert!(log.contains("EventedPLEG") && log.contains("NoSuchGate"), "{log}");
}

#[test]
fn a_server_tells_its_state_and_its_commit() {
    let server = Server::try_start(StoreChoice::Embedded, &["--version=v1.36.2-custom"]);
    let server = server.unwrap_or_else(|error| panic!("{error}"));
    let client = server.client();
    let page = get(&client, "/statusz").text();
    assert!(
        page.contains("\nBinary version: 1.36.2\n") && page.contains("\nUp: 0 hr "),
        "{page}"
    );
    let version = read(&client, "/version");
    let commit = version["gitCommit"].as_str().unwrap_or_default();
    assert!(
        commit.len() == 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit()),
        "{version}"
    );
    assert_eq!(version["gitVersion"], "v1.36.2-custom");
}

#[test]
fn a_locked_feature_cannot_be_switched() {
    let flags = [
        "--feature-gates=NodeLogQuery=false",
        "--runtime-config=nope.example.com/v1=true",
    ];
    let error = Server::try_start(StoreChoice::Embedded, &flags)
        .err()
        .unwrap_or_default();
    assert!(
        error.contains("cannot set feature gate NodeLogQuery to false, feature is locked to true"),
        "{error}"
    );
    assert!(error.contains("unknown api groups nope.example.com/v1"), "{error}");
}

#[test]
fn clients_of_openapi_2_are_shown_no_fields_where_any_may_be() {
    let server = Server::start(StoreChoice::Embedded);
    let client = server.client();
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "frees.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "frees", "kind": "Free"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    });
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let made = client
        .json("POST", definitions, &definition)
        .expect("the server answers");
    assert_eq!(made.code, 201, "{}", made.text());
    let shown = || read(&client, "/openapi/v2")["definitions"]["com.example.v1.Free"].clone();
    until("the kind is described", PATIENCE, || !shown().is_null());
    let kind = json!([{"group": "example.com", "kind": "Free", "version": "v1"}]);
    assert_eq!(
        shown(),
        json!({"type": "object", "x-kubernetes-group-version-kind": kind})
    );
}
