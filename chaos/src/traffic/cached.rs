//! Reads of what servers have in memory (`resourceVersion=0`), from clients that do nothing else: a client that also writes
//! waits for its writes when the store is away, and makes no such reads then.

use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use super::desk::{Asked, Asker, Phase};
use super::objects::ObjectPath;
use super::wire::Call;
use crate::history::RecordedVerb;

/// Between two reads of one client.
const PACE: Duration = Duration::from_millis(200);

/// Reads an object and the collection that it is in, in turn, until the load is over.
pub(crate) async fn read(mut asker: Asker, place: ObjectPath) {
    let mut ticks = interval(PACE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let collection = place.resource.collection(Some(place.namespace));
    for turn in 0_u64.. {
        ticks.tick().await;
        if asker.desk.phase() != Phase::Load {
            return;
        }
        let attempt = asker.next_attempt();
        let asked = match turn.is_multiple_of(2) {
            true => Asked::new(
                Call::get(from_memory(&place.path())),
                RecordedVerb::Get,
                place.key(),
                attempt,
            ),
            false => Asked {
                page: Some((attempt.clone(), 0)),
                ..Asked::new(
                    Call::get(from_memory(&collection)),
                    RecordedVerb::List,
                    place.resource.key(Some(place.namespace)),
                    attempt,
                )
            },
        };
        asker
            .ask(Asked {
                request_rv: Some("0".to_owned()),
                ..asked
            })
            .await;
    }
}

fn from_memory(path: &str) -> String {
    format!("{path}?resourceVersion=0")
}
