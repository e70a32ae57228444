//! Another API server behind an APIService, as its users see it through two replicas over one etcd.

#[path = "aggregation/faults.rs"]
mod faults;

use std::io::{Read as _, Write as _};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use trireme_tests::StoreChoice;
use trireme_tests::certificates::Ca;
use trireme_tests::group::until;
use trireme_tests::http::{Answer, Body, Client, Request};
use trireme_tests::receiver::Receiver;
use trireme_tests::server::{CONTROLLERS, Server};

const GROUP: &str = "metal.example.com";
const VERSION: &str = "/apis/metal.example.com/v1";
const RODS: &str = "/apis/metal.example.com/v1/namespaces/mines/rods";
const API_SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
/// The time limit of waits for things that come in a second or two, or never.
const PATIENCE: Duration = Duration::from_secs(30);

/// Two replicas, and the other server.
struct Scene {
    replicas: [Server; 2],
    receiver: Receiver,
    _files: TempDir,
}

/// The answers of the other server.
fn script() -> Vec<Value> {
    let rod = json!({"apiVersion": "metal.example.com/v1", "kind": "Rod", "metadata": {"name": "copper"}});
    let event = |kind: &str| json!({"type": kind, "object": rod});
    let resources = json!([{"name": "rods", "singularName": "rod", "namespaced": true, "kind": "Rod", "verbs": ["get", "list", "watch"]}]);
    let reference = json!({"$ref": "#/definitions/com.example.Rod"});
    let entry = |path: &str, body: Value| json!({"path": path, "body": body, "record": false});
    // Others who ask find nothing.
    let of_user = |user: &str, path: &str, body: Value| json!({"path": path, "body": body, "record": false, "match": {"X-Remote-User": user}});
    let index = json!({"paths": {
        "apis/metal.example.com": {"serverRelativeURL": "/openapi/v3/apis/metal.example.com?hash=CD34"},
        "apis/metal.example.com/v1": {"serverRelativeURL": "/openapi/v3/apis/metal.example.com/v1?hash=AB12"},
        "version": {"serverRelativeURL": "/openapi/v3/version?hash=EF56"},
    }});
    vec![
        json!({"path": "/apis", "status": 404, "record": false}),
        entry(
            VERSION,
            json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "metal.example.com/v1", "resources": resources}),
        ),
        of_user("system:aggregator", "/openapi/v3", index),
        of_user(
            "admin",
            "/openapi/v3/apis/metal.example.com/v1",
            json!({"openapi": "3.0.0", "info": {"title": "rods"}}),
        ),
        of_user(
            "admin",
            "/openapi/v3/apis/metal.example.com",
            json!({"openapi": "3.0.0", "info": {"title": "the group"}}),
        ),
        entry(
            "/openapi/v2",
            json!({
                "paths": {"/apis/metal.example.com/v1/rods": {"get": {"responses": {"200": {"schema": reference}}}}, "/other/": {}},
                "definitions": {"com.example.Rod": {"type": "object"}, "com.example.Other": {}},
            }),
        ),
        json!({"path": format!("{RODS}/copper/bend"), "status": 101, "headers": {"Connection": "Upgrade", "Upgrade": "bending/1"}, "record": false}),
        entry(&format!("{RODS}/copper/stay"), json!({})),
        json!({"path": format!("{RODS}/copper"), "body": rod, "show": ["X-Remote-User", "X-Remote-Group", "Authorization", "X-Forwarded-For"], "showCertificate": true}),
        json!({"path": RODS, "method": "POST", "status": 201, "body": rod, "headers": {"X-Forge": "1"}}),
        json!({"path": RODS, "lines": [event("ADDED"), event("DELETED")], "hold": 5, "record": false}),
    ]
}

impl Scene {
    fn start() -> Self {
        let proxies = Ca::new("proxies");
        let files = TempDir::new().expect("a directory");
        let (certificate, key) = proxies.issue("front-proxy-client");
        let write = |name: &str, text: String| {
            let path = files.path().join(name);
            std::fs::write(&path, text).expect("written");
            path.display().to_string()
        };
        let certificate = write("proxy.crt", certificate.pem());
        let key = write("proxy.key", key.serialize_pem());
        let flags = [
            CONTROLLERS.to_owned(),
            format!("--proxy-client-cert-file={certificate}"),
            format!("--proxy-client-key-file={key}"),
        ];
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let first = Server::try_start(StoreChoice::Etcd, &flags).unwrap_or_else(|error| panic!("{error}"));
        let second = first.start_beside(&flags).unwrap_or_else(|error| panic!("{error}"));
        let receiver = Receiver::start(script(), "mines", Some(&proxies)).expect("a port");
        Self {
            replicas: [first, second],
            receiver,
            _files: files,
        }
    }

    fn client(&self) -> Client {
        self.replicas[0].client()
    }

    fn register(&self) {
        let send = |path: &str, body: Value| {
            let answer = self.client().json("POST", path, &body).expect("an answer");
            assert_eq!(answer.code, 201, "{}", answer.text());
        };
        send("/api/v1/namespaces", json!({"metadata": {"name": "mines"}}));
        send(
            "/api/v1/namespaces/mines/services",
            json!({"metadata": {"name": "rods"}, "spec": {"type": "ExternalName", "externalName": "127.0.0.1"}}),
        );
        send(
            API_SERVICES,
            json!({
                "metadata": {"name": "v1.metal.example.com"},
                "spec": {
                    "group": GROUP, "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 15,
                    "caBundle": self.receiver.ca_bundle(),
                    "service": {"namespace": "mines", "name": "rods", "port": self.receiver.port()},
                },
            }),
        );
    }

    /// Waits until all replicas answer so.
    fn until_all(&self, what: &str, is_so: impl Fn(&Client) -> bool) {
        for replica in &self.replicas {
            until(what, PATIENCE, || is_so(&replica.client()));
        }
    }
}

fn get(client: &Client, path: &str, accept: Option<&'static str>) -> Answer {
    let request = Request {
        method: "GET",
        path,
        accept,
        ..Request::default()
    };
    client.send(&request).expect("an answer")
}

fn json_of(client: &Client, path: &str) -> Value {
    serde_json::from_str(&get(client, path, Some("application/json")).text()).unwrap_or_default()
}

/// The entry of the group in aggregated discovery.
fn discovered(client: &Client) -> Value {
    let document: Value = serde_json::from_str(&get(client, "/apis", Some(AGGREGATED)).text()).unwrap_or_default();
    let mut items = document["items"].as_array().into_iter().flatten();
    let found = items.find(|item| item["metadata"]["name"] == GROUP);
    found.map(|group| group["versions"][0].clone()).unwrap_or_default()
}

fn condition(client: &Client) -> Value {
    json_of(client, &format!("{API_SERVICES}/v1.metal.example.com"))["status"]["conditions"][0].clone()
}

#[test]
fn another_server_answers_for_its_group_through_every_replica() {
    let scene = Scene::start();
    scene.register();
    scene.until_all("the other server answers", |client| {
        get(client, VERSION, None).code == 200
    });
    assert_eq!(condition(&scene.client())["reason"], "Passed");
    objects_are_passed_on(&scene);
    documents_are_merged(&scene);
    connections_are_passed_on(&scene);
    lost_servers_are_reported(&scene);
}

fn objects_are_passed_on(scene: &Scene) {
    for replica in &scene.replicas {
        let copper = json_of(&replica.client(), &format!("{RODS}/copper"));
        assert_eq!(copper["kind"], "Rod");
        let got = scene.receiver.received();
        let got = got.last().expect("a request");
        assert_eq!(got["certificate"], true, "the proxy shows who it is");
        let headers = &got["headers"];
        assert_eq!(headers["X-Remote-User"], json!(["admin"]));
        assert_eq!(
            headers["X-Remote-Group"],
            json!(["system:masters", "system:authenticated"])
        );
        assert_eq!(headers["X-Forwarded-For"], json!(["127.0.0.1"]));
        assert!(headers["Authorization"].is_null(), "the token stays here: {headers}");
        let large = json!({"kind": "Rod", "padding": "x".repeat(300_000)});
        let made = replica.client().json("POST", RODS, &large).expect("an answer");
        assert_eq!((made.code, made.header("x-forge").next()), (201, Some("1")));
        let got = scene.receiver.received();
        assert_eq!(got.last().expect("a request")["body"], large);
        let refused = replica.client().with_token("user-token").get(&format!("{RODS}/copper"));
        assert_eq!(refused.expect("an answer").code, 403);
    }
}

fn documents_are_merged(scene: &Scene) {
    scene.until_all("discovery has its resources", |client| {
        discovered(client)["resources"][0]["resource"] == "rods"
    });
    scene.until_all("the OpenAPI index has its version", |client| {
        let index = json_of(client, "/openapi/v3");
        let url = &index["paths"]["apis/metal.example.com/v1"]["serverRelativeURL"];
        *url == "/openapi/v3/apis/metal.example.com/v1?hash=AB12"
    });
    for replica in &scene.replicas {
        let client = replica.client();
        assert_eq!(discovered(&client)["freshness"], "Current");
        let group = json_of(&client, "/apis/metal.example.com");
        assert_eq!(group["preferredVersion"]["groupVersion"], "metal.example.com/v1");
        let document = json_of(&client, "/openapi/v3/apis/metal.example.com/v1?hash=AB12");
        assert_eq!(document["info"]["title"], "rods");
        let index = json_of(&client, "/openapi/v3");
        let url = |path: &str| index["paths"][path]["serverRelativeURL"].as_str().unwrap_or_default();
        assert_eq!(
            url("apis/metal.example.com"),
            "/openapi/v3/apis/metal.example.com?hash=CD34"
        );
        assert!(!url("version").ends_with("EF56"), "that of this server");
        let document = json_of(&client, "/openapi/v3/apis/metal.example.com");
        assert_eq!(document["info"]["title"], "the group");
        let whole = json_of(&client, "/openapi/v2");
        assert!(whole["paths"]["/apis/metal.example.com/v1/rods"].is_object());
        assert_eq!(whole["definitions"]["com.example.Rod"], json!({"type": "object"}));
        assert!(
            whole["paths"]["/other/"].is_null(),
            "what is not of the version stays out"
        );
        assert!(whole["definitions"]["com.example.Other"].is_null());
        assert!(whole["paths"]["/api/v1/pods"].is_object());
    }
}

fn connections_are_passed_on(scene: &Scene) {
    for replica in &scene.replicas {
        let watch = replica.client().send(&Request {
            method: "GET",
            path: &format!("{RODS}?watch=true"),
            lines: Some((2, Duration::from_secs(4))),
            ..Request::default()
        });
        let Body::Lines(lines) = watch.expect("an answer").body else {
            panic!("lines were asked for")
        };
        // They come while the other server holds the watch open.
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines[1].contains("DELETED"), "{lines:?}");
        let head = |path: &str| {
            format!(
                "GET {RODS}/copper/{path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer admin-token\r\n\
                 Connection: Upgrade\r\nUpgrade: bending/1\r\n\r\n"
            )
        };
        let refused = replica
            .client()
            .send_raw(head("stay").as_bytes(), "GET")
            .expect("an answer");
        let said = (refused.code, refused.text());
        assert_eq!(said, (503, "invalid upgrade response: status code 200\n".to_owned()));
        let mut connection = replica.client().open().expect("a connection");
        let switched = connection.send_raw(head("bend").as_bytes(), "GET").expect("an answer");
        assert_eq!(switched.code, 101);
        assert_eq!(switched.header("upgrade").collect::<Vec<_>>(), ["bending/1"]);
        for said in [b"left ", b"right"] {
            connection.write_all(said).expect("sent");
            let mut heard = [0; 5];
            connection.read_exact(&mut heard).expect("an echo");
            assert_eq!(&heard, said);
        }
    }
}

/// A group that is not available, and one that is not registered any more.
fn lost_servers_are_reported(scene: &Scene) {
    scene
        .receiver
        .follow(vec![json!({"path": "*", "status": 500, "raw": "ill", "record": false})]);
    // Has it looked at again before its time.
    let touched = json!({"metadata": {"labels": {"touched": "1"}}});
    let patch = Request {
        method: "PATCH",
        path: &format!("{API_SERVICES}/v1.metal.example.com"),
        content_type: Some("application/merge-patch+json"),
        body: Some(touched.to_string().into_bytes()),
        ..Request::default()
    };
    assert_eq!(scene.client().send(&patch).expect("an answer").code, 200);
    scene.until_all("requests are refused", |client| {
        let answer = get(client, RODS, None);
        answer.code == 503 && answer.text() == "service unavailable\n"
    });
    assert_eq!(condition(&scene.client())["reason"], "FailedDiscoveryCheck");
    scene.until_all("discovery is stale", |client| {
        discovered(client)["freshness"] == "Stale"
    });
    // The rest of the server does not mind: neither those who discover nor the controllers.
    let made = json!({"metadata": {"name": "passing"}});
    let namespaces = "/api/v1/namespaces";
    scene.client().json("POST", namespaces, &made).expect("an answer");
    scene
        .client()
        .json("DELETE", "/api/v1/namespaces/passing", &json!({}))
        .expect("an answer");
    scene.until_all("a namespace goes", |client| {
        get(client, "/api/v1/namespaces/passing", None).code == 404
    });
    let deleted = scene
        .client()
        .json("DELETE", &format!("{API_SERVICES}/v1.metal.example.com"), &json!({}));
    assert_eq!(deleted.expect("an answer").code, 200);
    scene.until_all("the group is gone", |client| {
        get(client, VERSION, None).code == 404 && get(client, "/apis/metal.example.com", None).code == 404
    });
    scene.until_all("its OpenAPI document is gone", |client| {
        json_of(client, "/openapi/v3")["paths"]["apis/metal.example.com/v1"].is_null()
    });
}

#[test]
fn probes_name_the_checks_of_aggregation() {
    let mut server = Server::start(StoreChoice::Etcd);
    // Over a store that has all of it the caches are loaded before they are known to be complete.
    for _ in 0..4 {
        server.restart().unwrap_or_else(|error| panic!("{error}"));
    }
    for probe in ["healthz", "livez", "readyz"] {
        let report = get(&server.client(), &format!("/{probe}?verbose"), None).text();
        for check in [
            "poststarthook/start-kube-aggregator-informers",
            "poststarthook/apiservice-registration-controller",
            "poststarthook/apiservice-status-local-available-controller",
            "poststarthook/apiservice-status-remote-available-controller",
            "poststarthook/kube-apiserver-autoregistration",
            "autoregister-completion",
            "poststarthook/apiservice-openapi-controller",
        ] {
            assert!(
                report.contains(&format!("[+]{check} ok\n")),
                "{probe}: {check}: {report}"
            );
        }
    }
}

#[test]
fn other_servers_get_the_user_who_asks() {
    let server = Server::start(StoreChoice::Embedded);
    let path = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
    until("it is published", PATIENCE, || {
        get(&server.client(), path, None).code == 200
    });
    let data = json_of(&server.client(), path)["data"].clone();
    let pki = server.data_dir().join("pki");
    let ca = std::fs::read_to_string(pki.join("front-proxy-ca.crt")).expect("the CA of proxies");
    let published = data["requestheader-client-ca-file"].as_str().unwrap_or_default();
    assert_eq!(published.trim(), ca.trim().replace("\r\n", "\n"));
    assert!(data["client-ca-file"].is_string());
    for (key, list) in [
        ("requestheader-allowed-names", r#"["front-proxy-client"]"#),
        ("requestheader-username-headers", r#"["X-Remote-User"]"#),
        ("requestheader-uid-headers", r#"["X-Remote-Uid"]"#),
        ("requestheader-group-headers", r#"["X-Remote-Group"]"#),
        ("requestheader-extra-headers-prefix", r#"["X-Remote-Extra-"]"#),
    ] {
        assert_eq!(data[key], list, "{key}");
    }
}

/// The group of APIServices itself is behind none. The figures are those of kube-apiserver 1.36.2.
#[test]
fn the_servers_own_groups_are_registered_with_their_priorities() {
    let server = Server::start(StoreChoice::Embedded);
    let list = server.client().get(API_SERVICES).expect("an answer");
    let list: Value = serde_json::from_str(&list.text()).expect("a list");
    let items = list["items"].as_array().expect("items");
    let row = |service: &Value| {
        let (name, spec) = (&service["metadata"]["name"], &service["spec"]);
        let (group, version) = (&spec["groupPriorityMinimum"], &spec["versionPriority"]);
        format!("{} {group} {version}", name.as_str().unwrap_or_default())
    };
    let rows: Vec<String> = items.iter().map(row).collect();
    assert_eq!(
        rows,
        [
            "v1. 18000 1",
            "v1.admissionregistration.k8s.io 16700 15",
            "v1.apiextensions.k8s.io 16700 15",
            "v1.apps 17800 15",
            "v1.authentication.k8s.io 17700 15",
            "v1.authorization.k8s.io 17600 15",
            "v1.autoscaling 17500 15",
            "v1.batch 17400 15",
            "v1.certificates.k8s.io 17300 15",
            "v1.coordination.k8s.io 16500 15",
            "v1.discovery.k8s.io 16200 15",
            "v1.events.k8s.io 17750 15",
            "v1.flowcontrol.apiserver.k8s.io 16100 21",
            "v1.networking.k8s.io 17200 15",
            "v1.node.k8s.io 16300 15",
            "v1.policy 17100 15",
            "v1.rbac.authorization.k8s.io 17000 15",
            "v1.resource.k8s.io 16200 21",
            "v1.scheduling.k8s.io 16600 15",
            "v1.storage.k8s.io 16800 15",
            "v2.autoscaling 17500 30",
        ]
    );
}
