//! One line a request. Neither queries nor headers are logged: they can hold secrets.

use std::time::Duration;

use actix_web::http::StatusCode;

use crate::exchange::Exchange;

/// Logs a request that is done.
pub(crate) fn log(exchange: &Exchange, status: StatusCode, bytes: u64, took: Duration) {
    tracing::debug!(
        target: "trireme_edge::access",
        audit_id = %exchange.audit_id,
        method = %exchange.method,
        path = exchange.info.path(),
        verb = exchange.info.verb.as_str(),
        user = exchange.acting_user().map_or("", |user| user.name.as_str()),
        agent = exchange.user_agent.as_deref().unwrap_or(""),
        peer = exchange.peer.as_ref().map(|peer| tracing::field::display(peer.address)),
        status = status.as_u16(),
        bytes,
        ?took,
        "request"
    );
}
