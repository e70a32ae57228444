//! The span of a request: begun when its user is known, ended with its answer.

use std::time::Duration;

use actix_http::{HttpMessage as _, Request};
use actix_web::http::{StatusCode, header::HeaderName};

use crate::{
    exchange::{Exchange, header_text},
    spans::{Done, SpanFacts},
    state::ChainState,
};

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// The groups whose members may say that their request belongs to a trace and is to be exported. Of others it is noted
/// which trace they name: else any client could fill the collector.
const TRUSTED: [&str; 2] = ["system:masters", "system:monitoring"];

/// Begins the span of a request whose user is known.
pub(crate) fn begin(state: &ChainState, exchange: &Exchange, request: &Request) {
    let Some(spans) = &state.spans else { return };
    let headers = request.headers();
    let (traceparent, tracestate) = (header_text(headers, TRACEPARENT), header_text(headers, TRACESTATE));
    let groups = exchange.user.get().map_or(&[][..], |user| user.groups.as_slice());
    let since = state.clock.now().saturating_duration_since(exchange.received);
    let caller = SpanFacts {
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
