//! One change of one object, encoded once for all who watch.
//!
//! Made by the watch cache, shared by its log and its topics, read by watchers. An event knows up to three forms of
//! itself on the wire: the change as it is, ADDED for a watcher whose selector the object enters, and DELETED for one
//! whose selector it leaves. Each is made when the first watcher wants it.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use trireme_storage::Revision;

use crate::{event_kind::EventKind, item::Item};

/// A change as the log keeps it.
#[derive(Debug)]
pub(crate) struct LogEvent {
    /// Counts the events of one resource on this replica, without gaps; several can share a revision.
    pub(crate) sequence: u64,
    /// The change.
    pub(crate) kind: EventKind,
    /// The object after the change; for a deletion as it was last, with the revision of the deletion.
    pub(crate) item: Arc<Item>,
    /// The object before the change.
    pub(crate) previous: Option<Arc<Item>>,
    forms: Forms,
}

/// The forms that are made on demand.
#[derive(Debug, Default)]
struct Forms {
    own: OnceLock<Bytes>,
    entered: OnceLock<Bytes>,
    left: OnceLock<Arc<Item>>,
}

impl LogEvent {
    /// `item` was put in the place of `previous`.
    pub(crate) fn put(sequence: u64, item: Arc<Item>, previous: Option<Arc<Item>>) -> Self {
        let kind = if previous.is_some() {
            EventKind::Modified
        } else {
            EventKind::Added
        };
        Self {
            sequence,
            kind,
            item,
            previous,
            forms: Forms::default(),
        }
    }

    /// `previous` was deleted at `revision`.
    pub(crate) fn delete(sequence: u64, previous: Arc<Item>, revision: Revision) -> Self {
        let item = Arc::new(previous.with_revision(revision));
        Self {
            sequence,
            kind: EventKind::Deleted,
            item,
            previous: Some(previous),
            forms: Forms::default(),
        }
    }

    /// The revision of the change.
    pub(crate) fn revision(&self) -> Revision {
        self.item.revision
    }

    /// The event that a watcher with a filter gets for the change.
    pub(crate) fn seen_by(&self, matches: impl Fn(&Item) -> bool) -> Option<WatcherEvent> {
        let before = self.previous.as_deref().is_some_and(&matches);
        let after = self.kind != EventKind::Deleted && matches(&self.item);
        match (before, after) {
            (false, false) => None,
            (false, true) => Some(self.seen_as(EventKind::Added, &self.forms.entered)),
            (true, true) => Some(self.seen_as(self.kind, &self.forms.own)),
            (true, false) => Some(self.gone()),
        }
    }

    fn seen_as(&self, kind: EventKind, form: &OnceLock<Bytes>) -> WatcherEvent {
        let line = if self.item.has_line(kind) {
            self.item.line(kind)
        } else {
            form.get_or_init(|| self.item.line(kind)).clone()
        };
        WatcherEvent {
            kind,
            item: self.item.clone(),
            line,
        }
    }

    fn gone(&self) -> WatcherEvent {
        let item = match &self.previous {
            Some(previous) if self.kind != EventKind::Deleted => self
                .forms
                .left
                .get_or_init(|| Arc::new(previous.with_revision(self.revision())))
                .clone(),
            Some(_) | None => self.item.clone(),
        };
        let line = item.line(EventKind::Deleted);
        WatcherEvent {
            kind: EventKind::Deleted,
            item,
            line,
        }
    }
}

/// A change as one watcher sees it.
#[derive(Debug, Clone)]
pub(crate) struct WatcherEvent {
    pub(crate) kind: EventKind,
    pub(crate) item: Arc<Item>,
    pub(crate) line: Bytes,
}
