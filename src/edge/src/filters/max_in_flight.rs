//! Bounds how many requests are worked on at once.

use trireme_auth::MASTERS;
use trireme_flow::{RequestKind, Seat};
use trireme_machinery::{ApiError, Reason};

use crate::{exchange::Exchange, state::ChainState};

/// Takes a seat, to be held until the answer is written. Long-running requests take none.
///
/// # Errors
/// 429 if there is none, except for `system:masters`, who must be able to repair what floods the server.
pub(crate) async fn seat(state: &ChainState, exchange: &Exchange) -> Result<Option<Seat>, ApiError> {
    if exchange.info.is_long_running() {
        return Ok(None);
    }
    let kind = RequestKind::of_verb(exchange.info.verb.as_str());
    match state.limiter.acquire(kind).await {
        Ok(seat) => Ok(Some(seat)),
        Err(_) if is_master(exchange) => Ok(Some(state.limiter.exempt(kind))),
        Err(_) => Err(too_many()),
    }
}

fn is_master(exchange: &Exchange) -> bool {
    exchange
        .acting_user()
        .is_some_and(|user| user.groups.iter().any(|group| group == MASTERS))
}

fn too_many() -> ApiError {
    ApiError::new(Reason::TooManyRequests, "Too many requests, please try again later.").with_retry_after(1)
}
