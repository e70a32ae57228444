//! Other servers that answer with what is no document, and APIServices of this server that a client has changed.

use serde_json::{Value, json};
use trireme_tests::{
    StoreChoice,
    group::until,
    http::{Client, Request},
    receiver::Receiver,
    server::{CONTROLLERS, Server},
};

use super::{AGGREGATED, API_SERVICES, PATIENCE, get, json_of};

/// The media type of aggregated discovery.
const FORM: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// A server and another one behind the service `mines/rods`.
struct Scene {
    server: Server,
    receiver: Receiver,
}

impl Scene {
    fn start(script: Vec<Value>) -> Self {
        let server = Server::try_start(StoreChoice::Embedded, &[CONTROLLERS]).unwrap_or_else(|error| panic!("{error}"));
        let receiver = Receiver::start(script, "mines", None).expect("a port");
        let scene = Self { server, receiver };
        scene.create("/api/v1/namespaces", &json!({"metadata": {"name": "mines"}}));
        scene.create(
            "/api/v1/namespaces/mines/services",
            &json!({"metadata": {"name": "rods"}, "spec": {"type": "ExternalName", "externalName": "127.0.0.1"}}),
        );
        scene
    }

    fn client(&self) -> Client {
        self.server.client()
    }

    fn create(&self, path: &str, object: &Value) {
        let answer = self.client().json("POST", path, object).expect("an answer");
        assert_eq!(answer.code, 201, "{}", answer.text());
    }

    /// Registers version 1 of a group of the other server.
    fn register(&self, group: &str) {
        self.create(
            API_SERVICES,
            &json!({
                "metadata": {"name": format!("v1.{group}")},
                "spec": {
                    "group": group, "version": "v1", "groupPriorityMinimum": 20000, "versionPriority": 15,
                    "caBundle": self.receiver.ca_bundle(),
                    "service": {"namespace": "mines", "name": "rods", "port": self.receiver.port()},
                },
            }),
        );
    }

    fn unregister(&self, group: &str) {
        let path = format!("{API_SERVICES}/v1.{group}");
        let deleted = self.client().json("DELETE", &path, &json!({}));
        assert_eq!(deleted.expect("an answer").code, 200);
    }

    fn discovered(&self, group: &str) -> Value {
        let document = get(&self.client(), "/apis", Some(AGGREGATED)).text();
        let document: Value = serde_json::from_str(&document).unwrap_or_default();
        let mut items = document["items"].as_array().into_iter().flatten();
        let found = items.find(|item| item["metadata"]["name"] == group);
        found.map(|group| group["versions"][0].clone()).unwrap_or_default()
    }

    /// The value of the gauge of unavailable APIServices, if it is there.
    fn unavailable(&self, group: &str) -> Option<String> {
        let prefix = format!("aggregator_unavailable_apiservice{{name=\"v1.{group}\"}} ");
        let page = get(&self.client(), "/metrics", None).text();
        page.lines()
            .find_map(|line| line.strip_prefix(&prefix))
            .map(str::to_owned)
    }

    /// Waits until an answer of this path was refused: what is no document is asked for again at once.
    fn wait_until_refused(&self, path: &str) {
        until("it is asked for discovery again", PATIENCE, || {
            let received = self.receiver.received();
            let of_path = received.iter().filter(|request| request["path"] == path);
            // Those by which it is found to be available are made as a master.
            let master = |request: &&Value| path != "/apis" && request.to_string().contains("system:masters");
            of_path.filter(|request| !master(request)).count() > 2
        });
    }

    fn patch(&self, path: &str, change: &Value) {
        let patch = Request {
            method: "PATCH",
            path,
            content_type: Some("application/merge-patch+json"),
            body: Some(change.to_string().into_bytes()),
            ..Request::default()
        };
        let answer = self.client().send(&patch).expect("an answer");
        assert_eq!(answer.code, 200, "{}", answer.text());
    }
}

fn script(aggregated: &Value) -> Vec<Value> {
    let resources = |group: &str, verbs: Value| {
        let row =
            json!({"name": "things", "singularName": "thing", "kind": "Thing", "namespaced": true, "verbs": verbs});
        json!({"path": format!("/apis/{group}/v1"), "show": ["X-Remote-Group"], "body": {
            "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": format!("{group}/v1"), "resources": [row],
        }})
    };
    vec![
        aggregated.clone(),
        resources("aaa.example.com", json!("get")),
        resources("bbb.example.com", json!(["get"])),
        resources("ccc.example.com", json!(["get"])),
    ]
}

#[test]
fn what_is_no_document_makes_its_version_stale_and_no_other() {
    let scene = Scene::start(script(&json!({"path": "/apis", "status": 404, "record": false})));
    scene.register("aaa.example.com");
    scene.register("bbb.example.com");
    until("discovery has what is right", PATIENCE, || {
        scene.discovered("bbb.example.com")["resources"][0]["resource"] == "things"
    });
    assert_eq!(scene.discovered("bbb.example.com")["freshness"], "Current");
    until("both are available", PATIENCE, || {
        let mut groups = ["aaa.example.com", "bbb.example.com"].into_iter();
        groups.all(|group| scene.unavailable(group).as_deref() == Some("0"))
    });
    scene.wait_until_refused("/apis/aaa.example.com/v1");
    assert_eq!(
        scene.discovered("aaa.example.com"),
        json!({"version": "v1", "freshness": "Stale"})
    );
    assert_eq!(scene.unavailable("apps").as_deref(), Some("0"));

    let groups = json_of(&scene.client(), "/apis")["groups"].clone();
    let names: Vec<&str> = groups
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|group| group["name"].as_str())
        .collect();
    assert_eq!(
        names.get(..3),
        Some(&["apiregistration.k8s.io", "aaa.example.com", "bbb.example.com"][..]),
        "the group of APIServices is always the first"
    );

    // An entry that is no object, on the way that most servers answer.
    let list = json!({"items": [{"metadata": {"name": "ccc.example.com"}, "versions": [{"version": "v1", "resources": ["things"]}]}]});
    let aggregated = json!({"path": "/apis", "headers": {"Content-Type": FORM}, "body": list});
    for group in ["aaa.example.com", "bbb.example.com"] {
        scene.unregister(group);
        until("nobody else asks", PATIENCE, || {
            get(&scene.client(), &format!("/apis/{group}/v1"), None).code == 404
        });
    }
    scene.receiver.follow(script(&aggregated));
    scene.register("ccc.example.com");
    until("it is routed", PATIENCE, || {
        get(&scene.client(), "/apis/ccc.example.com/v1", None).code == 200
    });
    until("it has been judged", PATIENCE, || {
        scene.unavailable("ccc.example.com").is_some()
    });
    scene.wait_until_refused("/apis");
    assert_eq!(
        scene.discovered("ccc.example.com"),
        json!({"version": "v1", "freshness": "Stale"})
    );
    scene.unregister("ccc.example.com");
    until("it is routed no longer", PATIENCE, || {
        get(&scene.client(), "/apis/ccc.example.com/v1", None).code == 404
    });
    until("its metrics are gone", PATIENCE, || {
        scene.unavailable("ccc.example.com").is_none()
    });
}

#[test]
fn changed_apiservices_of_the_server_are_restored() {
    let mut scene = Scene::start(Vec::new());
    let apps = format!("{API_SERVICES}/v1.apps");
    let batch = format!("{API_SERVICES}/v1.batch");
    let before = json_of(&scene.client(), &apps)["spec"].clone();
    let false_condition = json!({"type": "Available", "status": "False", "reason": "Local", "message": "no",
        "lastTransitionTime": "2020-01-01T00:00:00Z"});
    scene.patch(
        &format!("{batch}/status"),
        &json!({"status": {"conditions": [false_condition]}}),
    );
    until("the status is restored", PATIENCE, || {
        json_of(&scene.client(), &batch)["status"]["conditions"][0]["status"] == "True"
    });
    scene.patch(&apps, &json!({"spec": {"service": {"namespace": "x", "name": "y"}}}));
    until("it is found not to be available", PATIENCE, || {
        json_of(&scene.client(), &apps)["status"]["conditions"][0]["reason"] == "ServiceNotFound"
    });
    // All were available once, which is what the probes ask for.
    assert_eq!(get(&scene.client(), "/livez", None).code, 200);
    for (group, labels) in [
        (
            "gone.example.com",
            json!({"kube-aggregator.kubernetes.io/automanaged": "onstart"}),
        ),
        ("mine.example.com", json!({})),
    ] {
        scene.create(
            API_SERVICES,
            &json!({
                "metadata": {"name": format!("v1.{group}"), "labels": labels},
                "spec": {"group": group, "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 15},
            }),
        );
    }
    // A label that a client has put there makes none of the server's own that of a definition.
    let managed = json!({"kube-aggregator.kubernetes.io/automanaged": "true"});
    scene.patch(&apps, &json!({"metadata": {"labels": managed}}));
    let spurious = format!("{API_SERVICES}/v1.spurious.example.com");
    scene.create(
        API_SERVICES,
        &json!({
            "metadata": {"name": "v1.spurious.example.com", "labels": managed},
            "spec": {"group": "spurious.example.com", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 15},
        }),
    );
    until("what no definition serves is removed", PATIENCE, || {
        get(&scene.client(), &spurious, None).code == 404
    });
    assert_eq!(get(&scene.client(), &apps, None).code, 200);
    scene.server.restart().unwrap_or_else(|error| panic!("{error}"));
    let client = scene.client();
    assert_eq!(json_of(&client, &apps)["spec"], before);
    assert_eq!(json_of(&client, &apps)["status"]["conditions"][0]["reason"], "Local");
    for (group, code) in [("gone.example.com", 404), ("mine.example.com", 200)] {
        assert_eq!(
            get(&client, &format!("{API_SERVICES}/v1.{group}"), None).code,
            code,
            "{group}"
        );
    }
}
