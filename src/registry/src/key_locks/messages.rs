//! Messages of the actor.

use std::sync::Arc;

use tokio::sync::oneshot;
use trireme_actors::Message;

use crate::item::{Item, ItemKey};

/// Asks for the right to write a key.
pub(super) struct LockKey(pub(super) ItemKey);

/// The right to write a key; it ends when this is dropped, and the next holder gets to know what the last one left.
#[derive(Debug)]
pub(super) struct KeyGuard {
    latest: Option<Arc<Item>>,
    released: Option<oneshot::Sender<Option<Arc<Item>>>>,
}

impl KeyGuard {
    /// A guard that starts from what the last holder left, and what resolves when it is dropped.
    pub(super) fn new(latest: Option<Arc<Item>>) -> (Self, oneshot::Receiver<Option<Arc<Item>>>) {
        let (sender, released) = oneshot::channel();
        let guard = Self {
            latest,
            released: Some(sender),
        };
        (guard, released)
    }

    /// The object as the last holder left it, if a writer waited for it.
    pub(super) fn latest(&self) -> Option<Arc<Item>> {
        self.latest.clone()
    }

    /// Notes the object as it is left for the next holder; none, if it is gone or unknown.
    pub(super) fn leave(&mut self, latest: Option<Arc<Item>>) {
        self.latest = latest;
    }
}

impl Drop for KeyGuard {
    fn drop(&mut self) {
        if let Some(released) = self.released.take() {
            // If the actor was rebuilt meanwhile, there is no next holder.
            let _ = released.send(self.latest.take());
        }
    }
}

impl Message for LockKey {
    type Reply = KeyGuard;
}

/// A key is free again.
pub(super) struct KeyReleased {
    pub(super) key: ItemKey,
    pub(super) latest: Option<Arc<Item>>,
}

impl Message for KeyReleased {
    type Reply = ();
}
