//! Quotas hold, whichever replica writes go through.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use serde_json::{Value, json};
use trireme_tests::group::until;
use trireme_tests::http::Client;
use trireme_tests::server::ALL_PLUGINS;
use trireme_tests::{Server, StoreChoice};

/// The number of pods that the quota allows.
const PODS: usize = 25;
const WRITERS: usize = 8;
const PODS_A_WRITER: usize = 10;
const PATIENCE: Duration = Duration::from_secs(30);
const NAMESPACE: &str = "/api/v1/namespaces/crowd";
const QUOTA: &str = "/api/v1/namespaces/crowd/resourcequotas/q";

fn made(client: &Client, path: &str, object: &Value) {
    let answer = client.json("POST", path, object).expect("an answer");
    assert_eq!(answer.code, 201, "{path}: {}", answer.text());
}

/// Reads an object or a list.
fn read(client: &Client, path: &str) -> Value {
    let answer = client.get(path).expect("an answer");
    assert_eq!(answer.code, 200, "{path}: {}", answer.text());
    serde_json::from_str(&answer.text()).expect("JSON")
}

/// Makes a namespace with a quota in force, as far as its controllers would.
fn namespace_with_quota(client: &Client) {
    made(
        client,
        "/api/v1/namespaces",
        &json!({ "metadata": { "name": "crowd" } }),
    );
    let accounts = format!("{NAMESPACE}/serviceaccounts");
    made(client, &accounts, &json!({ "metadata": { "name": "default" } }));
    let quota = json!({ "metadata": { "name": "q" }, "spec": { "hard": { "pods": PODS.to_string() } } });
    made(client, &format!("{NAMESPACE}/resourcequotas"), &quota);
    let mut quota = read(client, QUOTA);
    quota["status"] = json!({ "hard": { "pods": PODS.to_string() }, "used": { "pods": "0" } });
    let answer = client
        .json("PUT", &format!("{QUOTA}/status"), &quota)
        .expect("an answer");
    assert_eq!(answer.code, 200, "{}", answer.text());
}

#[test]
fn a_quota_of_pods_admits_as_many_through_two_replicas_at_once() {
    let one = Server::try_start(StoreChoice::Etcd, &[ALL_PLUGINS]).unwrap_or_else(|error| panic!("{error}"));
    let other = one
        .start_beside(&[ALL_PLUGINS])
        .unwrap_or_else(|error| panic!("{error}"));
    let clients = [one.client(), other.client()];
    namespace_with_quota(&clients[0]);
    for client in &clients {
        until("a replica knows the quota", PATIENCE, || {
            let answer = client.get(&format!("{QUOTA}?resourceVersion=0")).expect("an answer");
            answer.text().contains("\"used\"")
        });
    }
    let answers = Mutex::new(BTreeMap::<u16, usize>::new());
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (client, answers) = (&clients[writer % clients.len()], &answers);
            scope.spawn(move || {
                for number in 0..PODS_A_WRITER {
                    let pod = json!({
                        "metadata": { "name": format!("p-{writer}-{number}") },
                        "spec": { "containers": [{ "name": "c", "image": "i" }] },
                    });
                    let answer = client
                        .json("POST", &format!("{NAMESPACE}/pods"), &pod)
                        .expect("an answer");
                    let refusal = answer.text();
                    assert!(
                        answer.code == 201 || refusal.contains("exceeded quota: q, requested: pods=1, used: pods=25"),
                        "{refusal}"
                    );
                    *answers
                        .lock()
                        .expect("no writer failed")
                        .entry(answer.code)
                        .or_default() += 1;
                }
            });
        }
    });
    let expected = BTreeMap::from([(201, PODS), (403, WRITERS * PODS_A_WRITER - PODS)]);
    assert_eq!(answers.into_inner().expect("no writer failed"), expected);
    for client in &clients {
        assert_eq!(read(client, QUOTA)["status"]["used"]["pods"], PODS.to_string());
        let pods = read(client, &format!("{NAMESPACE}/pods"));
        assert_eq!(pods["items"].as_array().map(Vec::len), Some(PODS));
    }
}
