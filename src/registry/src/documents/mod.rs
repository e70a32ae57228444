//! The documents that tell clients what is served: discovery and OpenAPI, rendered from definitions.
//!
//! The director makes [`Documents`] anew whenever resources come, change or go. Nothing is rendered before a client asks;
//! a group version whose resources are the same as before keeps what has been rendered of it. The order in which the
//! definitions are given does not matter. Negotiation and caching headers are the edge's.

mod discovery;
mod document;
mod openapi;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, OnceLock},
};

use trireme_machinery::GroupVersion;

pub use discovery::{api_versions, storage_version_hash};
pub use document::Document;

use crate::{
    definition::{ResourceDefinition, ServedVersion},
    openapi_fragment::SchemaSource,
};

/// The documents of a set of resources.
pub struct Documents {
    versions: BTreeMap<GroupVersion, Arc<VersionEntry>>,
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
        Self::build(definitions, &BTreeMap::new(), openapi::RenderedOpenApi::new(schemas))
    }

    /// The documents after the resources have changed to these.
    pub(crate) fn changed_to(&self, definitions: Vec<Arc<ResourceDefinition>>) -> Self {
        Self::build(definitions, &self.versions, self.openapi.after_change())
    }

    fn build(
        definitions: Vec<Arc<ResourceDefinition>>,
        before: &BTreeMap<GroupVersion, Arc<VersionEntry>>,
        openapi: openapi::RenderedOpenApi,
    ) -> Self {
        let mut resources: BTreeMap<GroupVersion, Vec<VersionedResource>> = BTreeMap::new();
        for definition in &definitions {
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
            groups: groups(&versions),
            versions,
            discovery: discovery::RenderedDiscovery::default(),
            openapi,
        }
    }

    /// Reports whether any resource is served in the group and version.
    pub fn serves(&self, group: &str, version: &str) -> bool {
        self.version(group, version).is_some()
    }

    /// All group versions in order.
    pub fn group_versions(&self) -> impl Iterator<Item = &GroupVersion> {
        self.versions.keys()
    }

    /// The paths of groups and versions.
    pub fn paths(&self) -> BTreeSet<String> {
        let mut paths = BTreeSet::from(["/api".to_owned(), "/apis".to_owned()]);
        for GroupVersion { group, version } in self.versions.keys() {
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

/// The versions of a group, each with its priority.
type PrioritizedVersions<'a> = Vec<(i32, &'a GroupVersion)>;

fn groups(versions: &BTreeMap<GroupVersion, Arc<VersionEntry>>) -> Vec<GroupEntry> {
    let mut found: BTreeMap<&Arc<str>, (i32, PrioritizedVersions<'_>)> = BTreeMap::new();
    for (group_version, entry) in versions {
        let served = || entry.resources.iter().map(VersionedResource::version);
        let (priority, of_group) = found.entry(&group_version.group).or_default();
        *priority = served().map(|version| version.group_priority).fold(*priority, i32::max);
        let version_priority = served().map(|version| version.priority).max().unwrap_or_default();
        of_group.push((version_priority, group_version));
    }
    let mut groups: Vec<_> = found.into_iter().collect();
    groups.sort_by_key(|(name, (priority, _))| (-priority, *name));
    groups
        .into_iter()
        .map(|(name, (_, mut versions))| {
            versions.sort_by_key(|(priority, _)| -priority);
            GroupEntry {
                name: name.clone(),
                versions: versions.into_iter().map(|(_, version)| version.clone()).collect(),
                document: OnceLock::new(),
            }
        })
        .collect()
}
