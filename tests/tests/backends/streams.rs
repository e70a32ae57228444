//! Streams of a replica that is to stop: `exec`, logs.

use std::io::{Read, Write as _};
use std::time::Duration;

use serde_json::json;
use trireme_tests::StoreChoice;
use trireme_tests::http::Connection;
use trireme_tests::receiver::Receiver;

use super::{Cluster, POD};

const PATIENCE: Duration = Duration::from_secs(60);

/// Sends a request whose answer goes on.
fn begin(cluster: &Cluster, path: &str, headers: &str) -> Connection {
    let mut connection = cluster.client().open().expect("a connection");
    let head = format!("GET {path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer admin-token\r\n{headers}\r\n");
    connection.write_all(head.as_bytes()).expect("sent");
    connection.flush().expect("sent");
    connection
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
    let script = vec![
        json!({"path": "/containerLogs/default/web/app", "lines": ["one", "two"], "gate": true}),
        json!({"path": "/containerLogs/default/web/side", "lines": ["a", "b"]}),
        json!({"path": "/exec/default/web/app", "status": 101, "headers": {"Connection": "Upgrade", "Upgrade": "SPDY/3.1"}}),
    ];
    let mut cluster = Cluster::start(StoreChoice::Embedded, script, Receiver::ca_bundle);
    let upgrade = "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n";
    let mut exec = begin(
        &cluster,
        &format!("{POD}/exec?container=app&command=sh&stdin=1"),
        upgrade,
    );
    assert!(read_until(&mut exec, "\r\n\r\n").starts_with("HTTP/1.1 101"));
    echo(&mut exec, "before");
    let mut log = begin(&cluster, &format!("{POD}/log?container=app&follow=true"), "");
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
