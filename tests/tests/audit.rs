//! Audit events reach a webhook over TLS, however it behaves, and no write is acknowledged that had to be recorded and was not.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use trireme_tests::audit_receiver::AuditReceiver;
use trireme_tests::group::until;
use trireme_tests::http::Request;
use trireme_tests::receiver::Receiver;
use trireme_tests::server::USER_TOKEN;
use trireme_tests::{Server, StoreChoice};

const PATIENCE: Duration = Duration::from_secs(30);
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// Short enough for the attempts of a request to end within a test.
const BRIEF_BACKOFF: &str = "--audit-webhook-initial-backoff=20ms";
/// A policy of what happens to config maps.
const POLICY: &str = "apiVersion: audit.k8s.io/v1
kind: Policy
rules:
- {level: Metadata, namespaces: [kube-public], resources: [{group: '', resources: [configmaps]}]}
- {level: Request, resources: [{group: '', resources: [configmaps]}]}
- {level: None}
";

/// A server whose events go to a receiver.
struct Audited {
    server: Server,
    receiver: AuditReceiver,
    dir: TempDir,
}

fn start(mode: &str, flags: &[&str]) -> Audited {
    let receiver = AuditReceiver::start();
    let dir = TempDir::new().expect("a directory");
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs::write(&path, text).expect("written");
        path.display().to_string()
    };
    let policy = format!("--audit-policy-file={}", file("policy.yaml", POLICY));
    let webhook = file("webhook.kubeconfig", &receiver.kubeconfig());
    let webhook = format!("--audit-webhook-config-file={webhook}");
    let mode = format!("--audit-webhook-mode={mode}");
    let log = format!("--audit-log-path={}", dir.path().join("audit.log").display());
    let own = [policy.as_str(), &webhook, &mode, &log];
    let server = Server::try_start(StoreChoice::Embedded, &[own.as_slice(), flags].concat());
    Audited {
        server: server.unwrap_or_else(|error| panic!("{error}")),
        receiver,
        dir,
    }
}

impl Audited {
    fn log(&self) -> PathBuf {
        self.dir.path().join("audit.log")
    }

    /// The code of a creation.
    fn create(&self, name: &str) -> u16 {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        let answer = self.server.client().json("POST", CONFIG_MAPS, &object);
        answer.expect("an answer").code
    }

    /// The stages of the events about an object.
    fn stages(&self, name: &str) -> Vec<String> {
        stages(&self.receiver.events(), name)
    }
}

/// A creation has its name in the object that was sent.
fn stages(events: &[Value], name: &str) -> Vec<String> {
    let is_it = |event: &&Value| event["objectRef"]["name"] == name;
    let stage = |event: &Value| event["stage"].as_str().unwrap_or_default().to_owned();
    events.iter().filter(is_it).map(stage).collect()
}

/// The sum of a counter over all labels that `part` is in.
fn metric(server: &Server, name: &str, part: &str) -> f64 {
    let text = server.client().get("/metrics").expect("an answer").text();
    let lines = text
        .lines()
        .filter(|line| line.starts_with(name) && line.contains(part));
    lines
        .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
        .sum()
}

#[test]
fn a_blocking_webhook_has_each_event_when_the_client_has_its_answer() {
    let audited = start("blocking", &[BRIEF_BACKOFF]);
    assert_eq!(audited.create("a"), 201);
    let posts = audited.receiver.posts();
    assert_eq!(posts.len(), 2, "{posts:?}");
    for post in &posts {
        assert_eq!(post["path"], "/sink/events?timeout=30s");
        assert_eq!(post["headers"]["authorization"], "Bearer sink-token");
        assert_eq!(post["headers"]["content-type"], "application/json");
        assert_eq!(post["list"]["kind"], "EventList");
        assert_eq!(post["list"]["apiVersion"], "audit.k8s.io/v1");
        assert_eq!(post["list"]["items"].as_array().map(Vec::len), Some(1));
    }
    let events = audited.receiver.events();
    assert_eq!(events[0]["stage"], "RequestReceived");
    assert_eq!(events[1]["responseStatus"]["code"], 201);
    assert_eq!(events[1]["requestObject"]["metadata"]["name"], "a");
    // The log is a backend of its own.
    let lines = fs::read_to_string(audited.log()).expect("the log");
    let logged = lines.lines().map(|line| {
        let mut event: Value = serde_json::from_str(line).expect("JSON");
        // An item of a list does not say it again.
        for (name, value) in [("kind", "Event"), ("apiVersion", "audit.k8s.io/v1")] {
            let said = event.as_object_mut().and_then(|event| event.remove(name));
            assert_eq!(said, Some(value.into()));
        }
        event
    });
    let logged: Vec<Value> = logged.collect();
    assert_eq!(logged, events);
    assert!(metric(&audited.server, "apiserver_audit_event_total", "") >= 2.0);
}

#[test]
fn events_are_posted_again_until_the_receiver_takes_them() {
    let audited = start("blocking", &["--audit-webhook-initial-backoff=500ms"]);
    audited.receiver.answer_with(400);
    let code = std::thread::scope(|scope| {
        let creation = scope.spawn(|| audited.create("a"));
        until("a post is refused", PATIENCE, || {
            audited.receiver.refused() > 0 || creation.is_finished()
        });
        assert!(!creation.is_finished(), "the request waits for its event");
        audited.receiver.accept();
        creation.join().expect("it ends")
    });
    assert_eq!(code, 201);
    assert_eq!(audited.stages("a"), ["ResponseComplete"]);
    assert_eq!(metric(&audited.server, "apiserver_audit_error_total", "webhook"), 0.0);
}

#[test]
fn a_blocking_webhook_that_is_gone_is_counted_and_hidden() {
    let audited = start("blocking", &[BRIEF_BACKOFF]);
    audited.receiver.be_gone();
    assert_eq!(audited.create("a"), 201);
    assert_eq!(metric(&audited.server, "apiserver_audit_error_total", "webhook"), 2.0);
    assert_eq!(
        metric(&audited.server, "apiserver_audit_requests_rejected_total", ""),
        0.0
    );
}

#[test]
fn a_strict_webhook_that_is_gone_lets_nothing_be_written() {
    let audited = start("blocking-strict", &[BRIEF_BACKOFF]);
    assert_eq!(audited.create("before"), 201);
    audited.receiver.be_gone();
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "lost"}});
    let answer = audited.server.client().json("POST", CONFIG_MAPS, &object);
    let answer = answer.expect("an answer");
    assert_eq!(answer.code, 500);
    let text = format!("Internal Server Error: {CONFIG_MAPS:?}: failed to store audit event\n");
    assert_eq!(answer.text(), text);
    assert_eq!(
        metric(&audited.server, "apiserver_audit_requests_rejected_total", ""),
        1.0
    );
    audited.receiver.accept();
    let client = audited.server.client();
    let read = client.get(&format!("{CONFIG_MAPS}/lost")).expect("an answer");
    assert_eq!(read.code, 404, "nothing was written");
    assert_eq!(audited.create("after"), 201);
    assert_eq!(audited.stages("after"), ["ResponseComplete"]);
}

#[test]
fn a_batch_is_posted_before_the_server_ends() {
    let mut audited = start("batch", &["--audit-webhook-batch-max-wait=1h"]);
    for name in ["a", "b", "c"] {
        assert_eq!(audited.create(name), 201);
    }
    assert!(audited.receiver.posts().is_empty(), "the batch is neither full nor old");
    let status = audited.server.process().terminate(PATIENCE).expect("it ends");
    assert_eq!(status, "exit status: 0");
    assert_eq!(audited.receiver.posts().len(), 1);
    for name in ["a", "b", "c"] {
        assert_eq!(audited.stages(name), ["ResponseComplete"]);
    }
}

#[test]
fn what_finds_the_buffer_full_is_lost_and_counted() {
    let flags = [
        "--audit-webhook-batch-max-wait=1h",
        "--audit-webhook-batch-buffer-size=2",
        "--audit-webhook-batch-max-size=100",
    ];
    let audited = start("batch", &flags);
    for name in ["a", "b", "c"] {
        assert_eq!(audited.create(name), 201);
    }
    // An event is counted when the buffer's actor comes to it, which a client does not wait for.
    until("what is lost is counted", PATIENCE, || {
        metric(&audited.server, "apiserver_audit_error_total", "buffered") >= 4.0
    });
    assert_eq!(metric(&audited.server, "apiserver_audit_error_total", "buffered"), 4.0);
}

#[test]
fn large_events_are_posted_without_their_bodies() {
    let flags = [
        "--audit-webhook-truncate-enabled=true",
        "--audit-webhook-truncate-max-event-size=3000",
        "--audit-webhook-truncate-max-batch-size=6000",
    ];
    let audited = start("blocking", &flags);
    let object =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "x".repeat(5000)}});
    let answer = audited.server.client().json("POST", CONFIG_MAPS, &object);
    assert_eq!(answer.expect("an answer").code, 201);
    let events = audited.receiver.events();
    assert_eq!(events[1]["annotations"]["audit.k8s.io/truncated"], "true");
    assert_eq!(events[1]["requestObject"], Value::Null);
}

#[test]
fn the_constraint_of_an_impersonation_is_recorded() {
    let audited = start("blocking", &[]);
    let client = audited.server.client();
    let rules = json!([
        {"apiGroups": ["authentication.k8s.io"], "resources": ["users"], "verbs": ["impersonate:user-info"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["impersonate-on:user-info:list"]},
    ]);
    let role = json!({"metadata": {"name": "acting"}, "rules": rules});
    let binding = json!({
        "metadata": {"name": "acting"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "acting"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}],
    });
    for (kind, object) in [("clusterroles", role), ("clusterrolebindings", binding)] {
        let path = format!("/apis/rbac.authorization.k8s.io/v1/{kind}");
        assert_eq!(client.json("POST", &path, &object).expect("an answer").code, 201);
    }
    let headers = [("Impersonate-User".to_owned(), "jane".to_owned())];
    let alice = client.with_token(USER_TOKEN);
    let answer = alice.send(&Request {
        method: "GET",
        path: CONFIG_MAPS,
        headers: &headers,
        ..Request::default()
    });
    assert_eq!(answer.expect("an answer").code, 403, "jane may not list");
    let events = audited.receiver.events();
    let event = events.last().expect("it is recorded");
    assert_eq!(event["impersonatedUser"]["username"], "jane");
    let expected = json!({"impersonationConstraint": "impersonate:user-info"});
    assert_eq!(event["authenticationMetadata"], expected);
}

#[test]
fn what_a_webhook_changes_is_shown_by_events_that_show_objects_and_no_others() {
    let patch = json!([{"op": "add", "path": "/data", "value": {"added": "secret"}}]);
    let script = vec![json!({"path": "/change", "review": {"allowed": true, "patch": patch}})];
    let hooks = Receiver::start(script, "default", None).expect("a port");
    let audited = start("blocking", &[]);
    let client = audited.server.client();
    let webhook = json!({
        "metadata": {"name": "change"},
        "webhooks": [{
            "name": "change.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": format!("https://127.0.0.1:{}/change", hooks.port()), "caBundle": hooks.ca_bundle()},
            "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}],
        }],
    });
    let webhooks = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
    assert_eq!(client.json("POST", webhooks, &webhook).expect("an answer").code, 201);
    let create = |namespace: &str| {
        let path = format!("/api/v1/namespaces/{namespace}/configmaps");
        let object = json!({"metadata": {"generateName": "changed-"}});
        let made = client.json("POST", &path, &object).expect("an answer");
        assert_eq!(made.code, 201, "{}", made.text());
        audited.receiver.events().pop().expect("it is recorded")["annotations"].clone()
    };
    let mutation = "mutation.webhook.admission.k8s.io/round_0_index_0";
    until("the webhook is asked", PATIENCE, || {
        !create("default")[mutation].is_null()
    });

    let by = "\"configuration\":\"change\",\"webhook\":\"change.example.com\"";
    let patch_key = "patch.webhook.admission.k8s.io/round_0_index_0";
    let shown = create("default");
    assert_eq!(shown[mutation], format!("{{{by},\"mutated\":true}}"));
    assert_eq!(
        shown[patch_key],
        format!("{{{by},\"patch\":{patch},\"patchType\":\"JSONPatch\"}}")
    );
    let hidden = create("kube-public");
    assert_eq!(hidden[mutation], format!("{{{by},\"mutated\":true}}"));
    assert_eq!(hidden[patch_key], Value::Null);
}
