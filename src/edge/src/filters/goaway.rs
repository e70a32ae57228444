//! Ends HTTP/2 connections by GOAWAY: now and then (`--goaway-chance`), and after anonymous and unauthenticated requests.
//!
//! A client with one connection for everything stays for ever with the replica that it came to first. Once in a while it
//! is sent away after an answer, and a load balancer may send it to a replica that has come since.
//!
//! Streams of HTTP/2 make many requests cheap for who sends them. Without credentials each costs a connection
//! (`withAuthentication` of `k8s.io/apiserver`, CVE-2023-44487).

use actix_web::{
    HttpResponse,
    http::{
        StatusCode, Version,
        header::{self, HeaderValue},
    },
};
use trireme_auth::is_anonymous;

use crate::{exchange::Exchange, state::ChainState};

/// Marks an answer as the last one of its connection if it is to be. An answer that says `Connection: close` ends an HTTP/2
/// connection by GOAWAY: what else runs over it is finished.
pub(crate) fn maybe(state: &ChainState, exchange: &Exchange, response: &mut HttpResponse) {
    if exchange.version != Version::HTTP_2 {
        return;
    }
    let is_anonymous = state.ends_anonymous_http2 && is_unauthenticated(exchange, response);
    if is_anonymous || state.goaway_chance > 0.0 && rand::random::<f64>() < state.goaway_chance {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(header::CONNECTION, close);
    }
}

/// Returns true if the authenticated user, whichever user is impersonated, is anonymous, or if nobody was authenticated.
fn is_unauthenticated(exchange: &Exchange, response: &HttpResponse) -> bool {
    match exchange.user.get() {
        Some(user) => is_anonymous(user),
        None => response.status() == StatusCode::UNAUTHORIZED,
    }
}
