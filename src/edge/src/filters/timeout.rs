//! Answers 504 once the deadline has passed. What the request began goes on: a write's outcome is then unknown.

use trireme_machinery::{ApiError, ErrorDetails, Reason};

use crate::{exchange::Exchange, state::ChainState};

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

fn timed_out() -> ApiError {
    let text = "Timeout: request did not complete within the allotted timeout";
    ApiError::new(Reason::Timeout, text).with_details(ErrorDetails::default())
}
