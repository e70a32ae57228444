//! The documents of what is served: discovery and OpenAPI, rendered from definitions.
//!
//! The director makes [`Documents`] anew whenever resources come, change or go. Nothing is rendered before a client asks;
//! a group version whose resources are the same as before keeps what has been rendered of it. The order in which the
//! definitions are given does not matter. Negotiation and caching headers are the edge's.

mod discovery;
mod document;
mod openapi;

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, OnceLock},
};

use trireme_machinery::{GroupVersion, version_rank};

pub use discovery::{api_versions, storage_version_hash};
pub use document::Document;

use crate::{
    definition::{ResourceDefinition, ServedVersion},
    openapi_fragment::SchemaSource,
    proxied::ProxiedVersions,
};

/// The documents of a set of resources.
pub struct Documents {
    versions: BTreeMap<GroupVersion, Arc<VersionEntry>>,
    /// The versions that other servers answer for, also in place of `versions`.
    proxied: ProxiedVersions,
    /// In the order of discovery.
    groups: Vec<GroupEntry>,
    discovery: discovery::RenderedDiscovery,
    openapi: openapi::RenderedOpenApi,
}

/// The resources of a group version, in the order of their plurals, with what has been rendered of them.
struct VersionEntry {
    resources: Vec<VersionedResource>,
    resource_list: OnceLock<Document>,
    /// The entry of the group version in an aggregated document.
    aggregated: OnceLock<String>,
}

/// A resource in one of its versions.
struct VersionedResource {
    definition: Arc<ResourceDefinition>,
    /// An index into `definition.versions`.
    version: usize,
}

/// A group with its versions in the order of preference.
struct GroupEntry {
    name: Arc<str>,
    versions: Vec<GroupVersion>,
    document: OnceLock<Document>,
}

impl VersionedResource {
    fn version(&self) -> &ServedVersion {
        self.definition
            .versions
            .get(self.version)
            .unwrap_or_else(|| self.definition.stored())
    }
}

impl Documents {
    /// The documents of these resources. Schemas that their own fragments lack come from `schemas`.
    pub fn new(definitions: Vec<Arc<ResourceDefinition>>, schemas: Arc<dyn SchemaSource>) -> Self {
        let openapi = openapi::RenderedOpenApi::new(schemas);
        Self::build(definitions, &BTreeMap::new(), openapi, ProxiedVersions::default())
    }

    /// The documents after the resources, and what other servers answer for, have changed to these.
    pub(crate) fn changed_to(&self, definitions: Vec<Arc<ResourceDefinition>>, proxied: ProxiedVersions) -> Self {
        Self::build(definitions, &self.versions, self.openapi.after_change(), proxied)
    }

    fn build(
        definitions: Vec<Arc<ResourceDefinition>>,
        before: &BTreeMap<GroupVersion, Arc<VersionEntry>>,
        openapi: openapi::RenderedOpenApi,
        proxied: ProxiedVersions,
    ) -> Self {
        let mut resources: BTreeMap<GroupVersion, Vec<VersionedResource>> = BTreeMap::new();
        for definition in definitions.iter().filter(|definition| definition.is_listed) {
            let served = |(_, version): &(usize, &ServedVersion)| version.is_served;
            for (version, served) in definition.versions.iter().enumerate().filter(served) {
                let of_version = resources.entry(served.group_version.clone()).or_default();
                of_version.push(VersionedResource {
                    definition: definition.clone(),
                    version,
                });
            }
        }
        let versions: BTreeMap<GroupVersion, Arc<VersionEntry>> = resources
            .into_iter()
            .map(|(group_version, resources)| {
                let entry = VersionEntry::reused(before.get(&group_version), resources);
                (group_version, entry)
            })
            .collect();
        Self {
            groups: groups(&versions, &proxied),
            versions,
            proxied,
            discovery: discovery::RenderedDiscovery::default(),
            openapi,
        }
    }

    /// All group versions in order.
    pub fn group_versions(&self) -> impl Iterator<Item = &GroupVersion> {
        self.versions.keys()
    }

    /// The paths of groups and versions.
    pub fn paths(&self) -> BTreeSet<String> {
        let mut paths = BTreeSet::from(["/api".to_owned(), "/apis".to_owned()]);
        let proxied = self.proxied.iter().map(|proxied| &proxied.group_version);
        for GroupVersion { group, version } in self.versions.keys().chain(proxied) {
            if group.is_empty() {
                paths.insert(format!("/api/{version}"));
            } else {
                paths.insert(format!("/apis/{group}"));
                paths.insert(format!("/apis/{group}/{version}"));
            }
        }
        paths
    }

    fn version(&self, group: &str, version: &str) -> Option<&Arc<VersionEntry>> {
        self.versions.get(&GroupVersion::new(group, version))
    }
}

impl VersionEntry {
    /// The place of the version in its group.
    fn place(&self, version: &str) -> VersionPlace {
        let priorities = self
            .resources
            .iter()
            .map(|resource| match resource.definition.is_custom {
                true => CUSTOM_VERSION_PRIORITY,
                false => resource.version().priority,
            });
        (priorities.max().unwrap_or_default(), version_rank(version))
    }

    /// The entry of these resources: the one before if they are the same.
    fn reused(before: Option<&Arc<Self>>, mut resources: Vec<VersionedResource>) -> Arc<Self> {
        resources.sort_by(|a, b| a.definition.resource.resource.cmp(&b.definition.resource.resource));
        let is_same = |entry: &&Arc<Self>| {
            entry.resources.len() == resources.len()
                && entry.resources.iter().zip(&resources).all(|(before, now)| {
                    Arc::ptr_eq(&before.definition, &now.definition) && before.version == now.version
                })
        };
        match before.filter(is_same) {
            Some(entry) => entry.clone(),
            None => Arc::new(Self {
                resources,
                resource_list: OnceLock::new(),
                aggregated: OnceLock::new(),
            }),
        }
    }
}

/// The place of a version in its group: the greatest comes first.
type VersionPlace = (i32, i32);

/// A group: its priority, and its versions with their places.
type PlacedGroup<'a> = (i32, Vec<(VersionPlace, &'a GroupVersion)>);

/// All custom versions have this priority, so that their names decide.
const CUSTOM_VERSION_PRIORITY: i32 = 100;

fn groups(versions: &BTreeMap<GroupVersion, Arc<VersionEntry>>, proxied: &ProxiedVersions) -> Vec<GroupEntry> {
    let mut found: BTreeMap<&Arc<str>, PlacedGroup<'_>> = BTreeMap::new();
    for (group_version, entry) in versions {
        let GroupVersion { group, version } = group_version;
        if proxied.find(group, version).is_some() {
            continue;
        }
        let served = || entry.resources.iter().map(VersionedResource::version);
        let (priority, of_group) = found.entry(group).or_default();
        *priority = served().map(|version| version.group_priority).fold(*priority, i32::max);
        of_group.push((entry.place(version), group_version));
    }
    for proxied in proxied.iter() {
        let GroupVersion { group, version } = &proxied.group_version;
        let (priority, of_group) = found.entry(group).or_default();
        *priority = proxied.group_priority.max(*priority);
        let place = (proxied.version_priority, version_rank(version));
        of_group.push((place, &proxied.group_version));
    }
    let mut groups: Vec<_> = found.into_iter().collect();
    groups.sort_by_key(|(name, (priority, _))| (-priority, *name));
    groups
        .into_iter()
        .map(|(name, (_, mut versions))| {
            versions.sort_by_key(|(place, _)| Reverse(*place));
            GroupEntry {
                name: name.clone(),
                versions: versions.into_iter().map(|(_, version)| version.clone()).collect(),
                document: OnceLock::new(),
            }
        })
        .collect()
}
