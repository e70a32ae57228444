//! Streams to kubelets, `exec` and logs: of a replica that is to stop, and within their bounds.

use std::io::{Read, Write as _};
use std::time::Duration;

use serde_json::{Value, json};
use trireme_tests::StoreChoice;
use trireme_tests::group::until;
use trireme_tests::http::{Answer, Connection};
use trireme_tests::receiver::Receiver;
use trireme_tests::server::{ADMIN_TOKEN, USER_TOKEN};

use super::{Cluster, POD, read};

const PATIENCE: Duration = Duration::from_secs(60);

const UPGRADE: &str = "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n";

/// A log that goes on until the gate is opened, and `exec`, of the container `app`.
fn script_of_app() -> Vec<Value> {
    vec![
        json!({"path": "/containerLogs/default/web/app", "lines": ["one", "two"], "gate": true}),
        json!({"path": "/exec/default/web/app", "status": 101, "headers": {"Connection": "Upgrade", "Upgrade": "SPDY/3.1"}}),
    ]
}

fn path_of_exec() -> String {
    format!("{POD}/exec?container=app&command=sh&stdin=1")
}

fn path_of_log() -> String {
    format!("{POD}/log?container=app&follow=true")
}

/// A GET.
fn request(path: &str, token: &str, headers: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n{headers}\r\n").into_bytes()
}

/// Sends an administrator's request whose answer goes on.
fn begin(cluster: &Cluster, path: &str, headers: &str) -> Connection {
    let mut connection = cluster.client().open().expect("a connection");
    send(&mut connection, &request(path, ADMIN_TOKEN, headers));
    connection
}

fn send(connection: &mut Connection, bytes: &[u8]) {
    connection.write_all(bytes).expect("sent");
    connection.flush().expect("sent");
}

/// Reads until the text ends so.
fn read_until(from: &mut impl Read, end: &str) -> String {
    let mut text = Vec::new();
    while !text.ends_with(end.as_bytes()) {
        let mut byte = [0];
        let read = from.read(&mut byte).expect("more");
        assert_eq!(read, 1, "it ended after {}", String::from_utf8_lossy(&text));
        text.push(byte[0]);
    }
    String::from_utf8_lossy(&text).into_owned()
}

fn echo(connection: &mut Connection, text: &str) {
    connection.write_all(text.as_bytes()).expect("sent");
    read_until(connection, text);
}

#[test]
fn a_replica_that_stops_ends_its_watches_and_finishes_its_streams() {
    let mut script = script_of_app();
    script.push(json!({"path": "/containerLogs/default/web/side", "lines": ["a", "b"]}));
    let mut cluster = Cluster::start(StoreChoice::Embedded, script, Receiver::ca_bundle);
    let mut exec = begin(&cluster, &path_of_exec(), UPGRADE);
    assert!(read_until(&mut exec, "\r\n\r\n").starts_with("HTTP/1.1 101"));
    echo(&mut exec, "before");
    let mut log = begin(&cluster, &path_of_log(), "");
    read_until(&mut log, "\"one\"\n\r\n");
    let mut watch = begin(&cluster, "/api/v1/namespaces?watch=1&resourceVersion=0", "");
    read_until(&mut watch, "\r\n\r\n");

    cluster.server.process().signal("TERM").expect("sent");
    // It hears of the stop as the streams do.
    read_until(&mut watch, "\r\n0\r\n\r\n");
    let other = cluster.get(&format!("{POD}/log?container=side"));
    assert_eq!((other.code, other.text().as_str()), (200, "\"a\"\n\"b\"\n"));
    echo(&mut exec, "after");
    cluster.receiver.open_gate();
    read_until(&mut log, "\"two\"\n\r\n0\r\n\r\n");
    drop((log, watch));
    // The connection to the kubelet is the last one, and not waited for: it breaks off.
    assert!(matches!(exec.read(&mut [0]), Ok(0) | Err(_)));
    assert_eq!(cluster.server.process().wait(PATIENCE), Ok("exit status: 0".to_owned()));
}

/// Lets alice do everything.
fn bind_alice(cluster: &Cluster) {
    let group = "rbac.authorization.k8s.io";
    let binding = json!({
        "metadata": {"name": "alice"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": "alice"}],
    });
    let path = format!("/apis/{group}/v1/clusterrolebindings");
    let answer = cluster.client().json("POST", &path, &binding).expect("an answer");
    assert_eq!(answer.code, 201, "{}", answer.text());
}

/// A connection of alice's, once that of before is gone and her rights are there.
fn connection_of_alice(cluster: &Cluster) -> Connection {
    let mut admitted = None;
    until("alice is admitted", PATIENCE, || {
        let mut connection = cluster.client().open().expect("a connection");
        let answer = connection.send_raw(&request(POD, USER_TOKEN, ""), "GET");
        if answer.is_ok_and(|answer| answer.code == 200) {
            admitted = Some(connection);
        }
        admitted.is_some()
    });
    admitted.expect("she was admitted")
}

/// The answer to alice over an administrator's connection: her bound of connections, which is that of streams, does not count.
fn answer_to_alice(cluster: &Cluster, path: &str) -> Answer {
    let mut connection = cluster.client().open().expect("a connection");
    let first = connection.send_raw(&request("/version", ADMIN_TOKEN, ""), "GET");
    assert_eq!(first.expect("an answer").code, 200);
    let answer = connection.send_raw(&request(path, USER_TOKEN, ""), "GET");
    answer.expect("an answer")
}

/// Checks that alice has one stream open and gets no other one.
fn check_bound(cluster: &Cluster, refused_path: &str, refused_before: f64) {
    let metric = |name: &str, labels: &[&str]| cluster.client().metric(name, labels);
    let refused = |bound: &str| metric("trireme_streams_refused_total", &[bound]);
    assert_eq!(metric("trireme_streams", &[]), 1.0);
    assert_eq!(refused("bound=\"user\""), refused_before);
    let answer = answer_to_alice(cluster, refused_path);
    assert_eq!(answer.code, 429, "{}", answer.text());
    assert_eq!(answer.header("retry-after").collect::<Vec<_>>(), ["5"]);
    let expected = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 429, "reason": "TooManyRequests",
        "message": "too many streams: user \"alice\" has 1 open, which is the limit (--max-connections-per-user), \
                    please try again later",
        "details": {"retryAfterSeconds": 5},
    });
    assert_eq!(read(&answer), expected);
    assert_eq!(refused("bound=\"user\""), refused_before + 1.0);
    assert_eq!((refused("bound=\"all\""), metric("trireme_streams", &[])), (0.0, 1.0));
    assert_eq!(
        answer_to_alice(cluster, POD).code,
        200,
        "other requests are not counted"
    );
}

#[test]
fn streams_are_bounded_for_a_user() {
    let flags = ["--max-connections-per-user=1"];
    let cluster = Cluster::start_with(StoreChoice::Embedded, script_of_app(), Receiver::ca_bundle, &flags);
    bind_alice(&cluster);
    let none_is_open = || {
        until("no stream is open", PATIENCE, || {
            cluster.client().metric("trireme_streams", &[]) == 0.0
        });
    };

    let mut exec = connection_of_alice(&cluster);
    send(&mut exec, &request(&path_of_exec(), USER_TOKEN, UPGRADE));
    assert!(read_until(&mut exec, "\r\n\r\n").starts_with("HTTP/1.1 101"));
    check_bound(&cluster, &path_of_log(), 0.0);
    echo(&mut exec, "still there");
    drop(exec);
    none_is_open();

    let mut log = connection_of_alice(&cluster);
    send(&mut log, &request(&path_of_log(), USER_TOKEN, ""));
    read_until(&mut log, "\"one\"\n\r\n");
    check_bound(&cluster, &path_of_exec(), 1.0);
    cluster.receiver.open_gate();
    read_until(&mut log, "\"two\"\n\r\n0\r\n\r\n");
    none_is_open();
}
