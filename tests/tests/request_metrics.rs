//! The metrics that dashboards and alerts of a service level are made of: how long requests took of the server's own time, and
//! which were ended early.

use std::io::Write as _;
use std::time::Duration;

use serde_json::{Value, json};
use trireme_tests::group::until;
use trireme_tests::http::{Client, Request};
use trireme_tests::receiver::Receiver;
use trireme_tests::server::ADMIN_TOKEN;
use trireme_tests::{Server, StoreChoice};

const PATIENCE: Duration = Duration::from_secs(60);
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// The time of each webhook: far more than the rest of a write takes on a quiet machine.
const DELAY_SECONDS: f64 = 0.4;
const CREATES: [&str; 2] = ["verb=\"POST\"", "resource=\"configmaps\""];

/// A script of webhooks that allow everything after a while.
fn allow_after(seconds: f64) -> Vec<Value> {
    vec![json!({"path": "/*", "review": {"allowed": true}, "delay": seconds})]
}

fn named(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

fn code(client: &Client, method: &str, path: &str, body: &Value) -> u16 {
    client.json(method, path, body).expect("the server answers").code
}

/// Has config maps looked at by two webhooks, one that may change them and one that may not.
fn configure_webhooks(admin: &Client, receiver: &Receiver) {
    for kind in ["mutating", "validating"] {
        let configuration = json!({"metadata": {"name": kind}, "webhooks": [{
            "name": format!("{kind}.example.com"), "failurePolicy": "Fail", "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}],
            "clientConfig": {
                "url": format!("https://127.0.0.1:{}/{kind}", receiver.port()),
                "caBundle": receiver.ca_bundle(),
            },
        }]});
        let path = format!("/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations");
        assert_eq!(code(admin, "POST", &path, &configuration), 201);
    }
    until("both webhooks are called", PATIENCE, || {
        let path = format!("{CONFIG_MAPS}?dryRun=All");
        assert_eq!(code(admin, "POST", &path, &named("probe")), 201);
        let received = receiver.received();
        let is_called = |kind: &str| {
            let mut paths = received.iter().filter_map(|call| call["path"].as_str());
            paths.any(|path| path.starts_with(&format!("/{kind}")))
        };
        is_called("mutating") && is_called("validating")
    });
}

#[test]
fn the_service_level_is_measured_without_webhooks_dry_runs_and_watches() {
    let server = Server::start(StoreChoice::Embedded);
    let admin = server.client();
    let receiver = Receiver::start(allow_after(0.0), "default", None).expect("a port");
    configure_webhooks(&admin, &receiver);
    let sli = |suffix: &str, more: &[&str]| {
        let name = format!("apiserver_request_sli_duration_seconds_{suffix}");
        admin.metric(&name, &[&CREATES, more].concat())
    };
    assert_eq!(sli("count", &[]), 0.0, "dry runs are not counted");

    receiver.follow(allow_after(DELAY_SECONDS));
    assert_eq!(code(&admin, "POST", CONFIG_MAPS, &named("slow")), 201);
    assert_eq!(sli("count", &["scope=\"resource\"", "component=\"apiserver\""]), 1.0);
    let took = admin.metric(
        "apiserver_request_duration_seconds_sum",
        &[&CREATES[..], &["dry_run=\"\""]].concat(),
    );
    let own = sli("sum", &[]);
    assert!(own > 0.0, "the server has its part in it");
    assert!(
        took - own >= 2.0 * DELAY_SECONDS,
        "{took} s in all and {own} s without webhooks"
    );
    assert_eq!(sli("bucket", &["le=\"0.025\""]), 0.0, "there is no such bucket");
    assert_eq!(sli("bucket", &["le=\"60\""]), 1.0);
    assert_eq!(sli("bucket", &["dry_run="]), 0.0, "there is no such label");

    let watch = format!("{CONFIG_MAPS}?watch=1&timeoutSeconds=1");
    assert_eq!(admin.get(&watch).expect("the server answers").code, 200);
    let of_watches = |name: &str| admin.metric(name, &["verb=\"WATCH\""]);
    assert_eq!(of_watches("apiserver_request_total"), 1.0);
    assert_eq!(of_watches("apiserver_request_sli_duration_seconds_count"), 0.0);
}

#[test]
fn requests_are_counted_under_the_verbs_and_subresources_of_kube_apiserver() {
    let server = Server::start(StoreChoice::Embedded);
    let admin = server.client();
    let counted = |labels: &[&str]| admin.metric("apiserver_request_total", labels);
    let send = |method: &str, path: &str, content_type: &str, body: &Value| {
        let request = Request {
            method,
            path,
            content_type: Some(content_type),
            body: (!body.is_null()).then(|| body.to_string().into_bytes()),
            ..Request::default()
        };
        admin.send(&request).expect("the server answers").code
    };
    let core = "/api/v1/namespaces/default";
    let apply = format!("{CONFIG_MAPS}/applied?fieldManager=m");
    let yaml = "application/apply-patch+yaml";
    assert_eq!(send("PATCH", &apply, yaml, &named("applied")), 201);
    assert_eq!(
        counted(&["verb=\"APPLY\"", "resource=\"configmaps\"", "code=\"201\""]),
        1.0
    );

    let json_type = "application/json";
    let account = json!({"metadata": {"name": "robot"}});
    assert_eq!(
        send("POST", &format!("{core}/serviceaccounts"), json_type, &account),
        201
    );
    let token = format!("{core}/serviceaccounts/robot/token");
    assert_eq!(send("POST", &token, json_type, &json!({"spec": {}})), 201);
    assert_eq!(
        counted(&["verb=\"POST\"", "subresource=\"token\"", "code=\"201\""]),
        1.0
    );

    assert_eq!(
        send("GET", &format!("{core}/pods/none/log"), json_type, &Value::Null),
        404
    );
    assert_eq!(
        counted(&["verb=\"CONNECT\"", "subresource=\"log\"", "code=\"404\""]),
        1.0
    );

    assert_eq!(send("DELETE", CONFIG_MAPS, json_type, &Value::Null), 200);
    let collection = ["verb=\"DELETE\"", "resource=\"configmaps\"", "scope=\"namespace\""];
    assert_eq!(counted(&collection), 1.0);

    let review = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let asked = json!({"spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}}});
    assert_eq!(send("POST", review, json_type, &asked), 201);
    assert_eq!(counted(&["resource=\"selfsubjectaccessreviews\""]), 1.0);
}

#[test]
fn a_request_whose_time_is_over_is_counted_as_ended() {
    let server = Server::start(StoreChoice::Embedded);
    let admin = server.client();
    let ended = |code: &str| {
        let code = format!("code=\"{code}\"");
        let labels = [
            "verb=\"POST\"",
            "version=\"v1\"",
            "resource=\"configmaps\"",
            "subresource=\"\"",
            "scope=\"resource\"",
            "component=\"apiserver\"",
            &code,
        ];
        admin.metric("apiserver_request_terminations_total", &labels)
    };
    let receiver = Receiver::start(allow_after(0.0), "default", None).expect("a port");
    configure_webhooks(&admin, &receiver);
    receiver.follow(allow_after(3.0));
    let path = format!("{CONFIG_MAPS}?timeout=1s");
    assert_eq!(code(&admin, "POST", &path, &named("late")), 504);
    assert_eq!((ended("504"), ended("408")), (1.0, 0.0));

    let mut stalled = admin.open().expect("it connects");
    // The rest of the body does not come.
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {ADMIN_TOKEN}\r\n\
         Content-Type: application/json\r\nContent-Length: 100\r\n\r\n"
    );
    stalled.write_all(head.as_bytes()).expect("it is sent");
    let answer = stalled.send_raw(b"{", "POST").expect("it is answered");
    assert_eq!(answer.code, 408, "{}", answer.text());
    assert_eq!((ended("504"), ended("408")), (1.0, 1.0));
}

#[test]
fn a_request_for_a_server_that_is_not_available_is_counted_as_ended() {
    let server = Server::start(StoreChoice::Embedded);
    let admin = server.client();
    let service = json!({
        "metadata": {"name": "v1.things.example.com"},
        "spec": {
            "group": "things.example.com", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 10,
            "insecureSkipTLSVerify": true, "service": {"namespace": "default", "name": "none"},
        },
    });
    let path = "/apis/apiregistration.k8s.io/v1/apiservices";
    assert_eq!(code(&admin, "POST", path, &service), 201);
    let things = "/apis/things.example.com/v1/namespaces/default/things";
    let ended = |labels: &[&str]| admin.metric("apiserver_request_terminations_total", labels);
    until("the service is known", PATIENCE, || {
        admin.get(things).expect("the server answers").code == 503
    });
    let labels = [
        "verb=\"LIST\"",
        "group=\"things.example.com\"",
        "version=\"v1\"",
        "resource=\"\"",
        "scope=\"namespace\"",
        "component=\"aggregator\"",
        "code=\"503\"",
    ];
    assert_eq!(ended(&labels), 1.0);
    assert_eq!(ended(&[]), 1.0);
}
