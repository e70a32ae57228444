//! Spreads long-lived connections over the replicas, after one has come or come back.
//!
//! A load balancer decides where a connection goes when it is opened, and clients of Kubernetes keep theirs for hours. So
//! each replica announces how many it has, and one with clearly more than its share asks a few clients a second to come
//! again: their connections get GOAWAY or `Connection: close`, and their watches end in order, to be resumed elsewhere.
//!
//! Promise: at most one connection of fifty a second is sent away, none below the share, and if clients only come back it
//! is tried ever more seldom. What is asked of a client loses it nothing.

mod share;

use std::sync::Arc;
use std::time::Duration;

use trireme_actors::{ActorSystem, Clock};
use trireme_http::server::OpenConnections;
use trireme_registry::AnnouncedLoads;

use crate::lifecycle::{Lifecycle, Moment};
use share::Share;

/// Between two turns of sending away.
const TURN: Duration = Duration::from_secs(1);
/// The replicas exchange their numbers of connections once in this many turns.
const TURNS_BETWEEN_NEWS: u32 = 5;

/// Starts to keep this replica's share.
pub(crate) fn start(
    system: &ActorSystem,
    loads: AnnouncedLoads,
    replica: String,
    connections: Arc<OpenConnections>,
    lifecycle: Lifecycle,
) {
    let rebalancer = Rebalancer {
        clock: system.clock().clone(),
        loads,
        replica,
        connections,
        lifecycle,
        share: Share::default(),
    };
    let _ = system.tasks().spawn_named("rebalance", rebalancer.run());
}

struct Rebalancer {
    clock: Clock,
    loads: AnnouncedLoads,
    /// The name of this replica among the others.
    replica: String,
    connections: Arc<OpenConnections>,
    lifecycle: Lifecycle,
    share: Share,
}

impl Rebalancer {
    async fn run(mut self) {
        while !self.lifecycle.has(Moment::Ready) {
            self.clock.sleep(TURN).await;
        }
        let mut turn = 0_u32;
        while !self.lifecycle.has(Moment::ShutdownInitiated) {
            if turn.is_multiple_of(TURNS_BETWEEN_NEWS) {
                self.exchange_news().await;
            }
            turn = turn.wrapping_add(1);
            self.send_away();
            // Replicas that came together do not act together.
            self.clock.sleep(TURN.mul_f64(0.5 + rand::random::<f64>())).await;
        }
        // The others would wait for it to take its share. If the store does not answer, the announcement expires.
        let _ = self.loads.withdraw(&self.replica).await;
    }

    async fn exchange_news(&mut self) {
        let own = self.connections.staying();
        let others = match self.loads.renew(&self.replica, own).await {
            Ok(()) => self.loads.of_others(&self.replica).await,
            Err(error) => Err(error),
        };
        match others {
            Ok(others) => self.share.hear(own, &others),
            Err(error) => {
                tracing::debug!(%error, "the loads of the replicas are not known now");
                // Without news no client is sent away.
                self.share.hear(own, &[]);
            }
        }
        metrics::gauge!("trireme_connections").set(f64::from(u32::try_from(own).unwrap_or(u32::MAX)));
    }

    fn send_away(&mut self) {
        let count = self
            .connections
            .send_away(self.share.too_many(self.connections.staying()));
        self.share.has_sent_away(count);
        if count > 0 {
            tracing::debug!(count, "clients are asked to come again, as other replicas have fewer");
            metrics::counter!("trireme_connections_sent_away_total", "reason" => "rebalance")
                .increment(u64::try_from(count).unwrap_or(u64::MAX));
        }
    }
}
