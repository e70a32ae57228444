//! What a running server tells its operator: slow requests in the log.

use std::time::Duration;

use serde_json::json;
use trireme_tests::http::{Answer, Client, Request};
use trireme_tests::server::ADMIN_TOKEN;
use trireme_tests::{Server, StoreChoice};

fn start(flags: &[&str]) -> Server {
    Server::try_start(StoreChoice::Embedded, flags).unwrap_or_else(|error| panic!("{error}"))
}

fn get(client: &Client, path: &str) -> Answer {
    client
        .get(path)
        .unwrap_or_else(|error| panic!("no answer to {path}: {error}"))
}

/// The lines of slow requests with this verb of this resource.
fn slow(log: &str, verb: &str, resource: &str) -> Vec<String> {
    let (verb, resource) = (format!("verb=\"{verb}\""), format!("resource=\"{resource}\""));
    log.lines()
        .filter(|line| line.contains("slow request") && line.contains(&verb) && line.contains(&resource))
        .map(str::to_owned)
        .collect()
}

#[test]
fn a_slow_request_is_logged_with_where_its_time_went() {
    let mut server = start(&["--slow-request-threshold=1us"]);
    let client = server.client();
    let namespace = json!({"metadata": {"name": "slow", "annotations": {"secret": "hidden"}}});
    let path = "/api/v1/namespaces?fieldManager=me&access_token=hidden";
    assert_eq!(client.json("POST", path, &namespace).expect("it answers").code, 201);
    assert_eq!(get(&client, "/api/v1/namespaces/slow").code, 200);
    let watch = Request {
        method: "GET",
        path: "/api/v1/namespaces?watch=1",
        lines: Some((1, Duration::from_secs(10))),
        ..Request::default()
    };
    client.send(&watch).expect("it answers");
    // The requests after it show that the log is complete up to the watch.
    assert_eq!(get(&client, "/version").code, 200);
    let log = server.process().log();
    let created = slow(&log, "create", "namespaces");
    let [line] = created.as_slice() else {
        panic!("not one line: {created:?}")
    };
    let mut rest = line.as_str();
    for part in [
        "audit_id=",
        "query=\"fieldManager=me\"",
        "agent=\"reference\"",
        "status=201",
        "total_ms=",
        "authenticated",
        "seat taken",
        "authorized",
        "body read",
        "decoded",
        "admission changed",
        "validated and admitted",
        "stored",
        "answer made",
    ] {
        let found = rest
            .find(part)
            .unwrap_or_else(|| panic!("{part} is missing or not in order: {line}"));
        rest = &rest[found + part.len()..];
    }
    let read = slow(&log, "get", "namespaces");
    assert!(read.iter().any(|line| line.contains("revision known")), "{read:?}");
    assert_eq!(slow(&log, "watch", "namespaces"), [""; 0], "a watch is not slow");
    for secret in ["hidden", ADMIN_TOKEN] {
        assert!(!log.contains(secret), "{secret} is in the log: {log}");
    }
}
