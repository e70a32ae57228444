//! What the edge asks of an exporter of spans. The composition root has one: which protocol it speaks, and how it samples,
//! is not known here.

use std::{
    cell::RefCell,
    time::{Duration, SystemTime},
};

use actix_http::{HttpMessage as _, Request};
use actix_web::http::{StatusCode, header::HeaderName};
use trireme_registry::trace::Passed;

use crate::{
    exchange::{Exchange, header_text},
    state::ChainState,
};

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// The groups whose members may say that their request belongs to a trace and is to be exported. Of others it is noted
/// which trace they name: else everybody could fill the collector.
const TRUSTED: [&str; 2] = ["system:masters", "system:monitoring"];

/// Makes spans of requests. Never waits: what cannot be exported is dropped.
pub trait Spans: Send + Sync {
    /// Decides whether a request is to be exported.
    fn begin(&self, caller: Caller<'_>) -> Option<Box<dyn Span>>;
}

/// The span of a request.
pub trait Span {
    /// The request is done.
    fn end(self: Box<Self>, request: Done<'_>);
}

/// What is known of a request before it is carried out.
pub struct Caller<'a> {
    /// `traceparent`, as the W3C's Trace Context has it.
    pub traceparent: Option<&'a str>,
    /// `tracestate`
    pub tracestate: Option<&'a str>,
    /// Whether the request may belong to the trace that it names.
    pub is_trusted: bool,
    /// When the request came.
    pub came: SystemTime,
}

/// A request that is done.
pub struct Done<'a> {
    /// The method, and for objects the path with names left out: few values, to group by.
    pub name: String,
    /// The method.
    pub method: &'a str,
    /// The path, without the query, which may hold tokens.
    pub path: &'a str,
    /// The request's name in all logs.
    pub audit_id: &'a str,
    /// `User-Agent`
    pub user_agent: &'a str,
    /// The answer's status code.
    pub status: u16,
    /// The length of its body.
    pub bytes: u64,
    /// From its first byte to the last of the answer.
    pub took: Duration,
    /// Where the time went.
    pub steps: Vec<Passed>,
}

/// The span of a request under way, if it is to be exported.
#[derive(Default)]
pub(crate) struct Current(RefCell<Option<Box<dyn Span>>>);

/// Begins the span of a request whose user is known.
pub(crate) fn begin(state: &ChainState, exchange: &Exchange, request: &Request) {
    let Some(spans) = &state.spans else { return };
    let headers = request.headers();
    let (traceparent, tracestate) = (header_text(headers, TRACEPARENT), header_text(headers, TRACESTATE));
    let groups = exchange.user.get().map_or(&[][..], |user| user.groups.as_slice());
    let since = state.clock.now().saturating_duration_since(exchange.received);
    let caller = Caller {
        traceparent: traceparent.as_deref(),
        tracestate: tracestate.as_deref(),
        is_trusted: groups.iter().any(|group| TRUSTED.contains(&group.as_str())),
        came: state.clock.wall() - since,
    };
    *exchange.span.0.borrow_mut() = spans.begin(caller);
}

/// Ends the span of a request.
pub(crate) fn end(exchange: &Exchange, status: StatusCode, bytes: u64, took: Duration) {
    let Some(span) = exchange.span.0.borrow_mut().take() else {
        return;
    };
    span.end(Done {
        name: name(exchange),
        method: exchange.method.as_str(),
        path: exchange.info.path(),
        audit_id: exchange.audit_id.as_str(),
        user_agent: exchange.user_agent.as_deref().unwrap_or_default(),
        status: status.as_u16(),
        bytes,
        took,
        steps: exchange.trace.steps(),
    });
}

/// As kube-apiserver names its spans.
fn name(exchange: &Exchange) -> String {
    let (info, method) = (&exchange.info, &exchange.method);
    // What is no resource that is served has whatever names a client makes up.
    if exchange.resource.get().is_none() {
        return method.to_string();
    }
    let root = if info.group().is_empty() {
        "/api".to_owned()
    } else {
        format!("/apis/{}", info.group())
    };
    let mut name = format!("{method} {root}/{}", info.version());
    if !info.namespace().is_empty() {
        name.push_str("/namespaces/{:namespace}");
    }
    name.push_str(&format!("/{}", info.resource()));
    if !info.name().is_empty() {
        name.push_str("/{:name}");
    }
    if !info.subresource().is_empty() {
        name.push_str(&format!("/{}", info.subresource()));
    }
    name
}
