//! The public face of the director.

use std::{
    collections::HashSet,
    sync::{Arc, OnceLock},
    time::Instant,
};

use arc_swap::ArcSwap;
use tokio::sync::watch;
use trireme_actors::{ActorSystem, AskError, Caller, Handle, SpawnError, topology::TopologyError};
use trireme_machinery::{GroupResource, GroupVersionKind};
use trireme_storage::{Revision, Storage};

use super::{
    actor::Director,
    defined::DefinedResources,
    logic::{ApiSurface, Backend},
    messages::ServingChange,
    published::PublishedSurface,
    virtual_resource::VirtualResource,
};
use crate::{
    admission::Admission,
    definition::ResourceDefinition,
    documents::Documents,
    key_locks::RegistryError,
    known_kinds::KnownKinds,
    openapi_fragment::SchemaSource,
    proxied::ProxiedVersion,
    read_index::ReadIndexHandle,
    reads::Reader,
    registry::RegistryHandle,
    store_watcher::{StoreWatcherHandle, StoreWatcherOptions},
    watch_cache::OwnedWatchCache,
};

/// The reason that a resource cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum DirectorError {
    /// It is served already, or another resource is stored where it would be.
    #[error("{0} is served already, or stored where another resource is")]
    Duplicate(GroupResource),
    /// It is not served, so it cannot be replaced.
    #[error("{0} is not served")]
    NotInstalled(GroupResource),
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
}

/// A resource that is to be served, with what answers for it.
pub enum ResourceToServe {
    /// Its objects are stored.
    Stored(Arc<ResourceDefinition>),
    /// Nothing is stored; this answers.
    Virtual(Arc<ResourceDefinition>, Arc<dyn VirtualResource>),
}

impl ResourceToServe {
    pub(super) fn definition(&self) -> &Arc<ResourceDefinition> {
        match self {
            Self::Stored(definition) | Self::Virtual(definition, _) => definition,
        }
    }
}

impl From<Arc<ResourceDefinition>> for ResourceToServe {
    fn from(definition: Arc<ResourceDefinition>) -> Self {
        Self::Stored(definition)
    }
}

/// The actors that serve one resource.
pub(super) struct Installed {
    pub(super) definition: Arc<ResourceDefinition>,
    pub(super) backend: Backend,
    pub(super) cache: Option<Arc<OwnedWatchCache>>,
}

impl Installed {
    pub(super) fn without_store(definition: Arc<ResourceDefinition>, backend: Backend) -> Self {
        Self {
            definition,
            backend,
            cache: None,
        }
    }

    pub(super) fn registry(&self) -> Option<&RegistryHandle> {
        match &self.backend {
            Backend::Stored(registry) => Some(registry),
            Backend::Virtual(_) => None,
        }
    }

    /// Ends its cache, and its watches with it. Its writes end by themselves, and the actor of its keys with the last of them.
    pub(super) async fn stop(&self) {
        if let Some(cache) = &self.cache {
            cache.stop().await;
        }
    }

    /// Shows in metrics that the resource is gone, once [it has ended](Self::stop).
    pub(super) fn show_gone(&self) {
        if let Some(cache) = &self.cache {
            cache.show_gone();
        }
    }
}

/// The parts that every resource is served with.
pub(super) struct ServingParts {
    pub(super) system: ActorSystem,
    pub(super) store: Arc<dyn Storage>,
    pub(super) store_watcher: StoreWatcherHandle,
    pub(super) read_index: ReadIndexHandle,
    pub(super) admission: Arc<dyn Admission>,
    /// The kinds of the surface, for registries: they must not hold the surface that holds them.
    pub(super) known_kinds: Arc<ArcSwap<KnownKinds>>,
    pub(super) surface: ArcSwap<ApiSurface>,
    pub(super) published: PublishedSurface,
    pub(super) defined: OnceLock<DefinedResources>,
}

impl ServingParts {
    pub(super) fn publish(&self, surface: ApiSurface) {
        self.known_kinds.store(surface.known_kinds().clone());
        let surface = Arc::new(surface);
        self.surface.store(Arc::clone(&surface));
        self.published.store(surface);
    }
}

/// The parts that the composition root hands over to have resources served.
pub struct Registries {
    /// The system that the actors run on.
    pub system: ActorSystem,
    /// The one store of all resources.
    pub store: Arc<dyn Storage>,
    /// The settings of the watch on it.
    pub store_watcher: StoreWatcherOptions,
    /// The chain that all writes pass.
    pub admission: Arc<dyn Admission>,
    /// The surface for those who look resources up while they serve.
    pub published: PublishedSurface,
    /// Kinds that clients may name beside those of the resources: retired ones, and those of the API machinery.
    pub other_kinds: Arc<HashSet<GroupVersionKind>>,
    /// The schemas that OpenAPI documents show of types that a resource's own fragment lacks.
    pub schemas: Arc<dyn SchemaSource>,
}

impl Registries {
    /// Starts store watcher, read index and director, and whatever `resources` need. The caches load in the
    /// background: see [`DirectorHandle::is_ready`].
    pub async fn start(self, resources: Vec<Arc<ResourceDefinition>>) -> Result<DirectorHandle, DirectorError> {
        let store_watcher = StoreWatcherHandle::spawn(&self.system, self.store.clone(), self.store_watcher)?;
        let read_index = ReadIndexHandle::spawn(&self.system, self.store.clone())?;
        let parts = Arc::new(ServingParts {
            store_watcher,
            read_index,
            store: self.store,
            admission: self.admission,
            known_kinds: Arc::default(),
            published: self.published,
            defined: OnceLock::new(),
            surface: ArcSwap::from_pointee(ApiSurface::empty(
                Documents::new(Vec::new(), self.schemas),
                KnownKinds::new(&[], self.other_kinds),
            )),
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
    parts: Arc<ServingParts>,
}

impl DirectorHandle {
    /// Everything that is served now.
    pub fn surface(&self) -> Arc<ApiSurface> {
        self.parts.surface.load_full()
    }

    /// Has [`settled_surface`](Self::settled_surface) wait until what these objects define is shown: `shown` is the revision up
    /// to which it is. Only the first call counts.
    pub fn follow_definitions(&self, definitions: Reader, shown: watch::Receiver<Revision>) {
        let _ = self.parts.defined.set(DefinedResources { definitions, shown });
    }

    /// Everything that is served, with what a client could have read of definitions before it asked. Waits for that for a
    /// short time.
    pub async fn settled_surface(&self) -> Arc<ApiSurface> {
        if let Some(defined) = self.parts.defined.get() {
            defined.settle().await;
        }
        self.surface()
    }

    /// The surface for those who look resources up while they serve.
    pub fn published(&self) -> &PublishedSurface {
        &self.parts.published
    }

    /// Serves more resources, all or none. They are routed on return and answer as soon as they are loaded.
    pub async fn install<R: Into<ResourceToServe>>(&self, resources: Vec<R>) -> Result<(), DirectorError> {
        let resources = resources.into_iter().map(Into::into).collect();
        self.handle.ask(ServingChange::Install(resources)).await?
    }

    /// Serves a resource by another definition of the same name. Where objects are stored as before, its cache stays, and
    /// its watches go on in the versions that are still served; else they end.
    pub async fn replace(&self, definition: Arc<ResourceDefinition>) -> Result<(), DirectorError> {
        self.handle.ask(ServingChange::Replace(definition)).await?
    }

    /// Serves a resource no longer; its watches end. What is stored stays.
    pub async fn remove(&self, resource: &GroupResource) -> Result<(), DirectorError> {
        self.handle.ask(ServingChange::Remove(resource.clone())).await?
    }

    /// Lets other servers answer for these groups and versions, and for no others. One of them comes before resources of
    /// the same group and version that are served here.
    pub async fn proxy(&self, versions: Vec<ProxiedVersion>) -> Result<(), DirectorError> {
        self.handle.ask(ServingChange::Proxy(versions)).await?
    }

    /// Reports whether all resources are loaded and have caught up with where the store was then.
    pub fn is_ready(&self) -> bool {
        self.surface().registries().all(RegistryHandle::is_ready)
    }

    /// Reports whether all resources can be read as of a revision by `deadline`; waits for those that are behind.
    pub async fn reaches(&self, revision: Revision, deadline: Instant) -> bool {
        while let Some(behind) = self.first_behind(revision, deadline).await {
            // If it is superseded, what has taken its place may reach the revision.
            if !behind.is_superseded() {
                return false;
            }
        }
        true
    }

    async fn first_behind(&self, revision: Revision, deadline: Instant) -> Option<RegistryHandle> {
        for registry in self.surface().registries() {
            if !registry.reaches(revision, deadline).await {
                return Some(registry.clone());
            }
        }
        None
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
