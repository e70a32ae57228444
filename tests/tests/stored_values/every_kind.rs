//! Of every kind that is served with all its gates and versions, an object that kube-apiserver has stored is served.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use trireme_tests::http::{Client, Request};
use trireme_tests::server::GATES_OF_KINDS;
use trireme_tests::{Server, StoreChoice};

use super::foreign::{Recorded, assert_served, recorded};
use super::support::{object_of, put_past};

const EVERYTHING: [&str; 2] = [GATES_OF_KINDS, "--runtime-config=api/all=true"];
/// The same objects as those of the core group's events.
const EVENTS: &str = "events.k8s.io/events";

/// `group/plural` of what is stored.
fn stored_resources(client: &Client) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for path in ["/api", "/apis"] {
        let answer = client.send(&Request {
            method: "GET",
            path,
            accept: Some("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"),
            ..Request::default()
        });
        let groups = object_of(&answer.expect("an answer"));
        let items = |of: &Value, field: &str| of[field].as_array().cloned().unwrap_or_default();
        for group in items(&groups, "items") {
            let name = group["metadata"]["name"].as_str().unwrap_or_default();
            for version in items(&group, "versions") {
                let resources = items(&version, "resources").into_iter();
                let watched = resources.filter(|it| items(it, "verbs").iter().any(|verb| verb == "watch"));
                found.extend(watched.map(|it| format!("{name}/{}", it["resource"].as_str().expect("a name"))));
            }
        }
    }
    found
}

/// `group/plural` of an object.
fn resource_of(object: &Recorded) -> String {
    let parts: Vec<&str> = object.path.split('/').skip(1).collect();
    let (group, rest) = match parts.as_slice() {
        ["api", _, rest @ ..] => ("", rest),
        ["apis", group, _, rest @ ..] => (*group, rest),
        _ => panic!("{}", object.path),
    };
    let plural = if rest.first() == Some(&"namespaces") && rest.len() > 2 {
        rest[2]
    } else {
        rest[0]
    };
    format!("{group}/{plural}")
}

#[test]
fn of_every_kind_what_kube_apiserver_has_stored_is_served() {
    let mut server = Server::try_start(StoreChoice::Etcd, &EVERYTHING).unwrap_or_else(|error| panic!("{error}"));
    // Some objects are recorded in several versions under one key.
    let objects = ["pairs.jsonl", "pairs-beta-alpha.jsonl"].into_iter().flat_map(recorded);
    let objects: BTreeMap<String, Recorded> = objects.map(|object| (object.key.clone(), object)).collect();
    let objects: Vec<Recorded> = objects.into_values().collect();
    let recorded: BTreeSet<String> = objects.iter().map(resource_of).collect();
    let mut missing = stored_resources(&server.client());
    assert!(missing.len() > 60, "{missing:?}");
    assert!(missing.remove(EVENTS));
    missing.retain(|resource| !recorded.contains(resource));
    assert_eq!(missing, BTreeSet::new(), "nothing is recorded of these");

    let values = objects
        .iter()
        .map(|object| (object.key.clone(), object.protobuf.clone()));
    put_past(&mut server, &values.collect::<Vec<_>>());
    assert_served(&mut server, &objects, "protobuf");
}
