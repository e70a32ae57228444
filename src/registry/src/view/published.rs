//! The published state of a view.

use std::{
    ops::Deref,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use arc_swap::ArcSwap;
use tokio::sync::watch;
use trireme_machinery::ApiError;
use trireme_storage::Revision;

use crate::reads::{Reader, errors};

/// No revision is below this: nothing has been folded.
const NOT_LOADED: Revision = -1;

/// A derived value. Immutable.
#[derive(Debug)]
pub struct ViewSnapshot<T> {
    /// The value.
    pub value: Arc<T>,
    /// The revision of the newest change that is in the value; negative before the resources are loaded.
    pub revision: Revision,
}

impl<T> ViewSnapshot<T> {
    /// Returns true if the resources are loaded; the value is that of no objects before.
    pub fn is_loaded(&self) -> bool {
        self.revision > NOT_LOADED
    }
}

impl<T> Deref for ViewSnapshot<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

/// The newest snapshot of a view, and how far each of its sources is in it.
pub(super) struct PublishedView<T> {
    current: ArcSwap<ViewSnapshot<T>>,
    /// For each source the revision of the newest change that is in the snapshot.
    folded: watch::Sender<Vec<Revision>>,
    changes: watch::Sender<Revision>,
    was_ready: AtomicBool,
}

impl<T> PublishedView<T> {
    pub(super) fn new(empty: T, sources: usize) -> Self {
        let empty = ViewSnapshot {
            value: Arc::new(empty),
            revision: NOT_LOADED,
        };
        Self {
            current: ArcSwap::from_pointee(empty),
            folded: watch::Sender::new(vec![NOT_LOADED; sources]),
            changes: watch::Sender::new(NOT_LOADED),
            was_ready: AtomicBool::new(false),
        }
    }

    pub(super) fn load(&self) -> Arc<ViewSnapshot<T>> {
        self.current.load_full()
    }

    pub(super) fn changes(&self) -> watch::Receiver<Revision> {
        self.changes.subscribe()
    }

    /// Publishes a value in which the sources are as far as `folded` says.
    pub(super) fn publish(&self, value: T, folded: &[Revision]) {
        let revision = folded.iter().copied().max().unwrap_or(NOT_LOADED);
        self.current.store(Arc::new(ViewSnapshot {
            value: Arc::new(value),
            revision,
        }));
        // After the snapshot: a waiter that sees this finds the changes in it.
        self.folded.send_replace(folded.to_vec());
        self.changes.send_replace(revision);
    }

    /// Waits until the changes of a source up to `revision` are in the snapshot.
    pub(super) async fn folded(&self, source: usize, revision: Revision) {
        let mut folded = self.folded.subscribe();
        let is_in = |folded: &Vec<Revision>| folded.get(source).is_some_and(|folded| *folded >= revision);
        // The sender lives in `self`.
        let _ = folded.wait_for(is_in).await;
    }

    /// The newest snapshot; it is known to reflect `revision`, also if nothing changed at it.
    pub(super) fn reflecting(&self, revision: Revision) -> Arc<ViewSnapshot<T>> {
        let current = self.load();
        if current.revision >= revision {
            return current;
        }
        Arc::new(ViewSnapshot {
            value: Arc::clone(&current.value),
            revision,
        })
    }

    pub(super) fn lagging(&self, source: usize, wanted: Revision) -> ApiError {
        match self.folded.borrow().get(source) {
            Some(folded) if *folded != NOT_LOADED => errors::lagging(wanted, *folded),
            _ => errors::initializing(),
        }
    }

    pub(super) fn is_ready(&self, sources: &[Reader]) -> bool {
        if self.was_ready.load(Ordering::Acquire) {
            return true;
        }
        let newest: Option<Vec<Revision>> = sources.iter().map(Reader::last_change_if_ready).collect();
        let folded = self.folded.borrow();
        let is_ready =
            newest.is_some_and(|newest| newest.iter().zip(&*folded).all(|(newest, folded)| folded >= newest));
        self.was_ready.fetch_or(is_ready, Ordering::Release);
        is_ready
    }
}
