//! Services get their addresses from every range that is ready, and from both families.

use std::time::Duration;

use serde_json::{Value, json};
use trireme_tests::group::until;
use trireme_tests::http::{Client, Request};
use trireme_tests::{Server, StoreChoice};

const PATIENCE: Duration = Duration::from_secs(30);
const SERVICES: &str = "/api/v1/namespaces/default/services";
const ADDRESSES: &str = "/apis/networking.k8s.io/v1/ipaddresses";
const RANGES: &str = "/apis/networking.k8s.io/v1/servicecidrs";

fn asked(client: &Client, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let answer = client.send(&Request {
        method,
        path,
        body: Some(body.to_string().into_bytes()),
        content_type: Some(match method {
            "PATCH" => "application/merge-patch+json",
            _ => "application/json",
        }),
        ..Request::default()
    });
    let answer = answer.expect("an answer");
    (answer.code, serde_json::from_str(&answer.text()).expect("JSON"))
}

fn created(client: &Client, name: &str, policy: &str) -> (u16, Value) {
    let service = json!({
        "metadata": { "name": name },
        "spec": { "ports": [{ "port": 80 }], "selector": { "a": "b" }, "ipFamilyPolicy": policy },
    });
    asked(client, "POST", SERVICES, &service)
}

fn addresses(service: &Value) -> Vec<&str> {
    let list = service["spec"]["clusterIPs"].as_array();
    list.into_iter().flatten().filter_map(Value::as_str).collect()
}

/// The service that holds an address; none if it is free.
fn holder(client: &Client, address: &str) -> Option<String> {
    let answer = client.get(&format!("{ADDRESSES}/{address}")).expect("an answer");
    let object: Value = serde_json::from_str(&answer.text()).expect("JSON");
    let name = object.pointer("/spec/parentRef/name")?;
    Some(name.as_str()?.to_owned())
}

#[test]
fn a_full_range_is_followed_by_another_as_long_as_that_is_ready() {
    let flags = ["--service-cluster-ip-range=10.96.0.0/29"];
    let server = Server::try_start(StoreChoice::Embedded, &flags).unwrap_or_else(|error| panic!("{error}"));
    let client = server.client();
    until("the service of the server is there", PATIENCE, || {
        holder(&client, "10.96.0.1").is_some()
    });
    for number in 0..5 {
        let (code, service) = created(&client, &format!("s-{number}"), "SingleStack");
        assert_eq!(code, 201, "{service}");
    }
    let (code, refused) = created(&client, "beyond", "SingleStack");
    assert_eq!(
        (code, &refused["message"]),
        (
            500,
            &json!("Internal error occurred: failed to allocate a serviceIP for Service \"beyond\": range is full")
        )
    );
    let range = json!({ "metadata": { "name": "more" }, "spec": { "cidrs": ["10.97.0.0/24"] } });
    assert_eq!(asked(&client, "POST", RANGES, &range).0, 201);
    let mut beyond = Value::Null;
    until("the new range is used", PATIENCE, || {
        let (code, service) = created(&client, "beyond", "SingleStack");
        beyond = service;
        code == 201
    });
    let address = addresses(&beyond)[0];
    assert!(address.starts_with("10.97.0."), "{address}");
    assert_eq!(holder(&client, address).as_deref(), Some("beyond"));
    let unready = json!({ "status": { "conditions": [{
        "type": "Ready", "status": "False", "reason": "Terminating", "message": "m",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }] } });
    let (code, range) = asked(&client, "PATCH", &format!("{RANGES}/more/status"), &unready);
    assert_eq!(code, 200, "{range}");
    let mut names = 0..;
    until("a range that is not ready is left alone", PATIENCE, || {
        let name = format!("late-{}", names.next().expect("numbers do not end"));
        created(&client, &name, "SingleStack").0 == 500
    });
    let named = json!({
        "metadata": { "name": "named" }, "spec": { "clusterIP": "10.97.0.200", "ports": [{ "port": 80 }] },
    });
    let (code, refused) = asked(&client, "POST", SERVICES, &named);
    assert_eq!(
        (code, &refused["message"]),
        (
            422,
            &json!(
                "Service \"named\" is invalid: spec.clusterIPs: Invalid value: [\"10.97.0.200\"]: failed to allocate IP \
                 10.97.0.200: the provided network does not match the current range"
            )
        )
    );
    let (code, gone) = asked(&client, "DELETE", &format!("{SERVICES}/s-0"), &json!({}));
    assert_eq!(code, 200, "{gone}");
    let (code, next) = created(&client, "next", "SingleStack");
    assert_eq!((code, addresses(&next)), (201, addresses(&gone)));
}

#[test]
fn a_second_family_is_gained_and_given_up_through_any_replica() {
    let flags = ["--service-cluster-ip-range=fd00:10:96::/112,10.96.0.0/16"];
    let one = Server::try_start(StoreChoice::Etcd, &flags).unwrap_or_else(|error| panic!("{error}"));
    let other = one.start_beside(&flags).unwrap_or_else(|error| panic!("{error}"));
    let (one, other) = (one.client(), other.client());
    let (code, service) = created(&one, "both", "PreferDualStack");
    assert_eq!(code, 201, "{service}");
    assert_eq!(service["spec"]["ipFamilies"], json!(["IPv6", "IPv4"]));
    let [v6, v4] = addresses(&service)[..] else {
        panic!("two addresses: {service}");
    };
    assert!(v6.starts_with("fd00:10:96::") && v4.starts_with("10.96."), "{v6} {v4}");
    for address in [v6, v4] {
        assert_eq!(holder(&other, address).as_deref(), Some("both"));
    }
    let path = format!("{SERVICES}/both");
    let to = |policy: &str| json!({ "spec": { "ipFamilyPolicy": policy } });
    let (code, single) = asked(&other, "PATCH", &path, &to("SingleStack"));
    assert_eq!((code, addresses(&single)), (200, vec![v6]));
    assert_eq!([holder(&one, v6), holder(&one, v4)], [Some("both".to_owned()), None]);
    let (code, again) = asked(&one, "PATCH", &path, &to("RequireDualStack"));
    assert_eq!((code, addresses(&again).len(), addresses(&again)[0]), (200, 2, v6));
    assert_eq!(asked(&other, "DELETE", &path, &json!({})).0, 200);
    for address in addresses(&again) {
        assert_eq!(holder(&one, address), None);
    }
}

/// Without what differs from one object to the next.
fn managed_fields(object: &Value) -> Value {
    let mut fields = object["metadata"]["managedFields"].clone();
    for entry in fields.as_array_mut().into_iter().flatten() {
        entry["time"].take();
    }
    fields
}

#[test]
fn an_address_shows_that_the_server_has_reserved_it() {
    let server = Server::start(StoreChoice::Embedded);
    let client = server.client();
    let (code, service) = created(&client, "one", "SingleStack");
    assert_eq!(code, 201, "{service}");
    let path = format!("{ADDRESSES}/{}", addresses(&service)[0]);
    let reserved: Value = serde_json::from_str(&client.get(&path).expect("an answer").text()).expect("JSON");
    // kube-apiserver posts it to itself, so its managed fields are those of such a post.
    let posted = json!({
        "metadata": { "name": "192.0.2.1", "labels": reserved["metadata"]["labels"] }, "spec": reserved["spec"],
    });
    let post = Request {
        method: "POST",
        path: &format!("{ADDRESSES}?fieldManager=kube-apiserver"),
        body: Some(posted.to_string().into_bytes()),
        content_type: Some("application/json"),
        ..Request::default()
    };
    let answer = client.send(&post).expect("an answer");
    assert_eq!(answer.code, 201, "{}", answer.text());
    let posted: Value = serde_json::from_str(&answer.text()).expect("JSON");
    assert_eq!(reserved["metadata"]["managedFields"][0]["manager"], "kube-apiserver");
    assert_eq!(managed_fields(&reserved), managed_fields(&posted));
    assert_eq!(
        reserved["metadata"]["managedFields"][0]["time"],
        reserved["metadata"]["creationTimestamp"]
    );
}
