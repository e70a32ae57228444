//! The state of a watch cache, free of actors and channels: changes go in, a new snapshot and events come out.

use std::{sync::Arc, time::Instant};

use trireme_storage::Revision;

use super::{index::ItemIndex, log::EventLog};
use crate::{
    event::LogEvent,
    item::{Item, ItemKey},
    unreadable::UnreadableValue,
};

/// A change of one key of the resource, from the store.
#[derive(Debug)]
pub(crate) enum CacheChange {
    /// The object is now this.
    Put(Arc<Item>),
    /// The value cannot be read: it is not known what became of the object.
    Unreadable(Arc<UnreadableValue>),
    /// The object is gone.
    Delete {
        /// Which.
        key: ItemKey,
        /// Since when.
        revision: Revision,
    },
}

impl CacheChange {
    /// Reports whether it is a value that could not be decrypted.
    pub(crate) fn is_undecrypted(&self) -> bool {
        matches!(self, Self::Unreadable(value) if value.is_undecrypted())
    }

    /// Reports whether the value could not be decoded.
    pub(crate) fn is_undecoded(&self) -> bool {
        matches!(self, Self::Unreadable(value) if !value.is_undecrypted())
    }
}

/// All that a reader needs, as of one moment. Immutable; cheap to make and to share.
#[derive(Debug, Clone, Default)]
pub(crate) struct CacheSnapshot {
    /// The objects.
    pub(crate) index: ItemIndex,
    /// Their history.
    pub(crate) log: EventLog,
    /// The newest revision that changed anything, or of the load.
    pub(crate) revision: Revision,
}

/// The effect of changes on those who watch.
#[derive(Debug, Default)]
pub(crate) struct AppliedChanges {
    /// The events that the changes make, after the last of them that made history end.
    pub(crate) events: Vec<Arc<LogEvent>>,
    /// True if the log starts anew: watchers have missed events.
    pub(crate) history_lost: bool,
}

/// The effect of one change.
enum Effect {
    Event(Arc<LogEvent>),
    HistoryLost(Revision),
    Nothing,
}

/// The owner's view: the newest snapshot and how to get to the next.
#[derive(Debug, Default)]
pub(crate) struct CacheState {
    snapshot: CacheSnapshot,
}

impl CacheState {
    /// Goes on from what an earlier instance published; its history may have a hole at the end, so it is given up.
    pub(crate) fn after(published: &CacheSnapshot) -> Self {
        let log = published.log.restarted(published.revision);
        Self {
            snapshot: CacheSnapshot {
                log,
                ..published.clone()
            },
        }
    }

    /// The state now.
    pub(crate) fn snapshot(&self) -> &CacheSnapshot {
        &self.snapshot
    }

    /// Takes whole revisions of changes, in order.
    pub(crate) fn apply(&mut self, changes: Vec<CacheChange>, revision: Revision, now: Instant) -> AppliedChanges {
        let mut applied = AppliedChanges::default();
        for change in changes {
            match self.apply_one(change, now) {
                Effect::Event(event) => applied.events.push(event),
                Effect::HistoryLost(at) => {
                    self.snapshot.log = self.snapshot.log.restarted(at);
                    applied.events.clear();
                    applied.history_lost = true;
                }
                Effect::Nothing => {}
            }
        }
        self.snapshot.revision = self.snapshot.revision.max(revision);
        self.snapshot.log.trim(now);
        applied
    }

    /// A key that becomes unreadable, or is so no longer, ends history: no event says that an object is unreadable, so
    /// watchers have to list again, and a list says it.
    fn apply_one(&mut self, change: CacheChange, now: Instant) -> Effect {
        let CacheSnapshot { index, log, .. } = &mut self.snapshot;
        let sequence = log.next_sequence();
        let event = match change {
            CacheChange::Put(item) => {
                let was_unreadable = index.remove_unreadable(&item.key);
                let previous = index.insert(item.clone());
                if was_unreadable {
                    return Effect::HistoryLost(item.revision);
                }
                LogEvent::put(sequence, item, previous)
            }
            CacheChange::Unreadable(value) => {
                let revision = value.revision;
                let is_new = index.insert_unreadable(value);
                return if is_new {
                    Effect::HistoryLost(revision)
                } else {
                    Effect::Nothing
                };
            }
            CacheChange::Delete { key, revision } => match index.remove(&key) {
                Some(previous) => LogEvent::delete(sequence, previous, revision),
                None if index.remove_unreadable(&key) => return Effect::HistoryLost(revision),
                None => return Effect::Nothing,
            },
        };
        let event = Arc::new(event);
        log.push(event.clone(), now, index);
        Effect::Event(event)
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
        self.snapshot = CacheSnapshot { index, log, revision };
    }
}
