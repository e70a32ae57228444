//! The seats that a request takes in its priority level: a list by the memory that it is sent from, a write by the watches
//! that get its event (`k8s.io/apiserver/pkg/util/flowcontrol/request`).

use std::time::Duration;

use trireme_flow::{Flow, WorkEstimate};
use trireme_registry::{Backend, Verb, list_options::ListQuery, request::WatchStart};

use crate::{exchange::Exchange, request_info::RequestVerb, state::ChainState};

const BYTES_PER_SEAT: usize = 100_000;
/// Lists are written from the watch cache as the client reads them: no more of one is under way at a time.
const MOST_BYTES: usize = 1_000_000;

/// Watches that get an event in the time of one seat.
const WATCHES_PER_SEAT: u32 = 10;
/// A write takes no more, whatever its level allows.
const MOST_SEATS_OF_WRITE: u32 = 10;
/// The time for which a seat's watches are busy with an event.
const EVENT_TIME: Duration = Duration::from_millis(5);

/// Estimates the work of a request within what its level allows one to take.
pub(super) fn estimate(state: &ChainState, exchange: &Exchange, flow: &Flow) -> WorkEstimate {
    let info = &exchange.info;
    let is_write = matches!(
        info.verb,
        RequestVerb::Resource(Verb::Create | Verb::Update | Verb::Patch | Verb::Delete)
    );
    // A token for a service account is no event.
    if is_write && (info.resource(), info.subresource()) != ("serviceaccounts", "token") {
        let watches = state.watches.interested_in(info);
        flow.note_watchers(watches);
        return of_write(watches, flow.widest());
    }
    WorkEstimate::of_seats(seats_of_read(state, exchange).min(flow.widest()))
}

/// A write that so many watches get the event of. What is wider than allowed takes longer instead.
fn of_write(watches: u32, widest: u32) -> WorkEstimate {
    if watches < WATCHES_PER_SEAT {
        return WorkEstimate::of_seats(1);
    }
    let seats = watches.div_ceil(WATCHES_PER_SEAT);
    let final_seats = seats.min(widest).clamp(1, MOST_SEATS_OF_WRITE);
    WorkEstimate {
        initial_seats: 1,
        final_seats,
        additional_latency: EVENT_TIME * seats / final_seats,
    }
}

/// The seats of a request that writes nothing. A watch that begins with the objects that there are costs the same as a list of
/// them; all that is neither takes one seat.
fn seats_of_read(state: &ChainState, exchange: &Exchange) -> u32 {
    let info = &exchange.info;
    let reads_all = match info.verb {
        RequestVerb::Resource(Verb::List) => true,
        RequestVerb::Resource(Verb::Watch) => begins_with_objects(exchange),
        _ => false,
    };
    if !reads_all || !info.name().is_empty() {
        return 1;
    }
    let Some(surface) = state.surface.load() else { return 1 };
    let served = surface.resource(info.group(), info.version(), info.resource());
    // What is not stored here costs little, or is not known.
    let Some(Backend::Stored(registry)) = served.map(|served| served.backend) else {
        return 1;
    };
    let limit = exchange.query.get("limit").and_then(|limit| limit.parse().ok());
    let (objects, bytes) = registry.reader().size();
    seats_of(objects, bytes, limit.filter(|limit| *limit > 0))
}

/// Reports whether a watch begins with the objects that there are.
fn begins_with_objects(exchange: &Exchange) -> bool {
    let query = ListQuery {
        resource_version: exchange.query.get("resourceVersion"),
        send_initial_events: exchange.query.get("sendInitialEvents"),
        ..ListQuery::default()
    };
    matches!(query.watch_start(), Ok(WatchStart::State(_)))
}

fn seats_of(objects: usize, bytes: usize, limit: Option<usize>) -> u32 {
    let of_each = bytes.checked_div(objects).unwrap_or(0);
    let listed = limit.map_or(objects, |limit| limit.min(objects));
    let sent = listed.saturating_mul(of_each).min(MOST_BYTES);
    u32::try_from(sent.div_ceil(BYTES_PER_SEAT)).unwrap_or(u32::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_cost_by_their_watches_after_their_end() {
        let of = |watches, widest| {
            let work = of_write(watches, widest);
            assert_eq!(work.initial_seats, 1);
            (work.final_seats, work.additional_latency.as_micros())
        };
        assert_eq!(of(0, 8), (0, 0));
        assert_eq!(of(9, 8), (0, 0));
        assert_eq!(of(10, 8), (1, 5_000));
        assert_eq!(of(11, 8), (2, 5_000));
        assert_eq!(of(80, 8), (8, 5_000));
        assert_eq!(of(160, 8), (8, 10_000));
        assert_eq!(of(10_000, u32::MAX), (10, 500_000));
    }

    #[test]
    fn lists_cost_by_what_is_sent() {
        assert_eq!(seats_of(0, 0, None), 1);
        assert_eq!(seats_of(100, 100_000, None), 1);
        assert_eq!(seats_of(101, 101_000, None), 2);
        assert_eq!(seats_of(500, 1_000_000, None), 10);
        assert_eq!(seats_of(10_000, 70_000_000, None), 10);
        assert_eq!(seats_of(10_000, 70_000_000, Some(100)), 7);
        assert_eq!(seats_of(10_000, 70_000_000, Some(20_000)), 10);
    }
}
