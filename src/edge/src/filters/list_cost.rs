//! The seats that a list takes in its priority level, by the memory that it is sent from
//! (`k8s.io/apiserver/pkg/util/flowcontrol/request`).

use trireme_registry::{Backend, Verb};

use crate::{exchange::Exchange, request_info::RequestVerb, state::ChainState};

const BYTES_PER_SEAT: usize = 100_000;
/// Lists are written from the watch cache as the client reads them: no more of one is under way at a time.
const MOST_BYTES: usize = 1_000_000;

/// The seats of a request. A watch that begins with the objects that there are costs the same as a list of them; all that
/// is neither takes one seat.
pub(super) fn seats(state: &ChainState, exchange: &Exchange) -> u32 {
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

/// True for a watch that asks for the objects that there are, or for no revision to begin after.
fn begins_with_objects(exchange: &Exchange) -> bool {
    let asks = exchange
        .query
        .get("sendInitialEvents")
        .is_some_and(|value| value == "true");
    asks || matches!(exchange.query.get("resourceVersion"), None | Some("" | "0"))
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
