//! Watches: a cursor into the one history, not a queue per watcher.
//!
//! A watcher waits for the next snapshot and reads on from its cursor: from the recent commits in
//! memory if it keeps up, else from the log on disk. Past and live are the same walk, so there is
//! neither gap nor duplicate between them; a slow watcher costs no memory, and ends with
//! `Compacted` if compaction overtakes it. A dropped stream leaves nothing behind.

use std::sync::Arc;

use futures_util::{Stream, stream};
use tokio::sync::watch;

use super::{blocking, snapshot::StoreSnapshot};
use crate::{Event, Revision, StorageError, WatchBatch};

/// About how much history is read from disk for one batch: bounds a batch's memory.
const PAGE_BYTES: usize = 2 << 20;
/// The most events from memory in a batch, unless one commit holds more.
const PAGE_EVENTS: usize = 1024;

struct Cursor {
    published: watch::Receiver<Arc<StoreSnapshot>>,
    prefix: Arc<str>,
    seen: Revision,
}

/// All changes under `prefix` after `after`.
pub(super) fn watch_after(
    published: watch::Receiver<Arc<StoreSnapshot>>,
    prefix: Arc<str>,
    after: Revision,
) -> impl Stream<Item = Result<WatchBatch, StorageError>> + Send {
    let cursor = Cursor {
        published,
        prefix,
        seen: after,
    };
    stream::unfold(Some(cursor), |cursor| async move {
        let mut cursor = cursor?;
        match cursor.next().await {
            Ok(batch) => Some((Ok(batch), Some(cursor))),
            Err(error) => Some((Err(error), None)),
        }
    })
}

impl Cursor {
    async fn next(&mut self) -> Result<WatchBatch, StorageError> {
        let snapshot = loop {
            let newest = self.published.borrow_and_update().clone();
            if newest.revision > self.seen {
                break newest;
            }
            let closed = |_| StorageError::Unavailable("the store is closed".to_owned());
            self.published.changed().await.map_err(closed)?;
        };
        let (events, revision) = match from_memory(&snapshot, &self.prefix, self.seen) {
            Some(found) => found,
            None if self.seen < snapshot.compacted => {
                return Err(StorageError::Compacted {
                    oldest: snapshot.compacted,
                });
            }
            None => {
                let (prefix, seen) = (self.prefix.clone(), self.seen);
                blocking(move || snapshot.history(&prefix, seen, PAGE_BYTES)).await?
            }
        };
        self.seen = revision;
        Ok(WatchBatch { events, revision })
    }
}

/// The events after `seen`, if the recent commits reach back that far.
fn from_memory(snapshot: &StoreSnapshot, prefix: &str, seen: Revision) -> Option<(Vec<Event>, Revision)> {
    if snapshot.recent.front()?.base > seen {
        return None;
    }
    let behind = snapshot
        .recent
        .iter()
        .rev()
        .take_while(|commit| commit.revision > seen)
        .count();
    let mut events = Vec::new();
    let mut done = seen;
    for commit in snapshot.recent.iter().skip(snapshot.recent.len() - behind) {
        let wanted = commit
            .events
            .iter()
            .filter(|event| event.revision() > seen && event.key().starts_with(prefix));
        events.extend(wanted.cloned());
        done = commit.revision;
        if events.len() >= PAGE_EVENTS {
            break;
        }
    }
    Some((events, done))
}
