//! Records of requests, and the answers to those that cannot be recorded.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use tokio::sync::watch;
use trireme_actors::ActorSystem;
use trireme_audit::{Audit, AuditBackend, AuditEvent, AuditPolicy, AuditSink, BackendError, Mode, SinkSettings};
use trireme_auth::BoxFuture;

use super::{Fixture, request};

/// Keeps events, or refuses to.
#[derive(Default)]
struct Memory {
    /// The events of each write.
    writes: watch::Sender<Vec<Vec<Value>>>,
    refuses: bool,
}

impl Memory {
    fn events(&self) -> Vec<Value> {
        self.writes.borrow().concat()
    }

    /// The stages so far, with the code of each.
    fn stages(&self) -> Vec<String> {
        let shown = |event: &Value| match event["responseStatus"]["code"].as_u64() {
            Some(code) => format!("{} {code}", event["stage"].as_str().unwrap_or_default()),
            None => event["stage"].as_str().unwrap_or_default().to_owned(),
        };
        self.events().iter().map(shown).collect()
    }
}

impl AuditBackend for Memory {
    fn plugin(&self) -> &'static str {
        "memory"
    }

    fn write(&self, events: Vec<Arc<AuditEvent>>) -> BoxFuture<'static, Result<(), BackendError>> {
        let parsed = |event: &Arc<AuditEvent>| {
            let mut written = Vec::new();
            event.write_json(&mut written);
            serde_json::from_slice(&written).expect("events are JSON")
        };
        let events = events.iter().map(parsed).collect();
        self.writes.send_modify(|writes| writes.push(events));
        let refused = self.refuses.then(|| BackendError("no space".to_owned()));
        Box::pin(std::future::ready(refused.map_or(Ok(()), Err)))
    }
}

/// A chain that records by these rules, event by event.
fn audited(rules: &Value, mode: Mode, refuses: bool) -> (Fixture, Arc<Memory>, ActorSystem) {
    audited_in_groups(rules, mode, refuses, 1)
}

/// A chain that records by these rules, so much at a time.
fn audited_in_groups(rules: &Value, mode: Mode, refuses: bool, group: usize) -> (Fixture, Arc<Memory>, ActorSystem) {
    let policy = json!({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules});
    let policy = AuditPolicy::parse(policy.to_string().as_bytes()).expect("it is a policy");
    let memory = Arc::new(Memory {
        refuses,
        ..Memory::default()
    });
    let system = ActorSystem::builder().build().expect("a test can start a thread");
    let mut sink = AuditSink::default();
    let settings = SinkSettings {
        mode,
        truncate: None,
        group,
        concurrency: 1,
    };
    sink.add(&system, Arc::clone(&memory) as Arc<dyn AuditBackend>, settings)
        .expect("it is added");
    let mut fixture = Fixture::new();
    fixture.state.audit = Some(Arc::new(Audit {
        policy: Arc::new(policy),
        sink,
    }));
    (fixture, memory, system)
}

fn everything() -> Value {
    json!([{"level": "RequestResponse"}])
}

#[actix_web::test]
async fn a_request_is_recorded_before_and_after_with_who_and_what() {
    let (fixture, memory, _system) = audited(&everything(), Mode::Blocking, false);
    let sent = request("/api/v1/namespaces/n/pods/p/log?x=%20", Some("alice"))
        .insert_header(("Audit-ID", "mine"))
        .insert_header(("X-Forwarded-For", "10.1.2.3, junk"));
    assert_eq!(fixture.send(sent).await.code, 403);
    assert_eq!(
        memory.stages(),
        ["RequestReceived", "ResponseStarted 403", "ResponseComplete 403"]
    );
    let event = &memory.events()[2];
    let expected = json!({
        "auditID": "mine", "verb": "get", "requestURI": "/api/v1/namespaces/n/pods/p/log?x=%20", "level": "RequestResponse",
        "user": {"username": "alice", "groups": ["dev"]}, "sourceIPs": ["10.1.2.3"],
        "objectRef": {"resource": "pods", "subresource": "log", "namespace": "n", "name": "p", "apiVersion": "v1"},
        "annotations": {"authorization.k8s.io/decision": "forbid", "authorization.k8s.io/reason": ""},
    });
    for (field, value) in expected.as_object().expect("it is an object") {
        assert_eq!(event[field], *value, "{field}");
    }
    assert_eq!(event["responseObject"]["reason"], "Forbidden");
}

#[actix_web::test]
async fn refused_credentials_are_recorded_once_without_a_user() {
    let (fixture, memory, _system) = audited(&everything(), Mode::Blocking, false);
    assert_eq!(fixture.get("/api", Some("guess")).await.code, 401);
    assert_eq!(memory.stages(), ["ResponseStarted 401"]);
    assert_eq!(memory.events()[0]["user"], json!({}));
}

#[actix_web::test]
async fn a_panic_has_a_stage_of_its_own() {
    let (fixture, memory, _system) = audited(&everything(), Mode::Blocking, false);
    assert_eq!(fixture.get("/panic", Some("admin")).await.code, 500);
    assert_eq!(memory.stages(), ["RequestReceived", "Panic 500"]);
    assert_eq!(
        memory.events()[1]["responseStatus"]["message"],
        "APIServer panic'd: a bug"
    );
}

#[actix_web::test]
async fn what_the_policy_leaves_out_is_not_recorded() {
    let rules =
        json!([{"level": "None", "users": ["alice"]}, {"level": "Metadata", "omitStages": ["RequestReceived"]}]);
    let (fixture, memory, _system) = audited(&rules, Mode::Blocking, false);
    fixture.get("/version", Some("alice")).await;
    fixture.get("/version", Some("admin")).await;
    assert_eq!(memory.stages(), ["ResponseComplete 200"]);
}

#[actix_web::test]
async fn what_cannot_be_recorded_is_refused_if_the_sink_is_strict_and_done_if_not() {
    for (mode, code) in [(Mode::BlockingStrict, 500), (Mode::Blocking, 200)] {
        let (fixture, memory, _system) = audited(&everything(), mode, true);
        let seen = fixture.get("/version", Some("admin")).await;
        assert_eq!(seen.code, code, "{mode:?}");
        if code == 500 {
            assert_eq!(
                seen.body,
                "Internal Server Error: \"/version\": failed to store audit event\n"
            );
            assert_eq!(memory.stages(), ["RequestReceived"], "nothing was done");
        }
    }
}

#[actix_web::test]
async fn a_backend_that_takes_several_events_gets_both_of_a_read_at_once() {
    let (fixture, memory, _system) = audited_in_groups(&everything(), Mode::Blocking, false, 100);
    assert_eq!(fixture.get("/version", Some("admin")).await.code, 200);
    assert_eq!(memory.stages(), ["RequestReceived", "ResponseComplete 200"]);
    assert_eq!(memory.writes.borrow().len(), 1);
    let posted = request("/version", Some("admin")).method(actix_web::http::Method::POST);
    fixture.send(posted).await;
    assert_eq!(
        memory.writes.borrow().len(),
        3,
        "nothing is changed before its first event is stored"
    );

    let (fixture, memory, _system) = audited_in_groups(&everything(), Mode::BlockingStrict, true, 100);
    assert_eq!(fixture.get("/version", Some("admin")).await.code, 500);
    assert_eq!(memory.writes.borrow().len(), 1);
}

#[actix_web::test]
async fn the_first_event_of_a_read_that_takes_long_or_is_given_up_is_recorded_by_itself() {
    let (fixture, memory, _system) = audited_in_groups(&everything(), Mode::Blocking, false, 100);
    let mut written = memory.writes.subscribe();
    let mut first_is_written = async |reads: usize| {
        let written = written.wait_for(|writes| writes.len() == reads).await;
        drop(written.expect("the backend lives"));
        assert_eq!(memory.stages(), vec!["RequestReceived"; reads]);
    };
    tokio::select! {
        _ = fixture.get("/never", Some("admin")) => panic!("it is never answered"),
        () = async {
            fixture.clock.elapse(Duration::from_millis(100)).await;
            first_is_written(1).await;
        } => {}
    }
    tokio::select! {
        biased;
        _ = fixture.get("/never", Some("admin")) => panic!("it is never answered"),
        () = fixture.clock.wait_for_sleep(Duration::from_millis(100)) => {}
    }
    first_is_written(2).await;
}
