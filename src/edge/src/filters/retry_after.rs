//! While the server finishes running requests, answers new ones with 429 and `Retry-After`, if configured
//! (`--shutdown-send-retry-after`). Probes, scrapes of metrics and other API servers are answered to the end.

use actix_web::{
    HttpResponse,
    http::{
        StatusCode,
        header::{HeaderValue, RETRY_AFTER},
    },
};

use crate::{exchange::Exchange, respond, state::ChainState};

/// Seconds; long enough for a load balancer to notice.
const RETRY_AFTER_SECONDS: HeaderValue = HeaderValue::from_static("5");

/// The beginning of the user agent of API servers, by which kube-apiserver knows its own requests.
const API_SERVER: &str = "kube-apiserver/";

/// The refusal of a request, if the server refuses new ones (`WithRetryAfter`).
pub(crate) fn refuse(state: &ChainState, exchange: &Exchange) -> Option<HttpResponse> {
    if !state.lifecycle.is_refusing() || is_exempt(exchange) {
        return None;
    }
    let text = "The apiserver is shutting down, please try again later.\n";
    let mut response = respond::text(StatusCode::TOO_MANY_REQUESTS, text);
    response.headers_mut().insert(RETRY_AFTER, RETRY_AFTER_SECONDS);
    Some(response)
}

/// `isRequestExemptFromRetryAfter`
fn is_exempt(exchange: &Exchange) -> bool {
    let path = exchange.info.path();
    let agent = exchange.user_agent.as_deref();
    agent.is_some_and(|agent| agent.starts_with(API_SERVER)) || is_probe(path) || path.starts_with("/metrics")
}

/// Reports whether a path is that of a probe.
pub(super) fn is_probe(path: &str) -> bool {
    ["/healthz", "/livez", "/readyz"]
        .iter()
        .any(|probe| path.starts_with(probe))
}
