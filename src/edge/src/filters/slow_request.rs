//! Logs requests that took long, with the time of their steps, as kube-apiserver's traces do.
//!
//! Neither headers nor the body are logged, and of the query only parameters of the API: others may hold tokens.

use std::{fmt::Write, time::Duration};

use actix_web::http::StatusCode;
use trireme_registry::trace::Trace;

use crate::{exchange::Exchange, query::Query};

/// The parameters that have a meaning to the server and hold no secrets.
const PARAMETERS: [&str; 19] = [
    "continue",
    "dryRun",
    "fieldManager",
    "fieldSelector",
    "fieldValidation",
    "force",
    "gracePeriodSeconds",
    "includeObject",
    "labelSelector",
    "limit",
    "orphanDependents",
    "pretty",
    "propagationPolicy",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "timeout",
    "timeoutSeconds",
    "watch",
];

/// Logs a request that is done, with its steps.
pub(crate) fn log(exchange: &Exchange, status: StatusCode, bytes: u64, took: Duration) {
    let info = &exchange.info;
    // The path of an object is logged by its parts: what follows a `proxy` is another server's and may hold anything.
    let path = if info.is_resource { "" } else { info.path() };
    tracing::info!(
        target: "trireme_edge::slow",
        audit_id = %exchange.audit_id,
        verb = info.verb.as_str(),
        group = info.group(),
        version = info.version(),
        resource = info.resource(),
        subresource = info.subresource(),
        namespace = info.namespace(),
        name = info.name(),
        path,
        query = parameters(&exchange.query),
        agent = exchange.user_agent.as_deref().unwrap_or(""),
        status = status.as_u16(),
        bytes,
        total_ms = (took.as_secs_f64() * 10_000.0).round() / 10.0,
        steps = steps(&exchange.trace),
        "slow request"
    );
}

/// Each step with the milliseconds since the one before it.
fn steps(trace: &Trace) -> String {
    let mut text = String::new();
    let mut before = Duration::ZERO;
    for passed in trace.steps() {
        let separator = if text.is_empty() { "" } else { ", " };
        let took = passed.at.saturating_sub(before);
        // Writing to a string does not fail.
        let _ = write!(
            text,
            "{separator}{} {:.1} ms",
            passed.step.name(),
            took.as_secs_f64() * 1000.0
        );
        before = passed.at;
    }
    match trace.not_kept() {
        0 => text,
        more => format!("{text}, and {more} more steps"),
    }
}

fn parameters(query: &Query) -> String {
    let known = query
        .pairs()
        .iter()
        .filter(|(name, _)| PARAMETERS.contains(&name.as_str()));
    let known: Vec<String> = known.map(|(name, value)| format!("{name}={value}")).collect();
    known.join("&")
}
