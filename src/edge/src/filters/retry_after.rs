//! While the server finishes running requests, answers new ones with 429 and `Retry-After`, if configured
//! (`--shutdown-send-retry-after`). Probes and scrapes of metrics are answered to the end.

use trireme_machinery::{ApiError, Reason};

use crate::{exchange::Exchange, state::ChainState};

/// Long enough for a load balancer to notice.
const RETRY_AFTER_SECONDS: u32 = 5;

/// Refuses the request if the server does so.
///
/// # Errors
/// 429 then.
pub(crate) fn check(state: &ChainState, exchange: &Exchange) -> Result<(), ApiError> {
    let path = exchange.info.path();
    if !state.lifecycle.is_refusing() || is_probe(path) || path.starts_with("/metrics") {
        return Ok(());
    }
    let text = "The apiserver is shutting down, please try again later.";
    Err(ApiError::new(Reason::TooManyRequests, text).with_retry_after(RETRY_AFTER_SECONDS))
}

/// Reports whether a path is that of a probe.
pub(super) fn is_probe(path: &str) -> bool {
    ["/healthz", "/livez", "/readyz"]
        .iter()
        .any(|probe| path.starts_with(probe))
}
