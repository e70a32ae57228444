//! The route table: which registry serves a group, version and plural.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use trireme_machinery::GroupVersion;

use super::handle::Installed;
use crate::registry::RegistryHandle;

/// Where a request for a resource goes.
#[derive(Clone)]
pub struct Route {
    /// The resource's registry.
    pub registry: RegistryHandle,
    /// The served version: an index into `ResourceInfo::versions`.
    pub version: usize,
}

/// All resources that are served. Immutable: a change makes a new table.
#[derive(Clone, Default)]
pub struct RouteTable {
    by_prefix: BTreeMap<Arc<str>, Arc<Installed>>,
    routes: HashMap<Arc<str>, Vec<Place>>,
}

#[derive(Clone)]
struct Place {
    group: Arc<str>,
    version: Arc<str>,
    prefix: Arc<str>,
    index: usize,
}

impl RouteTable {
    /// The registry of a resource in a version.
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<Route> {
        let places = self.routes.get(plural)?;
        let place = places
            .iter()
            .find(|place| &*place.group == group && &*place.version == version)?;
        let installed = self.by_prefix.get(&place.prefix)?;
        Some(Route {
            registry: installed.registry.clone(),
            version: place.index,
        })
    }

    /// All registries, in the order of their storage prefixes.
    pub fn registries(&self) -> impl Iterator<Item = &RegistryHandle> {
        self.by_prefix.values().map(|installed| &installed.registry)
    }

    /// The registry of what is stored under this prefix (`ResourceInfo::storage_prefix`).
    pub fn stored_under(&self, prefix: &str) -> Option<&RegistryHandle> {
        self.by_prefix.get(prefix).map(|installed| &installed.registry)
    }

    /// The registry of a kind in a version that is served.
    pub fn of_kind(&self, version: &GroupVersion, kind: &str) -> Option<&RegistryHandle> {
        self.registries().find(|registry| {
            let info = registry.info();
            *info.kind == *kind && info.versions.iter().any(|served| served.group_version == *version)
        })
    }

    pub(super) fn installed(&self, prefix: &str) -> Option<&Arc<Installed>> {
        self.by_prefix.get(prefix)
    }

    /// The table with these resources as well.
    pub(super) fn with(&self, installed: Vec<Arc<Installed>>) -> Self {
        let mut by_prefix = self.by_prefix.clone();
        by_prefix.extend(
            installed
                .into_iter()
                .map(|one| (one.registry.info().storage_prefix.clone(), one)),
        );
        Self::of(by_prefix)
    }

    /// The table without the resource with this storage prefix.
    pub(super) fn without(&self, prefix: &str) -> Self {
        let mut by_prefix = self.by_prefix.clone();
        by_prefix.remove(prefix);
        Self::of(by_prefix)
    }

    fn of(by_prefix: BTreeMap<Arc<str>, Arc<Installed>>) -> Self {
        let mut routes: HashMap<Arc<str>, Vec<Place>> = HashMap::new();
        for (prefix, installed) in &by_prefix {
            let info = installed.registry.info();
            for (index, version) in info.versions.iter().enumerate() {
                let place = Place {
                    group: version.group_version.group.clone(),
                    version: version.group_version.version.clone(),
                    prefix: prefix.clone(),
                    index,
                };
                routes.entry(info.resource.resource.clone()).or_default().push(place);
            }
        }
        Self { by_prefix, routes }
    }
}
