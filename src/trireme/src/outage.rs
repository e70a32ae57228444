//! Sends the clients of a replica away that has lost its store.
//!
//! A load balancer gives a replica that is not ready no new connections and leaves it those that it has: if it cut them,
//! an etcd that is away for a moment would cost every client of every replica its connection and what runs over it. So a
//! replica that stays without its store asks its clients to come again elsewhere, as one does that is to stop.
//!
//! ```text
//!  store     ok ─ ok ──X
//!  /readyz   well ─ 1.5 s ─┤ fails: new connections go to other replicas
//!  clients                 ├─ 1.4 s ─┤ those connected get GOAWAY; their watches end over a second or more
//! ```
//!
//! Promise: once an outage, and no client that has only just come. If no replica has its store, clients are as well off here
//! as elsewhere, and would be sent round in circles. What is asked of a client loses it nothing.

use std::sync::Arc;
use std::time::Duration;

use trireme_actors::{ActorSystem, Clock};
use trireme_http::server::OpenConnections;

use crate::lifecycle::{Lifecycle, Moment};
use crate::probe::StoreProbe;

/// Between two looks at the probe.
const LOOK: Duration = Duration::from_millis(50);
/// The time for which a replica is not ready before it closes its clients' connections. The balancer must know by then,
/// or they would be routed here again; all but the longest elections of etcd are over; and reads that came after the loss
/// are answered a little later, after 3 s, and these answers notify their clients.
const PATIENCE: Duration = Duration::from_millis(1_400);
/// A client that connected within this time was routed here by a balancer that knows of no better replica.
const JUST_COME: Duration = Duration::from_millis(500);
/// Over what time at least watches end, and those of how many clients a second at most: each will shake hands elsewhere,
/// which takes a replica about a millisecond.
const WAVE: Duration = Duration::from_secs(1);
const MOST_A_SECOND: u32 = 500;

/// Starts to look out for the loss of the store.
pub(crate) fn start(system: &ActorSystem, probe: StoreProbe, connections: Arc<OpenConnections>, lifecycle: Lifecycle) {
    let lookout = Lookout {
        clock: system.clock().clone(),
        probe,
        connections,
        lifecycle,
    };
    let _ = system.tasks().spawn_named("store outages", lookout.run());
}

struct Lookout {
    clock: Clock,
    probe: StoreProbe,
    connections: Arc<OpenConnections>,
    lifecycle: Lifecycle,
}

impl Lookout {
    async fn run(self) {
        self.until(|| self.lifecycle.has(Moment::Ready)).await;
        // A replica that stops has notified its clients already.
        while !self.lifecycle.has(Moment::ShutdownInitiated) {
            self.until(|| !self.is_well()).await;
            let lost = self.clock.now();
            let why = self.probe.check_all().err().unwrap_or_default();
            tracing::warn!(%why, "not ready any more");
            tokio::select! {
                biased;
                () = self.until(|| self.is_well()) => {}
                () = self.send_clients_away() => self.until(|| self.is_well()).await,
            }
            let outage_ms = self.clock.now().duration_since(lost).as_millis();
            tracing::info!(%outage_ms, "ready again");
        }
    }

    fn is_well(&self) -> bool {
        self.probe.check_all().is_ok()
    }

    async fn until(&self, condition: impl Fn() -> bool) {
        while !condition() {
            self.clock.sleep(LOOK).await;
        }
    }

    async fn send_clients_away(&self) {
        self.clock.sleep(PATIENCE).await;
        if self.lifecycle.has(Moment::ShutdownInitiated) {
            return;
        }
        let report = |count| {
            tracing::warn!(count, "clients are asked to come again elsewhere");
            metrics::counter!("trireme_connections_sent_away_total", "reason" => "outage")
                .increment(u64::try_from(count).unwrap_or(u64::MAX));
        };
        let time = time_for(self.connections.staying());
        self.connections.send_all_off(JUST_COME, time, report).await;
    }
}

fn time_for(count: usize) -> Duration {
    let count = u32::try_from(count).unwrap_or(u32::MAX);
    WAVE.max(Duration::from_secs(1) * count / MOST_A_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_clients_take_longer_than_a_few() {
        assert_eq!(time_for(0), WAVE);
        assert_eq!(time_for(499), WAVE);
        assert_eq!(time_for(10_000), Duration::from_secs(20));
        assert!(time_for(usize::MAX) > WAVE);
    }
}
