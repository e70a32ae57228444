//! The public face of the director.

use std::{collections::HashSet, sync::Arc, time::Instant};

use arc_swap::ArcSwap;
use trireme_actors::{ActorSystem, AskError, Caller, Handle, SpawnError, topology::TopologyError};
use trireme_machinery::GroupVersionKind;
use trireme_storage::{Revision, Storage};

use super::{
    actor::Director,
    logic::RouteTable,
    messages::{Install, Remove},
};
use crate::{
    admission::Admission,
    info::ResourceInfo,
    key_locks::RegistryError,
    read_index::ReadIndexHandle,
    registry::RegistryHandle,
    store_watcher::{StoreWatcherHandle, StoreWatcherOptions},
    watch_cache::OwnedWatchCache,
};

/// Why a resource cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum DirectorError {
    /// Another resource is stored there.
    #[error("a resource with storage prefix {0} is installed already")]
    Duplicate(String),
    /// One of its actors could not be started.
    #[error("an actor could not be started")]
    Spawn(#[from] SpawnError),
    /// The topology forbids one of its edges.
    #[error("the topology is wrong")]
    Topology(#[from] TopologyError),
    /// Its registry could not be started.
    #[error("its registry could not be started")]
    Registry(#[from] RegistryError),
    /// An actor did not answer.
    #[error("an actor did not answer")]
    Ask(#[from] AskError),
    /// The work panicked.
    #[error("the installation was interrupted: {0}")]
    Interrupted(String),
}

/// What serves one resource.
pub(super) struct Installed {
    pub(super) registry: RegistryHandle,
    pub(super) cache: OwnedWatchCache,
}

/// What every resource is served with.
pub(super) struct Parts {
    pub(super) system: ActorSystem,
    pub(super) store: Arc<dyn Storage>,
    pub(super) store_watcher: StoreWatcherHandle,
    pub(super) read_index: ReadIndexHandle,
    pub(super) admission: Arc<dyn Admission>,
    pub(super) known_kinds: Arc<HashSet<GroupVersionKind>>,
    pub(super) routes: ArcSwap<RouteTable>,
}

/// What the composition root hands over to have resources served.
pub struct Registries {
    /// Where the actors run.
    pub system: ActorSystem,
    /// The one store of all resources.
    pub store: Arc<dyn Storage>,
    /// How to follow it.
    pub store_watcher: StoreWatcherOptions,
    /// The chain that all writes pass.
    pub admission: Arc<dyn Admission>,
    /// Every kind that this server knows.
    pub known_kinds: Arc<HashSet<GroupVersionKind>>,
}

impl Registries {
    /// Starts store watcher, read index and director, and whatever `resources` need. The caches load in the
    /// background: see [`DirectorHandle::is_ready`].
    pub async fn start(self, resources: Vec<Arc<ResourceInfo>>) -> Result<DirectorHandle, DirectorError> {
        let store_watcher = StoreWatcherHandle::spawn(&self.system, self.store.clone(), self.store_watcher)?;
        let read_index = ReadIndexHandle::spawn(&self.system, self.store.clone())?;
        let parts = Arc::new(Parts {
            store_watcher,
            read_index,
            store: self.store,
            admission: self.admission,
            known_kinds: self.known_kinds,
            routes: ArcSwap::default(),
            system: self.system,
        });
        let made_of = parts.clone();
        let owned = parts.system.spawn("", move || Director::new(made_of.clone()))?;
        let director = DirectorHandle {
            handle: owned.for_caller(Caller::Outside)?,
            parts,
        };
        director.install(resources).await?;
        Ok(director)
    }
}

/// The resources that are served, and the way to change them. Cheap to clone.
#[derive(Clone)]
pub struct DirectorHandle {
    handle: Handle<Director>,
    parts: Arc<Parts>,
}

impl DirectorHandle {
    /// The newest route table.
    pub fn routes(&self) -> Arc<RouteTable> {
        self.parts.routes.load_full()
    }

    /// Serves more resources. They are routed on return and answer as soon as they are loaded.
    pub async fn install(&self, resources: Vec<Arc<ResourceInfo>>) -> Result<(), DirectorError> {
        self.handle.ask(Install(resources)).await?
    }

    /// Serves a resource no longer; its watches end. What is stored stays.
    pub async fn remove(&self, info: &ResourceInfo) -> Result<(), DirectorError> {
        Ok(self.handle.ask(Remove(info.storage_prefix.clone())).await?)
    }

    /// Whether all resources are loaded and have caught up with where the store was then.
    pub fn is_ready(&self) -> bool {
        self.routes().registries().all(RegistryHandle::is_ready)
    }

    /// Whether all resources can be read as of a revision by `deadline`; waits for those that are behind.
    pub async fn reaches(&self, revision: Revision, deadline: Instant) -> bool {
        for registry in self.routes().registries() {
            if !registry.reaches(revision, deadline).await {
                return false;
            }
        }
        true
    }

    /// The revision clock of the store.
    pub fn store_watcher(&self) -> &StoreWatcherHandle {
        &self.parts.store_watcher
    }

    /// The linearizable revision of the store.
    pub fn read_index(&self) -> &ReadIndexHandle {
        &self.parts.read_index
    }
}
