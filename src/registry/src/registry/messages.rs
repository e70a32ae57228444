//! What reaches the registry's mailbox.

use std::sync::Arc;

use tokio::sync::oneshot;
use trireme_actors::Message;

use crate::item::{Item, ItemKey};

/// Asks for the right to write a key.
pub(super) struct TakeKey(pub(super) ItemKey);

/// The right to write a key; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct KeyTurn {
    latest: Option<Arc<Item>>,
    ended: Option<oneshot::Sender<Arc<Item>>>,
}

impl KeyTurn {
    /// A turn that starts from what the last holder wrote, and what resolves when it ends, with what it wrote.
    pub(super) fn new(latest: Option<Arc<Item>>) -> (Self, oneshot::Receiver<Arc<Item>>) {
        let (sender, ended) = oneshot::channel();
        (
            Self {
                latest,
                ended: Some(sender),
            },
            ended,
        )
    }

    /// The object as the last holder left it, if somebody waited for it.
    pub(super) fn latest(&self) -> Option<Arc<Item>> {
        self.latest.clone()
    }

    /// Ends the turn and hands what was written to whoever is next.
    pub(super) fn finish(mut self, written: Option<Arc<Item>>) {
        if let (Some(ended), Some(item)) = (self.ended.take(), written) {
            // If the actor was rebuilt meanwhile, nobody is next.
            let _ = ended.send(item);
        }
    }
}

impl Message for TakeKey {
    type Reply = KeyTurn;
}

/// A key's turn has ended, perhaps with a write.
pub(super) struct KeyReleased {
    pub(super) key: ItemKey,
    pub(super) latest: Option<Arc<Item>>,
}

impl Message for KeyReleased {
    type Reply = ();
}
