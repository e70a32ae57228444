//! The public face of the store watcher.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use tokio::sync::watch;
use trireme_actors::{ActorKind, ActorSystem, AskError, Handle, SpawnError};
use trireme_storage::{Revision, Storage};

use super::{
    actor::{Registrations, StoreWatcher},
    messages::{Register, Reload, Unregister},
};
use crate::{
    definition::ResourceDefinition,
    watch_cache::{self, Feed},
};

/// The store to follow, and the options.
#[derive(Clone)]
pub(super) struct WatchedStore {
    pub(super) store: Arc<dyn Storage>,
    pub(super) options: StoreWatcherOptions,
    pub(super) shared: Arc<WatcherShared>,
}

/// Options of following a store.
#[derive(Debug, Clone)]
pub struct StoreWatcherOptions {
    /// The prefix of all objects' keys.
    pub objects_prefix: String,
    /// The watched prefix. The whole keyspace (the empty string) of a store of our own, since then every revision shows
    /// up and moves the clock; the objects' prefix of a shared one.
    pub watch_prefix: String,
    /// With so many revisions of history the caches start, if the store still has them, so that watches that were
    /// cut by a restart can resume.
    pub history: Revision,
}

impl Default for StoreWatcherOptions {
    fn default() -> Self {
        Self {
            objects_prefix: "/registry/".to_owned(),
            watch_prefix: String::new(),
            history: 5_000,
        }
    }
}

/// State that the follower publishes; outlives the actor's instances.
#[derive(Debug)]
pub(super) struct WatcherShared {
    clock: watch::Sender<Revision>,
    floor: AtomicI64,
}

impl WatcherShared {
    /// The newest revision.
    pub(super) fn revision(&self) -> Revision {
        *self.clock.borrow()
    }

    /// Everything up to `revision` is in the caches or on its way to them.
    pub(super) fn advance(&self, revision: Revision) {
        self.clock.send_replace(revision);
    }

    /// The store's revision when the caches were loaded: older states are history and nothing to answer with.
    pub(super) fn set_floor(&self, revision: Revision) {
        self.floor.store(revision, Ordering::Release);
    }
}

/// The revision clock of a store, and the way to have a cache filled. Cheap to clone.
#[derive(Clone)]
pub struct StoreWatcherHandle {
    director_handle: Handle<StoreWatcher>,
    cache_handle: Handle<StoreWatcher>,
    shared: Arc<WatcherShared>,
}

impl StoreWatcherHandle {
    /// Starts to follow a store.
    ///
    /// # Panics
    /// If the topology does not let the director and the watch caches ask the store watcher.
    pub fn spawn(
        system: &ActorSystem,
        store: Arc<dyn Storage>,
        options: StoreWatcherOptions,
    ) -> Result<Self, SpawnError> {
        let shared = Arc::new(WatcherShared {
            clock: watch::Sender::new(-1),
            floor: AtomicI64::new(0),
        });
        let source = WatchedStore {
            store,
            options,
            shared: shared.clone(),
        };
        let wanted = Arc::new(watch::Sender::new(Registrations::new(BTreeMap::new())));
        let tasks = system.tasks().clone();
        let owned = system.spawn("", move || {
            StoreWatcher::new(source.clone(), tasks.clone(), wanted.clone())
        })?;
        let allowed = "the topology lets the store watcher be asked";
        Ok(Self {
            director_handle: owned.for_caller(ActorKind::DIRECTOR).expect(allowed),
            cache_handle: owned.for_caller(ActorKind::WATCH_CACHE).expect(allowed),
            shared,
        })
    }

    /// The clock's time; negative before the caches are loaded.
    pub fn revision(&self) -> Revision {
        self.shared.revision()
    }

    /// The clock: every change up to the revision it shows is in the caches or on its way to them.
    pub fn clock(&self) -> watch::Receiver<Revision> {
        self.shared.clock.subscribe()
    }

    /// The oldest revision that any read may be answered with.
    pub(crate) fn floor(&self) -> Revision {
        self.shared.floor.load(Ordering::Acquire)
    }

    /// Has caches loaded and kept up to date; for the director.
    pub(crate) async fn register(&self, caches: Vec<(Arc<ResourceDefinition>, Feed)>) -> Result<(), AskError> {
        self.director_handle.ask(Register(caches)).await
    }

    /// Has a cache loaded again that lost its state; for that cache.
    pub(crate) async fn reload(&self, prefix: Arc<str>) -> Result<(), AskError> {
        self.cache_handle.ask(Reload(prefix)).await
    }

    /// The same as a function, for caches to keep.
    pub(crate) fn reloads(&self) -> watch_cache::ReloadFn {
        let this = self.clone();
        Arc::new(move |prefix| {
            let this = this.clone();
            Box::pin(async move { this.reload(prefix).await })
        })
    }

    /// Leaves a cache alone; for the director.
    pub(crate) async fn unregister(&self, prefix: Arc<str>) -> Result<(), AskError> {
        self.director_handle.ask(Unregister(prefix)).await
    }
}
