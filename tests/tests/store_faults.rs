//! Tests of clients and load balancers while etcd is away.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use trireme_tests::http::{Answer, Client};
use trireme_tests::{Server, StoreChoice};

const PATIENCE: Duration = Duration::from_secs(60);
/// The time limit: 2 s are promised; the machine may be busy with other tests.
const NOTICED_WITHIN: Duration = Duration::from_secs(3);
/// The outages of which the quickest to be noticed counts.
const ATTEMPTS: usize = 5;
/// A write waits 5 s for its store, a consistent read 3 s.
const ANSWERED_WITHIN: Duration = Duration::from_secs(8);
const CONFIGMAPS: &str = "/api/v1/namespaces/kube-system/configmaps";

fn until_ready(server: &mut Server, wanted: bool) -> Duration {
    let (client, started) = (server.client().anonymous(), Instant::now());
    let ready = || client.get("/readyz").is_ok_and(|answer| answer.code == 200);
    let waited = server
        .process()
        .wait_until("as ready as wanted", PATIENCE, || ready() == wanted);
    waited.unwrap_or_else(|error| panic!("{error}"));
    started.elapsed()
}

fn create(client: &Client, name: &str) -> Answer {
    let object = json!({ "metadata": { "name": name } });
    client.json("POST", CONFIGMAPS, &object).expect("an answer")
}

/// The answer is a Status of a timeout or of a server that is not available, in time.
fn assert_fails_in_time(what: &str, ask: impl FnOnce() -> Answer) -> Value {
    let started = Instant::now();
    let answer = ask();
    assert!(
        started.elapsed() < ANSWERED_WITHIN,
        "{what} took {:?}",
        started.elapsed()
    );
    assert!(matches!(answer.code, 503 | 504), "{what}: {}", answer.text());
    let status: Value = serde_json::from_str(&answer.text()).expect("JSON");
    assert_eq!(status["kind"], "Status", "{what}");
    status
}

#[test]
fn while_etcd_is_frozen_caches_are_read_and_other_requests_fail_in_time() {
    let mut server = Server::start(StoreChoice::Etcd);
    let client = server.client();
    assert_eq!(create(&client, "before").code, 201, "it is ready");
    let etcd = server.etcd().expect("it is over an etcd").clone();
    let before = format!("{CONFIGMAPS}/before");
    assert_eq!(client.get(&before).expect("an answer").code, 200);

    etcd.process().signal("STOP").expect("etcd is frozen");
    let mut noticed = until_ready(&mut server, false);
    assert_eq!(
        client.get("/livez").expect("an answer").code,
        200,
        "to restart it would not help"
    );
    let cached = |path: &str| {
        client
            .get(&format!("{path}?resourceVersion=0"))
            .expect("an answer")
            .code
    };
    assert_eq!((cached(&before), cached(CONFIGMAPS)), (200, 200));
    let read = assert_fails_in_time("a consistent read", || client.get(&before).expect("an answer"));
    assert_eq!(read["details"]["retryAfterSeconds"], 1, "{read}");
    let write = assert_fails_in_time("a write", || create(&client, "during"));
    assert_eq!(write["reason"], "Timeout", "its outcome is unknown: {write}");

    etcd.process().signal("CONT").expect("etcd goes on");
    let mut back = until_ready(&mut server, true);
    assert_eq!(create(&client, "after").code, 201);
    assert_eq!(client.get(&before).expect("an answer").code, 200);
    let during = create(&client, "during").code;
    assert!(matches!(during, 201 | 409), "it was made or it was not: {during}");

    // A machine that was busy for a moment gets another measurement.
    for _ in 1..ATTEMPTS {
        println!("not ready after {noticed:?}, ready again after {back:?}");
        if noticed.max(back) < NOTICED_WITHIN {
            break;
        }
        etcd.process().signal("STOP").expect("etcd is frozen");
        noticed = noticed.min(until_ready(&mut server, false));
        // As long as the first one.
        assert_fails_in_time("a write", || create(&client, "again"));
        etcd.process().signal("CONT").expect("etcd goes on");
        back = back.min(until_ready(&mut server, true));
    }
    assert!(noticed < NOTICED_WITHIN, "not ready after {noticed:?}");
    assert!(back < NOTICED_WITHIN, "ready after {back:?}");
}
