//! A client that stands for election with a `Lease`, as client-go's leader election does: it renews while it leads, takes
//! over what was not renewed for the lease's duration by its own clock, and counts each transition.
//!
//! ```text
//!  read ─► not there            ─► create, as the holder
//!          held by another      ─► wait until it has not changed for LEASE; then take over, transitions + 1
//!          without a holder     ─► take over, transitions + 1
//!          held by this one     ─► renew; after TENURE give it back: no holder, the count stays
//! ```
//! Leaders give back, so that the lease changes hands in every run, whatever else happens to it.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, MissedTickBehavior, interval};
use trireme_http::client::Method;

use super::desk::{Asked, Asker, Phase};
use super::objects::{ATTEMPT, NAMESPACES};
use super::wire::Call;
use crate::history::{Key, Outcome, RecordedVerb};

/// The number of clients that stand for the one election.
pub(super) const CANDIDATES: u32 = 3;
/// Between two looks of a candidate.
const PERIOD: Duration = Duration::from_millis(500);
/// The time after which a lease that was not renewed may be taken over.
const LEASE: Duration = Duration::from_secs(2);
/// The time after which a leader gives the lease back.
const TENURE: Duration = Duration::from_secs(3);
/// Looks that a candidate lets pass after it gave the lease back, so that another one gets it.
const RESTS: u32 = 2;
const NAME: &str = "election";

/// The content of the lease that matters for an election.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Election {
    holder: String,
    transitions: u64,
    renewed: String,
}

impl Election {
    fn of(lease: &Value) -> Self {
        let spec = &lease["spec"];
        let text = |field: &str| spec[field].as_str().unwrap_or_default().to_owned();
        Self {
            holder: text("holderIdentity"),
            transitions: spec["leaseTransitions"].as_u64().unwrap_or_default(),
            renewed: text("renewTime"),
        }
    }

    /// The holder and the count that a candidate writes next; `None` if it has to wait.
    fn next(&self, candidate: &str, unchanged_for: Duration, led_for: Duration) -> Option<(String, u64)> {
        if self.holder == candidate {
            let holder = if led_for < TENURE { candidate } else { "" };
            return Some((holder.to_owned(), self.transitions));
        }
        let is_free = self.holder.is_empty() || unchanged_for >= LEASE;
        is_free.then(|| (candidate.to_owned(), self.transitions + 1))
    }
}

/// Stands for election until the load is over.
pub(super) async fn stand(mut asker: Asker) {
    let mut ticks = interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let (mut seen, mut seen_at) = (Election::default(), Instant::now());
    let (mut leads_since, mut rests) = (Instant::now(), 0);
    while asker.desk.phase() == Phase::Load {
        ticks.tick().await;
        if rests > 0 {
            rests -= 1;
            continue;
        }
        let attempt = asker.next_attempt();
        let read = asker
            .ask(Asked::new(Call::get(path()), RecordedVerb::Get, key(), attempt))
            .await;
        let found = match (read.outcome, read.code, read.rv()) {
            (Outcome::Ok, _, Some(rv)) => Some((Election::of(&read.body), rv.to_owned())),
            (_, 404, _) => None,
            _ => continue,
        };
        let now = found.as_ref().map(|(election, _)| election.clone()).unwrap_or_default();
        if now != seen {
            (seen, seen_at) = (now.clone(), Instant::now());
        }
        let next = match found {
            None => Some((asker.name.clone(), 0)),
            Some(_) => now.next(&asker.name, seen_at.elapsed(), leads_since.elapsed()),
        };
        let Some((holder, transitions)) = next else { continue };
        let is_taken = now.holder != asker.name;
        let is_given_back = holder.is_empty();
        let over = found.map(|(_, rv)| rv);
        if write(&mut asker, (holder, transitions), over).await {
            if is_taken {
                leads_since = Instant::now();
            }
            rests = if is_given_back { RESTS } else { 0 };
        }
    }
}

/// Writes the lease, over the state that has this resourceVersion or as a new one; says whether that is acknowledged.
async fn write(asker: &mut Asker, (holder, transitions): (String, u64), over: Option<String>) -> bool {
    let attempt = asker.next_attempt();
    let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
    let mut lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": { "name": NAME, "namespace": NAMESPACES[0], "annotations": { ATTEMPT: attempt } },
        "spec": {
            "holderIdentity": holder, "leaseTransitions": transitions,
            "leaseDurationSeconds": LEASE.as_secs(), "renewTime": now,
        },
    });
    let (method, path, verb) = match &over {
        Some(rv) => {
            lease["metadata"]["resourceVersion"] = rv.clone().into();
            (Method::PUT, path(), RecordedVerb::Update)
        }
        None => (Method::POST, collection(), RecordedVerb::Create),
    };
    let call = Call::with_body(method, path, "application/json", lease.to_string());
    let mut asked = Asked::new(call, verb, key(), attempt);
    asked.request_rv = over;
    asker.ask(asked).await.outcome == Outcome::Ok
}

fn collection() -> String {
    format!(
        "/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases",
        namespace = NAMESPACES[0]
    )
}

fn path() -> String {
    format!("{}/{NAME}", collection())
}

fn key() -> Key {
    Key {
        resource: "leases.coordination.k8s.io".to_owned(),
        namespace: NAMESPACES[0].to_owned(),
        name: NAME.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(holder: &str, unchanged_for: Duration, led_for: Duration) -> Option<(String, u64)> {
        let election = Election {
            holder: holder.to_owned(),
            transitions: 4,
            renewed: "then".to_owned(),
        };
        election.next("me", unchanged_for, led_for)
    }

    #[test]
    fn a_lease_is_renewed_given_back_and_taken_over_as_client_go_does() {
        let (short, long) = (Duration::from_millis(100), Duration::from_secs(60));
        let written = |holder: &str, transitions| Some((holder.to_owned(), transitions));
        assert_eq!(next("me", short, short), written("me", 4), "renewed: no transition");
        assert_eq!(next("me", short, long), written("", 4), "given back: no transition");
        assert_eq!(next("", short, long), written("me", 5), "it has no holder");
        assert_eq!(next("other", short, long), None, "it is held");
        assert_eq!(next("other", long, long), written("me", 5), "it was not renewed");
    }

    #[test]
    fn an_election_is_read_from_a_lease() {
        let lease = json!({"spec": {"holderIdentity": "a", "leaseTransitions": 3, "renewTime": "t"}});
        let expected = Election {
            holder: "a".to_owned(),
            transitions: 3,
            renewed: "t".to_owned(),
        };
        assert_eq!(Election::of(&lease), expected);
        assert_eq!(Election::of(&json!({"spec": {}})), Election::default());
    }
}
