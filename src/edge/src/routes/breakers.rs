//! `/debug/breakers`: the servers of webhooks that are called, each with its circuit breaker, as text or, on request, as JSON.

use std::fmt::Write as _;

use actix_web::{HttpResponse, http::StatusCode};
use serde_json::{Value, json};
use trireme_http::client::EndpointSnapshot;

use super::debug::wants_json;
use crate::{api::EdgeShared, exchange::CurrentExchange, respond};

/// `/debug/breakers`
pub(super) async fn show(exchange: CurrentExchange, api: EdgeShared) -> HttpResponse {
    let endpoints = api.clients.iter().flat_map(|client| {
        let endpoints = client.snapshot().into_iter();
        endpoints.map(|endpoint| (client.label(), endpoint))
    });
    let endpoints: Vec<(&str, EndpointSnapshot)> = endpoints.collect();
    if wants_json(&exchange) {
        let breakers: Vec<Value> = endpoints.iter().map(as_json).collect();
        return respond::json_value(&exchange, StatusCode::OK, &json!({ "breakers": breakers }));
    }
    respond::text(StatusCode::OK, as_text(&endpoints))
}

fn as_json((client, endpoint): &(&str, EndpointSnapshot)) -> Value {
    let breaker = endpoint.breaker.map(|breaker| {
        json!({
            "state": breaker.state.as_str(),
            "calls": breaker.calls,
            "failed": breaker.failed,
            "slow": breaker.slow,
            "retryAfterSeconds": breaker.retry_after.map(|after| after.as_secs_f64()),
        })
    });
    json!({
        "client": client,
        "for": endpoint.partition.as_deref(),
        "endpoint": endpoint.endpoint,
        "openConnections": endpoint.open_connections,
        "idleConnections": endpoint.idle_connections,
        "breaker": breaker,
    })
}

fn as_text(endpoints: &[(&str, EndpointSnapshot)]) -> String {
    let mut out = format!(
        "{:<20} {:<72} {:<40} {:<9} {:>7} {:>7} {:>7} {:>11}\n",
        "CLIENT", "FOR", "ENDPOINT", "STATE", "CALLS", "FAILED", "SLOW", "RETRY-AFTER"
    );
    for (client, endpoint) in endpoints {
        let Some(breaker) = endpoint.breaker else { continue };
        let retry_after = breaker
            .retry_after
            .map_or_else(String::new, |after| format!("{:.1}s", after.as_secs_f64()));
        // Writing to a string does not fail.
        let _ = writeln!(
            out,
            "{client:<20} {:<72} {:<40} {:<9} {:>7} {:>7} {:>7} {retry_after:>11}",
            endpoint.partition.as_deref().unwrap_or("-"),
            endpoint.endpoint,
            breaker.state.as_str(),
            breaker.calls,
            breaker.failed,
            breaker.slow,
        );
    }
    out
}
