//! Answers 504 once the deadline has passed. What the request began goes on: a write's outcome is then unknown.

use actix_web::{HttpResponse, http::StatusCode};
use trireme_machinery::{ApiError, ErrorDetails, Reason};

use crate::{exchange::Exchange, metrics, state::ChainState};

/// Awaits the rest of the chain until the deadline.
pub(crate) async fn bound<T>(
    state: &ChainState,
    exchange: &Exchange,
    rest: impl Future<Output = Result<T, ApiError>>,
) -> Result<T, ApiError> {
    match exchange.deadline.get() {
        None => rest.await,
        Some(deadline) => state
            .clock
            .timeout_at(deadline, rest)
            .await
            .unwrap_or_else(|| Err(timed_out())),
    }
}

/// Counts a request whose answer is that its deadline has passed, whether this filter or a stage that waited says so.
pub(crate) fn count(state: &ChainState, exchange: &Exchange, response: &HttpResponse) {
    let code = response.status();
    let says_so = matches!(code, StatusCode::GATEWAY_TIMEOUT | StatusCode::REQUEST_TIMEOUT);
    let is_over = |deadline| state.clock.now() >= deadline;
    if says_so && exchange.deadline.get().is_some_and(is_over) {
        metrics::record_termination(state, exchange, code);
    }
}

fn timed_out() -> ApiError {
    let text = "Timeout: request did not complete within the allotted timeout";
    ApiError::new(Reason::Timeout, text).with_details(ErrorDetails::default())
}
