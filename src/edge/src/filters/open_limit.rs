//! Bounds how many watches and connections users have open (`--max-watches`, `--max-connections` and those per user). Streams of
//! what is connected to (`exec`, logs, proxies) have a connection to a backend each, so they have the bounds of connections, too.
//!
//! Probes, members of `system:masters` and those whom priority and fairness exempts are never refused: they are what an
//! operator mends an overloaded server with.

use std::{fmt::Display, rc::Rc};

use actix_web::{
    HttpResponse,
    http::{
        StatusCode,
        header::{self, HeaderValue},
    },
};
use trireme_http::server::Peer;
use trireme_machinery::{ApiError, Reason, go_text::quote};

use super::{limiter, retry_after};
use crate::{
    exchange::Exchange,
    metrics, respond,
    state::ChainState,
    user_counts::{ReachedBound, UserPlace},
};

/// Places become free when watches and connections end, which is seldom within a second.
const RETRY_AFTER_SECONDS: u32 = 5;

/// A thing that is bounded, and the flag of its bound of all.
type BoundedThing = (&'static str, &'static str);

const WATCHES: BoundedThing = ("watches", "--max-watches");
const CONNECTIONS: BoundedThing = ("connections", "--max-connections");
const STREAMS: BoundedThing = ("streams", "--max-connections");

/// No user has this name.
const UNKNOWN_USER: &str = "";

/// Takes a place for a watch or a stream, which has it until it ends.
///
/// # Errors
/// 429 if there is none.
pub(crate) fn admit_long_running(state: &ChainState, exchange: &Exchange) -> Result<(), ApiError> {
    if !exchange.info.is_long_running() || !exchange.info.is_resource {
        return Ok(());
    }
    let (counts, bounded) = match exchange.info.verb.as_str() {
        "watch" => (&state.open_watches, WATCHES),
        _ => (&state.open_streams, STREAMS),
    };
    let is_exempt = limiter::is_exempt(state, exchange);
    match counts.take(user_name(exchange), is_exempt) {
        Ok(place) => {
            let _ = exchange.open_place.set(place);
            Ok(())
        }
        Err(bound) => Err(refusal(state, exchange, bounded, bound)),
    }
}

/// Takes a place for the connection of a request in the name of its user, if it has none yet: it has it until it is closed,
/// whichever users' requests follow. If there is none, gives back the 429 that ends the connection.
pub(crate) fn admit_connection(state: &ChainState, exchange: &Exchange) -> Option<HttpResponse> {
    let peer = exchange.peer.as_ref().filter(|peer| !is_admitted(peer))?;
    if retry_after::is_probe(exchange.info.path()) {
        return None;
    }
    let is_exempt = limiter::is_exempt(state, exchange);
    let surplus = peer.surplus_over.filter(|_| !is_exempt);
    let place = match surplus {
        Some(bound) => Err(state.open_connections.refuse(ReachedBound::All(bound))),
        None => state.open_connections.take(user_name(exchange), is_exempt),
    };
    match place {
        Ok(place) => {
            let _ = peer.kept.set(Box::new(place));
            None
        }
        Err(bound) => {
            let mut response = respond::refused(exchange, refusal(state, exchange, CONNECTIONS, bound));
            close(&mut response);
            Some(response)
        }
    }
}

/// Takes a place for a connection whose first request could not be authenticated, among those of unknown users. One for which
/// there is none ends with its answer.
///
/// # Errors
/// `error`, if there is one.
pub(crate) fn admit_unknown(
    state: &ChainState,
    exchange: &Exchange,
    error: ApiError,
) -> Result<HttpResponse, ApiError> {
    let newcomer = |peer: &&Rc<Peer>| !is_admitted(peer) && peer.surplus_over.is_none();
    let Some(peer) = exchange.peer.as_ref().filter(newcomer) else {
        return Err(error);
    };
    match state.open_connections.take(UNKNOWN_USER, false) {
        Ok(place) => {
            let _ = peer.kept.set(Box::new(place));
            Err(error)
        }
        Err(_) => {
            let mut response = respond::finish(exchange, Err(error));
            close(&mut response);
            Ok(response)
        }
    }
}

/// Ends a connection beyond the bound after its first answer, unless its user is exempt: what comes over it next may be sent
/// to a server that has room.
pub(crate) fn end_surplus(exchange: &Exchange, response: &mut HttpResponse) {
    let peer = exchange.peer.as_ref();
    if peer.is_some_and(|peer| peer.surplus_over.is_some() && !is_admitted(peer)) {
        close(response);
    }
}

fn close(response: &mut HttpResponse) {
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(header::CONNECTION, close);
}

fn is_admitted(peer: &Peer) -> bool {
    peer.kept.get().is_some_and(|kept| kept.is::<UserPlace>())
}

fn user_name(exchange: &Exchange) -> &str {
    exchange.acting_user().map_or("", |user| &user.name)
}

fn refusal(state: &ChainState, exchange: &Exchange, (what, flag): BoundedThing, bound: ReachedBound) -> ApiError {
    metrics::record_termination(state, exchange, StatusCode::TOO_MANY_REQUESTS);
    let of_bound = |who: &dyn Display, most: usize, suffix: &str| {
        format!("too many {what}: {who} {most} open, which is the limit ({flag}{suffix}), please try again later")
    };
    let text = match bound {
        ReachedBound::All(most) => of_bound(&"this server has", most, ""),
        ReachedBound::User(most) => {
            let user = format!("user {} has", quote(user_name(exchange)));
            of_bound(&user, most, "-per-user")
        }
    };
    ApiError::new(Reason::TooManyRequests, text).with_retry_after(RETRY_AFTER_SECONDS)
}
