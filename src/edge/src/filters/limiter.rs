//! Bounds how many requests are worked on at once, and whose.

use std::{
    pin::pin,
    time::{Duration, Instant, UNIX_EPOCH},
};

use actix_web::{
    HttpResponse,
    http::{
        StatusCode,
        header::{HeaderName, HeaderValue, RETRY_AFTER},
    },
};
use futures_util::future::poll_immediate;
use trireme_auth::MASTERS;
use trireme_flow::{
    Flow, FlowDemand, FlowRequest, FlowSubject, Full, Limiter, MaxInFlight, PriorityAndFairness, RequestDetails,
    RequestKind, Seat,
};
use trireme_registry::request::UserInfo;

use super::work_estimate;
use crate::{exchange::Exchange, metrics, respond, state::ChainState};

/// A request may wait in a queue for this part of its time.
const PART_IN_QUEUE: u32 = 4;
/// No request waits longer, however much time it has.
const LONGEST_IN_QUEUE: Duration = Duration::from_secs(60);

/// Takes a seat. A watch holds it until its first events are sent; other long-running requests take none.
///
/// # Errors
/// [`Full`] if there is none, or none in time.
pub(crate) async fn seat(state: &ChainState, exchange: &Exchange) -> Result<Option<Seat>, Full> {
    if exchange.info.is_long_running() && exchange.info.verb.as_str() != "watch" {
        return Ok(None);
    }
    match &state.limiter {
        Limiter::PriorityAndFairness(fairness) => in_flow(fairness, state, exchange).await.map(Some),
        Limiter::MaxInFlight(_) if exchange.info.is_long_running() => Ok(None),
        Limiter::MaxInFlight(classes) => in_class(classes, exchange).await.map(Some),
    }
}

async fn in_flow(fairness: &PriorityAndFairness, state: &ChainState, exchange: &Exchange) -> Result<Seat, Full> {
    let nobody = UserInfo::default();
    let user = exchange.acting_user().unwrap_or(&nobody);
    let flow = exchange
        .flow
        .get_or_init(|| fairness.classify(&request(exchange, user)));
    let demand = FlowDemand {
        work: work_estimate::estimate(state, exchange, flow),
        kind: RequestKind::of_verb(exchange.info.verb.as_str()),
        is_watch: exchange.info.is_long_running(),
        deadline: wait_until(state, exchange),
    };
    let mut acquired = pin!(fairness.acquire(flow, demand, details(exchange, user)));
    let seat = if let Some(seat) = poll_immediate(&mut acquired).await {
        seat
    } else {
        let queued = state.clock.now();
        let seat = acquired.await;
        let waited = state.clock.now().saturating_duration_since(queued);
        exchange.queue_wait.set(waited);
        seat
    };
    let seat = seat?;
    if demand.is_watch {
        let _ = exchange.watch.set(state.watches.begin(&exchange.info));
    }
    Ok(seat.into())
}

/// Reports whether nothing holds the user up: a member of `system:masters`, or one whose request is of an exempt level.
pub(super) fn is_exempt(state: &ChainState, exchange: &Exchange) -> bool {
    if is_master(exchange) {
        return true;
    }
    let Limiter::PriorityAndFairness(fairness) = &state.limiter else {
        return false;
    };
    match exchange.flow.get() {
        Some(flow) => flow.is_exempt(),
        // Not kept: an answer names the flow of a request that needs a seat.
        None => {
            let unknown = UserInfo::default();
            let user = exchange.acting_user().unwrap_or(&unknown);
            fairness.classify(&request(exchange, user)).is_exempt()
        }
    }
}

/// The request as `dump_requests?includeRequestDetails` shows it.
fn details(exchange: &Exchange, user: &UserInfo) -> RequestDetails {
    let info = &exchange.info;
    RequestDetails::new([
        user.name.as_str(),
        info.verb.as_str(),
        info.path(),
        info.namespace(),
        info.name(),
        info.group(),
        info.version(),
        info.resource(),
        info.subresource(),
    ])
}

fn wait_until(state: &ChainState, exchange: &Exchange) -> Instant {
    let ends = exchange
        .deadline
        .get()
        .unwrap_or(exchange.received + state.request_timeout);
    exchange.received + longest_wait(ends.saturating_duration_since(exchange.received))
}

/// The longest time that a request with so much time waits in a queue.
fn longest_wait(time: Duration) -> Duration {
    (time / PART_IN_QUEUE).min(LONGEST_IN_QUEUE)
}

fn request<'r>(exchange: &'r Exchange, user: &'r UserInfo) -> FlowRequest<'r> {
    let info = &exchange.info;
    FlowRequest {
        user: &user.name,
        groups: &user.groups,
        verb: info.verb.as_str(),
        subject: if info.is_resource {
            FlowSubject::Resource {
                group: info.group(),
                resource: info.resource(),
                subresource: info.subresource(),
                namespace: info.namespace(),
            }
        } else {
            FlowSubject::Path(info.path())
        },
    }
}

/// `system:masters` must be able to repair what floods the server.
async fn in_class(classes: &MaxInFlight, exchange: &Exchange) -> Result<Seat, Full> {
    let kind = RequestKind::of_verb(exchange.info.verb.as_str());
    match classes.acquire(kind).await {
        Err(Full) if is_master(exchange) => Ok(classes.exempt(kind).into()),
        Err(Full) => {
            classes.count_dropped(kind);
            Err(Full)
        }
        Ok(seat) => Ok(seat.into()),
    }
}

fn is_master(exchange: &Exchange) -> bool {
    exchange
        .acting_user()
        .is_some_and(|user| user.groups.iter().any(|group| group == MASTERS))
}

/// The answer to a request that gets no seat.
pub(crate) fn too_many(state: &ChainState, exchange: &Exchange) -> HttpResponse {
    metrics::record_termination(state, exchange, StatusCode::TOO_MANY_REQUESTS);
    let mut response = respond::text(
        StatusCode::TOO_MANY_REQUESTS,
        "Too many requests, please try again later.\n",
    );
    response
        .headers_mut()
        .insert(RETRY_AFTER, HeaderValue::from(retry_after(state, exchange)));
    response
}

/// The seconds after which a client that got no seat may ask again: with priority and fairness, the longer its level has been
/// overloaded, the more.
fn retry_after(state: &ChainState, exchange: &Exchange) -> u64 {
    let Some(flow) = exchange.flow.get() else { return 1 };
    let now = state.clock.wall().duration_since(UNIX_EPOCH).unwrap_or_default();
    state.dropped.record(flow.level(), now.as_secs())
}

/// Names the flow schema and the priority level of a request in its answer.
pub(crate) fn write(exchange: &Exchange, response: &mut HttpResponse) {
    let Some(flow) = exchange.flow.get() else { return };
    let mut insert = |name: &'static str, uid: &str| {
        if let (false, Ok(uid)) = (uid.is_empty(), HeaderValue::from_str(uid)) {
            response.headers_mut().insert(HeaderName::from_static(name), uid);
        }
    };
    insert("x-kubernetes-pf-flowschema-uid", Flow::schema_uid(flow));
    insert("x-kubernetes-pf-prioritylevel-uid", Flow::level_uid(flow));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_wait_for_a_quarter_of_their_time_and_for_a_minute_at_most() {
        let waits = |seconds| longest_wait(Duration::from_secs(seconds)).as_secs();
        assert_eq!([60, 240, 241, 86_400].map(waits), [15, 60, 60, 60]);
    }
}
