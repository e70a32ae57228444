//! Watches over WebSocket as a browser or a plain WebSocket library sees them, on both stores.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use trireme_tests::server::COMPACTS_OFTEN;
use trireme_tests::websocket::{Received, Socket};
use trireme_tests::{Server, StoreChoice};

const CONFIGMAPS: &str = "/api/v1/namespaces/sockets/configmaps";
/// `admin-token` in base64 for URLs.
const TOKEN_PROTOCOL: &str = "base64url.bearer.authorization.k8s.io.YWRtaW4tdG9rZW4";
/// The time limit of waits for things that come in milliseconds, or never.
const PATIENCE: Duration = Duration::from_secs(20);
const NORMAL: u16 = 1000;
const GOING_AWAY: u16 = 1001;

fn send(server: &Server, method: &str, path: &str, body: &Value) -> Value {
    let answer = server.client().json(method, path, body).expect("an answer");
    assert!(answer.code < 300, "{method} {path}: {} {}", answer.code, answer.text());
    serde_json::from_str(&answer.text()).expect("JSON")
}

fn configmap(name: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"test": name}}})
}

/// The revision from which a watch sees what comes after this call.
fn now(server: &Server) -> String {
    let list = server.client().get(CONFIGMAPS).expect("an answer").text();
    let list: Value = serde_json::from_str(&list).expect("JSON");
    list["metadata"]["resourceVersion"]
        .as_str()
        .expect("a revision")
        .to_owned()
}

fn open(server: &Server, query: &str) -> Socket {
    let path = format!("{CONFIGMAPS}?watch=1&{query}");
    Socket::open(&server.client(), &path, &[]).expect("upgraded")
}

fn events_come_in_order_and_as_in_a_chunked_watch(server: &Server) {
    let from = now(server);
    let mut socket = open(server, &format!("resourceVersion={from}&timeoutSeconds=30"));
    let mut object = send(server, "POST", CONFIGMAPS, &configmap("order"));
    object["data"] = json!({"a": "1"});
    send(server, "PUT", &format!("{CONFIGMAPS}/order"), &object);
    send(server, "DELETE", &format!("{CONFIGMAPS}/order"), &json!({}));
    let seen: Vec<(String, Value)> = (0..3).map(|_| socket.event()).collect();
    let kinds: Vec<&str> = seen.iter().map(|(kind, _)| kind.as_str()).collect();
    assert_eq!(kinds, ["ADDED", "MODIFIED", "DELETED"]);
    socket.close();

    let path = format!("{CONFIGMAPS}?watch=1&resourceVersion={from}&timeoutSeconds=30");
    let chunked = server.client().send(&trireme_tests::http::Request {
        method: "GET",
        path: &path,
        lines: Some((3, Duration::from_secs(10))),
        ..Default::default()
    });
    let chunked = chunked.expect("an answer").text();
    let chunked: Vec<Value> = chunked
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let objects: Vec<Value> = chunked.iter().map(|event| event["object"].clone()).collect();
    assert_eq!(seen.into_iter().map(|(_, object)| object).collect::<Vec<_>>(), objects);
}

fn initial_events_end_with_a_bookmark(server: &Server) {
    send(server, "POST", CONFIGMAPS, &configmap("initial"));
    let mut socket = open(
        server,
        "labelSelector=test%3Dinitial&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
    );
    assert_eq!(socket.event().0, "ADDED");
    let (kind, bookmark) = socket.event();
    assert_eq!(kind, "BOOKMARK");
    assert_eq!(
        bookmark["metadata"]["annotations"],
        json!({"k8s.io/initial-events-end": "true"})
    );
    socket.close();
}

fn tables_come_as_they_are_asked_for(server: &Server) {
    send(server, "POST", CONFIGMAPS, &configmap("table"));
    let path = format!("{CONFIGMAPS}?watch=1&labelSelector=test%3Dtable");
    let accept = ("accept", "application/json;as=Table;v=v1;g=meta.k8s.io");
    let mut socket = Socket::open(&server.client(), &path, &[accept]).expect("upgraded");
    let (_, table) = socket.event();
    assert_eq!(
        (&table["kind"], &table["rows"][0]["cells"][0]),
        (&json!("Table"), &json!("table"))
    );
    socket.close();
}

fn a_watch_ends_at_its_time_with_a_close_frame_and_answers_pings_until_then(server: &Server) {
    let mut socket = open(server, &format!("resourceVersion={}&timeoutSeconds=1", now(server)));
    socket.ping("there?");
    assert_eq!(socket.receive(), Received::Pong(b"there?".to_vec()));
    assert_eq!(socket.receive(), Received::Closed(Some(NORMAL)));
}

fn the_old_paths_of_watches_do_it_too(server: &Server) {
    send(server, "POST", CONFIGMAPS, &configmap("old"));
    let path = "/api/v1/watch/namespaces/sockets/configmaps/old";
    let mut socket = Socket::open(&server.client(), path, &[]).expect("upgraded");
    let (kind, object) = socket.event();
    assert_eq!((kind.as_str(), &object["metadata"]["name"]), ("ADDED", &json!("old")));
    socket.close();
}

/// The number of long-running requests for ConfigMaps the metrics show.
fn long_running(server: &Server) -> f64 {
    let metrics = server.client().get("/metrics").expect("an answer").text();
    let lines = metrics
        .lines()
        .filter(|line| line.starts_with("apiserver_longrunning_requests{"));
    let lines = lines.filter(|line| line.contains("resource=\"configmaps\""));
    lines
        .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
        .sum()
}

fn a_socket_is_a_long_running_request_as_long_as_it_is_open(server: &Server) {
    let until = |wanted: f64| {
        let end = Instant::now() + PATIENCE;
        while long_running(server) != wanted {
            assert!(Instant::now() < end, "{} and not {wanted}", long_running(server));
        }
    };
    // Those of the cases before may not have ended yet.
    until(0.0);
    let socket = open(server, &format!("resourceVersion={}", now(server)));
    assert_eq!(long_running(server), 1.0);
    socket.close();
    until(0.0);
}

fn tokens_may_be_subprotocols(server: &Server) {
    let path = format!("{CONFIGMAPS}?watch=1&resourceVersion=0");
    let anonymous = server.client().anonymous();
    let open = |protocols: &str| Socket::open(&anonymous, &path, &[("sec-websocket-protocol", protocols)]);
    let socket = open(&format!("{TOKEN_PROTOCOL}, console.example")).expect("upgraded");
    assert_eq!(
        socket.protocol.as_deref(),
        Some("console.example"),
        "the token is not said back"
    );
    socket.close();
    let wrong = TOKEN_PROTOCOL.replace("YWRtaW4", "Z3Vlc3M");
    for refused in [TOKEN_PROTOCOL, &format!("{wrong}, console.example")] {
        assert_eq!(open(refused).err(), Some(401));
    }
}

fn what_cannot_be_watched_is_refused_before_the_upgrade(server: &Server) {
    let refusal = |query: &str, headers: &[(&str, &str)]| {
        let path = format!("{CONFIGMAPS}?watch=1&{query}");
        Socket::open(&server.client(), &path, headers).expect_err("refused")
    };
    assert_eq!(refusal("", &[("sec-websocket-version", "7")]), 400);
    assert_eq!(refusal("", &[("sec-websocket-protocol", "a, b")]), 400);
    assert_eq!(refusal("", &[("origin", "null")]), 403);
    assert_eq!(refusal("resourceVersion=soon", &[]), 400);
    assert_eq!(refusal("labelSelector=%3D%3D", &[]), 400);
    assert_eq!(refusal("", &[("accept", "application/yaml")]), 406);
}

fn a_compacted_revision_gets_an_error_event(store: StoreChoice) {
    let mut server = Server::try_start(store, &[COMPACTS_OFTEN]).unwrap_or_else(|error| panic!("{error}"));
    make_namespace(&server);
    let start = now(&server);
    send(&server, "POST", CONFIGMAPS, &configmap("late"));
    server.forget(CONFIGMAPS, &start);
    let mut socket = open(&server, &format!("resourceVersion={start}"));
    let (kind, status) = socket.event();
    assert_eq!(kind, "ERROR");
    assert_eq!((&status["code"], &status["reason"]), (&json!(410), &json!("Expired")));
    assert_eq!(socket.receive(), Received::Closed(Some(NORMAL)));
}

fn a_server_that_stops_says_so(server: &mut Server) {
    let mut socket = open(server, &format!("resourceVersion={}", now(server)));
    thread::scope(|scope| {
        let stopped = scope.spawn(|| server.process().terminate(PATIENCE));
        assert_eq!(socket.receive(), Received::Closed(Some(GOING_AWAY)));
        socket.close();
        assert_eq!(stopped.join().expect("no panic"), Ok("exit status: 0".to_owned()));
    });
}

fn make_namespace(server: &Server) {
    send(
        server,
        "POST",
        "/api/v1/namespaces",
        &json!({"metadata": {"name": "sockets"}}),
    );
}

fn check(store: StoreChoice) {
    let mut server = Server::start(store);
    make_namespace(&server);
    events_come_in_order_and_as_in_a_chunked_watch(&server);
    initial_events_end_with_a_bookmark(&server);
    tables_come_as_they_are_asked_for(&server);
    a_watch_ends_at_its_time_with_a_close_frame_and_answers_pings_until_then(&server);
    the_old_paths_of_watches_do_it_too(&server);
    a_socket_is_a_long_running_request_as_long_as_it_is_open(&server);
    tokens_may_be_subprotocols(&server);
    what_cannot_be_watched_is_refused_before_the_upgrade(&server);
    a_compacted_revision_gets_an_error_event(store);
    a_server_that_stops_says_so(&mut server);
}

#[test]
fn watches_over_websocket_are_those_of_kube_apiserver_over_the_embedded_store() {
    check(StoreChoice::Embedded);
}

#[test]
fn watches_over_websocket_are_those_of_kube_apiserver_over_etcd() {
    check(StoreChoice::Etcd);
}
