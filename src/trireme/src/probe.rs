//! Whether the store can be reached, looked at in the background so that probes of health never wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use trireme_actors::{ActorSystem, Clock};
use trireme_storage::Storage;

/// Twice this and the store's deadline is the time in which `/readyz` tells the truth.
const INTERVAL: Duration = Duration::from_millis(500);
const DEADLINE: Duration = Duration::from_millis(1000);

/// Whether the store answered the last linearizable read in time. Cheap to clone.
#[derive(Clone)]
pub(crate) struct StoreProbe {
    answers: Arc<AtomicBool>,
}

impl StoreProbe {
    /// Starts looking; until the first answer the store counts as away.
    pub(crate) fn start(system: &ActorSystem, store: Arc<dyn Storage>) -> Self {
        let answers = Arc::new(AtomicBool::new(false));
        let clock = system.clock().clone();
        let _ = system
            .tasks()
            .spawn_named("store probe", look(store, clock, Arc::clone(&answers)));
        Self { answers }
    }

    /// For a health check.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.answers.load(Ordering::Relaxed) {
            Ok(())
        } else {
            Err("the store does not answer".to_owned())
        }
    }
}

async fn look(store: Arc<dyn Storage>, clock: Clock, answers: Arc<AtomicBool>) {
    loop {
        let read = clock.timeout_at(clock.now() + DEADLINE, store.read_index()).await;
        answers.store(matches!(read, Some(Ok(_))), Ordering::Relaxed);
        clock.sleep(INTERVAL).await;
    }
}
