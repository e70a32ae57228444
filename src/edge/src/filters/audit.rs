//! Records who asked for what, and what came of it, as far as the policy wants it.
//!
//! Without a policy and a backend nothing is computed. A request that must be recorded and cannot be is refused before
//! anything is changed in its name, and before anything is shown: a read goes on while its first event is stored, and its
//! answer waits for that. A backend that writes several events at a time gets the first event of a read together with the last,
//! unless the read takes long.

use std::{
    net::IpAddr,
    pin::{Pin, pin},
    rc::Rc,
    task::{Context, Poll},
    time::Duration,
};

use actix_http::{HttpMessage as _, Request};
use actix_web::{
    HttpResponse,
    body::{BodySize, BoxBody, MessageBody},
    http::{StatusCode, header::HeaderName},
};
use bytes::Bytes;
use trireme_audit::AuditStage;
use trireme_http::server::Upgrade;
use trireme_machinery::{ApiError, go_text::quote};

use crate::{
    audit_trail::{AuditTrail, RequestOrigin, TrailRequest},
    exchange::{Exchange, header_text},
    respond,
    state::ChainState,
    status,
};

/// The longest time for which the first event of a read is held.
const PROMPT: Duration = Duration::from_millis(100);
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const REAL_IP: HeaderName = HeaderName::from_static("x-real-ip");

/// Begins to record a request whose user is known.
///
/// # Errors
/// The answer, if the request had to be recorded and could not be.
pub(crate) async fn begin(state: &ChainState, exchange: &Exchange, request: &Request) -> Result<(), HttpResponse> {
    let Some(trail) = trail(state, exchange, request) else {
        return Ok(());
    };
    let (stage, impersonated) = (AuditStage::RequestReceived, exchange.impersonated.get());
    // A long-running request reaches others before it is answered: an exec begins with GET, too.
    if is_read(exchange) && !exchange.info.is_long_running() {
        trail.begin_recording(stage, impersonated);
    } else if !trail.record(stage, impersonated).await {
        return Err(not_recorded(exchange));
    }
    // Set once: the chain passes here once.
    let _ = exchange.audit.set(trail);
    Ok(())
}

/// Awaits the rest of the chain. What is held of the trail when that has taken long is recorded meanwhile.
pub(crate) async fn promptly<T>(state: &ChainState, exchange: &Exchange, rest: impl Future<Output = T>) -> T {
    if state.audit.is_none() {
        return rest.await;
    }
    let mut rest = pin!(rest);
    tokio::select! {
        biased;
        output = &mut rest => return output,
        () = state.clock.sleep(PROMPT) => {}
    }
    if let Some(trail) = exchange.audit.get() {
        trail.hold_no_longer();
    }
    rest.await
}

/// Records a request whose credentials were refused.
pub(crate) async fn record_unauthenticated(
    state: &ChainState,
    exchange: &Exchange,
    request: &Request,
    error: &ApiError,
) {
    let Some(trail) = trail(state, exchange, request) else {
        return;
    };
    trail.note_value(&status::object(error));
    trail.answered(StatusCode::UNAUTHORIZED);
    trail
        .record(AuditStage::ResponseStarted, exchange.impersonated.get())
        .await;
}

/// Records the answer: a whole one before the client has it, a streamed one when it ends.
pub(crate) async fn complete(exchange: &Rc<Exchange>, mut response: HttpResponse) -> HttpResponse {
    let Some(trail) = exchange.audit.get() else {
        return response;
    };
    if trail.answered(response.status()) {
        trail.record(AuditStage::Panic, exchange.impersonated.get()).await;
        return response;
    }
    if !trail.has_begun().await {
        return not_recorded(exchange);
    }
    if exchange.info.is_long_running() {
        trail
            .record(AuditStage::ResponseStarted, exchange.impersonated.get())
            .await;
    }
    let upgrade = response.extensions_mut().remove::<Upgrade>();
    if let Some(upgrade) = upgrade {
        let end = EndOfStream(Rc::clone(exchange));
        response.extensions_mut().insert(upgrade.then(move |_| drop(end)));
        return response;
    }
    if response.body().size() == BodySize::Stream {
        trail.hold_no_longer();
        if !trail.has_begun().await {
            return not_recorded(exchange);
        }
        let end = EndOfStream(Rc::clone(exchange));
        return response.map_body(|_, body| BoxBody::new(AuditedBody { body, _end: end }));
    }
    let with_first = trail.is_held();
    let is_stored = trail
        .record(AuditStage::ResponseComplete, exchange.impersonated.get())
        .await;
    // A policy may leave out the first stage: then this one is all there is of the request.
    let is_only = !trail.is_recorded() && !is_read(exchange);
    if !is_stored && (with_first || is_only) {
        return not_recorded(exchange);
    }
    response
}

fn trail(state: &ChainState, exchange: &Exchange, request: &Request) -> Option<AuditTrail> {
    let audit = state.audit.as_ref()?;
    let begun = TrailRequest {
        id: &exchange.audit_id,
        info: &exchange.info,
        user: exchange.user.get(),
        user_agent: exchange.user_agent.as_deref(),
        received: exchange.received,
        trace: &exchange.trace,
        webhooks: &exchange.webhooks,
    };
    let trail = AuditTrail::begin(audit, &state.clock, &begun, || RequestOrigin {
        uri: uri(request),
        source_ips: source_ips(exchange, request),
    })?;
    for (key, value) in exchange.token_annotations.get().into_iter().flatten() {
        trail.notes.annotate(*key, value);
    }
    Some(trail)
}

fn uri(request: &Request) -> String {
    let uri = request.uri();
    uri.path_and_query()
        .map_or_else(|| uri.path(), |uri| uri.as_str())
        .to_owned()
}

fn is_read(exchange: &Exchange) -> bool {
    matches!(
        exchange.info.verb.as_str(),
        "get" | "list" | "watch" | "head" | "options"
    )
}

fn not_recorded(exchange: &Exchange) -> HttpResponse {
    trireme_audit::observe_rejected_request();
    let path = quote(exchange.info.path());
    let text = format!("Internal Server Error: {path}: failed to store audit event\n");
    respond::text(StatusCode::INTERNAL_SERVER_ERROR, text)
}

/// The addresses that the request went through, as far as its headers say, and the one that it came from.
fn source_ips(exchange: &Exchange, request: &Request) -> Vec<String> {
    let headers = request.headers();
    let parsed = |text: &str| text.trim().parse::<IpAddr>().ok();
    let forwarded = header_text(headers, FORWARDED_FOR).unwrap_or_default();
    let mut ips: Vec<IpAddr> = forwarded.split(',').filter_map(parsed).collect();
    let real = header_text(headers, REAL_IP);
    ips.extend(real.as_deref().and_then(parsed).filter(|real| !ips.contains(real)));
    let peer = exchange.peer.as_ref().map(|peer| peer.address.ip().to_canonical());
    ips.extend(peer.filter(|peer| ips.last() != Some(peer)));
    ips.iter().map(ToString::to_string).collect()
}

/// Records the end of an answer that is streamed, when it is dropped: no request waits for that any more.
struct EndOfStream(Rc<Exchange>);

impl Drop for EndOfStream {
    fn drop(&mut self) {
        if let Some(trail) = self.0.audit.get() {
            trail.record_unawaited(AuditStage::ResponseComplete, self.0.impersonated.get());
        }
    }
}

/// A streamed body whose end is recorded.
struct AuditedBody {
    body: BoxBody,
    _end: EndOfStream,
}

impl MessageBody for AuditedBody {
    type Error = Box<dyn std::error::Error>;

    fn size(&self) -> BodySize {
        self.body.size()
    }

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Self::Error>>> {
        Pin::new(&mut self.body).poll_next(cx)
    }
}
