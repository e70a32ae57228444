//! Holds readiness back until the namespaces are there that clients take for granted.
//!
//! Whoever holds the duty `system-namespaces` writes them into a fresh store, `default` last; a replica is ready when it
//! sees that one in its cache. A replica whose group has no quorum does not wait for long: nobody may write them then,
//! and an operator may be waiting for it before starting the next one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use trireme_actors::{ActorSystem, Clock};
use trireme_cluster::Group;
use trireme_registry::RegistryHandle;
use trireme_registry::request::{Freshness, GetRequest, Target};

/// The one that is written last, and that nobody can delete.
const LAST: &str = "default";
/// Between two looks.
const LOOK: Duration = Duration::from_millis(10);
/// The time for which a replica waits for a quorum of its group. Replicas that start together elect a leader in half a
/// second.
const WITHOUT_QUORUM: Duration = Duration::from_secs(2);

/// True if the wait is over. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct FirstNamespaces(Arc<AtomicBool>);

impl FirstNamespaces {
    /// Starts to wait.
    pub(crate) fn await_in(system: &ActorSystem, namespaces: RegistryHandle, group: Option<Group>) -> Self {
        let waiting = Self::default();
        let seen = waiting.clone();
        let clock = system.clock().clone();
        let _ = system.tasks().spawn_named("first namespaces", async move {
            until_there(&clock, &namespaces, group.as_ref()).await;
            seen.0.store(true, Ordering::Relaxed);
        });
        waiting
    }

    /// A check of health.
    pub(crate) fn check(&self) -> Result<(), String> {
        let is_over = self.0.load(Ordering::Relaxed);
        is_over
            .then_some(())
            .ok_or_else(|| format!("there is no namespace {LAST} yet"))
    }
}

async fn until_there(clock: &Clock, namespaces: &RegistryHandle, group: Option<&Group>) {
    let patience = clock.now() + WITHOUT_QUORUM;
    while !sees_last(namespaces).await {
        if clock.now() >= patience && group.is_some_and(|group| !group.status().has_quorum) {
            tracing::warn!("no quorum, so nobody makes the namespaces that a cluster starts with");
            return;
        }
        clock.sleep(LOOK).await;
    }
}

async fn sees_last(namespaces: &RegistryHandle) -> bool {
    let target = Target {
        name: LAST.to_owned(),
        ..Target::default()
    };
    let freshness = Freshness::Any;
    namespaces.is_ready() && namespaces.get(GetRequest { target, freshness }).await.is_ok()
}
