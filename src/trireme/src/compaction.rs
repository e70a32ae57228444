//! Forgets the store's history that nobody needs any more, as kube-apiserver does: every interval, everything from
//! before the interval that ended then.
//!
//! Replicas over one store share a key, also with kube-apiserver: whoever writes it first in an interval compacts, the
//! others see it written and wait for the next one. Nobody has to know of the others, so no lease is needed.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use trireme_actors::{ActorSystem, Clock};
use trireme_storage::{Compare, PutOptions, Revision, Storage, StorageError, WriteOutcome};

/// What kube-apiserver calls it.
const KEY: &str = "compact_rev_key";

/// Starts compacting.
pub(crate) fn start(system: &ActorSystem, store: Arc<dyn Storage>, interval: Duration) {
    let clock = system.clock().clone();
    let _ = system
        .tasks()
        .spawn_named("compaction", compact_for_ever(store, clock, interval));
}

/// What is known of the key since the last interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    /// When the key was written last; 0 if it is not there.
    written: Revision,
    /// Where the store was then.
    store: Revision,
}

async fn compact_for_ever(store: Arc<dyn Storage>, clock: Clock, interval: Duration) {
    let mut seen = None;
    loop {
        match take_turn(&*store, seen).await {
            Ok((now, is_ours)) => {
                if let Some(before) = seen.filter(|_| is_ours) {
                    compact(&*store, before.store).await;
                }
                seen = Some(now);
            }
            Err(error) => tracing::debug!(%error, "the store's history cannot be compacted now"),
        }
        clock.sleep(interval).await;
    }
}

/// Writes the key if nobody has done so since it was seen; says how it is now and whether this was us.
async fn take_turn(store: &dyn Storage, seen: Option<Seen>) -> Result<(Seen, bool), StorageError> {
    let compare = match seen.map_or(0, |seen| seen.written) {
        0 => Compare::Absent,
        written => Compare::ModRevision(written),
    };
    let value = Bytes::from(seen.map_or(0, |seen| seen.store).to_string());
    match store.put(KEY, value, compare, PutOptions::default()).await? {
        WriteOutcome::Committed(revision) => {
            let now = Seen {
                written: revision,
                store: revision,
            };
            Ok((now, true))
        }
        WriteOutcome::Conflict(current) => {
            let now = Seen {
                written: current.map_or(0, |entry| entry.mod_revision),
                store: store.read_index().await?,
            };
            Ok((now, false))
        }
    }
}

async fn compact(store: &dyn Storage, revision: Revision) {
    match store.compact(revision).await {
        Ok(()) => tracing::info!(revision, "compacted the store's history"),
        Err(StorageError::Compacted { .. }) => {}
        Err(error) => tracing::warn!(revision, %error, "the store's history could not be compacted"),
    }
}

#[cfg(test)]
mod tests {
    use trireme_storage::{EmbeddedOptions, EmbeddedStore};

    use super::*;

    #[tokio::test]
    async fn one_of_two_compacts_in_each_interval() {
        let dir = tempfile::tempdir().expect("a directory");
        let store = EmbeddedStore::open(dir.path(), EmbeddedOptions::default()).expect("opened");
        let (first, is_ours) = take_turn(&store, None).await.expect("written");
        assert!(is_ours);
        let (second, is_ours) = take_turn(&store, None).await.expect("read");
        assert!(!is_ours, "it is there already");
        assert_eq!(second.written, first.written);

        let (late, is_ours) = take_turn(&store, Some(second)).await.expect("written");
        assert!(is_ours, "nobody was faster");
        let (early, is_ours) = take_turn(&store, Some(first)).await.expect("read");
        assert!(!is_ours, "somebody was");
        assert_eq!(early.written, late.written);

        compact(&store, second.store).await;
        let past = store.get(KEY, Some(first.written - 1)).await;
        assert!(matches!(past, Err(StorageError::Compacted { .. })), "{past:?}");
    }
}
