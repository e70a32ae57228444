//! A change of nothing stores an object anew if it is stored otherwise than it would be now: that is how migrators of the storage
//! version work, and `kubectl get … -o json | kubectl replace -f -`.

use std::{collections::BTreeSet, sync::Arc, thread};

use serde_json::{Value, json};
use trireme_tests::http::{Answer, Client, Request};
use trireme_tests::{Server, StoreChoice};

use crate::support::{object_of, put_past, read_past, until};

const DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/ships.example.com";
const SHIPS: &str = "/apis/example.com/v1/ships";

fn definition(stored: &str) -> Value {
    let version = |name: &str| {
        json!({
            "name": name, "served": true, "storage": name == stored,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"oars": {"type": "integer"}}}},
        })
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "ships.example.com"},
        "spec": {
            "group": "example.com", "scope": "Cluster", "names": {"plural": "ships", "kind": "Ship"},
            "versions": [version("v1"), version("v2")],
        },
    })
}

/// Defines ships, stored as v1, and makes one.
fn make_ship(server: &mut Server) -> Answer {
    let created = server.client().json(
        "POST",
        DEFINITION.trim_end_matches("/ships.example.com"),
        &definition("v1"),
    );
    assert_eq!(created.expect("an answer").code, 201);
    until(server, "served", |client| {
        client.get(SHIPS).is_ok_and(|answer| answer.code == 200)
    });
    let ship = json!({"apiVersion": "example.com/v1", "kind": "Ship", "metadata": {"name": "argo"}, "oars": 50});
    let made = server.client().json("POST", SHIPS, &ship).expect("an answer");
    assert_eq!(made.code, 201, "{}", made.text());
    made
}

/// Changes the version that ships are stored in. The definition's status may change in between.
fn store_ships_as(server: &mut Server, version: &str) {
    until(server, "another version is stored", |client| {
        let mut now = definition(version);
        now["metadata"]["resourceVersion"] = revision(&client.get(DEFINITION).expect("an answer"));
        client.json("PUT", DEFINITION, &now).expect("an answer").code == 200
    });
}

fn revision(answer: &Answer) -> Value {
    object_of(answer)["metadata"]["resourceVersion"].clone()
}

fn change_nothing(client: &Client, path: &str) -> Answer {
    let sent = client.send(&Request {
        method: "PATCH",
        path,
        body: Some(b"{}".to_vec()),
        content_type: Some("application/merge-patch+json"),
        ..Request::default()
    });
    sent.expect("an answer")
}

#[test]
fn objects_follow_the_storage_version_when_they_are_written() {
    let mut server = Server::start(StoreChoice::Etcd);
    let client = server.client();
    let made = make_ship(&mut server);
    let path = format!("{SHIPS}/argo");
    assert_eq!(
        revision(&change_nothing(&client, &path)),
        revision(&made),
        "nothing to do"
    );

    store_ships_as(&mut server, "v2");
    until(&mut server, "stored in the other version", |client| {
        let changed = change_nothing(client, &path);
        assert_eq!(changed.code, 200, "{}", changed.text());
        revision(&changed) != revision(&made)
    });
    let stored: Value = serde_json::from_slice(&read_past(&server, "/registry/example.com/ships/argo")).expect("JSON");
    assert_eq!(
        (&stored["apiVersion"], &stored["oars"]),
        (&json!("example.com/v2"), &json!(50))
    );
    let after = client.get(&path).expect("an answer");
    assert_eq!(object_of(&after)["apiVersion"], "example.com/v1");
    assert_eq!(
        revision(&change_nothing(&client, &path)),
        revision(&after),
        "once is enough"
    );
}

#[test]
fn requests_go_on_while_the_storage_version_changes() {
    let mut server = Server::start(StoreChoice::Embedded);
    let client = &server.client();
    make_ship(&mut server);
    let path = &format!("{SHIPS}/argo");
    let codes: BTreeSet<u16> = thread::scope(|scope| {
        let changes = Arc::new(scope.spawn(|| {
            for version in ["v2", "v1"].into_iter().cycle().take(20) {
                store_ships_as(&mut server, version);
            }
        }));
        let clients = [(); 4].map(|()| {
            let changes = changes.clone();
            scope.spawn(move || {
                let mut codes = BTreeSet::new();
                while !changes.is_finished() {
                    codes.insert(client.get(SHIPS).expect("an answer").code);
                    let changed = change_nothing(client, path);
                    codes.insert(changed.code);
                    if changed.code == 200 {
                        assert_eq!(object_of(&changed)["oars"], 50, "{}", changed.text());
                    }
                }
                codes
            })
        });
        clients
            .into_iter()
            .flat_map(|client| client.join().expect("no panic"))
            .collect()
    });
    assert_eq!(codes, BTreeSet::from([200]));
}

/// Has a list wait for a revision that comes after the storage version has changed. Returns its answer, and the oars that the
/// ship got by the new definition.
fn list_across_a_change(server: &mut Server, version: &str, oars: u64) -> Answer {
    let client = &server.client();
    // In one request more revisions go by than the change takes.
    const REVISIONS: u64 = 100;
    let config_maps = "/api/v1/namespaces/default/configmaps";
    for number in 0..REVISIONS {
        let made = client.json(
            "POST",
            config_maps,
            &json!({"metadata": {"name": format!("c-{number}")}}),
        );
        assert_eq!(made.expect("an answer").code, 201);
    }
    let newest = revision(&client.get(config_maps).expect("an answer"));
    let newest: u64 = newest.as_str().and_then(|text| text.parse().ok()).expect("a number");
    let wanted = newest + REVISIONS;
    let list = format!("{SHIPS}?resourceVersion={wanted}&resourceVersionMatch=NotOlderThan");
    thread::scope(|scope| {
        let waiting = scope.spawn(|| client.get(&list).expect("an answer"));
        until(server, "the list waits beside the request that sees it", |client| {
            let metrics = client.get("/metrics").expect("an answer").text();
            let executing = |line: &str| {
                line.starts_with("apiserver_flowcontrol_current_executing_requests{")
                    && line.contains("exempt")
                    && line.ends_with(" 2")
            };
            waiting.is_finished() || metrics.lines().any(executing)
        });
        let path = &format!("{SHIPS}/argo");
        let before = revision(&client.get(path).expect("an answer"));
        store_ships_as(server, version);
        until(server, "stored by the new definition", |client| {
            let changed = change_nothing(client, path);
            assert_eq!(changed.code, 200, "{}", changed.text());
            revision(&changed) != before
        });
        let changed = client.send(&Request {
            method: "PATCH",
            path,
            body: Some(json!({ "oars": oars }).to_string().into_bytes()),
            content_type: Some("application/merge-patch+json"),
            ..Request::default()
        });
        assert_eq!(changed.expect("an answer").code, 200);
        let deleted = client.send(&Request {
            method: "DELETE",
            path: config_maps,
            ..Request::default()
        });
        assert_eq!(deleted.expect("an answer").code, 200);
        waiting.join().expect("no panic")
    })
}

#[test]
fn a_list_that_waits_while_the_storage_version_changes_shows_what_was_written_since() {
    let mut server = Server::start(StoreChoice::Embedded);
    make_ship(&mut server);
    // A list waits 3 s, and so does one for a cache that is loaded: both can take longer on a machine that is busy.
    let answers = ["v2", "v1", "v2", "v1", "v2"]
        .into_iter()
        .zip(51..)
        .map(|(version, oars)| {
            let answer = list_across_a_change(&mut server, version, oars);
            (answer, oars)
        });
    let in_time = answers
        .into_iter()
        .find(|(answer, _)| !matches!(answer.code, 429 | 504));
    let (answer, oars) = in_time.expect("one of five is in time");
    assert_eq!(answer.code, 200, "{}", answer.text());
    assert_eq!(object_of(&answer)["items"][0]["oars"], oars, "{}", answer.text());
}

#[test]
fn objects_follow_the_media_type_and_the_version_of_others_when_they_are_written() {
    let mut server = Server::start(StoreChoice::Etcd);
    // As kube-apiserver stored leases before 1.14, with its line break.
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1beta1", "kind": "Lease",
        "metadata": {"name": "old", "namespace": "default", "uid": "6f7b6f9c-0f5c-4a8b-b0cf-5f0d3a1f0a14",
            "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"holderIdentity": "me"},
    });
    let key = "/registry/leases/default/old";
    put_past(&mut server, &[(key.to_owned(), format!("{lease}\n").into_bytes())]);
    let path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/old";
    until(&mut server, "served", |client| {
        client.get(path).is_ok_and(|answer| answer.code == 200)
    });
    let client = server.client();
    let before = object_of(&client.get(path).expect("an answer"));
    let after = change_nothing(&client, path);
    assert_eq!(after.code, 200, "{}", after.text());
    let after = object_of(&after);
    assert_ne!(
        after["metadata"]["resourceVersion"],
        before["metadata"]["resourceVersion"]
    );
    let stored: Value = serde_json::from_slice(&read_past(&server, key)).expect("JSON");
    assert_eq!(stored["apiVersion"], "coordination.k8s.io/v1");

    let flag = ["--storage-media-type=application/vnd.kubernetes.protobuf"];
    let other = server.start_beside(&flag).unwrap_or_else(|error| panic!("{error}"));
    let through_other = object_of(&change_nothing(&other.client(), path));
    assert_ne!(
        through_other["metadata"]["resourceVersion"],
        after["metadata"]["resourceVersion"]
    );
    assert!(read_past(&server, key).starts_with(b"k8s\0"));
    let again = object_of(&change_nothing(&other.client(), path));
    assert_eq!(
        again["metadata"]["resourceVersion"],
        through_other["metadata"]["resourceVersion"]
    );
}
