//! OpenAPI and discovery documents have the structure of those of kube-apiserver, as recorded in `tests/reference/openapi` without
//! descriptions: for what is served by default, and for all versions.

use std::{fs, path::PathBuf};

use serde_json::{Map, Value, json};
use trireme_tests::{
    Server, StoreChoice,
    http::{Client, Request},
    recorded::compare,
};

const DISCOVERY: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const SHARED_PARAMETERS: &str = "#/parameters/";
/// A dash and a hash follow the name of a shared parameter.
const HASH_LENGTH: usize = 9;

/// Documents of versions that have kinds behind feature gates only.
const GATED: [&str; 5] = [
    "apis/certificates.k8s.io/v1alpha1",
    "apis/certificates.k8s.io/v1beta1",
    "apis/scheduling.k8s.io/v1alpha2",
    "apis/storagemigration.k8s.io",
    "apis/storagemigration.k8s.io/v1beta1",
];
const GATES: &str = "--feature-gates=ClusterTrustBundle=true,ClusterTrustBundleProjection=true,DRADeviceTaintRules=true,\
    DRAResourcePoolStatus=true,GenericWorkload=true,GangScheduling=true,PodCertificateRequest=true,\
    StorageVersionMigrator=true";
const ALL_VERSIONS: &str = "--runtime-config=api/all=true";

fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("reference/openapi")
        .join(name)
}

fn recorded(name: &str) -> Value {
    let text = fs::read_to_string(folder(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The recorded OpenAPI 3 documents of a folder, by their path below `/openapi/v3/`.
fn recorded_v3(name: &str) -> Vec<(String, Value)> {
    let files = fs::read_dir(folder(name)).expect("the folder exists");
    let names = files.map(|file| file.expect("it can be read").file_name().into_string().expect("ASCII"));
    names
        .map(|file| {
            let path = file.trim_end_matches(".json").replace("dot-", ".").replace('_', "/");
            (path, recorded(&format!("{name}/{file}")))
        })
        .collect()
}

fn get(client: &Client, path: &str, accept: &str) -> Option<Value> {
    let request = Request {
        method: "GET",
        path,
        accept: Some(accept),
        ..Request::default()
    };
    let answer = client.send(&request).expect("the server answers");
    (answer.code == 200).then(|| serde_json::from_str(&answer.text()).expect("the answer is JSON"))
}

/// A document without descriptions, and with the names of shared parameters without the hashes of their descriptions.
fn structure(mut document: Value) -> Value {
    if let Some(Value::Object(shared)) = document.get_mut("parameters") {
        document["parameters"] = shared_parameters(std::mem::take(shared));
    }
    without_descriptions(document)
}

fn without_descriptions(part: Value) -> Value {
    match part {
        Value::Object(fields) => fields
            .into_iter()
            .filter(|(name, field)| name != "description" || !field.is_string())
            .map(|(name, field)| {
                let field = match field {
                    Value::String(reference) if name == "$ref" => reference_of(&reference),
                    field => without_descriptions(field),
                };
                (name, field)
            })
            .collect::<Map<_, _>>()
            .into(),
        Value::Array(items) => items.into_iter().map(without_descriptions).collect(),
        scalar => scalar,
    }
}

fn reference_of(reference: &str) -> Value {
    let is_shared = reference.starts_with(SHARED_PARAMETERS);
    let hash_length = if is_shared { HASH_LENGTH } else { 0 };
    reference[..reference.len() - hash_length].into()
}

/// The parameters of a whole document, several of which may have a name.
fn shared_parameters(shared: Map<String, Value>) -> Value {
    let mut shared: Vec<Value> = shared
        .into_iter()
        .map(|(name, parameter)| json!([name[..name.len() - HASH_LENGTH], without_descriptions(parameter)]))
        .collect();
    shared.sort_by_cached_key(Value::to_string);
    shared.into()
}

/// Fails with the first differences of documents, if there are any.
fn check(documents: impl IntoIterator<Item = (String, Value, Option<Value>)>) {
    let mut differences = Vec::new();
    for (name, want, got) in documents {
        match got {
            Some(got) => compare(&structure(want), &structure(got), &name, &mut differences),
            None => differences.push(format!("{name} is not served")),
        }
    }
    let count = differences.len();
    differences.truncate(20);
    assert!(
        differences.is_empty(),
        "{count} differences\n{}",
        differences.join("\n")
    );
}

fn check_v3(client: &Client, documents: Vec<(String, Value)>) {
    check(documents.into_iter().map(|(path, want)| {
        let got = get(client, &format!("/openapi/v3/{path}"), "application/json");
        (path, want, got)
    }));
}

/// Operations, and what they are said to do.
const DESCRIPTIONS: [(&str, &str, &str); 6] = [
    ("/api/v1/pods", "get", "list or watch objects of kind Pod"),
    (
        "/api/v1/componentstatuses",
        "get",
        "list objects of kind ComponentStatus",
    ),
    ("/api/v1/namespaces/{namespace}/endpoints", "post", "create Endpoints"),
    (
        "/apis/networking.k8s.io/v1/ingressclasses",
        "post",
        "create an IngressClass",
    ),
    (
        "/api/v1/watch/pods",
        "get",
        "watch individual changes to a list of Pod. deprecated: use the 'watch' parameter with a list operation instead.",
    ),
    (
        "/api/v1/watch/namespaces/{name}",
        "get",
        "watch changes to an object of kind Namespace. deprecated: use the 'watch' parameter with a list operation instead, \
         filtered to a single item with the 'fieldSelector' parameter.",
    ),
];

fn check_descriptions(client: &Client) {
    let document = get(client, "/openapi/v2", "application/json").expect("it is there");
    for (path, method, expected) in DESCRIPTIONS {
        assert_eq!(
            document["paths"][path][method]["description"], expected,
            "{method} {path}"
        );
    }
}

#[test]
fn what_is_served_by_default_is_documented_as_by_kube_apiserver() {
    let server = Server::start(StoreChoice::Embedded);
    let client = server.client();
    check_v3(&client, recorded_v3("v3"));
    check_descriptions(&client);
    let whole = [
        ("/openapi/v2", "v2.json", "application/json"),
        ("/api", "discovery-api.json", DISCOVERY),
        ("/apis", "discovery-apis.json", DISCOVERY),
        ("/apis", "apis-legacy.json", "application/json"),
    ];
    check(whole.map(|(path, file, accept)| (file.to_owned(), recorded(file), get(&client, path, accept))));
    let index = get(&client, "/openapi/v3", "application/json").expect("there is an index");
    let paths = |index: &Value| -> Vec<String> {
        let paths = index["paths"].as_object().into_iter().flatten();
        paths.map(|(path, _)| path.clone()).collect()
    };
    assert_eq!(paths(&index), paths(&recorded("v3-index.json")));
}

/// A version of a group in discovery.
fn discovered(client: &Client, name: &str) -> Option<Value> {
    let discovery = get(client, "/apis", DISCOVERY).expect("there is a discovery document");
    let (group, version) = name.split_once('/')?;
    let mut groups = discovery["items"].as_array()?.iter();
    let found = groups.find(|item| item["metadata"]["name"] == group)?;
    let mut versions = found["versions"].as_array()?.iter();
    versions.find(|item| item["version"] == version).cloned()
}

/// Holds the versions that these flags add to discovery, beside those served by default, against those recorded.
fn check_added(client: &Client, place: usize) {
    let differences = recorded("api-all-differences.json");
    let added = differences[place]["discovery versions added"].as_object();
    let wanted = added.into_iter().flatten();
    check(wanted.map(|(name, want)| (name.clone(), want.clone(), discovered(client, name))));
}

#[test]
fn all_versions_are_documented_as_by_kube_apiserver() {
    let server = Server::try_start(StoreChoice::Embedded, &[ALL_VERSIONS]);
    let server = server.unwrap_or_else(|error| panic!("{error}"));
    let client = server.client();
    let (gated, served): (Vec<_>, Vec<_>) = recorded_v3("api-all-v3")
        .into_iter()
        .partition(|(path, _)| GATED.contains(&path.as_str()));
    for (path, _) in gated {
        assert_eq!(
            get(&client, &format!("/openapi/v3/{path}"), "application/json"),
            None,
            "{path}"
        );
    }
    check_v3(&client, served);
    check_added(&client, 0);
    assert_eq!(discovered(&client, "certificates.k8s.io/v1beta1"), None);
}

#[test]
fn kinds_behind_gates_are_documented_as_by_kube_apiserver() {
    let server = Server::try_start(StoreChoice::Embedded, &[ALL_VERSIONS, GATES]);
    let server = server.unwrap_or_else(|error| panic!("{error}"));
    let client = server.client();
    check_v3(&client, recorded_v3("api-all-v3"));
    check_added(&client, 1);
}

#[test]
fn a_gate_alone_serves_no_version() {
    let server = Server::try_start(StoreChoice::Embedded, &[GATES]).unwrap_or_else(|error| panic!("{error}"));
    let client = server.client();
    let bundles = get(&client, "/apis/certificates.k8s.io/v1beta1", "application/json");
    assert_eq!(bundles, None);
}
