//! One request on its way through the filter chain: what the filters find out for each other and for the handlers.

use std::{
    borrow::Cow,
    cell::{Cell, OnceCell, RefCell},
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

use actix_http::HttpMessage;
use actix_web::{
    FromRequest, HttpRequest,
    dev::Payload,
    http::header::{self, HeaderMap},
    http::{Method, Version},
};
use serde_json::Value;
use trireme_actors::Clock;
use trireme_audit::AuditId;
use trireme_auth::Impersonated;
use trireme_flow::{Flow, Seat};
use trireme_http::server::{Peer, RunningRequest};
use trireme_machinery::schema::TypeTable;
use trireme_registry::{
    PublishedSurface, ResourceDefinition,
    audit_notes::AuditNotes,
    request::UserInfo,
    trace::{Trace, TraceStep},
    webhook_latency::WebhookLatency,
};

use crate::{
    audit_trail::AuditTrail, negotiation, query::Query, request_info::RequestInfo, spans, status::ErrorStyle,
    user_counts::UserPlace, watch_counts::CountedWatch,
};

/// Everything that is known of a request. Filters fill it in order; handlers read it.
pub(crate) struct Exchange {
    /// Names the request.
    pub(crate) audit_id: AuditId,
    /// The time at which it was received.
    pub(crate) received: Instant,
    /// The time at which it passed the last filter that is timed; at first that at which it was received.
    pub(crate) last_lap: Cell<Instant>,
    /// The method.
    pub(crate) method: Method,
    /// Of HTTP.
    pub(crate) version: Version,
    /// A PATCH that is a server-side apply.
    pub(crate) is_apply: bool,
    /// The decoded query.
    pub(crate) query: Query,
    /// The other end of the connection.
    pub(crate) peer: Option<Rc<Peer>>,
    /// `Accept`
    pub(crate) accept: Option<String>,
    /// The types of the API machinery, for answers in protobuf.
    pub(crate) types: &'static TypeTable,
    /// `User-Agent`
    pub(crate) user_agent: Option<String>,
    /// The subject of the URL; set by the request-info filter.
    pub(crate) info: RequestInfo,
    /// The user; set by the authentication filter.
    pub(crate) user: OnceCell<UserInfo>,
    /// The user in whose name it goes on, if one is impersonated; set by the impersonation filter.
    pub(crate) impersonated: OnceCell<Impersonated>,
    /// The time by which the answer must be there; set by the deadline filter. Long-running requests have none.
    pub(crate) deadline: Cell<Option<Instant>>,
    /// The flow schema and priority level; set by the limiter, unless there are none.
    pub(crate) flow: OnceCell<Flow>,
    /// The time that it waited in a queue for its seat; set by the limiter.
    pub(crate) queue_wait: Cell<Duration>,
    /// Its place among the watches that writes count; set by the limiter, of a watch alone.
    pub(crate) watch: OnceCell<Option<CountedWatch>>,
    /// Its place among the watches or streams of its user; set by the filter of open limits, of a long-running request alone.
    pub(crate) open_place: OnceCell<UserPlace>,
    /// Its seat while it is handled; the handler of a watch takes it along until its first events are sent.
    pub(crate) seat: Cell<Option<Seat>>,
    /// Annotations for its audit trail, which begins later; set by the authentication filter.
    pub(crate) token_annotations: OnceCell<Vec<(&'static str, String)>>,
    /// Its audit trail, if it is recorded; set by the audit filter.
    pub(crate) audit: OnceCell<AuditTrail>,
    /// Texts for `Warning` headers, in order.
    pub(crate) warnings: RefCell<Vec<String>>,
    /// The resource that the request was routed to: what metrics may name.
    pub(crate) resource: OnceCell<Arc<ResourceDefinition>>,
    /// The trace of its steps; off if it would not be logged or exported.
    pub(crate) trace: Trace,
    /// The time that it spends in webhooks; off if admission does not see it.
    pub(crate) webhooks: WebhookLatency,
    /// Holds up the end of the server; long-running requests have none.
    pub(crate) _running: Option<RunningRequest>,
    /// Its exported span, if there is one.
    pub(crate) span: spans::CurrentSpan,
}

impl Exchange {
    /// The user who asks, or the impersonated one. The empty user, before the request is authenticated.
    pub(crate) fn user(&self) -> UserInfo {
        self.acting_user().cloned().unwrap_or_default()
    }

    /// The same without a copy.
    pub(crate) fn acting_user(&self) -> Option<&UserInfo> {
        self.impersonated.get().map(|acting| &acting.user).or(self.user.get())
    }

    /// The time since it passed the last filter that is timed; it passes another one now.
    pub(crate) fn lap(&self, clock: &Clock) -> Duration {
        let now = clock.now();
        now.saturating_duration_since(self.last_lap.replace(now))
    }

    /// Notes a step that was done at the end of the last filter that is timed.
    pub(crate) fn pass_at_lap(&self, step: TraceStep) {
        let at = self.last_lap.get().saturating_duration_since(self.received);
        self.trace.pass_at(step, at);
    }

    /// Names the resource of a request that ends before it is routed, if it is served.
    pub(crate) fn name_resource(&self, surface: &PublishedSurface) {
        if self.resource.get().is_some() || !self.info.is_resource {
            return;
        }
        let info = &self.info;
        let surface = surface.load();
        let served = surface
            .as_ref()
            .and_then(|surface| surface.resource(info.group(), info.version(), info.resource()));
        if let Some(served) = served {
            // Set once: it was looked for above.
            let _ = self.resource.set(Arc::clone(served.definition));
        }
    }

    /// Reports whether the client wants indented JSON.
    pub(crate) fn pretty(&self) -> bool {
        negotiation::wants_pretty(&self.query, self.accept.as_deref(), self.user_agent.as_deref())
    }

    /// The form of errors.
    pub(crate) fn error_style(&self) -> ErrorStyle {
        ErrorStyle::of(self.accept.as_deref(), self.pretty(), self.types)
    }

    /// Notes for the audit log; off if the request is not recorded.
    pub(crate) fn audit_notes(&self) -> AuditNotes {
        self.audit.get().map(|trail| trail.notes.clone()).unwrap_or_default()
    }

    /// Notes for the audit log an answer that is not written as JSON, if it wants answers.
    pub(crate) fn note_answer(&self, value: impl FnOnce() -> Value) {
        if let Some(trail) = self.audit.get().filter(|trail| trail.wants_answer()) {
            trail.note_value(&value());
        }
    }

    /// Adds an annotation to what is recorded of the request.
    pub(crate) fn annotate(&self, key: &str, value: &str) {
        if let Some(trail) = self.audit.get() {
            trail.notes.annotate(key, value);
        }
    }

    /// Adds a `Warning` for the client.
    pub(crate) fn warn(&self, text: impl Into<String>) {
        let text = text.into();
        let mut warnings = self.warnings.borrow_mut();
        if !warnings.contains(&text) {
            warnings.push(text);
        }
    }
}

/// A header of a request as text; `None` only if it is missing: what is no text must not pass for nothing.
pub(crate) fn header_text(headers: &HeaderMap, name: header::HeaderName) -> Option<Cow<'_, str>> {
    headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()))
}

/// Handlers take the exchange as an argument.
#[derive(Clone)]
pub(crate) struct CurrentExchange(pub(crate) Rc<Exchange>);

impl std::ops::Deref for CurrentExchange {
    type Target = Exchange;

    fn deref(&self) -> &Exchange {
        &self.0
    }
}

impl FromRequest for CurrentExchange {
    type Error = actix_web::Error;
    type Future = std::future::Ready<Result<Self, Self::Error>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        let exchange = request.extensions().get::<Rc<Exchange>>().cloned();
        std::future::ready(
            exchange
                .map(Self)
                .ok_or_else(|| actix_web::error::ErrorInternalServerError("the filter chain was left out")),
        )
    }
}
