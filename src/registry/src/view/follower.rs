//! Follows one resource through what its watch cache publishes: everything that is there, then what changes.
//!
//! A follower pulls: it remembers how far it has read the log of the newest snapshot, and needs no subscription and no
//! queue. If the log does not reach back to there (the cache was rebuilt, or the follower slept for long), it is given
//! everything again.

use std::{ops::Bound, sync::Arc};

use tokio::sync::watch;
use trireme_storage::Revision;

use crate::{
    event_kind::EventKind,
    item::{Item, ItemKey},
    reads::Reader,
    watch_cache::CacheSnapshot,
};

/// The news of a resource.
#[derive(Debug)]
pub enum ObjectChanges {
    /// All objects that can be read; earlier objects that are neither among these nor unreadable are gone.
    Relisted {
        /// The objects in the order of their keys.
        items: Vec<Arc<Item>>,
        /// The keys of values that cannot be read: it is not known what became of these objects.
        unreadable: Vec<ItemKey>,
        /// The revision of this state.
        revision: Revision,
    },
    /// Changes since the last news, in the order of the store.
    Changed {
        /// The changes; the item of a deletion is the object as it was last.
        changes: Vec<(EventKind, Arc<Item>)>,
        /// The revision up to which these are all.
        revision: Revision,
    },
}

/// A cursor into the changes of one resource.
pub struct Follower {
    reader: Reader,
    applied: watch::Receiver<Revision>,
    /// The sequence of the next event, and the revision of the last news; `None` before the first.
    cursor: Option<(u64, Revision)>,
}

impl Follower {
    /// A follower that has seen nothing.
    pub fn new(reader: Reader) -> Self {
        Self {
            applied: reader.cache().applied(),
            reader,
            cursor: None,
        }
    }

    /// Waits for news. May be dropped at any time without losing anything.
    pub async fn next(&mut self) -> ObjectChanges {
        loop {
            // Marked as seen before the snapshot is taken, so that nothing that comes later is missed.
            self.applied.borrow_and_update();
            if self.reader.cache().is_loaded()
                && let Some(changes) = self.take(&self.reader.cache().snapshot())
            {
                return changes;
            }
            if self.applied.changed().await.is_err() {
                // The cache is gone for good.
                std::future::pending::<()>().await;
            }
        }
    }

    fn take(&mut self, snapshot: &CacheSnapshot) -> Option<ObjectChanges> {
        let next = snapshot.log.next_sequence();
        let revision = snapshot.revision;
        match self.cursor.replace((next, revision)) {
            // The revision alone moves if what changed cannot be read as an object.
            Some(cursor) if cursor == (next, revision) => None,
            Some((cursor, _)) if snapshot.log.reaches(cursor) => {
                let events = (cursor..next).filter_map(|sequence| snapshot.log.get(sequence));
                let changes = events.map(|event| (event.kind, Arc::clone(&event.item))).collect();
                Some(ObjectChanges::Changed { changes, revision })
            }
            _ => {
                let all = (Bound::Unbounded, Bound::Unbounded);
                let unreadable = snapshot.index.unreadable_in(all);
                Some(ObjectChanges::Relisted {
                    items: snapshot.index.range(all).cloned().collect(),
                    unreadable: unreadable.map(|value| value.key.clone()).collect(),
                    revision,
                })
            }
        }
    }
}
