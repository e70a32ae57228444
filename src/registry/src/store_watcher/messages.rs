//! Messages of the store watcher.

use std::sync::Arc;

use trireme_actors::Message;

use super::logic::CacheRoute;
use crate::{definition::ResourceDefinition, watch_cache::Feed};

/// A resource and the cache to fill with it.
#[derive(Clone)]
pub(super) struct Registration {
    pub(super) info: Arc<ResourceDefinition>,
    pub(super) feed: Feed,
    /// Grows with each load of this cache that is wanted anew.
    pub(super) epoch: u64,
}

impl Registration {
    /// The way of the resource's entries.
    pub(super) fn route(&self) -> CacheRoute {
        CacheRoute {
            info: Arc::clone(&self.info),
            items: Arc::clone(self.feed.items()),
        }
    }
}

/// From now on the caches are to be loaded and kept up to date.
pub(super) struct Register(pub(super) Vec<(Arc<ResourceDefinition>, Feed)>);

impl Message for Register {
    type Reply = ();
}

/// The cache with this storage prefix has lost its state.
pub(super) struct Reload(pub(super) Arc<str>);

impl Message for Reload {
    type Reply = ();
}

/// The cache with this storage prefix is no more.
pub(super) struct Unregister(pub(super) Arc<str>);

impl Message for Unregister {
    type Reply = ();
}

/// The task that follows the store has ended, which it only does by a panic or at the end of all.
pub(super) struct FollowerEnded;

impl Message for FollowerEnded {
    type Reply = ();
}
