//! Now and then ends an HTTP/2 connection (`--goaway-chance`).
//!
//! A client with one connection for everything stays for ever with the replica that it came to first. Once in a while it
//! is sent away after an answer, and a load balancer may send it to a replica that has come since.

use actix_web::{
    HttpResponse,
    http::{
        Version,
        header::{self, HeaderValue},
    },
};

use crate::{exchange::Exchange, state::ChainState};

/// Marks some answers as the last ones of their connections. An answer that says `Connection: close` ends an HTTP/2
/// connection by GOAWAY: what else runs over it is finished.
pub(crate) fn maybe(state: &ChainState, exchange: &Exchange, response: &mut HttpResponse) {
    if state.goaway_chance > 0.0 && exchange.version == Version::HTTP_2 && rand::random::<f64>() < state.goaway_chance {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(header::CONNECTION, close);
    }
}
