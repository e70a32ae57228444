//! Admission of what is not stored: webhooks and policies see reviews and bindings that are created, and connections, in
//! kube-apiserver's order.

#[path = "admission/warnings.rs"]
mod warnings;

use std::time::Duration;

use serde_json::{Value, json};
use trireme_tests::group::until;
use trireme_tests::http::Client;
use trireme_tests::receiver::Receiver;
use trireme_tests::server::USER_TOKEN;
use trireme_tests::{Server, StoreChoice};

const ACCESS: &str = "/apis/authorization.k8s.io/v1";
const CONFIGURED: &str = "/apis/admissionregistration.k8s.io/v1";
/// The time limit of waits for what comes in a moment, or never.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server and the webhooks that it asks.
struct Setup {
    _server: Server,
    admin: Client,
    receiver: Receiver,
}

impl Setup {
    fn start(script: Vec<Value>) -> Self {
        let server = Server::start(StoreChoice::Embedded);
        Self {
            admin: server.client(),
            _server: server,
            receiver: Receiver::start(script, "default", None).expect("a port"),
        }
    }

    fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let answer = self.admin.json("POST", path, body).expect("an answer");
        (answer.code, serde_json::from_str(&answer.text()).expect("JSON"))
    }

    fn make(&self, path: &str, body: &Value) -> Value {
        let (code, made) = self.post(path, body);
        assert_eq!(code, 201, "{made}");
        made
    }

    /// Has a webhook at a path of the receiver asked about all writes of a user by these rules, and waits until it is.
    fn ask(&self, collection: &str, path: &str, rules: &Value) {
        let client = |path: &str| {
            let url = format!("https://127.0.0.1:{}{path}", self.receiver.port());
            json!({"url": url, "caBundle": self.receiver.ca_bundle()})
        };
        let configmaps =
            json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}]);
        let webhook = |name: &str, path: &str, rules: &Value, labels: Value| {
            json!({
                "name": name, "clientConfig": client(path), "rules": rules, "objectSelector": {"matchLabels": labels},
                "sideEffects": "None", "admissionReviewVersions": ["v1"],
            })
        };
        // Each configuration has a probe of its own: that another one is obeyed says nothing of it.
        let configuration = path.trim_start_matches('/');
        let probed = json!({"probes": configuration});
        self.make(
            &format!("{CONFIGURED}/{collection}"),
            &json!({
                "metadata": {"name": configuration},
                "webhooks": [
                    webhook("ask.example.com", path, rules, json!({})),
                    webhook("probe.example.com", "/probe", &configmaps, probed.clone()),
                ],
            }),
        );
        let probe = json!({"metadata": {"name": "ready", "labels": probed}});
        until("the webhook is asked", PATIENCE, || {
            self.post("/api/v1/namespaces/default/configmaps?dryRun=All", &probe).0 == 403
        });
    }

    /// The requests of the reviews at a path.
    fn asked(&self, path: &str) -> Vec<Value> {
        let received = self.receiver.received().into_iter();
        let of_path = received.filter(|one| one["path"].as_str().is_some_and(|it| it.starts_with(path)));
        of_path.map(|mut one| one["body"]["request"].take()).collect()
    }
}

fn reviews() -> Value {
    json!([{
        "apiGroups": ["authorization.k8s.io", "authentication.k8s.io"], "apiVersions": ["*"], "operations": ["*"],
        "resources": ["*"],
    }])
}

#[test]
fn a_review_is_answered_as_admission_leaves_it() {
    let to_master = json!([{"op": "replace", "path": "/spec/groups", "value": ["system:masters"]}]);
    let setup = Setup::start(vec![
        json!({"path": "/change", "review": {"allowed": true, "patch": to_master, "warnings": ["changed"]}}),
        json!({"path": "/see", "review": {"allowed": true}}),
    ]);
    let path = format!("{ACCESS}/subjectaccessreviews");
    let attributes = json!({"verb": "get", "resource": "nodes"});
    let review = json!({"spec": {"user": "bob", "groups": ["g"], "resourceAttributes": attributes}});
    assert_eq!(setup.make(&path, &review)["status"], json!({"allowed": false}));
    setup.ask("mutatingwebhookconfigurations", "/change", &reviews());
    setup.ask("validatingwebhookconfigurations", "/see", &reviews());
    let answer = setup.admin.json("POST", &path, &review).expect("an answer");
    let warnings: Vec<&str> = answer.header("warning").collect();
    assert_eq!(warnings, [r#"299 - "changed""#]);
    let answer: Value = serde_json::from_str(&answer.text()).expect("JSON");
    assert_eq!(answer["status"], json!({"allowed": true}));
    assert_eq!(answer["spec"]["groups"], json!(["system:masters"]));
    let seen = setup.asked("/see");
    let [seen] = seen.as_slice() else { panic!("{seen:?}") };
    assert_eq!(seen["operation"], "CREATE");
    assert_eq!(seen["kind"]["kind"], "SubjectAccessReview");
    assert_eq!(seen["object"]["spec"]["groups"], json!(["system:masters"]));
    // Nothing has been answered yet.
    assert_eq!(seen["object"]["status"], json!({"allowed": false}));
    assert_eq!(setup.asked("/change")[0]["object"]["spec"]["groups"], json!(["g"]));
}

#[test]
fn a_review_is_validated_between_mutating_and_validating_admission() {
    let setup = Setup::start(vec![
        json!({"path": "/change", "review": {"allowed": true}}),
        json!({"path": "/see", "review": {"allowed": false, "status": {"message": "no reviews"}}}),
    ]);
    setup.ask("mutatingwebhookconfigurations", "/change", &reviews());
    setup.ask("validatingwebhookconfigurations", "/see", &reviews());
    let cases = [
        (
            format!("{ACCESS}/subjectaccessreviews"),
            422,
            "exactly one of nonResourceAttributes",
        ),
        (
            format!("{ACCESS}/selfsubjectaccessreviews"),
            422,
            "exactly one of nonResourceAttributes",
        ),
        (
            format!("{ACCESS}/selfsubjectrulesreviews"),
            400,
            "no namespace on request",
        ),
        (
            "/apis/authentication.k8s.io/v1/tokenreviews".to_owned(),
            400,
            "token is required",
        ),
    ];
    for (count, (path, code, why)) in cases.iter().enumerate() {
        let (answered, status) = setup.post(path, &json!({"spec": {}}));
        assert_eq!(answered, *code, "{path}: {status}");
        assert!(
            status["message"].as_str().is_some_and(|text| text.contains(why)),
            "{path}: {status}"
        );
        assert_eq!(setup.asked("/change").len(), count + 1, "{path}");
    }
    assert_eq!(setup.asked("/see"), Vec::<Value>::new());
    let token = json!({"spec": {"token": USER_TOKEN}});
    for (path, body) in [
        ("/apis/authentication.k8s.io/v1/tokenreviews", &token),
        ("/apis/authentication.k8s.io/v1/selfsubjectreviews", &json!({})),
    ] {
        let (code, status) = setup.post(path, body);
        assert_eq!(code, 400, "{status}");
        let why = r#"admission webhook "ask.example.com" denied the request: no reviews"#;
        assert_eq!(status["message"], why, "{path}");
    }
}

#[test]
fn policies_are_not_asked_about_reviews() {
    let setup = Setup::start(Vec::new());
    let everything = json!([{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}]);
    let policy = json!({
        "metadata": {"name": "nothing"},
        "spec": {
            "matchConstraints": {"resourceRules": everything},
            "matchConditions": [{"name": "theirs", "expression": "request.userInfo.username != 'system:apiserver'"}],
            "validations": [{"expression": "request.resource.resource.startsWith('validatingadmissionpolic')"}],
        },
    });
    setup.make(&format!("{CONFIGURED}/validatingadmissionpolicies"), &policy);
    let binding =
        json!({"metadata": {"name": "nothing"}, "spec": {"policyName": "nothing", "validationActions": ["Deny"]}});
    setup.make(&format!("{CONFIGURED}/validatingadmissionpolicybindings"), &binding);
    let map = json!({"metadata": {"name": "a"}});
    until("the policy is asked", PATIENCE, || {
        setup.post("/api/v1/namespaces/default/configmaps?dryRun=All", &map).0 == 422
    });
    // What configures webhooks is no secret to them.
    let webhooks = json!({"metadata": {"name": "none"}, "webhooks": []});
    let (code, status) = setup.post(&format!("{CONFIGURED}/validatingwebhookconfigurations"), &webhooks);
    assert_eq!(code, 422, "{status}");
    setup.make("/apis/authentication.k8s.io/v1/selfsubjectreviews", &json!({}));
    let local = json!({"spec": {"user": "bob", "resourceAttributes": {"namespace": "nowhere", "verb": "get", "resource": "pods"}}});
    setup.make(
        &format!("{ACCESS}/namespaces/nowhere/localsubjectaccessreviews"),
        &local,
    );
}

#[test]
fn a_binding_is_admitted_as_what_it_was_posted_as() {
    let setup = Setup::start(vec![json!({"path": "/see", "review": {"allowed": true}})]);
    let rules = json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["bindings", "pods/binding"]}]);
    setup.ask("validatingwebhookconfigurations", "/see", &rules);
    for name in ["one", "two"] {
        let pod = json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        setup.make("/api/v1/namespaces/default/pods", &pod);
    }
    let binding = |name: &str| json!({"metadata": {"name": name}, "target": {"kind": "Node", "name": "n"}});
    setup.make("/api/v1/namespaces/default/bindings", &binding("one"));
    setup.make("/api/v1/namespaces/default/pods/two/binding", &binding("two"));
    let seen = setup.asked("/see");
    let places: Vec<_> = seen
        .iter()
        .map(|seen| (&seen["resource"]["resource"], &seen["subResource"], &seen["name"]))
        .collect();
    let (bindings, pods) = (json!("bindings"), json!("pods"));
    assert_eq!(
        places,
        [
            (&bindings, &Value::Null, &json!("one")),
            (&pods, &json!("binding"), &json!("two"))
        ]
    );
}

fn connections(resources: &[&str]) -> Value {
    json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CONNECT"], "resources": resources}])
}

fn message(answer: &(u16, Value)) -> (u16, &str) {
    (answer.0, answer.1["message"].as_str().unwrap_or_default())
}

#[test]
fn a_connection_is_made_as_admission_leaves_its_options() {
    let elsewhere = json!([{"op": "add", "path": "/container", "value": "other"}]);
    let setup = Setup::start(vec![
        json!({"path": "/change", "review": {"allowed": true, "patch": elsewhere}}),
        json!({"path": "/see", "review": {"allowed": true}}),
    ]);
    let containers = json!([{"name": "c", "image": "i"}, {"name": "d", "image": "i"}]);
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": containers}});
    setup.make("/api/v1/namespaces/default/pods", &pod);
    let exec = |query: &str| setup.post(&format!("/api/v1/namespaces/default/pods/p/exec?{query}"), &json!({}));
    assert_eq!(
        message(&exec("container=d")),
        (400, "pod p does not have a host assigned")
    );
    setup.ask("mutatingwebhookconfigurations", "/change", &connections(&["pods/exec"]));
    setup.ask("validatingwebhookconfigurations", "/see", &connections(&["*/*"]));
    assert_eq!(
        message(&exec("container=d&tty=1")),
        (400, "container other is not valid for pod p")
    );
    assert_eq!(message(&exec("dryRun=All")), (400, "dryRun is not supported"));
    let seen = setup.asked("/see");
    let [seen] = seen.as_slice() else { panic!("{seen:?}") };
    let options =
        json!({"kind": "PodExecOptions", "apiVersion": "v1", "container": "other", "command": null, "tty": true});
    assert_eq!(seen["object"], options);
    assert_eq!(
        (&seen["operation"], &seen["options"]),
        (&json!("CONNECT"), &Value::Null)
    );
}

#[test]
fn connections_are_admitted_before_there_is_a_look_at_the_object() {
    let setup = Setup::start(vec![
        json!({"path": "/see", "review": {"allowed": false, "status": {"message": "no way"}}}),
    ]);
    setup.ask("validatingwebhookconfigurations", "/see", &connections(&["*/*"]));
    let get = |path: &str| {
        let answer = setup.admin.get(path).expect("an answer");
        (answer.code, serde_json::from_str(&answer.text()).expect("JSON"))
    };
    let denied = (400, r#"admission webhook "ask.example.com" denied the request: no way"#);
    let proxied = [
        ("/api/v1/nodes/none/proxy", "NodeProxyOptions", Value::Null),
        ("/api/v1/nodes/none/proxy/", "NodeProxyOptions", json!("/")),
        (
            "/api/v1/namespaces/default/services/none/proxy/a/b/?path=c",
            "ServiceProxyOptions",
            json!("/a/b/"),
        ),
        (
            "/api/v1/namespaces/default/pods/https:none:1/proxy/a",
            "PodProxyOptions",
            json!("/a"),
        ),
    ];
    for (path, kind, behind) in &proxied {
        assert_eq!(message(&get(path)), denied, "{path}");
        let seen = setup.asked("/see").pop().expect("it was asked");
        assert_eq!(
            (&seen["object"]["kind"], &seen["object"]["path"]),
            (&json!(kind), behind),
            "{path}"
        );
    }
    let ports = "/api/v1/namespaces/default/pods/none/portforward?ports=80,x";
    let why = r#"cannot convert to []int32: strconv.ParseUint: parsing "x": invalid syntax"#;
    assert_eq!(message(&setup.post(ports, &json!({}))), (400, why));
    // Logs are read, not connected to.
    assert_eq!(
        message(&get("/api/v1/namespaces/default/pods/none/log")),
        (404, r#"pods "none" not found"#)
    );
    assert_eq!(setup.asked("/see").len(), proxied.len());
}

#[test]
fn match_conditions_see_the_same_of_a_request_in_webhooks_and_policies() {
    let setup = Setup::start(vec![json!({"path": "/see", "review": {"allowed": false}})]);
    let seen = "request.operation == 'CREATE' && namespaceObject == null && oldObject == null && object.data.a == 'b'";
    let conditions = json!([{"name": "seen", "expression": seen}]);
    let rules = json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}]);
    let policy = json!({
        "metadata": {"name": "never"},
        "spec": {
            "matchConstraints": {"resourceRules": &rules}, "matchConditions": &conditions,
            "validations": [{"expression": "false"}],
        },
    });
    setup.make(&format!("{CONFIGURED}/validatingadmissionpolicies"), &policy);
    let binding =
        json!({"metadata": {"name": "never"}, "spec": {"policyName": "never", "validationActions": ["Warn"]}});
    setup.make(&format!("{CONFIGURED}/validatingadmissionpolicybindings"), &binding);
    let webhook = json!({
        "name": "see.example.com", "matchConditions": &conditions, "rules": &rules, "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {
            "url": format!("https://127.0.0.1:{}/see", setup.receiver.port()), "caBundle": setup.receiver.ca_bundle(),
        },
    });
    let webhooks = json!({"metadata": {"name": "see"}, "webhooks": [webhook]});
    setup.make(&format!("{CONFIGURED}/validatingwebhookconfigurations"), &webhooks);
    let path = "/api/v1/namespaces/default/configmaps?dryRun=All";
    let create = |value: &str| {
        let map = json!({"metadata": {"name": "a"}, "data": {"a": value}});
        let answer = setup.admin.json("POST", path, &map).expect("an answer");
        (answer.code, answer.header("warning").count())
    };
    until("both are asked", PATIENCE, || create("b") == (400, 1));
    assert_eq!(create("c"), (201, 0));
}

impl Setup {
    fn get(&self, path: &str) -> Value {
        let answer = self.admin.get(path).expect("an answer");
        assert_eq!(answer.code, 200, "{path}: {}", answer.text());
        serde_json::from_str(&answer.text()).expect("JSON")
    }

    /// The breaker of the webhook that is asked at a path.
    fn breaker(&self, path: &str) -> Value {
        let shown = self.get("/debug/breakers?format=json");
        let webhook = format!("validatingwebhookconfigurations{path}/ask.example.com");
        let mut breakers = shown["breakers"].as_array().into_iter().flatten();
        let found = breakers.find(|breaker| breaker["for"] == *webhook);
        found.map(|found| found["breaker"].clone()).unwrap_or_default()
    }
}

#[test]
fn the_breaker_of_a_webhook_can_be_looked_at_and_its_changes_are_events() {
    let setup = Setup::start(vec![json!({"path": "/guard", "close": true})]);
    let secrets =
        json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["secrets"]}]);
    setup.ask("validatingwebhookconfigurations", "/guard", &secrets);
    let create = || {
        setup
            .post(
                "/api/v1/namespaces/default/secrets?dryRun=All",
                &json!({"metadata": {"name": "s"}}),
            )
            .0
    };
    until("the breaker opens", PATIENCE, || {
        assert_eq!(create(), 500, "a webhook that fails closed is down");
        setup.breaker("/guard")["state"] == "open"
    });
    assert!(setup.asked("/guard").len() >= 5, "few calls prove nothing");
    until("a write is refused without a call", PATIENCE, || {
        let (called, before) = (setup.asked("/guard").len(), setup.breaker("/guard"));
        assert_eq!(create(), 500);
        let after = setup.breaker("/guard");
        let wait = |breaker: &Value| breaker["retryAfterSeconds"].as_f64();
        wait(&after) < wait(&before) && wait(&after).is_some() && setup.asked("/guard").len() == called
    });
    setup
        .receiver
        .follow(vec![json!({"path": "/guard", "review": {"allowed": true}})]);
    until("the breaker closes", PATIENCE, || {
        create() == 201 && setup.breaker("/guard")["state"] == "closed"
    });
    let configuration = setup.get(&format!("{CONFIGURED}/validatingwebhookconfigurations/guard"));
    let uid = configuration["metadata"]["uid"].as_str().expect("a uid");
    let path = format!("/api/v1/namespaces/default/events?fieldSelector=involvedObject.uid={uid}");
    until("both changes are events", PATIENCE, || {
        let events = setup.get(&path);
        let mut events: Vec<_> = events["items"].as_array().into_iter().flatten().cloned().collect();
        events.sort_by_key(|event| event["reason"].to_string());
        let shown = |event: &Value| (event["type"].clone(), event["reason"].clone(), event["count"].clone());
        let [closed, opened] = events.as_slice() else {
            return false;
        };
        assert_eq!(
            shown(closed),
            (json!("Normal"), json!("CircuitBreakerClosed"), json!(1))
        );
        assert_eq!(
            shown(opened),
            (json!("Warning"), json!("CircuitBreakerOpened"), json!(1))
        );
        assert_eq!(opened["involvedObject"]["kind"], "ValidatingWebhookConfiguration");
        let message = opened["message"].as_str().unwrap_or_default();
        assert!(
            message.starts_with("webhook ask.example.com at https://127.0.0.1:"),
            "{message}"
        );
        true
    });
}
