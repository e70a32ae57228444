//! The API surface: everything that is served at a moment, as one immutable snapshot.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use trireme_machinery::{GroupResource, GroupVersion};

use super::{handle::Installed, virtual_resource::VirtualBackend};
use crate::{
    definition::{ResourceDefinition, ServedVersion},
    documents::Documents,
    known_kinds::KnownKinds,
    openapi_fragment::NoSchemas,
    proxied::{ProxiedVersion, ProxiedVersions},
    registry::RegistryHandle,
};

/// The registry that a request for a stored resource goes to.
#[derive(Clone)]
pub struct Route {
    /// The resource's registry.
    pub registry: RegistryHandle,
    /// The served version: an index into `ResourceDefinition::versions`.
    pub version: usize,
}

/// The part of the server that answers for a resource.
#[derive(Clone)]
pub enum Backend {
    /// A registry, over the store.
    Stored(RegistryHandle),
    /// Code that keeps nothing.
    Virtual(VirtualBackend),
}

/// A resource in a version that is served.
pub struct ServedResource<'s> {
    /// The resource.
    pub definition: &'s Arc<ResourceDefinition>,
    /// The version: an index into its `versions`.
    pub version: usize,
    /// The backend that answers.
    pub backend: &'s Backend,
}

/// Everything that is served. Immutable: a change makes a new one.
pub struct ApiSurface {
    installed: BTreeMap<GroupResource, Arc<Installed>>,
    by_prefix: BTreeMap<Arc<str>, Arc<Installed>>,
    routes: HashMap<Arc<str>, Vec<RouteEntry>>,
    proxied: ProxiedVersions,
    documents: Documents,
    known_kinds: Arc<KnownKinds>,
}

struct RouteEntry {
    group_version: GroupVersion,
    installed: Arc<Installed>,
    version: usize,
}

impl ApiSurface {
    /// Nothing is served; `documents` say so.
    pub(super) fn empty(documents: Documents, known_kinds: KnownKinds) -> Self {
        Self {
            installed: BTreeMap::new(),
            by_prefix: BTreeMap::new(),
            routes: HashMap::new(),
            proxied: ProxiedVersions::default(),
            documents,
            known_kinds: Arc::new(known_kinds),
        }
    }

    /// The group and version, if another server answers for it. It comes before what is served here.
    pub fn proxied(&self, group: &str, version: &str) -> Option<&ProxiedVersion> {
        self.proxied.find(group, version)
    }

    /// A resource in a version.
    pub fn resource(&self, group: &str, version: &str, plural: &str) -> Option<ServedResource<'_>> {
        let entries = self.routes.get(plural)?;
        let entry = entries
            .iter()
            .find(|entry| *entry.group_version.group == *group && *entry.group_version.version == *version)?;
        Some(ServedResource {
            definition: &entry.installed.definition,
            version: entry.version,
            backend: &entry.installed.backend,
        })
    }

    /// The registry of a stored resource in a version, for the server's own use.
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<Route> {
        let (backend, version) = match self.resource(group, version, plural) {
            Some(served) => (served.backend, served.version),
            None => self.unserved(group, version, plural)?,
        };
        match backend {
            Backend::Stored(registry) => Some(Route {
                registry: registry.clone(),
                version,
            }),
            Backend::Virtual(_) => None,
        }
    }

    /// A built-in resource in a version that clients are not served: the server itself goes on using it.
    fn unserved(&self, group: &str, version: &str, plural: &str) -> Option<(&Backend, usize)> {
        let mut installed = self.installed.values();
        let one = installed.find(|one| {
            let resource = &one.definition.resource;
            !one.definition.is_custom && *resource.group == *group && *resource.resource == *plural
        })?;
        let mut versions = one.definition.versions.iter();
        let version = versions.position(|known| *known.group_version.version == *version)?;
        Some((&one.backend, version))
    }

    /// The definitions of all resources, by group and plural.
    pub fn definitions(&self) -> impl Iterator<Item = &Arc<ResourceDefinition>> {
        self.installed.values().map(|installed| &installed.definition)
    }

    /// Reports whether anything of a group is served that is no custom resource.
    pub fn serves_built_in(&self, group: &str) -> bool {
        let is_served = |version: &ServedVersion| version.is_served && *version.group_version.group == *group;
        let mut definitions = self.definitions().filter(|one| !one.is_custom);
        definitions.any(|one| one.versions.iter().any(is_served))
    }

    /// All registries, in the order of their storage prefixes.
    pub fn registries(&self) -> impl Iterator<Item = &RegistryHandle> {
        self.by_prefix.values().filter_map(|installed| installed.registry())
    }

    /// The registry of what is stored under this prefix (`ResourceDefinition::storage_prefix`).
    pub fn stored_under(&self, prefix: &str) -> Option<&RegistryHandle> {
        self.by_prefix.get(prefix)?.registry()
    }

    /// The registry of a kind in a version that is served.
    pub fn of_kind(&self, version: &GroupVersion, kind: &str) -> Option<&RegistryHandle> {
        self.registries().find(|registry| {
            let definition = registry.info();
            let mut versions = definition.versions.iter();
            *definition.kind == *kind && versions.any(|served| served.group_version == *version)
        })
    }

    /// Discovery and OpenAPI.
    pub fn documents(&self) -> &Documents {
        &self.documents
    }

    /// The kinds that clients may name.
    pub fn known_kinds(&self) -> &Arc<KnownKinds> {
        &self.known_kinds
    }

    pub(super) fn installed(&self, resource: &GroupResource) -> Option<&Arc<Installed>> {
        self.installed.get(resource)
    }

    pub(super) fn is_stored_under(&self, prefix: &str) -> bool {
        self.by_prefix.contains_key(prefix)
    }

    /// The surface with these resources as well, in place of those of the same names.
    pub(super) fn with(&self, changed: &[Arc<Installed>]) -> Self {
        let mut installed = self.installed.clone();
        let entries = changed.iter().map(|one| (one.definition.resource.clone(), one.clone()));
        installed.extend(entries);
        self.changed_to(installed, self.proxied.clone())
    }

    /// The surface without a resource.
    pub(super) fn without(&self, resource: &GroupResource) -> Self {
        let mut installed = self.installed.clone();
        installed.remove(resource);
        self.changed_to(installed, self.proxied.clone())
    }

    /// The surface with other servers for these groups and versions alone.
    pub(super) fn proxying(&self, versions: Vec<ProxiedVersion>) -> Self {
        self.changed_to(self.installed.clone(), ProxiedVersions::of(versions))
    }

    fn changed_to(&self, installed: BTreeMap<GroupResource, Arc<Installed>>, proxied: ProxiedVersions) -> Self {
        let definitions: Vec<_> = installed.values().map(|one| one.definition.clone()).collect();
        let known_kinds = self.known_kinds.changed_to(&definitions);
        let stored = installed.values().filter(|one| one.registry().is_some());
        Self {
            by_prefix: stored
                .map(|one| (one.definition.storage_prefix.clone(), one.clone()))
                .collect(),
            routes: routes(&installed),
            documents: self.documents.changed_to(definitions, proxied.clone()),
            proxied,
            known_kinds: Arc::new(known_kinds),
            installed,
        }
    }
}

impl Default for ApiSurface {
    fn default() -> Self {
        let documents = Documents::new(Vec::new(), Arc::new(NoSchemas));
        Self::empty(documents, KnownKinds::default())
    }
}

fn routes(installed: &BTreeMap<GroupResource, Arc<Installed>>) -> HashMap<Arc<str>, Vec<RouteEntry>> {
    let mut routes: HashMap<Arc<str>, Vec<RouteEntry>> = HashMap::new();
    for one in installed.values() {
        let definition = &one.definition;
        let of_plural = routes.entry(definition.resource.resource.clone()).or_default();
        let served = |(_, version): &(usize, &ServedVersion)| version.is_served;
        for (version, served) in definition.versions.iter().enumerate().filter(served) {
            of_plural.push(RouteEntry {
                group_version: served.group_version.clone(),
                installed: one.clone(),
                version,
            });
        }
    }
    routes
}
