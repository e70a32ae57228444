//! Tokens, keys and the data of Secrets are shown to their owners only: not in logs at `--v=10`, metrics,
//! debugging pages, or errors.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use trireme_tests::canary::{PLANTED, leaks};
use trireme_tests::http::{Answer, Client, Request};
use trireme_tests::server::USER_TOKEN;
use trireme_tests::{Server, StoreChoice};

const SECRETS: &str = "/api/v1/namespaces/default/secrets";

fn secret(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name},
        "data": {"encoded": STANDARD.encode(PLANTED)}, "stringData": {"plain": PLANTED},
    })
}

/// Requests of the administrator that have secrets in them and succeed.
fn use_secrets(client: &Client) {
    let code = |answer: std::io::Result<Answer>| answer.expect("it answers").code;
    assert_eq!(code(client.json("POST", SECRETS, &secret("s"))), 201);
    let read = client.get(&format!("{SECRETS}/s")).expect("it answers");
    assert!(read.text().contains(&STANDARD.encode(PLANTED)), "its owner may read it");
    assert_eq!(code(client.json("PUT", &format!("{SECRETS}/s"), &secret("s"))), 200);
    let listed = client.send(&Request {
        method: "GET",
        path: &format!(
            "{SECRETS}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=1"
        ),
        lines: Some((1, Duration::from_secs(20))),
        ..Request::default()
    });
    assert_eq!(code(listed), 200);
    let patch = Request {
        method: "PATCH",
        path: &format!("{SECRETS}/s"),
        content_type: Some("application/merge-patch+json"),
        body: Some(json!({"stringData": {"more": PLANTED}}).to_string().into_bytes()),
        ..Request::default()
    };
    assert_eq!(code(client.send(&patch)), 200);
    // The error shows the object as it would be, as kube-apiserver's does, to those who may patch it.
    let wrong_type = Request {
        body: Some(json!({"data": {"encoded": {"not": "a text"}}}).to_string().into_bytes()),
        ..patch
    };
    assert_eq!(code(client.send(&wrong_type)), 422);
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}});
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    assert_eq!(code(client.json("POST", accounts, &account)), 201);
    let made = client.json("POST", &format!("{accounts}/robot/token"), &request);
    let made: Value = serde_json::from_str(&made.expect("it answers").text()).expect("JSON");
    let token = made["status"]["token"].as_str().expect("a token");
    let robot = client.with_token(token).get(&format!("{SECRETS}/s"));
    assert!(matches!(code(robot), 200 | 403), "the token is good");
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": PLANTED}});
    assert_eq!(
        code(client.json("POST", "/apis/authentication.k8s.io/v1/tokenreviews", &review)),
        201
    );
}

/// Requests with secrets in them that fail: what came.
fn misuse_secrets(client: &Client) -> Vec<(String, Answer)> {
    let path = format!("{SECRETS}/s");
    let raw = |head: &str| {
        let head = format!("GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{head}\r\n\r\n");
        client.anonymous().send_raw(head.as_bytes(), "GET").expect("it answers")
    };
    let patched = |patch: Value| {
        let request = Request {
            method: "PATCH",
            path: &path,
            content_type: Some("application/json-patch+json"),
            body: Some(patch.to_string().into_bytes()),
            ..Request::default()
        };
        client.send(&request).expect("it answers")
    };
    let test = json!([{"op": "test", "path": "/data/encoded", "value": "bm8="}]);
    let mut another = secret("other");
    another["type"] = "kubernetes.io/tls".into();
    let sent = |method, path: &str, body: &Value| client.json(method, path, body).expect("it answers");
    vec![
        (
            "an unknown token".to_owned(),
            raw(&format!("Authorization: Bearer {PLANTED}")),
        ),
        (
            "a password".to_owned(),
            raw(&format!(
                "Authorization: Basic {}",
                STANDARD.encode(format!("me:{PLANTED}"))
            )),
        ),
        ("a failed test".to_owned(), patched(test)),
        ("a Secret that is there".to_owned(), sent("POST", SECRETS, &secret("s"))),
        (
            "a Secret of a type that it does not fit".to_owned(),
            sent("POST", SECRETS, &another),
        ),
        (
            "another user".to_owned(),
            client.with_token(USER_TOKEN).get(&path).expect("it answers"),
        ),
    ]
}

#[test]
fn nothing_that_a_server_writes_down_has_a_secret_in_it() {
    for store in [StoreChoice::Embedded, StoreChoice::Etcd] {
        let server = Server::try_start(store, &["--v=10"]).unwrap_or_else(|error| panic!("{error}"));
        let client = server.client();
        use_secrets(&client);
        for (what, answer) in misuse_secrets(&client) {
            assert!(answer.code >= 400, "{what}: {}", answer.code);
            assert_eq!(leaks(&answer.text()), Vec::<String>::new(), "the error for {what}");
        }
        for page in [
            "/metrics",
            "/debug/actors",
            "/debug/breakers",
            "/debug/replicas",
            "/readyz?verbose",
        ] {
            let text = client.get(page).expect("it answers").text();
            assert!(!text.is_empty(), "{page}");
            assert_eq!(leaks(&text), Vec::<String>::new(), "{page}");
        }
        let log = server.log();
        assert!(log.contains("TRACE"), "it logs everything");
        assert_eq!(leaks(&log), Vec::<String>::new(), "the log over {store:?}");
    }
}
