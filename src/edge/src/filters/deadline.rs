//! Says when the answer must be there.

use std::time::Duration;

use trireme_machinery::{ApiError, time};

use crate::{exchange::Exchange, state::ChainState};

/// Sets the deadline of a request that is not long-running: as the client says in `timeout`, up to the server's own.
///
/// # Errors
/// 400 for a `timeout` that is no duration.
pub(crate) fn set(state: &ChainState, exchange: &Exchange) -> Result<(), ApiError> {
    if exchange.info.is_long_running() {
        return Ok(());
    }
    let asked = match exchange.query.get("timeout") {
        None | Some("") => None,
        Some(text) => Some(time::Duration::parse(text).map_err(|error| {
            ApiError::bad_request(format!("invalid timeout specified in the request URL - {error}"))
        })?),
    };
    let asked = asked
        .and_then(|asked| u64::try_from(asked.nanos()).ok())
        .filter(|nanos| *nanos > 0);
    let longest = state.request_timeout;
    let timeout = asked.map_or(longest, |nanos| Duration::from_nanos(nanos).min(longest));
    exchange.deadline.set(Some(exchange.received + timeout));
    Ok(())
}
