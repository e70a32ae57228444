//! Compacts the store's history, as kube-apiserver does: every interval, everything from
//! before the interval that ended then.
//!
//! Replicas over one store share a key, also with kube-apiserver: the replica that writes it first in an interval compacts to the
//! revision that it writes into it. The others see it written and compact to that too, which brings their store's
//! compacted revision up to date; then they wait for the next interval. None has to know of the others, so no lease is needed.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use trireme_actors::{ActorSystem, Clock};
use trireme_storage::{Compare, PutOptions, Revision, Storage, StorageError, WriteOutcome};

/// The key's name in kube-apiserver.
const KEY: &str = "compact_rev_key";

/// Starts compacting.
pub(crate) fn start(system: &ActorSystem, store: Arc<dyn Storage>, interval: Duration) {
    let clock = system.clock().clone();
    let compact = move || compact_for_ever(Arc::clone(&store), clock.clone(), interval);
    let _ = system.tasks().spawn_restarting("compaction", compact);
}

/// The version of the key at the last interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SeenVersion {
    /// The revision of the key's last write; 0 if it is not there.
    written: Revision,
    /// The store's revision then.
    store: Revision,
    /// Before which revision nothing is needed, as the key says.
    horizon: Revision,
}

async fn compact_for_ever(store: Arc<dyn Storage>, clock: Clock, interval: Duration) {
    let mut seen = None;
    loop {
        match take_turn(&*store, seen).await {
            Ok(now) => {
                if now.horizon > 0 {
                    compact(&*store, now.horizon).await;
                }
                seen = Some(now);
            }
            Err(error) => tracing::debug!(%error, "the store's history cannot be compacted now"),
        }
        clock.sleep(interval).await;
    }
}

/// Writes the key if it is unchanged since it was seen; returns its new state.
async fn take_turn(store: &dyn Storage, seen: Option<SeenVersion>) -> Result<SeenVersion, StorageError> {
    let compare = match seen.map_or(0, |seen| seen.written) {
        0 => Compare::Absent,
        written => Compare::ModRevision(written),
    };
    let horizon = seen.map_or(0, |seen| seen.store);
    let value = Bytes::from(horizon.to_string());
    match store.put(KEY, value, compare, PutOptions::default()).await? {
        WriteOutcome::Committed(revision) => Ok(SeenVersion {
            written: revision,
            store: revision,
            horizon,
        }),
        WriteOutcome::Conflict(current) => Ok(SeenVersion {
            written: current.as_ref().map_or(0, |entry| entry.mod_revision),
            store: store.read_index().await?,
            horizon: current.map_or(0, |entry| said_in(&entry.value)),
        }),
    }
}

/// The revision in a key; 0 if there is none.
fn said_in(value: &[u8]) -> Revision {
    let text = str::from_utf8(value).unwrap_or_default();
    text.parse().unwrap_or_default()
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
        let first = take_turn(&store, None).await.expect("written");
        let second = take_turn(&store, None).await.expect("read");
        assert_eq!(second.written, first.written, "it is there already");
        assert_eq!((first.horizon, second.horizon), (0, 0), "nothing was seen before");

        let late = take_turn(&store, Some(second)).await.expect("written");
        assert!(late.written > second.written, "no other write came first");
        let early = take_turn(&store, Some(first)).await.expect("read");
        assert_eq!(early.written, late.written, "another write came first");
        assert_eq!((late.horizon, early.horizon), (second.store, second.store));

        compact(&store, early.horizon).await;
        let past = store.get(KEY, Some(first.written - 1)).await;
        assert!(matches!(past, Err(StorageError::Compacted { .. })), "{past:?}");
    }
}
