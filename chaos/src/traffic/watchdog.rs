//! Looks at every replica from outside: is it ready, whom does it take for the leader, who holds which duty, what does
//! the kernel say of its process; and does a write sent to it work.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::desk::{Asked, Asker, Desk, Phase};
use super::objects::{ObjectEdit, ObjectPath};
use super::wire::{Address, Call, HttpCaller, HttpReply, Protocol};
use crate::history::{DutySample, Outcome, RecordedVerb, ReplicaSample, SampleRecord};
use crate::world::{Part, World, total};

/// Between two looks.
const PERIOD: Duration = Duration::from_millis(100);
/// The time limit of an answer.
const PATIENCE: Duration = Duration::from_secs(1);
/// Between two looks at the counters, which take more work to make than the rest.
const LOOKS_PER_METRICS: u32 = 20;
/// Between two writes to one replica.
const PROBE_PERIOD: Duration = Duration::from_millis(500);
/// Counts what a fence refused.
pub(crate) const FENCED: &str = "trireme_fenced_writes_refused_total";

/// Samples one replica until the run is over.
pub(crate) async fn sample(desk: Desk, world: Arc<World>, replica: usize, address: Address) {
    let mut caller = HttpCaller::new(address.clone(), Protocol::Http1);
    let mut ticks = interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut fenced = 0;
    for look in 0_u32.. {
        ticks.tick().await;
        if matches!(desk.phase(), Phase::Stop(_)) {
            return;
        }
        let called = desk.now();
        let ready = asked(&mut caller, "/readyz").await.map(|(code, _)| code == 200);
        let group = match ready {
            Some(_) => asked(&mut caller, "/debug/replicas").await,
            None => None,
        };
        let group = group.filter(|(code, _)| *code == 200);
        let group = group.and_then(|(_, body)| serde_json::from_slice::<Value>(&body).ok());
        if look.is_multiple_of(LOOKS_PER_METRICS)
            && ready.is_some()
            && let Some((200, metrics)) = asked(&mut caller, "/metrics").await
        {
            fenced = total(&String::from_utf8_lossy(&metrics), FENCED);
        }
        let vitals = world.vitals_of(Part::Replica(replica));
        let pid = vitals.as_ref().map_or(0, |vitals| vitals.process);
        let at = desk.now();
        desk.recorder.sample(&SampleRecord::Replica(ReplicaSample {
            replica: address.name.clone(),
            pid,
            rss: vitals.as_ref().map_or(0, |vitals| vitals.resident_bytes),
            fds: vitals.map_or(0, |vitals| u64::try_from(vitals.open_files).unwrap_or(u64::MAX)),
            ready,
            id: group.as_ref().and_then(|group| id(&group["self"])),
            leader: group.as_ref().and_then(|group| id(&group["leader"])),
            term: group
                .as_ref()
                .and_then(|group| group["term"].as_u64())
                .unwrap_or_default(),
            fenced,
            called,
            at,
        }));
        for duty in group.iter().flat_map(|group| group["duties"].as_array()).flatten() {
            desk.recorder.sample(&SampleRecord::Duty(DutySample {
                replica: address.name.clone(),
                pid,
                duty: duty["duty"].as_str().unwrap_or_default().to_owned(),
                holder: id(&duty["holder"]),
                token: duty["token"].as_u64().unwrap_or_default(),
                at,
            }));
        }
    }
}

async fn asked(caller: &mut HttpCaller, path: &str) -> Option<(u16, bytes::Bytes)> {
    match timeout(PATIENCE, caller.call(&Call::get(path))).await {
        Ok(HttpReply::Answer { code, body }) => Some((code, body)),
        Ok(HttpReply::NotSent(_) | HttpReply::Lost(_)) => None,
        Err(_) => {
            *caller = HttpCaller::new(caller.address.clone(), Protocol::Http1);
            None
        }
    }
}

/// A replica's id as a number: histories compare ids, and need not know how they are written.
fn id(written: &Value) -> Option<u64> {
    let text = match written {
        Value::Number(number) => return number.as_u64(),
        Value::String(text) => text,
        _ => return None,
    };
    let digest = Sha256::digest(text);
    text.parse()
        .ok()
        .or_else(|| Some(digest.iter().take(8).fold(0, |id, byte| id << 8 | u64::from(*byte))))
}

/// Writes an object and reads it again, at one replica, until the run settles.
pub(crate) async fn probe(mut asker: Asker, place: ObjectPath, mut rng: rand::rngs::StdRng) {
    let mut ticks = interval(PROBE_PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut exists = false;
    while asker.desk.phase() == Phase::Load {
        ticks.tick().await;
        let change = ObjectEdit::draw(&mut rng, asker.next_attempt());
        let (call, verb) = match exists {
            true => (change.merge_patch(&place, None), RecordedVerb::Patch),
            false => (change.create(&place), RecordedVerb::Create),
        };
        let written = asker.ask(Asked::new(call, verb, place.key(), change.attempt)).await;
        exists |= written.outcome == Outcome::Ok || written.code == 409;
        let attempt = asker.next_attempt();
        asker
            .ask(Asked::new(
                Call::get(place.path()),
                RecordedVerb::Get,
                place.key(),
                attempt,
            ))
            .await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_numbers_however_they_are_written() {
        assert_eq!(id(&Value::from(7)), Some(7));
        assert_eq!(id(&Value::from("7")), Some(7));
        assert_eq!(id(&Value::Null), None);
        assert_eq!(id(&Value::from("a")), id(&Value::from("a")));
        assert_ne!(id(&Value::from("a")), id(&Value::from("b")));
    }
}
