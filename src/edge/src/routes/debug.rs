//! `/debug/actors`: all actors as they are now, as text or, on request, as JSON; the queues of requests that wait; and
//! `/debug/unreadable-objects`: the stored values that cannot be read.

use std::fmt::Write;

use actix_web::{HttpResponse, http::StatusCode, web::Path};
use serde_json::{Value, json};
use trireme_actors::ActorSnapshot;
use trireme_flow::{FlowDump, Limiter};

use crate::{api::EdgeShared, exchange::CurrentExchange, respond, status};

/// `/debug/actors`
pub(super) async fn actors(exchange: CurrentExchange, api: EdgeShared) -> HttpResponse {
    let actors = (api.actors)();
    if wants_json(&exchange) {
        let actors: Vec<Value> = actors.iter().map(as_json).collect();
        return respond::json_value(&exchange, StatusCode::OK, &json!({"actors": actors}));
    }
    respond::text(StatusCode::OK, as_text(&actors))
}

/// `/debug/unreadable-objects`
pub(super) async fn unreadable_objects(exchange: CurrentExchange, api: EdgeShared) -> HttpResponse {
    let surface = api.director.surface();
    let mut objects = Vec::new();
    for registry in surface.registries() {
        let info = registry.info();
        for value in registry.reader().unreadable() {
            objects.push((info.resource.to_string(), value.storage_key(info), value));
        }
    }
    objects.sort_by(|(_, one, _), (_, other, _)| one.cmp(other));
    if wants_json(&exchange) {
        let objects: Vec<Value> = objects
            .iter()
            .map(|(resource, key, value)| {
                json!({"resource": resource, "key": key, "revision": value.revision, "cause": &*value.cause})
            })
            .collect();
        let value = json!({ "unreadableObjects": objects });
        return respond::json_value(&exchange, StatusCode::OK, &value);
    }
    let mut out = String::new();
    for (_, key, value) in &objects {
        // Writing to a string does not fail.
        let _ = writeln!(out, "{key} @{} {}", value.revision, value.cause);
    }
    respond::text(StatusCode::OK, out)
}

pub(super) fn wants_json(exchange: &CurrentExchange) -> bool {
    exchange.query.get("format") == Some("json")
        || exchange
            .accept
            .as_deref()
            .is_some_and(|accept| accept.contains("application/json"))
}

/// `/debug/api_priority_and_fairness/dump_…`; any method, as with kube-apiserver.
pub(super) async fn flow_control(exchange: CurrentExchange, api: EdgeShared, table: Path<String>) -> HttpResponse {
    let Limiter::PriorityAndFairness(fairness) = &api.limiter else {
        return status::page_not_found();
    };
    let dump = match table.as_str() {
        "dump_priority_levels" => FlowDump::PriorityLevels,
        "dump_queues" => FlowDump::Queues,
        "dump_requests"
            if exchange
                .query
                .get("includeRequestDetails")
                .is_some_and(|value| !value.is_empty()) =>
        {
            FlowDump::RequestDetails
        }
        "dump_requests" => FlowDump::Requests,
        _ => return status::page_not_found(),
    };
    respond::text(StatusCode::OK, fairness.dump(dump).await)
}

fn as_json(actor: &ActorSnapshot) -> Value {
    json!({
        "kind": actor.kind,
        "instance": actor.instance,
        "room": actor.room,
        "rank": actor.rank,
        "state": actor.state.as_str(),
        "mailboxDepth": actor.mailbox_depth,
        "permitsInUse": actor.permits_in_use,
        "permits": actor.permits,
        "restarts": actor.restarts,
        "turns": actor.turns,
        "lastHandledSecondsAgo": actor.last_handled_seconds_ago,
        "busySeconds": actor.busy_seconds,
        "lastFailure": actor.last_failure,
    })
}

fn as_text(actors: &[ActorSnapshot]) -> String {
    let mut out = format!(
        "{:<16} {:<48} {:<12} {:>4} {:<10} {:>7} {:>13} {:>8} {:>12}\n",
        "KIND", "INSTANCE", "ROOM", "RANK", "STATE", "MAILBOX", "PERMITS", "RESTARTS", "TURNS"
    );
    for actor in actors {
        // Writing to a string does not fail.
        let _ = writeln!(
            out,
            "{:<16} {:<48} {:<12} {:>4} {:<10} {:>7} {:>13} {:>8} {:>12}",
            actor.kind,
            actor.instance,
            actor.room,
            actor.rank,
            actor.state.as_str(),
            actor.mailbox_depth,
            format!("{}/{}", actor.permits_in_use, actor.permits),
            actor.restarts,
            actor.turns
        );
    }
    out
}
