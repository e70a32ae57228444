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
use trireme_registry::{Entries, Readiness, RegistryHandle, View, compile_entries};

/// The one that is written last, and that nobody can delete.
const LAST: &str = "default";
/// The period in which the quorum of the group is looked at while the namespace does not come.
const LOOK_AT_QUORUM: Duration = Duration::from_millis(100);
/// The time for which a replica waits for a quorum of its group. Replicas that start together elect a leader in half a
/// second.
const WITHOUT_QUORUM: Duration = Duration::from_secs(2);

/// The wait and its end. Cheap to clone.
#[derive(Clone)]
pub(crate) struct FirstNamespaces {
    is_over: Arc<AtomicBool>,
    /// Has an entry when the last one is there.
    last: View<Entries<()>>,
}

impl FirstNamespaces {
    /// Starts to wait.
    pub(crate) fn await_in(system: &ActorSystem, namespaces: RegistryHandle, group: Option<Group>) -> Self {
        let sources = [namespaces.reader().clone()];
        let fold = || compile_entries(|item| (item.name() == LAST).then_some(()));
        let waiting = Self {
            is_over: Arc::default(),
            last: View::start(system, "first-namespaces", sources, fold),
        };
        let waiter = waiting.clone();
        let clock = system.clock().clone();
        let _ = system.tasks().spawn_named("first namespaces", async move {
            until_there(&clock, &waiter.last, group.as_ref()).await;
            waiter.is_over.store(true, Ordering::Relaxed);
        });
        waiting
    }

    /// The view that the wait looks at.
    pub(crate) fn view(&self) -> Arc<dyn Readiness> {
        Arc::new(self.last.clone())
    }

    /// A check of health.
    pub(crate) fn check(&self) -> Result<(), String> {
        let is_over = self.is_over.load(Ordering::Relaxed);
        is_over
            .then_some(())
            .ok_or_else(|| format!("there is no namespace {LAST} yet"))
    }
}

async fn until_there(clock: &Clock, last: &View<Entries<()>>, group: Option<&Group>) {
    let patience = clock.now() + WITHOUT_QUORUM;
    let mut changes = last.changes();
    while last.load().is_empty() {
        if clock.now() >= patience && group.is_some_and(|group| !group.status().has_quorum) {
            tracing::warn!("no quorum, so nobody makes the namespaces that a cluster starts with");
            return;
        }
        let _ = clock.timeout_at(clock.now() + LOOK_AT_QUORUM, changes.changed()).await;
    }
}
