//! Messages of the actor.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use trireme_actors::Message;

use super::logic::{HolderId, KeyTable, Released};
use crate::item::{Item, ItemKey};

/// Asks for the right to write a key that was not free.
pub(super) struct LockKey(pub(super) ItemKey);

impl Message for LockKey {
    type Reply = KeyGuard;
}

/// A key that is waited for is free again.
pub(super) struct KeyReleased {
    pub(super) key: ItemKey,
    pub(super) latest: Option<Arc<Item>>,
}

impl Message for KeyReleased {
    type Reply = ();
}

/// Tells the actor of a release, with the object as it was left.
pub(super) type ReleaseNotice = oneshot::Sender<Option<Arc<Item>>>;

/// The keys of a resource that are not free. Cheap to clone; clones are the same keys.
#[derive(Debug, Clone, Default)]
pub(super) struct SharedKeys(Arc<Mutex<KeyTable<ReleaseNotice>>>);

impl SharedKeys {
    /// The table, held for a moment.
    pub(super) fn table(&self) -> MutexGuard<'_, KeyTable<ReleaseNotice>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a key if it is free.
    pub(super) fn take(&self, key: &ItemKey) -> Option<KeyGuard> {
        let holder = self.table().take(key)?;
        Some(self.guard(key.clone(), holder, None))
    }

    /// The guard of the holder of a key.
    pub(super) fn guard(&self, key: ItemKey, holder: HolderId, latest: Option<Arc<Item>>) -> KeyGuard {
        KeyGuard {
            keys: self.clone(),
            key,
            holder,
            latest,
        }
    }
}

/// The right to write a key; it ends when this is dropped, and the next holder gets to know what the last one left.
#[derive(Debug)]
pub(super) struct KeyGuard {
    keys: SharedKeys,
    key: ItemKey,
    holder: HolderId,
    latest: Option<Arc<Item>>,
}

impl KeyGuard {
    /// The object as the last holder left it, if the key was waited for.
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
        let released = self.keys.table().release(&self.key, self.holder);
        if let Released::Notify(notice) = released
            && notice.send(self.latest.take()).is_err()
        {
            // The actor is gone, with all who waited.
            self.keys.table().forget(&self.key);
        }
    }
}
