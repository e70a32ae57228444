//! Requests that kubelets and pods answer: logs, `exec` and its siblings, proxies. A scripted server is both.

mod streams;

use std::io::{Read as _, Write as _};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use tempfile::TempDir;
use trireme_storage::{Compare, EtcdOptions, EtcdStore, PutOptions, Storage as _};
use trireme_tests::certificates::Ca;
use trireme_tests::http::{Answer, Client, Request};
use trireme_tests::receiver::Receiver;
use trireme_tests::{Server, StoreChoice};

const POD: &str = "/api/v1/namespaces/default/pods/web";

/// A server with a node whose kubelet, and whose pod, is the scripted server.
struct Cluster {
    server: Server,
    receiver: Receiver,
    _files: TempDir,
}

impl Cluster {
    /// `ca` signs the certificates of kubelets, as far as this server knows.
    fn start(store: StoreChoice, script: Vec<Value>, ca: impl FnOnce(&Receiver) -> String) -> Self {
        Self::start_with(store, script, ca, &[])
    }

    /// The same, of a server with more flags.
    fn start_with(store: StoreChoice, script: Vec<Value>, ca: impl FnOnce(&Receiver) -> String, more: &[&str]) -> Self {
        let clients = Ca::new("kubelet-clients");
        let receiver = Receiver::start(script, "default", Some(&clients)).expect("a port");
        let files = TempDir::new().expect("a directory");
        let write = |name: &str, text: &[u8]| {
            let path = files.path().join(name);
            std::fs::write(&path, text).expect("written");
            path.display().to_string()
        };
        let ca = STANDARD.decode(ca(&receiver)).expect("base64");
        let (certificate, key) = clients.issue("kube-apiserver-kubelet-client");
        let flags = [
            "--disable-admission-plugins=ServiceAccount".to_owned(),
            "--kubelet-preferred-address-types=InternalIP,Hostname".to_owned(),
            format!("--kubelet-certificate-authority={}", write("ca.crt", &ca)),
            format!(
                "--kubelet-client-certificate={}",
                write("client.crt", certificate.pem().as_bytes())
            ),
            format!(
                "--kubelet-client-key={}",
                write("client.key", key.serialize_pem().as_bytes())
            ),
        ];
        let flags: Vec<&str> = flags.iter().map(String::as_str).chain(more.iter().copied()).collect();
        let server = Server::try_start(store, &flags);
        let cluster = Self {
            server: server.unwrap_or_else(|error| panic!("{error}")),
            receiver,
            _files: files,
        };
        cluster.create_objects();
        cluster
    }

    fn create_objects(&self) {
        let port = self.receiver.port();
        let make = |collection: &str, object: Value| {
            let answer = self.client().json("POST", collection, &object).expect("an answer");
            assert_eq!(answer.code, 201, "{}", answer.text());
        };
        make(
            "/api/v1/nodes",
            json!({"metadata": {"name": "worker"}, "status": {
                "addresses": [{"type": "Hostname", "address": "unknown.invalid"}, {"type": "InternalIP", "address": "127.0.0.1"}],
                "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
            }}),
        );
        make("/api/v1/nodes", json!({"metadata": {"name": "silent"}}));
        for (name, node) in [("web", "worker"), ("lost", "silent"), ("gone", "nowhere")] {
            let pod = json!({"metadata": {"name": name}, "spec": {
                "nodeName": node, "containers": [{"name": "app", "image": "app"}, {"name": "side", "image": "side"}],
            }});
            make("/api/v1/namespaces/default/pods", pod);
        }
        let mut pod = read(&self.client().get(POD).expect("an answer"));
        pod["status"]["podIPs"] = json!([{"ip": "127.0.0.1"}]);
        pod["status"]["podIP"] = json!("127.0.0.1");
        let updated = self
            .client()
            .json("PUT", &format!("{POD}/status"), &pod)
            .expect("an answer");
        assert_eq!(updated.code, 200, "{}", updated.text());
        make(
            "/api/v1/namespaces/default/services",
            json!({"metadata": {"name": "web"}, "spec": {"ports": [{"name": "https", "port": 443}]}}),
        );
    }

    /// Puts the addresses of the service into the store. They would be refused: only here do pods have those of this machine.
    fn put_endpoints(&self) {
        let pod = json!({"kind": "Pod", "namespace": "default", "name": "web"});
        let endpoints = json!({
            "kind": "Endpoints", "apiVersion": "v1", "metadata": {"name": "web", "namespace": "default", "uid": "u"},
            "subsets": [{
                "addresses": [{"ip": "127.0.0.2", "targetRef": pod}, {"ip": "127.0.0.1", "targetRef": pod}, {"ip": "127.0.0.3"}],
                "ports": [{"name": "other", "port": 1}, {"name": "https", "port": self.receiver.port()}],
            }],
        });
        let etcd = self.server.etcd().expect("a server over etcd").url();
        let runtime = tokio::runtime::Runtime::new().expect("a runtime can be made");
        runtime.block_on(async {
            let store = EtcdStore::connect(EtcdOptions::new([etcd]))
                .await
                .expect("etcd answers");
            let (key, value) = ("/registry/services/endpoints/default/web", endpoints.to_string().into());
            let put = store.put(key, value, Compare::Absent, PutOptions::default());
            put.await.expect("stored");
        });
    }

    fn client(&self) -> Client {
        self.server.client()
    }

    fn get(&self, path: &str) -> Answer {
        self.client().get(path).expect("an answer")
    }

    /// The request line that the other server saw last.
    fn last_path(&self) -> Value {
        self.receiver
            .received()
            .last()
            .map_or(Value::Null, |request| request["path"].clone())
    }
}

fn read(answer: &Answer) -> Value {
    serde_json::from_str(&answer.text()).expect("JSON")
}

#[test]
fn logs_are_those_of_the_kubelet() {
    let script = vec![
        json!({"path": "/containerLogs/default/web/app", "raw": "one\ntwo\n", "headers": {"Content-Type": "text/x", "X-Kubelet": "1"},
               "show": ["Authorization"], "showCertificate": true}),
        json!({"path": "/containerLogs/default/web/side", "status": 404, "raw": "no such container"}),
    ];
    let cluster = Cluster::start(StoreChoice::Embedded, script, Receiver::ca_bundle);
    let log = cluster.get(&format!(
        "{POD}/log?container=app&tailLines=2&timestamps=1&previous=false&sinceTime=2026-01-02T03:04:05%2B01:00&pretty=true"
    ));
    assert_eq!((log.code, log.text().as_str()), (200, "one\ntwo\n"));
    assert_eq!(log.header("content-type").collect::<Vec<_>>(), ["text/plain"]);
    assert_eq!(log.header("x-kubelet").next(), None);
    let request = &cluster.receiver.received()[0];
    let query = "sinceTime=2026-01-02T02%3A04%3A05Z&tailLines=2&timestamps=true";
    assert_eq!(request["path"], format!("/containerLogs/default/web/app?{query}"));
    assert_eq!(request["headers"]["Authorization"], Value::Null);
    assert_eq!(request["certificate"], true, "{request}");

    let refused = cluster.get(&format!("{POD}/log?container=side"));
    let status = read(&refused);
    assert_eq!((refused.code, &status["reason"]), (404, &json!("NotFound")));
    assert_eq!(
        status["message"],
        "the server could not find the requested resource ( pods/log web)"
    );
    let lost = read(&cluster.get("/api/v1/namespaces/default/pods/lost/log?container=app"));
    assert_eq!(
        (&lost["message"], &lost["code"], &lost["reason"]),
        (
            &json!("no preferred addresses found; known addresses: []"),
            &json!(500),
            &Value::Null
        )
    );
    for (accept, why) in [
        (
            "text/plain",
            "only the following media types are accepted: application/json, application/yaml, ",
        ),
        (
            "image/png",
            "406: Not Acceptable\n\nAvailable representations: text/plain, application/json, ",
        ),
    ] {
        let request = Request {
            method: "GET",
            path: &format!("{POD}/log?container=app"),
            accept: Some(accept),
            ..Request::default()
        };
        let refused = cluster.client().send(&request).expect("an answer");
        let message = read(&refused)["message"].as_str().unwrap_or_default().to_owned();
        assert_eq!((refused.code, message.starts_with(why)), (406, true), "{message}");
    }
    for subresource in ["log", "exec", "attach", "portforward"] {
        let request = Request {
            method: "HEAD",
            path: &format!("{POD}/{subresource}?container=app"),
            ..Request::default()
        };
        let refused = cluster.client().send(&request).expect("an answer");
        assert_eq!(refused.code, 405, "{subresource}");
    }
    let gone = cluster.get("/api/v1/namespaces/default/pods/gone/log?container=app");
    assert_eq!(
        (gone.code, read(&gone)["message"].as_str()),
        (404, Some("pods \"nowhere\" not found"))
    );
}

#[test]
fn a_kubelet_must_have_a_certificate_of_the_ca_unless_the_client_does_not_mind() {
    let script = vec![json!({"path": "*", "raw": "line\n"})];
    let cluster = Cluster::start(StoreChoice::Embedded, script, Receiver::other_ca_bundle);
    let log = format!("{POD}/log?container=app");
    let refused = read(&cluster.get(&log));
    let message = refused["message"].as_str().unwrap_or_default();
    let begin = format!(
        "Get \"https://127.0.0.1:{}/containerLogs/default/web/app\": ",
        cluster.receiver.port()
    );
    assert!(message.starts_with(&begin) && message.contains("x509: "), "{message}");
    assert_eq!(refused["code"], 500);
    let log = cluster.get(&format!("{log}&insecureSkipTLSVerifyBackend=true"));
    assert_eq!((log.code, log.text().as_str()), (200, "line\n"));
}

#[test]
fn streams_go_on_with_the_kubelet() {
    let upgraded =
        json!({"Connection": "Upgrade", "Upgrade": "SPDY/3.1", "X-Stream-Protocol-Version": "v4.channel.k8s.io"});
    let script = vec![
        json!({"path": "/exec/default/web/app", "status": 101, "headers": upgraded,
               "show": ["Upgrade", "X-Stream-Protocol-Version", "Authorization", "X-Forwarded-For"]}),
        json!({"path": "/portForward/default/web", "status": 101, "headers": upgraded}),
        json!({"path": "/attach/default/web/app", "status": 403, "raw": "not you"}),
        json!({"path": "/attach/default/web/side", "status": 200, "raw": "what"}),
    ];
    let cluster = Cluster::start(StoreChoice::Embedded, script, Receiver::ca_bundle);
    let start = |path: &str| {
        let mut connection = cluster.client().open().expect("a connection");
        let head = format!(
            "POST {POD}/{path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer admin-token\r\nConnection: Upgrade\r\n\
             Upgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\nContent-Length: 0\r\n\r\n"
        );
        let answer = connection.send_raw(head.as_bytes(), "POST").expect("an answer");
        (answer, connection)
    };
    let (switched, mut connection) =
        start("exec?container=app&command=sh&command=-c&command=a%20b&stdin=true&stdout=1&stderr=0&tty=true");
    assert_eq!(switched.code, 101, "{}", switched.text());
    assert_eq!(switched.header("upgrade").collect::<Vec<_>>(), ["SPDY/3.1"]);
    assert_eq!(
        switched.header("x-stream-protocol-version").collect::<Vec<_>>(),
        ["v4.channel.k8s.io"]
    );
    connection.write_all(b"hello").expect("sent");
    let mut heard = [0; 5];
    connection.read_exact(&mut heard).expect("an echo");
    assert_eq!(&heard, b"hello");
    let request = &cluster.receiver.received()[0];
    assert_eq!(
        request["path"],
        "/exec/default/web/app?command=sh&command=-c&command=a+b&input=1&output=1&tty=1"
    );
    assert_eq!(request["method"], "POST");
    assert_eq!(
        request["headers"],
        json!({
            "Upgrade": ["SPDY/3.1"], "X-Stream-Protocol-Version": ["v4.channel.k8s.io"], "Authorization": null,
            "X-Forwarded-For": ["127.0.0.1"],
        })
    );
    let (switched, _connection) = start("portforward?ports=80&ports=443");
    assert_eq!(switched.code, 101, "{}", switched.text());
    assert_eq!(cluster.last_path(), "/portForward/default/web?port=80%2C443");

    let (refused, _connection) = start("attach?container=app");
    assert_eq!((refused.code, refused.text().as_str()), (403, "not you"));
    let (confused, _connection) = start("attach?container=side");
    assert_eq!(read(&confused)["message"], "invalid upgrade response: status code 200");
    let plain = cluster
        .client()
        .json("POST", &format!("{POD}/exec?container=app"), &Value::Null);
    let plain = plain.expect("an answer");
    assert_eq!(
        (plain.code, read(&plain)["message"].as_str()),
        (400, Some("Upgrade request required"))
    );
}

#[test]
fn a_kubelet_that_is_away_is_reported() {
    let cluster = Cluster::start(StoreChoice::Embedded, Vec::new(), Receiver::ca_bundle);
    let mut node = read(&cluster.get("/api/v1/nodes/worker"));
    let port = trireme_ports::free_port();
    node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"] = json!(port);
    let updated = cluster
        .client()
        .json("PUT", "/api/v1/nodes/worker/status", &node)
        .expect("an answer");
    assert_eq!(updated.code, 200, "{}", updated.text());
    let refused = format!("dial tcp 127.0.0.1:{port}: connect: connection refused");
    let log = read(&cluster.get(&format!("{POD}/log?container=app&follow=true")));
    let url = format!("https://127.0.0.1:{port}/containerLogs/default/web/app?follow=true");
    assert_eq!(log["message"], format!("Get \"{url}\": {refused}"));
    let head = format!(
        "GET {POD}/exec?container=app&command=sh&stdout=true HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer admin-token\r\n\
         Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n"
    );
    let mut connection = cluster.client().open().expect("a connection");
    let exec = read(&connection.send_raw(head.as_bytes(), "GET").expect("an answer"));
    assert_eq!(
        (&exec["code"], &exec["message"]),
        (&json!(500), &json!(format!("error dialing backend: {refused}")))
    );
}

#[test]
fn proxies_lead_to_the_pods_of_a_service() {
    let script = vec![
        json!({"path": "/moved", "status": 302, "headers": {"Location": "/there?x=1", "Access-Control-Allow-Origin": "*"}}),
        json!({"path": "/a%20b/", "method": "POST", "status": 201, "raw": "made",
               "show": ["Host", "X-Forwarded-Uri", "X-Forwarded-For", "Authorization", "X-Own"]}),
        json!({"path": "/", "method": "GET", "raw": "root ${query}"}),
        json!({"path": "/", "method": "POST", "status": 201, "raw": "made"}),
        json!({"path": "/page", "raw": "<a href=\"/rewriteme\">test</a>",
               "headers": {"Content-Type": "text/html; charset=utf-8", "Cache-Control": "max-age=60"}}),
        json!({"path": "/switch", "show": ["Sec-WebSocket-Protocol", "Impersonate-User", "Content-Length"], "status": 101, "headers": {"Connection": "Upgrade", "Upgrade": "own/1"}}),
    ];
    let cluster = Cluster::start(StoreChoice::Etcd, script, Receiver::ca_bundle);
    cluster.put_endpoints();
    let proxy = "/api/v1/namespaces/default/services/https:web:https/proxy";
    let slash = cluster.get(&format!("{proxy}?q=1"));
    assert_eq!(slash.code, 301);
    assert_eq!(slash.header("location").collect::<Vec<_>>(), [format!("{proxy}/?q=1")]);
    let root = cluster.get(&format!("{proxy}/?q=1"));
    assert_eq!((root.code, root.text().as_str()), (200, "root q=1"));
    let by_number = cluster.get("/api/v1/namespaces/default/services/https:web:443/proxy/");
    assert_eq!(by_number.code, 200, "{}", by_number.text());
    let page = cluster.get(&format!("{proxy}/page"));
    assert_eq!(page.text(), format!("<a href=\"{proxy}/rewriteme\">test</a>"));
    assert_eq!(
        page.header("cache-control").collect::<Vec<_>>(),
        ["no-cache, private", "max-age=60"]
    );
    let moved = cluster.get(&format!("{proxy}/moved"));
    assert_eq!(moved.code, 302);
    assert_eq!(
        moved.header("location").collect::<Vec<_>>(),
        [format!("{proxy}/there?x=1")]
    );
    assert_eq!(moved.header("access-control-allow-origin").next(), None);

    let request = Request {
        method: "POST",
        path: &format!("{proxy}/x/../a%20b//?b=2&a"),
        body: Some(br#"{"k":"v"}"#.to_vec()),
        content_type: Some("application/json"),
        headers: &[("X-Own".to_owned(), "kept".to_owned())],
        ..Request::default()
    };
    let made = cluster.client().send(&request).expect("an answer");
    assert_eq!((made.code, made.text().as_str()), (201, "made"));
    let received = cluster.receiver.received();
    let request = received.last().expect("a request");
    assert_eq!(
        (&request["path"], &request["body"]),
        (&json!("/a%20b/?b=2&a"), &json!({"k": "v"}))
    );
    assert_eq!(request["headers"]["X-Own"], json!(["kept"]));
    assert_eq!(request["headers"]["X-Forwarded-For"], json!(["127.0.0.1"]));
    assert_eq!(request["headers"]["Authorization"], Value::Null);
    assert!(
        request["headers"]["X-Forwarded-Uri"][0]
            .as_str()
            .is_some_and(|uri| uri.ends_with("/a%20b/")),
        "{request}"
    );

    let posted = cluster.client().json("POST", proxy, &json!({})).expect("an answer");
    assert_eq!(
        (posted.code, cluster.last_path()),
        (201, json!("/")),
        "{}",
        posted.text()
    );

    let mut connection = cluster.client().open().expect("a connection");
    // `admin-token` in base64.
    let head = format!(
        "GET {proxy}/switch HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nImpersonate-User: jane\r\nImpersonate-Group: system:masters\r\nContent-Length: 0\r\n\
         Sec-WebSocket-Protocol: base64url.bearer.authorization.k8s.io.YWRtaW4tdG9rZW4, chat\r\n\r\n"
    );
    let switched = connection.send_raw(head.as_bytes(), "GET").expect("an answer");
    assert_eq!(switched.code, 101, "{}", switched.text());
    connection.write_all(b"hello").expect("sent");
    let mut heard = [0; 5];
    connection.read_exact(&mut heard).expect("an echo");
    assert_eq!(&heard, b"hello");
    let received = cluster.receiver.received();
    let expected = json!({"Sec-WebSocket-Protocol": ["chat"], "Impersonate-User": null, "Content-Length": null});
    assert_eq!(received.last().map(|request| &request["headers"]), Some(&expected));

    for (path, why) in [
        ("pods/web:443/proxy/", "address not allowed"),
        (
            "services/web:other2/proxy/",
            "no endpoints available for service \"web:other2\"",
        ),
        ("services/web:80/proxy/", "no service port 80 found for service \"web\""),
    ] {
        let answer = cluster.get(&format!("/api/v1/namespaces/default/{path}"));
        assert_eq!(read(&answer)["message"], why, "{path}");
    }
    let node = cluster.get("/api/v1/nodes/worker/proxy/");
    assert_eq!(
        (node.code, read(&node)["message"].as_str()),
        (400, Some("address not allowed"))
    );
}
