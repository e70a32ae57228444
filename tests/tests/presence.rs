//! Presence of servers: identity leases and the endpoints of the Service `kubernetes`.

use std::time::Duration;

use serde_json::{Value, json};
use trireme_tests::http::Client;
use trireme_tests::{Server, StoreChoice};

const PATIENCE: Duration = Duration::from_secs(60);
const ENDPOINTS: &str = "/api/v1/namespaces/default/endpoints/kubernetes";
const SLICE: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";

fn read(client: &Client, path: &str) -> Value {
    let answer = client.get(path).expect("an answer").text();
    serde_json::from_str(&answer).expect("JSON")
}

fn until(server: &mut Server, what: &'static str, condition: impl Fn(&Client) -> bool) {
    let client = server.client();
    let waited = server.process().wait_until(what, PATIENCE, || condition(&client));
    waited.unwrap_or_else(|error| panic!("{error}"));
}

/// Returns true if both objects, which are written one after the other, have these addresses.
fn shows(client: &Client, addresses: &[&str]) -> bool {
    let ips: Vec<Value> = addresses.iter().map(|ip| json!({ "ip": ip })).collect();
    let ready: Vec<Value> = addresses.iter().copied().map(endpoint).collect();
    read(client, ENDPOINTS).pointer("/subsets/0/addresses") == Some(&json!(ips))
        && read(client, SLICE)["endpoints"] == json!(ready)
}

fn endpoint(ip: &str) -> Value {
    json!({ "addresses": [ip], "conditions": { "ready": true } })
}

fn start(flags: &[&str]) -> Server {
    Server::try_start(StoreChoice::Etcd, flags).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn the_service_kubernetes_leads_to_the_servers_that_are_there() {
    let mut first = start(&["--advertise-address=10.1.2.3"]);
    until(&mut first, "the endpoint", |client| shows(client, &["10.1.2.3"]));
    let mut second = first
        .start_beside(&["--advertise-address=10.1.2.4"])
        .unwrap_or_else(|error| panic!("{error}"));
    until(&mut second, "both endpoints", |client| {
        shows(client, &["10.1.2.3", "10.1.2.4"])
    });
    let endpoints = read(&second.client(), ENDPOINTS);
    let label = "endpointslice.kubernetes.io/skip-mirror";
    assert_eq!(endpoints["metadata"]["labels"][label], "true");
    let port = json!([{ "name": "https", "port": second.port(), "protocol": "TCP" }]);
    assert_eq!(endpoints["subsets"][0]["ports"], port);
    let slice = read(&second.client(), SLICE);
    assert_eq!(slice["metadata"]["labels"]["kubernetes.io/service-name"], "kubernetes");
    assert_eq!(slice["addressType"], "IPv4");

    first.process().terminate(PATIENCE).expect("it ends");
    until(&mut second, "the endpoint that is left", |client| {
        shows(client, &["10.1.2.4"])
    });
}

#[test]
fn a_server_that_is_not_reachable_from_elsewhere_is_no_endpoint() {
    let mut server = start(&[]);
    until(&mut server, "a service", |client| {
        client
            .get("/api/v1/namespaces/default/services/kubernetes")
            .expect("an answer")
            .code
            == 200
    });
    assert!(server.process().log().contains("no address to be reached at"));
}

#[test]
fn servers_have_leases_and_those_of_the_dead_go() {
    for store in [StoreChoice::Embedded, StoreChoice::Etcd] {
        let mut server = Server::try_start(store, &[]).unwrap_or_else(|error| panic!("{error}"));
        let own = |client: &Client| -> Option<Value> {
            let list = read(client, LEASES);
            let leases = list["items"].as_array().expect("a list").clone();
            leases.into_iter().find(|lease| {
                let name = lease["metadata"]["name"].as_str().unwrap_or_default();
                name.starts_with("apiserver-") && name.len() == "apiserver-".len() + 26
            })
        };
        until(&mut server, "a lease", |client| own(client).is_some());
        let client = server.client();
        let lease = own(&client).expect("it is there");
        let labels = &lease["metadata"]["labels"];
        assert_eq!(labels["apiserver.kubernetes.io/identity"], "kube-apiserver");
        assert!(labels["kubernetes.io/hostname"].is_string());
        assert_eq!(lease["spec"]["leaseDurationSeconds"], 3600);
        let holder = |lease: &Value| lease["spec"]["holderIdentity"].as_str().map(str::to_owned);
        assert!(holder(&lease).is_some_and(|holder| holder.starts_with("apiserver-")));

        let labels = json!({ "apiserver.kubernetes.io/identity": "kube-apiserver" });
        let spec = json!({
            "holderIdentity": "x",
            "leaseDurationSeconds": 3600,
            "renewTime": "2020-01-01T00:00:00.000000Z",
        });
        for (name, labels) in [("apiserver-dead", labels), ("other", json!({}))] {
            let lease = json!({ "metadata": { "name": name, "labels": labels }, "spec": spec });
            assert_eq!(client.json("POST", LEASES, &lease).expect("an answer").code, 201);
        }
        server.restart().unwrap_or_else(|error| panic!("{error}"));
        until(&mut server, "the dead one's lease to go", |client| {
            client.get(&format!("{LEASES}/apiserver-dead")).expect("an answer").code == 404
        });
        until(&mut server, "a new holder", |client| {
            own(client).is_some_and(|renewed| holder(&renewed) != holder(&lease))
        });
        let other = client.get(&format!("{LEASES}/other")).expect("an answer");
        assert_eq!(other.code, 200, "leases of others are left alone");
    }
}
