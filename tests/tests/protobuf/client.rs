//! A client that asks for protobuf.

use std::time::Duration;

use serde_json::{Value, json};
use trireme_machinery::{
    protobuf,
    schema::{self, TypeId, TypeTable},
};
use trireme_tests::{
    Server,
    http::{Answer, Body, Client, Request},
};

/// The time limit of what a busy server does in a moment.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
pub(crate) const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
pub(crate) const METADATA: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
pub(crate) const METADATA_LIST: &str =
    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
pub(crate) const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";
pub(crate) const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

/// The types of all kinds.
pub(crate) fn types() -> &'static TypeTable {
    trireme_schema::complete_type_table()
}

/// The type of a kind.
pub(crate) fn type_of(api_version: &str, kind: &str) -> TypeId {
    // Discovery of the core group names no version.
    let api_version = if api_version.is_empty() { "v1" } else { api_version };
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let machinery = || types().find(&format!("io.k8s.apimachinery.pkg.apis.meta.{version}.{kind}"));
    let own = types().find(&trireme_schema::type_name(group, version, kind));
    own.or_else(machinery)
        .unwrap_or_else(|| panic!("{api_version} {kind} has no type"))
}

/// An enveloped object as JSON would show it.
pub(crate) fn decoded(bytes: &[u8]) -> Value {
    let envelope = protobuf::envelope(bytes).expect("the answer is an envelope");
    let ty = type_of(&envelope.api_version, &envelope.kind);
    let mut value = protobuf::decode(types(), ty, envelope.raw).expect("the answer is a message");
    if !envelope.api_version.is_empty() {
        value["apiVersion"] = envelope.api_version.into();
    }
    value["kind"] = envelope.kind.into();
    schema::decode(types(), ty, value)
        .expect("the answer is of its type")
        .value
}

/// Encodes an object that came as JSON in protobuf.
pub(crate) fn encoded(object: &Value) -> Vec<u8> {
    let text = |name: &str| object[name].as_str().unwrap_or_default();
    let ty = type_of(text("apiVersion"), text("kind"));
    protobuf::encode_enveloped(types(), ty, object).expect("the object is of its type")
}

/// Sends a request that accepts one thing.
pub(crate) fn send(client: &Client, method: &str, path: &str, accept: &str, body: Option<&Value>) -> Answer {
    let request = Request {
        method,
        path,
        accept: Some(accept),
        body: body.map(|body| body.to_string().into_bytes()),
        content_type: body.map(|_| "application/json"),
        ..Request::default()
    };
    client.send(&request).expect("an answer")
}

/// The body as it came.
pub(crate) fn body(answer: &Answer) -> &[u8] {
    match &answer.body {
        Body::Whole(bytes) => bytes,
        Body::Lines(_) => panic!("lines were not asked for"),
    }
}

/// The body as JSON.
pub(crate) fn json_of(answer: &Answer) -> Value {
    serde_json::from_slice(body(answer)).unwrap_or_else(|_| panic!("no JSON: {}", answer.text()))
}

/// The media type of an answer.
pub(crate) fn media_type(answer: &Answer) -> &str {
    answer.header("content-type").next().unwrap_or_default()
}

/// A GET that must be answered in protobuf with the same object as in JSON, which it comes to.
pub(crate) fn same_in_both(client: &Client, path: &str) -> Value {
    same_as(client, path, PROTOBUF, "application/json")
}

/// The same of two media types.
pub(crate) fn same_as(client: &Client, path: &str, accept: &str, accept_json: &str) -> Value {
    let mut json = json_of(&send(client, "GET", path, accept_json, None));
    let answer = send(client, "GET", path, accept, None);
    assert_eq!((answer.code, media_type(&answer)), (200, PROTOBUF), "{path}");
    let shown = decoded(body(&answer));
    // The store goes on between two lists.
    for key in ["resourceVersion", "continue"] {
        if json["items"].is_array() && json["metadata"][key].is_string() {
            json["metadata"][key] = shown["metadata"][key].clone();
        }
    }
    assert_eq!(shown, tellable(json.clone()), "{path}");
    assert_eq!(body(&answer), encoded(&json), "{path}");
    json
}

/// The part of an object that protobuf can express: it has no lists that are empty but not absent, and no place for the type of items.
fn tellable(mut json: Value) -> Value {
    if json["items"].as_array().is_some_and(Vec::is_empty) {
        json["items"] = Value::Null;
    }
    for item in json
        .get_mut("items")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        forget_type(item);
        forget_claim_types(item);
    }
    forget_claim_types(&mut json);
    json
}

fn forget_claim_types(object: &mut Value) {
    let claims = object
        .pointer_mut("/spec/volumeClaimTemplates")
        .and_then(Value::as_array_mut);
    claims.into_iter().flatten().for_each(forget_type);
}

fn forget_type(object: &mut Value) {
    let fields = object.as_object_mut().expect("it is an object");
    fields.retain(|key, _| !["kind", "apiVersion"].contains(&key.as_str()));
}

/// Creates an object.
pub(crate) fn create(client: &Client, path: &str, object: &Value) -> Value {
    let answer = client.json("POST", path, object).expect("an answer");
    assert_eq!(answer.code, 201, "{path}: {}", answer.text());
    json_of(&answer)
}

/// A config map with some of everything.
pub(crate) fn config_map(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "labels": {"test": "protobuf"}, "annotations": {"a/b": "", "c": "ä"}},
        "data": {"b": "2", "a": "1"},
        "binaryData": {"x": "AAEC"},
    })
}

/// Defines widgets, which are custom resources, and waits until they are served.
pub(crate) fn define_widgets(server: &Server) {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    });
    let client = server.client();
    create(
        &client,
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        &definition,
    );
    trireme_tests::group::until("widgets are served", Duration::from_secs(20), || {
        client.get(WIDGETS).is_ok_and(|answer| answer.code == 200)
    });
}
