//! The audit trail of one request: begun by the audit filter, filled by handlers, read at each stage.

use std::{
    cell::{Cell, RefCell},
    sync::Arc,
    time::{Duration, Instant},
};

use actix_web::http::StatusCode;
use bytes::Bytes;
use futures_util::future::{self, FutureExt as _, LocalBoxFuture};
use jiff::Timestamp;
use serde_json::{Value, json};
use trireme_actors::Clock;
use trireme_audit::{
    Audit, AuditEvent, AuditId, AuditLevel, AuditStage, AuditedRequest, AuditedSubject, EventUser, ObjectReference,
    RequestAuditConfig, RequestFacts,
};
use trireme_auth::Impersonated;
use trireme_machinery::time;
use trireme_registry::{
    audit_notes::{AuditNoted, AuditNotes},
    request::UserInfo,
    trace::{Trace, TraceStep},
    webhook_latency::WebhookLatency,
};

use crate::request_info::RequestInfo;

/// Requests that take longer are recorded with the time of their parts.
const SLOW: Duration = Duration::from_millis(500);
const LATENCY: &str = "apiserver.latency.k8s.io/";
/// The fields of a `Status` that are kept of it.
const STATUS_FIELDS: [&str; 5] = ["status", "message", "reason", "details", "code"];

/// The audit trail of one request.
pub(crate) struct AuditTrail {
    audit: Arc<Audit>,
    clock: Clock,
    config: RequestAuditConfig,
    request: Arc<RequestFacts>,
    object: Option<ObjectReference>,
    /// For those who carry the request out.
    pub(crate) notes: AuditNotes,
    answer: RefCell<RecordedAnswer>,
    panicked: RefCell<Option<String>>,
    is_recorded: Cell<bool>,
    /// The first stage of a read, which goes on until that is stored, together with the last if that comes soon.
    beginning: Cell<Beginning>,
    received: Instant,
    trace: Trace,
    webhooks: WebhookLatency,
}

/// The progress of recording the first stage of a read.
#[derive(Default)]
enum Beginning {
    /// It was not to be recorded apart, or is.
    #[default]
    Past,
    /// It waits for the next stage.
    Held(Box<AuditEvent>),
    /// It is being recorded.
    UnderWay(LocalBoxFuture<'static, bool>),
}

/// A request whose trail begins.
pub(crate) struct TrailRequest<'a> {
    pub(crate) id: &'a AuditId,
    pub(crate) info: &'a RequestInfo,
    /// The authenticated user, if there is one.
    pub(crate) user: Option<&'a UserInfo>,
    pub(crate) user_agent: Option<&'a str>,
    pub(crate) received: Instant,
    pub(crate) trace: &'a Trace,
    pub(crate) webhooks: &'a WebhookLatency,
}

#[derive(Default)]
struct RecordedAnswer {
    status: Option<Value>,
    object: Option<Bytes>,
}

impl AuditTrail {
    /// Begins the trail of a request, unless the policy has it not recorded.
    pub(crate) fn begin(
        audit: &Arc<Audit>,
        clock: &Clock,
        request: &TrailRequest<'_>,
        came: impl FnOnce() -> RequestOrigin,
    ) -> Option<Self> {
        let anonymous = UserInfo::default();
        let user = request.user.unwrap_or(&anonymous);
        let config = audit.policy.evaluate(&audited(request.info, user));
        trireme_audit::observe_level(config.level);
        if config.level == AuditLevel::None {
            return None;
        }
        let RequestOrigin { uri, source_ips } = came();
        let info = request.info;
        let facts = RequestFacts {
            id: request.id.clone(),
            level: config.level,
            uri,
            verb: info.verb.as_str().to_owned(),
            user: event_user(user),
            source_ips,
            user_agent: request.user_agent.map(shortened).unwrap_or_default(),
            received: wall(clock, clock.now().saturating_duration_since(request.received)),
        };
        Some(Self {
            audit: Arc::clone(audit),
            clock: clock.clone(),
            config,
            request: Arc::new(facts),
            object: info.is_resource.then(|| ObjectReference {
                resource: info.resource().to_owned(),
                namespace: info.namespace().to_owned(),
                name: info.name().to_owned(),
                api_group: info.group().to_owned(),
                api_version: info.version().to_owned(),
                subresource: info.subresource().to_owned(),
                ..ObjectReference::default()
            }),
            notes: AuditNotes::begin(config.level >= AuditLevel::Request),
            answer: RefCell::default(),
            panicked: RefCell::default(),
            is_recorded: Cell::new(false),
            beginning: Cell::default(),
            received: request.received,
            trace: request.trace.clone(),
            webhooks: request.webhooks.clone(),
        })
    }

    /// Returns true if the body of the answer is wanted.
    pub(crate) fn wants_answer(&self) -> bool {
        self.config.level >= AuditLevel::RequestResponse
    }

    /// Notes an answer; what matters of a `Status` is kept at every level.
    pub(crate) fn note_value(&self, value: &Value) {
        let mut answer = self.answer.borrow_mut();
        if value.get("kind").is_some_and(|kind| kind == "Status") {
            let mut status = json!({"metadata": {}});
            for name in STATUS_FIELDS {
                if let Some(field) = value.get(name) {
                    status[name] = field.clone();
                }
            }
            answer.status = Some(status);
        }
        if self.wants_answer() {
            answer.object = Some(self.written(value.clone()));
        }
    }

    /// Notes an answer that is JSON already.
    pub(crate) fn note_bytes(&self, bytes: &Bytes) {
        if !self.wants_answer() {
            return;
        }
        let parsed = |bytes: &Bytes| serde_json::from_slice(bytes).ok();
        let object = match self.config.omit_managed_fields.then(|| parsed(bytes)).flatten() {
            Some(value) => self.written(value),
            None => bytes.clone(),
        };
        self.answer.borrow_mut().object = Some(object);
    }

    /// Notes that the handler has panicked.
    pub(crate) fn note_panic(&self, why: String) {
        *self.panicked.borrow_mut() = Some(why);
    }

    fn written(&self, mut value: Value) -> Bytes {
        if self.config.omit_managed_fields {
            omit_managed_fields(&mut value);
        }
        value.to_string().into()
    }

    /// Takes the code of the answer; returns true if the handler has panicked instead of answering.
    pub(crate) fn answered(&self, code: StatusCode) -> bool {
        let mut answer = self.answer.borrow_mut();
        let panicked = self.panicked.borrow();
        if let Some(why) = &*panicked {
            answer.status = Some(json!({
                "metadata": {}, "status": "Failure", "message": format!("APIServer panic'd: {why}"), "reason": "InternalError",
            }));
            answer.object = None;
        }
        let status = answer.status.get_or_insert_with(|| json!({"metadata": {}}));
        status["code"] = code.as_u16().into();
        panicked.is_some()
    }

    /// Records a stage, in the name of the acting user, unless the policy leaves it out, and before it one that is held. Returns false
    /// if one had to be stored and is not.
    pub(crate) async fn record(&self, stage: AuditStage, impersonated: Option<&Impersonated>) -> bool {
        let events = self.due_events(stage, impersonated);
        if events.is_empty() {
            return true;
        }
        let is_stored = self.audit.sink.record(events).await;
        self.is_recorded.set(self.is_recorded.get() || is_stored);
        is_stored
    }

    /// Begins to record a stage; [`Self::has_begun`] waits for it.
    pub(crate) fn begin_recording(&self, stage: AuditStage, impersonated: Option<&Impersonated>) {
        if self.config.omit_stages.contains(stage) {
            return;
        }
        self.beginning
            .set(Beginning::Held(Box::new(self.event(stage, impersonated))));
        if !self.audit.sink.writes_together() {
            self.hold_no_longer();
        }
    }

    /// Returns true if a stage waits for the next one.
    pub(crate) fn is_held(&self) -> bool {
        let beginning = self.beginning.take();
        let is_held = matches!(beginning, Beginning::Held(_));
        self.beginning.set(beginning);
        is_held
    }

    /// Has a stage recorded that waits for the next one.
    pub(crate) fn hold_no_longer(&self) {
        let beginning = match self.beginning.take() {
            Beginning::Held(event) => {
                let audit = Arc::clone(&self.audit);
                let mut recording = async move { audit.sink.record(vec![*event]).await }.boxed_local();
                // Sent by this look, which wakes no task when the reply comes.
                match (&mut recording).now_or_never() {
                    Some(is_stored) => Beginning::UnderWay(future::ready(is_stored).boxed_local()),
                    None => Beginning::UnderWay(recording),
                }
            }
            beginning => beginning,
        };
        self.beginning.set(beginning);
    }

    /// Waits until the stage is stored that was begun to be recorded, if it is not held. Returns false if it had to be and is not.
    pub(crate) async fn has_begun(&self) -> bool {
        match self.beginning.take() {
            Beginning::UnderWay(recording) => {
                let is_stored = recording.await;
                self.is_recorded.set(is_stored);
                is_stored
            }
            beginning => {
                self.beginning.set(beginning);
                true
            }
        }
    }

    /// Records a stage that no request can wait for.
    pub(crate) fn record_unawaited(&self, stage: AuditStage, impersonated: Option<&Impersonated>) {
        let events = self.due_events(stage, impersonated);
        if !events.is_empty() {
            self.audit.sink.record_unawaited(events);
        }
    }

    /// The event of a stage unless the policy leaves it out, and before it one that is held.
    fn due_events(&self, stage: AuditStage, impersonated: Option<&Impersonated>) -> Vec<AuditEvent> {
        let held = match self.beginning.take() {
            Beginning::Held(event) => Some(*event),
            beginning => {
                self.beginning.set(beginning);
                None
            }
        };
        let next = (!self.config.omit_stages.contains(stage)).then(|| self.event(stage, impersonated));
        held.into_iter().chain(next).collect()
    }

    /// Returns true if any stage of the request is stored.
    pub(crate) fn is_recorded(&self) -> bool {
        self.is_recorded.get()
    }

    fn event(&self, stage: AuditStage, impersonated: Option<&Impersonated>) -> AuditEvent {
        let noted = self.notes.noted();
        let AuditNoted {
            object: sent,
            mut annotations,
            ..
        } = noted.clone();
        let took = self.clock.now().saturating_duration_since(self.received);
        if stage == AuditStage::ResponseComplete && took > SLOW {
            annotations.extend(latencies(&self.trace, &self.webhooks, took));
        }
        let answer = self.answer.borrow();
        AuditEvent {
            request: Arc::clone(&self.request),
            stage,
            reached: wall(&self.clock, Duration::ZERO),
            impersonated: impersonated.map(|acting| event_user(&acting.user)),
            impersonation_constraint: impersonated.and_then(|acting| acting.constraint.clone()),
            object: self.object.clone().map(|object| completed(object, noted)),
            status: answer.status.clone(),
            request_object: sent.map(|value| self.written(value)),
            response_object: answer.object.clone(),
            annotations,
        }
    }
}

impl Drop for AuditTrail {
    fn drop(&mut self) {
        if let Beginning::Held(event) = self.beginning.take() {
            self.audit.sink.record_unawaited(vec![*event]);
        }
    }
}

/// The addresses that a request came from, and its URI as it was sent.
pub(crate) struct RequestOrigin {
    pub(crate) uri: String,
    pub(crate) source_ips: Vec<String>,
}

fn audited<'a>(info: &'a RequestInfo, user: &'a UserInfo) -> AuditedRequest<'a> {
    AuditedRequest {
        user: &user.name,
        groups: &user.groups,
        verb: info.verb.as_str(),
        subject: if info.is_resource {
            AuditedSubject::Resource {
                group: info.group(),
                resource: info.resource(),
                subresource: info.subresource(),
                namespace: info.namespace(),
                name: info.name(),
            }
        } else {
            AuditedSubject::Path(info.path())
        },
    }
}

fn event_user(user: &UserInfo) -> EventUser {
    EventUser {
        username: user.name.clone(),
        uid: user.uid.clone(),
        groups: user.groups.clone(),
        extra: user.extra.clone(),
    }
}

/// The object of the URL, with what only its body says.
fn completed(mut object: ObjectReference, noted: AuditNoted) -> ObjectReference {
    for (field, said) in [
        (&mut object.namespace, noted.namespace),
        (&mut object.name, noted.name),
        (&mut object.uid, noted.uid),
        (&mut object.resource_version, noted.resource_version),
    ] {
        if field.is_empty() {
            *field = said;
        }
    }
    object
}

/// A user agent as long as kube-apiserver keeps one.
fn shortened(agent: &str) -> String {
    const MAX_BYTES: usize = 1024;
    if agent.len() <= MAX_BYTES {
        return agent.to_owned();
    }
    let mut end = MAX_BYTES;
    while !agent.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}...TRUNCATED", agent.get(..end).unwrap_or_default())
}

/// The time of day so long `ago`.
fn wall(clock: &Clock, ago: Duration) -> Timestamp {
    Timestamp::try_from(clock.wall() - ago).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// Takes the managed fields out of an object, the items of a list, or the rows of a Table.
fn omit_managed_fields(value: &mut Value) {
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    for (list, item) in [("items", None), ("rows", Some("object"))] {
        let items = value.get_mut(list).and_then(Value::as_array_mut);
        for one in items.into_iter().flatten() {
            let object = match item {
                Some(name) => one.get_mut(name),
                None => Some(one),
            };
            let metadata = object.and_then(|object| object.get_mut("metadata"));
            if let Some(metadata) = metadata.and_then(Value::as_object_mut) {
                metadata.remove("managedFields");
            }
        }
    }
}

/// The annotations that say where the time of a slow request went.
fn latencies(trace: &Trace, webhooks: &WebhookLatency, took: Duration) -> Vec<(String, String)> {
    let mut parts: Vec<(&str, Duration)> = Vec::new();
    let mut before = Duration::ZERO;
    for passed in trace.steps() {
        let part = passed.at.saturating_sub(before);
        before = passed.at;
        let Some(name) = layer(passed.step).filter(|_| !part.is_zero()) else {
            continue;
        };
        match parts.iter_mut().find(|(known, _)| *known == name) {
            Some((_, sum)) => *sum += part,
            None => parts.push((name, part)),
        }
    }
    let in_webhooks = [
        ("mutating-webhook", webhooks.mutating()),
        ("validating-webhook", webhooks.validating()),
    ];
    parts.extend(in_webhooks.into_iter().filter(|(_, part)| !part.is_zero()));
    if parts.is_empty() {
        return Vec::new();
    }
    parts.push(("total", took));
    let shown = |took: Duration| time::Duration::from_nanos(i64::try_from(took.as_nanos()).unwrap_or(i64::MAX));
    let annotation = |(name, took): (&str, Duration)| (format!("{LATENCY}{name}"), shown(took).to_string());
    parts.into_iter().map(annotation).collect()
}

/// The part of kube-apiserver that a step belongs to, as the annotations name it.
fn layer(step: TraceStep) -> Option<&'static str> {
    match step {
        TraceStep::Authenticated => Some("authentication"),
        TraceStep::Seated => Some("apf-queue-wait"),
        TraceStep::Authorized => Some("authorization"),
        TraceStep::Loaded
        | TraceStep::RevisionKnown
        | TraceStep::Stored
        | TraceStep::Removed
        | TraceStep::RaceLost
        | TraceStep::StoreFailed => Some("etcd"),
        TraceStep::Answered => Some("serialize-response-object"),
        TraceStep::Streamed => Some("response-write"),
        _ => None,
    }
}
