//! The state of a watch cache, free of actors and channels: changes go in, a new snapshot and events come out.

use std::{sync::Arc, time::Instant};

use trireme_storage::Revision;

use super::{index::ItemIndex, log::Log};
use crate::{
    event::Event,
    item::{Item, ItemKey},
};

/// A change of one key of the resource, from the store.
#[derive(Debug)]
pub(crate) enum CacheChange {
    /// The object is now this.
    Put(Arc<Item>),
    /// The object is gone (or can no longer be read).
    Delete {
        /// Which.
        key: ItemKey,
        /// Since when.
        revision: Revision,
    },
}

/// All that a reader needs, as of one moment. Immutable; cheap to make and to share.
#[derive(Debug, Clone, Default)]
pub(crate) struct Snapshot {
    /// The objects.
    pub(crate) index: ItemIndex,
    /// Their history.
    pub(crate) log: Log,
    /// The newest revision that changed anything, or of the load.
    pub(crate) revision: Revision,
}

/// The owner's view: the newest snapshot and how to get to the next.
#[derive(Debug, Default)]
pub(crate) struct State {
    snapshot: Snapshot,
}

impl State {
    /// Goes on from what an earlier instance published; its history may have a hole at the end, so it is given up.
    pub(crate) fn after(published: &Snapshot) -> Self {
        let log = published.log.restarted(published.revision);
        Self {
            snapshot: Snapshot {
                log,
                ..published.clone()
            },
        }
    }

    /// The state now.
    pub(crate) fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Takes whole revisions of changes, in order. Returns the events they make.
    pub(crate) fn apply(&mut self, changes: Vec<CacheChange>, revision: Revision, now: Instant) -> Vec<Arc<Event>> {
        let events: Vec<_> = changes
            .into_iter()
            .filter_map(|change| self.apply_one(change, now))
            .collect();
        self.snapshot.revision = self.snapshot.revision.max(revision);
        self.snapshot.log.trim(now);
        events
    }

    fn apply_one(&mut self, change: CacheChange, now: Instant) -> Option<Arc<Event>> {
        let Snapshot { index, log, .. } = &mut self.snapshot;
        let sequence = log.next_sequence();
        let event = match change {
            CacheChange::Put(item) => {
                let previous = index.insert(item.clone());
                Event::put(sequence, item, previous)
            }
            // A deletion of what was never readable concerns nobody.
            CacheChange::Delete { key, revision } => Event::delete(sequence, index.remove(&key)?, revision),
        };
        let event = Arc::new(event);
        log.push(event.clone(), now, index);
        Some(event)
    }

    /// Forgets old history; says whether there was any.
    pub(crate) fn trim(&mut self, now: Instant) -> bool {
        let before = self.snapshot.log.len();
        self.snapshot.log.trim(now);
        self.snapshot.log.len() != before
    }

    /// Takes a whole new state: what was between is unknown, so the log starts anew.
    pub(crate) fn replace(&mut self, index: ItemIndex, revision: Revision) {
        let log = self.snapshot.log.restarted(revision);
        self.snapshot = Snapshot { index, log, revision };
    }
}
