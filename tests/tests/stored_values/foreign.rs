//! Objects that kube-apiserver has stored are served: in its protobuf envelope, as JSON in Go's layout, and in versions that are
//! served no longer.

use std::fs;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use trireme_tests::{Server, StoreChoice, folder, http::Request};

use super::support::{object_of, put_past, read_past, until};

/// Resources that kube-apiserver keeps elsewhere than under their plural.
const PREFIXES: [(&str, &str); 7] = [
    ("nodes", "minions"),
    ("endpoints", "services/endpoints"),
    ("services", "services/specs"),
    ("replicationcontrollers", "controllers"),
    ("ingresses", "ingress"),
    (
        "customresourcedefinitions",
        "apiextensions.k8s.io/customresourcedefinitions",
    ),
    ("apiservices", "apiregistration.k8s.io/apiservices"),
];

/// An object that kube-apiserver answered in both forms.
pub(super) struct Recorded {
    pub(super) path: String,
    pub(super) key: String,
    json: Value,
    pub(super) protobuf: Vec<u8>,
}

/// The objects of a file that are stored as they are answered.
pub(super) fn recorded(file: &str) -> Vec<Recorded> {
    let text = fs::read_to_string(folder().join("reference/protobuf").join(file)).expect("the file is there");
    let pairs = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("a pair is JSON"));
    pairs.filter_map(|pair| stored(&pair)).collect()
}

fn stored(pair: &Value) -> Option<Recorded> {
    let (path, json) = (pair["path"].as_str()?, pair["json"].clone());
    let protobuf = pair["protobuf"].as_str().filter(|_| pair.get("do").is_none())?;
    let kind = json["kind"].as_str()?;
    let group_version = json["apiVersion"].as_str()?;
    if kind.ends_with("List")
        || ["Scale", "Status", "PartialObjectMetadata"].contains(&kind)
        || group_version == "events.k8s.io/v1"
    {
        return None;
    }
    let (_, below) = path.split_once(&format!("/{group_version}/"))?;
    let parts: Vec<&str> = below.split('/').collect();
    let (plural, rest) = match parts.as_slice() {
        ["namespaces", namespace, plural, name] => (*plural, format!("{namespace}/{name}")),
        [plural, name] => (*plural, (*name).to_owned()),
        _ => return None,
    };
    let prefix = PREFIXES
        .iter()
        .find(|(of, _)| *of == plural)
        .map_or(plural, |(_, prefix)| prefix);
    Some(Recorded {
        path: path.to_owned(),
        key: format!("/registry/{prefix}/{rest}"),
        json,
        protobuf: STANDARD.decode(protobuf).expect("base64"),
    })
}

/// An object without the fields that its server sets.
fn comparable(mut object: Value) -> Value {
    object["metadata"]
        .as_object_mut()
        .expect("metadata")
        .remove("resourceVersion");
    // The server says of these what it finds out itself.
    if ["CustomResourceDefinition", "APIService"]
        .iter()
        .any(|kind| object["kind"] == *kind)
    {
        object.as_object_mut().expect("an object").remove("status");
    }
    object
}

/// The object in the layout in which Go writes structs.
fn in_layout_of_go(object: &Value) -> Vec<u8> {
    let mut rest = object.clone();
    let fields = rest.as_object_mut().expect("an object");
    let (kind, api_version) = (fields.remove("kind"), fields.remove("apiVersion"));
    let rest = rest.to_string();
    let head = json!({ "kind": kind }).to_string().replace('}', "");
    format!("{head},\"apiVersion\":{},{}\n", json!(api_version), &rest[1..]).into_bytes()
}

/// Waits until all objects are served, and compares each with the recorded one.
pub(super) fn assert_served(server: &mut Server, objects: &[Recorded], form: &str) {
    let last = objects.last().expect("there are some");
    until(server, "the last one", |client| {
        client.get(&last.path).is_ok_and(|answer| answer.code == 200)
    });
    let client = server.client();
    for object in objects {
        let answer = client.get(&object.path).expect("an answer");
        assert_eq!(answer.code, 200, "{} from {form}: {}", object.path, answer.text());
        let served = comparable(object_of(&answer));
        assert_eq!(served, comparable(object.json.clone()), "{} from {form}", object.path);
    }
}

fn check(store: StoreChoice) {
    let objects = recorded("pairs.jsonl");
    assert!(objects.len() > 110, "{} objects", objects.len());
    let mut server = Server::start(store);
    let values = |form: fn(&Recorded) -> Vec<u8>| -> Vec<(String, Vec<u8>)> {
        objects
            .iter()
            .map(|object| (object.key.clone(), form(object)))
            .collect()
    };
    put_past(&mut server, &values(|object| object.protobuf.clone()));
    assert_served(&mut server, &objects, "protobuf");
    server.restart().unwrap_or_else(|error| panic!("{error}"));
    assert_served(&mut server, &objects, "protobuf, loaded");
    put_past(&mut server, &values(|object| in_layout_of_go(&object.json)));
    assert_served(&mut server, &objects, "JSON");
    let listed = object_of(
        &server
            .client()
            .get("/debug/unreadable-objects?format=json")
            .expect("an answer"),
    );
    assert_eq!(listed["unreadableObjects"], json!([]));
}

#[test]
fn what_kube_apiserver_has_stored_is_served_over_the_embedded_store() {
    check(StoreChoice::Embedded);
}

#[test]
fn what_kube_apiserver_has_stored_is_served_over_etcd() {
    check(StoreChoice::Etcd);
}

/// kube-apiserver stores these kinds in a beta version while version 1 is served.
#[test]
fn beta_versions_of_served_kinds_are_read_and_written_anew() {
    let mut server = Server::start(StoreChoice::Etcd);
    let beta = recorded("pairs-beta-alpha.jsonl").into_iter().filter(|object| {
        let path = object.path.as_str();
        [
            "/admissionregistration.k8s.io/v1beta1/",
            "/networking.k8s.io/v1beta1/",
            "/resource.k8s.io/v1beta2/",
            "/storage.k8s.io/v1beta1/",
        ]
        .iter()
        .any(|of| path.contains(of) && !path.contains("devicetaintrules"))
    });
    let objects: Vec<Recorded> = beta
        .map(|mut object| {
            for version in ["v1beta1", "v1beta2"] {
                object.path = object.path.replace(&format!("/{version}/"), "/v1/");
                let api_version = object.json["apiVersion"].as_str().expect("text").replace(version, "v1");
                object.json["apiVersion"] = api_version.into();
            }
            object
        })
        .collect();
    assert!(objects.len() >= 8, "{} objects", objects.len());
    let values: Vec<(String, Vec<u8>)> = objects
        .iter()
        .map(|object| (object.key.clone(), object.protobuf.clone()))
        .collect();
    put_past(&mut server, &values);
    assert_served(&mut server, &objects, "protobuf");
    let client = server.client();
    let first = objects.iter().find(|object| !object.path.contains("/namespaces/"));
    let first = first.expect("there is one without a namespace");
    let patch = json!({ "metadata": { "labels": { "changed": "yes" } } });
    let answer = client.send(&Request {
        method: "PATCH",
        path: &first.path,
        content_type: Some("application/merge-patch+json"),
        body: Some(patch.to_string().into_bytes()),
        ..Request::default()
    });
    let answer = answer.expect("an answer");
    assert_eq!(answer.code, 200, "{}", answer.text());
    assert_eq!(object_of(&answer)["metadata"]["labels"]["changed"], "yes");
}

/// kube-apiserver 1.36 stores mutating policies in version 1beta1, for the release before it.
#[test]
fn mutating_policies_are_stored_in_version_1beta1() {
    let server = Server::start(StoreChoice::Etcd);
    let client = server.client();
    let group = "/apis/admissionregistration.k8s.io/v1";
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicy", "metadata": {"name": "a"},
        "spec": {
            "reinvocationPolicy": "Never",
            "matchConstraints": {"resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]},
            ]},
            "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{}"}}],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicyBinding", "metadata": {"name": "a"},
        "spec": {"policyName": "a"},
    });
    for (plural, object) in [
        ("mutatingadmissionpolicies", policy),
        ("mutatingadmissionpolicybindings", binding),
    ] {
        let made = client
            .json("POST", &format!("{group}/{plural}"), &object)
            .expect("an answer");
        assert_eq!(made.code, 201, "{}", made.text());
        let stored = read_past(&server, &format!("/registry/{plural}/a"));
        let stored: Value = serde_json::from_slice(&stored).expect("JSON");
        assert_eq!(stored["apiVersion"], "admissionregistration.k8s.io/v1beta1");
        let shown = object_of(&client.get(&format!("{group}/{plural}/a")).expect("an answer"));
        assert_eq!(shown["apiVersion"], "admissionregistration.k8s.io/v1");
        assert_eq!(shown["spec"], object_of(&made)["spec"]);
        assert_eq!(
            shown["metadata"]["managedFields"][0]["apiVersion"],
            "admissionregistration.k8s.io/v1"
        );
    }
    let discovery = object_of(&client.get(group).expect("an answer"));
    let resources = discovery["resources"].as_array().into_iter().flatten();
    let hashes = resources.filter(|resource| resource["name"] == "mutatingadmissionpolicies");
    let hashes: Vec<&Value> = hashes.map(|resource| &resource["storageVersionHash"]).collect();
    assert_eq!(hashes, ["LYmCf+UMVdg="]);
}

/// kube-apiserver stores definitions in version 1beta1, and custom resources with a line break at the end.
#[test]
fn definitions_in_version_1beta1_are_served_with_their_objects() {
    let mut server = Server::start(StoreChoice::Etcd);
    let definition = json!({
        "kind": "CustomResourceDefinition",
        "apiVersion": "apiextensions.k8s.io/v1beta1",
        "metadata": { "name": "ships.example.com", "uid": "6f7b6f9c-0f5c-4a8b-b0cf-5f0d3a1f0a11", "generation": 1,
            "creationTimestamp": "2026-01-01T00:00:00Z" },
        "spec": {
            "group": "example.com",
            "version": "v1",
            "names": { "plural": "ships", "singular": "ship", "kind": "Ship", "listKind": "ShipList" },
            "scope": "Namespaced",
            "validation": { "openAPIV3Schema": { "type": "object", "properties": { "oars": { "type": "integer" } } } },
            "versions": [{ "name": "v1", "served": true, "storage": true }, { "name": "v2", "served": true, "storage": false }],
            "additionalPrinterColumns": [{ "name": "Oars", "type": "integer", "JSONPath": ".oars" }],
            "conversion": { "strategy": "None" },
            "preserveUnknownFields": false,
        },
        "status": {
            "conditions": [
                { "type": "NamesAccepted", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z",
                    "reason": "NoConflicts", "message": "no conflicts found" },
                { "type": "Established", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z",
                    "reason": "InitialNamesAccepted", "message": "the initial names have been accepted" },
            ],
            "acceptedNames": { "plural": "ships", "singular": "ship", "kind": "Ship", "listKind": "ShipList" },
            "storedVersions": ["v1"],
        },
    });
    let ship = json!({ "apiVersion": "example.com/v1", "kind": "Ship", "metadata": { "name": "olympias", "namespace": "default",
        "uid": "6f7b6f9c-0f5c-4a8b-b0cf-5f0d3a1f0a12" }, "oars": 170 });
    put_past(
        &mut server,
        &[
            (
                "/registry/apiextensions.k8s.io/customresourcedefinitions/ships.example.com".to_owned(),
                format!("{definition}\n").into_bytes(),
            ),
            (
                "/registry/example.com/ships/default/olympias".to_owned(),
                format!("{ship}\n").into_bytes(),
            ),
        ],
    );
    let path = "/apis/example.com/v1/namespaces/default/ships";
    until(&mut server, "served", |client| {
        client
            .get(&format!("{path}/olympias"))
            .is_ok_and(|answer| answer.code == 200)
    });
    let client = server.client();
    let answer = client.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/ships.example.com");
    let served = object_of(&answer.expect("an answer"));
    assert_eq!(
        served["spec"]["versions"][1]["schema"]["openAPIV3Schema"]["properties"]["oars"]["type"],
        "integer"
    );
    assert_eq!(
        served["spec"]["versions"][0]["additionalPrinterColumns"][0]["jsonPath"],
        ".oars"
    );
    assert!(served["spec"].get("validation").is_none(), "{served}");
    assert_eq!(
        object_of(&client.get(&format!("{path}/olympias")).expect("an answer"))["oars"],
        170
    );
    // A busy server may end so short a watch before it has sent anything.
    until(&mut server, "watched", |client| {
        let answer = client.get(&format!("{path}?watch=1&timeoutSeconds=1&resourceVersion=0"));
        let watched = answer.expect("an answer").text();
        let is_json = watched.lines().all(|line| serde_json::from_str::<Value>(line).is_ok());
        assert!(is_json, "{watched}");
        watched.contains("olympias")
    });
}

/// Version 1beta1 pruned nothing unless the definition said so, and had no need of a schema.
#[test]
fn definitions_from_before_pruning_keep_unknown_fields() {
    let mut server = Server::start(StoreChoice::Etcd);
    let names = json!({ "plural": "boats", "singular": "boat", "kind": "Boat", "listKind": "BoatList" });
    let definition = json!({
        "kind": "CustomResourceDefinition",
        "apiVersion": "apiextensions.k8s.io/v1beta1",
        "metadata": { "name": "boats.example.com", "uid": "6f7b6f9c-0f5c-4a8b-b0cf-5f0d3a1f0a13", "generation": 1,
            "creationTimestamp": "2026-01-01T00:00:00Z" },
        "spec": {
            "group": "example.com", "version": "v1", "names": names, "scope": "Cluster",
            "versions": [{ "name": "v1", "served": true, "storage": true }],
            "conversion": { "strategy": "None" },
        },
        "status": { "conditions": [], "acceptedNames": names, "storedVersions": ["v1"] },
    });
    let key = "/registry/apiextensions.k8s.io/customresourcedefinitions/boats.example.com".to_owned();
    put_past(&mut server, &[(key, definition.to_string().into_bytes())]);
    let path = "/apis/example.com/v1/boats";
    until(&mut server, "served", |client| {
        client.get(path).is_ok_and(|answer| answer.code == 200)
    });
    let client = server.client();
    let boat = json!({
        "apiVersion": "example.com/v1", "kind": "Boat", "metadata": { "name": "argo" },
        "oars": 50, "crew": [{ "name": "Jason", "gone": null }],
    });
    let made = client.json("POST", path, &boat).expect("an answer");
    assert_eq!((made.code, made.header("warning").count()), (201, 0));
    for shown in [
        object_of(&made),
        object_of(&client.get(&format!("{path}/argo")).expect("an answer")),
    ] {
        assert_eq!((&shown["oars"], &shown["crew"]), (&boat["oars"], &boat["crew"]));
    }
}

/// A definition and an APIService with their groups and plurals.
fn kinds_without_protobuf() -> [(&'static str, &'static str, Value); 2] {
    let schema = json!({ "openAPIV3Schema": { "type": "object" } });
    let definition = json!({
        "metadata": { "name": "rafts.example.com" },
        "spec": {
            "group": "example.com", "scope": "Cluster", "names": { "plural": "rafts", "kind": "Raft" },
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": schema }],
        },
    });
    let service = json!({
        "metadata": { "name": "v1.remote.example.com" },
        "spec": {
            "group": "remote.example.com", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 15,
            "insecureSkipTLSVerify": true, "service": { "namespace": "default", "name": "none" },
        },
    });
    [
        ("apiextensions.k8s.io", "customresourcedefinitions", definition),
        ("apiregistration.k8s.io", "apiservices", service),
    ]
}

#[test]
fn what_is_stored_in_protobuf_is_read_by_a_server_that_stores_json_and_the_other_way_round() {
    let flag = ["--storage-media-type=application/vnd.kubernetes.protobuf"];
    let server = Server::try_start(StoreChoice::Etcd, &flag).unwrap_or_else(|error| panic!("{error}"));
    let begins = |key: &str, with: &[u8]| {
        let value = read_past(&server, key);
        assert!(value.starts_with(with), "{key}: {}", String::from_utf8_lossy(&value));
    };
    // Before the other server is there, which would write their status as JSON in any case.
    for (group, plural, object) in kinds_without_protobuf() {
        let collection = format!("/apis/{group}/v1/{plural}");
        let answer = server.client().json("POST", &collection, &object).expect("an answer");
        assert_eq!(answer.code, 201, "{}", answer.text());
        let name = object["metadata"]["name"].as_str().expect("a name");
        begins(&format!("/registry/{group}/{plural}/{name}"), b"{");
    }
    let other = server.start_beside(&[]).unwrap_or_else(|error| panic!("{error}"));
    let configmaps = "/api/v1/namespaces/default/configmaps";
    let mut made = Vec::new();
    for (maker, name) in [(&server, "message"), (&other, "text")] {
        let object = json!({ "metadata": { "name": name }, "data": { "oars": "170" } });
        let answer = maker.client().json("POST", configmaps, &object).expect("an answer");
        assert_eq!(answer.code, 201, "{}", answer.text());
        made.push((name, object_of(&answer)));
    }
    let service = json!({ "metadata": { "name": "s" }, "spec": { "type": "NodePort", "ports": [{ "port": 80 }] } });
    let answer = server
        .client()
        .json("POST", "/api/v1/namespaces/default/services", &service);
    assert_eq!(answer.expect("an answer").code, 201);
    for (name, object) in &made {
        for reader in [&server, &other] {
            let answer = reader.client().get(&format!("{configmaps}/{name}")).expect("an answer");
            assert_eq!(object_of(&answer), *object);
        }
    }
    begins("/registry/configmaps/default/message", b"k8s\0");
    begins("/registry/services/specs/default/s", b"k8s\0");
    begins("/registry/configmaps/default/text", b"{");
}

#[test]
fn a_pod_with_a_selinux_change_policy_that_is_no_longer_allowed_can_be_changed() {
    let mut server = Server::start(StoreChoice::Embedded);
    let pod = |name: &str| {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": name, "namespace": "default", "uid": "0b2a4c4e-0d6c-4a5d-9d3f-2f0d6a1c9e11",
                "creationTimestamp": "2026-01-01T00:00:00Z",
            },
            "spec": {
                "containers": [{
                    "name": "c", "image": "i", "imagePullPolicy": "Always", "resources": {},
                    "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
                }],
                "dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "schedulerName": "default-scheduler",
                "securityContext": {"seLinuxChangePolicy": "MountOption"}, "terminationGracePeriodSeconds": 30,
                "enableServiceLinks": true,
            },
            "status": {"phase": "Pending", "qosClass": "BestEffort"},
        })
    };
    let key = "/registry/pods/default/mounts".to_owned();
    put_past(&mut server, &[(key, pod("mounts").to_string().into_bytes())]);
    let path = "/api/v1/namespaces/default/pods";
    until(&mut server, "the pod", |client| {
        client
            .get(&format!("{path}/mounts"))
            .is_ok_and(|answer| answer.code == 200)
    });
    let client = server.client();
    let label = Request {
        method: "PATCH",
        path: &format!("{path}/mounts"),
        body: Some(json!({"metadata": {"labels": {"a": "b"}}}).to_string().into_bytes()),
        content_type: Some("application/merge-patch+json"),
        ..Request::default()
    };
    let answer = client.send(&label).expect("an answer");
    assert_eq!(answer.code, 200, "{}", answer.text());
    let template = json!({"metadata": {"name": "fresh"}, "template": {"spec": pod("fresh")["spec"]}});
    let templates = "/api/v1/namespaces/default/podtemplates";
    let fresh = client.json("POST", templates, &template).expect("an answer");
    let refusal =
        "spec.securityContext.seLinuxChangePolicy: Unsupported value: \"MountOption\": supported values: \"Recursive\"";
    assert_eq!(fresh.code, 422, "{}", fresh.text());
    let status = object_of(&fresh);
    let message = status["message"].as_str().expect("a message");
    assert!(message.ends_with(refusal), "{message}");
}
