//! Logs over WebSocket, as pages in a browser read them. A scripted server is the kubelet.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use trireme_tests::group::until;
use trireme_tests::receiver::Receiver;
use trireme_tests::websocket::{Received, Socket};
use trireme_tests::{Server, StoreChoice};

/// The time limit of waits for what comes in a moment, or never.
const PATIENCE: Duration = Duration::from_secs(30);
const NORMAL: u16 = 1000;
const GOING_AWAY: u16 = 1001;
const INTERNAL_ERROR: u16 = 1011;

/// A server, and the kubelet of the node of its pod.
struct Cluster {
    server: Server,
    kubelet: Receiver,
}

impl Cluster {
    /// The containers of the pod are those that the kubelet has logs of.
    fn start(logs: &[(&str, Value)]) -> Self {
        let script = logs.iter().map(|(container, log)| {
            let mut entry = log.clone();
            entry["path"] = format!("/containerLogs/default/web/{container}").into();
            entry
        });
        let kubelet = Receiver::start(script.collect(), "default", None).expect("a port");
        let flags = [
            "--disable-admission-plugins=ServiceAccount",
            "--kubelet-preferred-address-types=InternalIP",
        ];
        let server = Server::try_start(StoreChoice::Embedded, &flags).unwrap_or_else(|error| panic!("{error}"));
        let make = |collection: &str, object: &Value| {
            let answer = server.client().json("POST", collection, object).expect("an answer");
            assert_eq!(answer.code, 201, "{}", answer.text());
        };
        let status = json!({
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet.port()}},
        });
        make(
            "/api/v1/nodes",
            &json!({"metadata": {"name": "worker"}, "status": status}),
        );
        let containers = logs.iter().map(|(name, _)| json!({"name": name, "image": "i"}));
        let spec = json!({"nodeName": "worker", "containers": containers.collect::<Vec<_>>()});
        let pods = "/api/v1/namespaces/default/pods";
        make(pods, &json!({"metadata": {"name": "web"}, "spec": spec}));
        Self { server, kubelet }
    }

    fn open(&self, container: &str, protocols: &str) -> Result<Socket, u16> {
        // The kubelet has a certificate of a CA that the server does not know.
        let query = format!("container={container}&insecureSkipTLSVerifyBackend=true");
        let path = format!("/api/v1/namespaces/default/pods/web/log?{query}");
        let protocols = Some(("sec-websocket-protocol", protocols)).filter(|(_, protocols)| !protocols.is_empty());
        let headers: Vec<(&str, &str)> = protocols.into_iter().collect();
        Socket::open(&self.server.client(), &path, &headers)
    }

    /// The number of long-running requests for pods that the metrics show.
    fn open_logs(&self) -> f64 {
        let metrics = self.server.client().get("/metrics").expect("an answer").text();
        let lines = metrics
            .lines()
            .filter(|line| line.starts_with("apiserver_longrunning_requests{") && line.contains("resource=\"pods\""));
        lines
            .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
            .sum()
    }
}

/// The rest of a log, and the code that it ends with.
fn rest(socket: &mut Socket) -> (String, Option<u16>) {
    let mut log = Vec::new();
    loop {
        match socket.receive() {
            Received::Bytes(bytes) => log.extend(bytes),
            Received::Text(text) => log.extend(STANDARD.decode(text).expect("base64")),
            Received::Closed(code) => return (String::from_utf8(log).expect("a text"), code),
            other => panic!("nothing of a log: {other:?}"),
        }
    }
}

#[test]
fn logs_come_as_messages_in_the_subprotocol_that_is_asked_for() {
    let text = "one\ntwo ä\n";
    let long = "a long line\n".repeat(500_000);
    let cluster = Cluster::start(&[
        ("app", json!({"raw": text})),
        ("long", json!({"raw": long})),
        ("none", json!({"raw": ""})),
        ("refused", json!({"status": 404, "raw": "no such container"})),
    ]);
    let (binary, base64) = ("binary.k8s.io", "base64.binary.k8s.io");
    for (offered, taken) in [
        ("", None),
        (binary, Some(binary)),
        (base64, Some(base64)),
        ("v5.channel.k8s.io, base64.binary.k8s.io, binary.k8s.io", Some(base64)),
    ] {
        let first = match taken {
            Some(protocol) if protocol == base64 => Received::Text(String::new()),
            _ => Received::Bytes(Vec::new()),
        };
        for (container, expected) in [("app", text), ("long", &*long), ("none", "")] {
            let mut socket = cluster.open(container, offered).expect("upgraded");
            assert_eq!(socket.protocol.as_deref(), taken, "{offered}");
            assert_eq!(socket.receive(), first, "{offered}");
            let (log, code) = rest(&mut socket);
            assert!(log == expected, "{container} over {offered}: {} bytes", log.len());
            assert_eq!(code, Some(NORMAL), "{container} over {offered}");
        }
    }
    // The kubelet answers first, as with kube-apiserver.
    assert_eq!(cluster.open("refused", binary).err(), Some(404));
    assert_eq!(cluster.open("refused", "channel.k8s.io").err(), Some(404));
    assert_eq!(cluster.open("app", "channel.k8s.io").err(), Some(403));
    assert_eq!(cluster.open("unknown", binary).err(), Some(400));
}

#[test]
fn logs_end_in_order_only_if_they_are_complete() {
    let mut cluster = Cluster::start(&[
        ("cut", json!({"lines": ["one", "two"], "cut": true})),
        ("followed", json!({"lines": ["one", "two"], "gate": true})),
    ]);
    let mut cut = cluster.open("cut", "binary.k8s.io").expect("upgraded");
    assert_eq!(rest(&mut cut), ("\"one\"\n\"two\"\n".to_owned(), Some(INTERNAL_ERROR)));

    let open = |cluster: &Cluster| {
        let mut socket = cluster.open("followed", "binary.k8s.io").expect("upgraded");
        assert_eq!(socket.receive(), Received::Bytes(Vec::new()));
        assert_eq!(socket.receive(), Received::Bytes(b"\"one\"\n".to_vec()));
        socket
    };
    let mut followed = open(&cluster);
    followed.ping("there?");
    assert_eq!(followed.receive(), Received::Pong(b"there?".to_vec()));
    until("one log is open", PATIENCE, || cluster.open_logs() == 1.0);
    followed.close();
    until("no log is open", PATIENCE, || cluster.open_logs() == 0.0);

    let mut followed = open(&cluster);
    let mut watch = Socket::open(&cluster.server.client(), "/api/v1/namespaces?watch=1", &[]).expect("upgraded");
    cluster.server.process().signal("TERM").expect("sent");
    // It hears of the stop as the log does.
    while watch.receive() != Received::Closed(Some(GOING_AWAY)) {}
    watch.close();
    followed.ping("still there?");
    assert_eq!(followed.receive(), Received::Pong(b"still there?".to_vec()));
    cluster.kubelet.open_gate();
    assert_eq!(rest(&mut followed), ("\"two\"\n".to_owned(), Some(NORMAL)));
    followed.close();
    assert_eq!(cluster.server.process().wait(PATIENCE), Ok("exit status: 0".to_owned()));
}
