//! Whether the store can be reached, looked at in the background so that probes of health never wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use trireme_actors::{ActorSystem, Clock};
use trireme_storage::{Revision, Storage};

/// Twice this and the store's deadline is the time in which `/readyz` tells the truth.
const INTERVAL: Duration = Duration::from_millis(500);
const DEADLINE: Duration = Duration::from_millis(1000);

/// Whether the store answered the last linearizable read in time, and where it was. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct StoreProbe(Arc<Seen>);

#[derive(Default)]
struct Seen {
    answers: AtomicBool,
    /// 0 before the first answer.
    revision: AtomicI64,
}

impl StoreProbe {
    /// Starts looking; until the first answer the store counts as away.
    pub(crate) fn start(system: &ActorSystem, store: Arc<dyn Storage>) -> Self {
        let probe = Self::default();
        let (clock, seen) = (system.clock().clone(), Arc::clone(&probe.0));
        let _ = system.tasks().spawn_named("store probe", look(store, clock, seen));
        probe
    }

    /// The store's revision when it answered last; `None` if it has not yet.
    pub(crate) fn revision(&self) -> Option<Revision> {
        let revision = self.0.revision.load(Ordering::Relaxed);
        (revision > 0).then_some(revision)
    }

    /// For a health check.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.0.answers.load(Ordering::Relaxed) {
            Ok(())
        } else {
            Err("the store does not answer".to_owned())
        }
    }
}

async fn look(store: Arc<dyn Storage>, clock: Clock, seen: Arc<Seen>) {
    loop {
        let read = clock.timeout_at(clock.now() + DEADLINE, store.read_index()).await;
        seen.answers.store(matches!(read, Some(Ok(_))), Ordering::Relaxed);
        if let Some(Ok(revision)) = read {
            seen.revision.store(revision, Ordering::Relaxed);
        }
        clock.sleep(INTERVAL).await;
    }
}
