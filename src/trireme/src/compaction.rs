//! Forgets the store's history that nobody needs any more, as kube-apiserver does: every interval, everything from
//! before the interval that ended then.

use std::sync::Arc;
use std::time::Duration;

use trireme_actors::{ActorSystem, Clock};
use trireme_storage::{Revision, Storage, StorageError};

/// Starts compacting. With several replicas over one etcd each tries, and whoever is late is told so by etcd.
pub(crate) fn start(system: &ActorSystem, store: Arc<dyn Storage>, interval: Duration) {
    let clock = system.clock().clone();
    let _ = system
        .tasks()
        .spawn_named("compaction", compact_for_ever(store, clock, interval));
}

async fn compact_for_ever(store: Arc<dyn Storage>, clock: Clock, interval: Duration) {
    let mut before: Option<Revision> = None;
    loop {
        let now = store.read_index().await.ok();
        if let Some(revision) = before {
            match store.compact(revision).await {
                Ok(()) => tracing::info!(revision, "compacted the store's history"),
                Err(StorageError::Compacted { .. }) => {}
                Err(error) => tracing::warn!(revision, %error, "the store's history could not be compacted"),
            }
        }
        before = now.or(before);
        clock.sleep(interval).await;
    }
}
