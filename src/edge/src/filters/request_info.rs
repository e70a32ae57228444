//! Works out what the request is about.

use std::{
    borrow::Cow,
    cell::{Cell, OnceCell, RefCell},
    rc::Rc,
    time::{Duration, Instant},
};

use actix_http::{HttpMessage, Request};
use actix_web::http::{Method, header};
use trireme_audit::AuditId;
use trireme_http::server::Peer;
use trireme_machinery::ApiError;
use trireme_registry::{Verb, trace::Trace, webhook_latency::WebhookLatency};

use crate::{
    exchange::{Exchange, header_text},
    query::Query,
    request_info::{RequestInfo, RequestVerb},
    spans,
    state::ChainState,
};

const APPLY: &[u8] = b"application/apply-patch+yaml";

/// Begins the exchange of a request.
///
/// # Errors
/// 400 for a URL that cannot be understood; kube-apiserver says 500.
pub(crate) fn resolve(
    state: &ChainState,
    request: &Request,
    audit_id: &AuditId,
    received: Instant,
) -> Result<Exchange, ApiError> {
    let query = Query::parse(request.uri().query()).map_err(|error| ApiError::bad_request(error.to_string()))?;
    let info = RequestInfo::parse(request.method().as_str(), request.uri().path(), &query)
        .map_err(|error| ApiError::bad_request(error.to_string()))?;
    // A long-running request takes as long as it likes.
    let is_traced = (state.slow_request.is_some() || state.spans.is_some()) && !info.is_long_running();
    Ok(Exchange {
        audit_id: audit_id.clone(),
        received,
        last_lap: Cell::new(received),
        method: request.method().clone(),
        version: request.version(),
        is_apply: is_apply(request),
        query,
        peer: request.extensions().get::<Rc<Peer>>().cloned(),
        accept: header_text(request.headers(), header::ACCEPT).map(Cow::into_owned),
        types: state.types,
        user_agent: header_text(request.headers(), header::USER_AGENT).map(Cow::into_owned),
        _running: (!info.is_long_running() && !state.lifecycle.is_refusing()).then(|| state.lifecycle.begin_request()),
        webhooks: if is_admitted(&info) {
            WebhookLatency::begin()
        } else {
            WebhookLatency::default()
        },
        info,
        user: OnceCell::new(),
        impersonated: OnceCell::new(),
        deadline: Cell::new(None),
        flow: OnceCell::new(),
        queue_wait: Cell::new(Duration::ZERO),
        watch: OnceCell::new(),
        open_place: OnceCell::new(),
        seat: Cell::new(None),
        token_annotations: OnceCell::new(),
        audit: OnceCell::new(),
        warnings: RefCell::default(),
        resource: OnceCell::new(),
        trace: if is_traced {
            Trace::begin(&state.clock, received)
        } else {
            Trace::default()
        },
        span: spans::CurrentSpan::default(),
    })
}

fn is_apply(request: &Request) -> bool {
    let media_type = || request.headers().get(header::CONTENT_TYPE);
    *request.method() == Method::PATCH && media_type().is_some_and(|value| value.as_bytes() == APPLY)
}

/// Reports whether admission may see a request: also connections to pods, which are a GET.
fn is_admitted(info: &RequestInfo) -> bool {
    let is_read = matches!(info.verb, RequestVerb::Resource(Verb::Get | Verb::List | Verb::Watch));
    info.is_resource && (!is_read || !info.subresource().is_empty())
}
