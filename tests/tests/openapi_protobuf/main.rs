//! OpenAPI 3 as protobuf says what its JSON form says.

mod messages;

use serde_json::{Map, Value, json};
use trireme_tests::{
    Server, StoreChoice,
    http::{Answer, Body, Client, Request},
};

const ASKED: &str = "application/com.github.proto-openapi.spec.v3@v1.0+protobuf";
const ANSWERED: &str = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf";
const JSON: &str = "application/json";

/// The JSON form as its protobuf form can say it: numbers are doubles, defaults are scalars, absent is empty.
fn expected(name: &str, value: Value, in_schema: bool) -> Option<Value> {
    let is_number = ["maximum", "minimum", "multipleOf", "default"].contains(&name) && in_schema;
    Some(match value {
        Value::Number(number) if is_number => json!(number.as_f64()),
        Value::Object(_) | Value::Array(_) if name == "default" && in_schema => Value::Null,
        Value::Bool(false) if in_schema && !["default", "additionalProperties"].contains(&name) => return None,
        Value::Array(items) if items.is_empty() && in_schema => return None,
        other => other,
    })
}

/// Normalizes what is a message by `layout`, as far as names of properties and of fields differ.
fn normalized(value: Value, is_map_of_names: bool) -> Value {
    match value {
        Value::Object(fields) => fields
            .into_iter()
            .filter_map(|(name, value)| {
                let is_whole = !is_map_of_names && (name.starts_with("x-") || ["enum", "example"].contains(&&*name));
                if is_whole {
                    return Some((name, value));
                }
                let value = expected(&name, value, !is_map_of_names)?;
                let names_follow = !is_map_of_names
                    && [
                        "properties",
                        "schemas",
                        "paths",
                        "responses",
                        "content",
                        "securitySchemes",
                    ]
                    .contains(&&*name);
                let value = normalized(value, names_follow);
                Some((name, value))
            })
            .collect::<Map<_, _>>()
            .into(),
        Value::Array(items) => items.into_iter().map(|item| normalized(item, false)).collect(),
        scalar => scalar,
    }
}

fn get(client: &Client, path: &str, accept: &str) -> Answer {
    let request = Request {
        method: "GET",
        path,
        accept: Some(accept),
        ..Request::default()
    };
    client.send(&request).expect("the server answers")
}

fn header<'a>(answer: &'a Answer, name: &'a str) -> &'a str {
    answer
        .header(name)
        .next()
        .unwrap_or_else(|| panic!("there is no {name}"))
}

fn bytes(answer: &Answer) -> &[u8] {
    match &answer.body {
        Body::Whole(bytes) => bytes,
        Body::Lines(_) => panic!("it was not asked for lines"),
    }
}

/// Every keyword that a structural schema may have.
fn definition() -> Value {
    let schema = json!({
        "type": "object",
        "title": "A ship",
        "description": "It sails.",
        "externalDocs": { "url": "https://example.com", "description": "More" },
        "required": ["spec"],
        "properties": { "spec": {
            "type": "object",
            "minProperties": 1,
            "maxProperties": 20,
            "properties": {
                "oars": { "type": "integer", "format": "int32", "minimum": -1, "maximum": 170, "default": 0, "multipleOf": 2 },
                "name": { "type": "string", "minLength": 1, "maxLength": 9, "pattern": "^[a-z]+$", "default": "argo", "enum": ["argo", "x"] },
                "afloat": { "type": "boolean", "default": false, "nullable": true },
                "crew": { "type": "array", "minItems": 1, "maxItems": 200, "items": { "type": "string" }, "default": ["a"],
                          "x-kubernetes-list-type": "set" },
                "tags": { "type": "object", "additionalProperties": { "type": "string" }, "default": { "a": "b" } },
                "port": { "x-kubernetes-int-or-string": true, "anyOf": [{ "type": "integer" }, { "type": "string" }] },
                "depth": { "type": "number", "minimum": 0.25, "multipleOf": 0.5, "exclusiveMinimum": true, "example": { "m": 3 } },
                "free": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
            },
            "not": { "required": ["sunk"] },
            "x-kubernetes-validations": [{ "rule": "self.oars >= 0", "message": "oars" }],
        } },
    });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "ships.example.com" },
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": { "plural": "ships", "singular": "ship", "kind": "Ship", "listKind": "ShipList" },
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema } }],
        },
    })
}

fn paths(client: &Client) -> Vec<String> {
    let index: Value = serde_json::from_str(&get(client, "/openapi/v3", JSON).text()).expect("JSON");
    index["paths"].as_object().expect("paths").keys().cloned().collect()
}

#[test]
fn every_document_is_the_same_in_both_forms() {
    let mut server = Server::try_start(StoreChoice::Embedded, &["--runtime-config=api/all=true"])
        .unwrap_or_else(|error| panic!("{error}"));
    let client = server.client();
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let made = client.json("POST", definitions, &definition()).expect("an answer");
    assert_eq!(made.code, 201, "{}", made.text());
    let asking = server.client();
    let waited = server.process().wait_until(
        "the definition is documented",
        std::time::Duration::from_secs(30),
        || paths(&asking).iter().any(|path| path == "apis/example.com/v1"),
    );
    waited.unwrap_or_else(|error| panic!("{error}"));
    let mut compared = 0;
    for path in paths(&client) {
        let url = format!("/openapi/v3/{path}");
        let (plain, binary) = (get(&client, &url, JSON), get(&client, &url, ASKED));
        assert_eq!((plain.code, binary.code), (200, 200), "{path}");
        assert_eq!(header(&binary, "content-type"), ANSWERED);
        assert_eq!(header(&binary, "etag"), header(&plain, "etag"), "{path}");
        assert_eq!(header(&binary, "vary"), "Accept");
        let json: Value = serde_json::from_str(&plain.text()).expect("JSON");
        let read = normalized(messages::read_document(bytes(&binary)), false);
        let wanted = normalized(json, false);
        assert!(
            read == wanted,
            "{path}: {}",
            first_difference(&wanted, &read, String::new())
        );
        compared += 1;
    }
    assert!(compared > 50, "{compared} documents");
}

fn first_difference(wanted: &Value, read: &Value, at: String) -> String {
    if let (Value::Object(one), Value::Object(other)) = (wanted, read) {
        let names = one.keys().chain(other.keys());
        for name in names {
            let (one, other) = (one.get(name), other.get(name));
            if one != other {
                let null = Value::Null;
                return first_difference(one.unwrap_or(&null), other.unwrap_or(&null), format!("{at}/{name}"));
            }
        }
    }
    format!("{at}: {wanted} is {read}")
}

#[test]
fn the_form_is_negotiated_and_known_by_its_hash() {
    let server = Server::start(StoreChoice::Embedded);
    let client = server.client();
    let url = "/openapi/v3/apis/apps/v1";
    for (accept, answered) in [
        (ASKED, ANSWERED),
        (ANSWERED, ANSWERED),
        (
            "application/json, application/com.github.proto-openapi.spec.v3@v1.0+protobuf",
            JSON,
        ),
        (
            "application/com.github.proto-openapi.spec.v3@v1.0+protobuf, application/json",
            ANSWERED,
        ),
        ("*/*", JSON),
    ] {
        let answer = get(&client, url, accept);
        assert_eq!(
            (answer.code, header(&answer, "content-type")),
            (200, answered),
            "{accept}"
        );
    }
    assert_eq!(get(&client, url, "text/html").code, 406);
    let hash = header(&get(&client, url, ASKED), "etag").trim_matches('"').to_owned();
    let answer = get(&client, &format!("{url}?hash={hash}"), ASKED);
    assert_eq!(header(&answer, "cache-control"), "public, immutable");
    assert_eq!(get(&client, &format!("{url}?hash=other"), ASKED).code, 301);
}
