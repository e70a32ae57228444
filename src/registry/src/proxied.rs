//! Groups and versions that other API servers answer for.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use imbl::OrdMap;
use serde_json::Value;
use trireme_machinery::GroupVersion;

/// A group and version of another API server: its route, and its part of the documents.
#[derive(Debug, Clone)]
pub struct ProxiedVersion {
    /// The group and version.
    pub group_version: GroupVersion,
    /// The name of the APIService, under which the server is found.
    pub service: Arc<str>,
    /// The place of the group in discovery: more comes first.
    pub group_priority: i32,
    /// The place of the version in its group.
    pub version_priority: i32,
    /// The `APIVersionDiscovery` of the version as JSON: its entry in aggregated discovery.
    pub discovery: Arc<str>,
    /// The OpenAPI documents of the server, if it has any.
    pub openapi: Arc<ProxiedOpenApi>,
}

/// The OpenAPI documents of another server.
#[derive(Debug, Default)]
pub struct ProxiedOpenApi {
    /// The hashes of the server's OpenAPI 3 documents by their paths below `/openapi/v3/`: of this version, and of all else that
    /// its index names.
    pub v3_hashes: BTreeMap<String, String>,
    /// The paths and definitions of OpenAPI 2 that are about the version, after their hash.
    pub v2: Option<(String, Value)>,
}

impl PartialEq for ProxiedVersion {
    /// Documents are compared by their addresses.
    fn eq(&self, other: &Self) -> bool {
        self.group_version == other.group_version
            && self.service == other.service
            && (self.group_priority, self.version_priority) == (other.group_priority, other.version_priority)
            && self.discovery == other.discovery
            && Arc::ptr_eq(&self.openapi, &other.openapi)
    }
}

/// All of them. Persistent: a clone costs nothing.
#[derive(Debug, Clone, Default)]
pub(crate) struct ProxiedVersions(OrdMap<GroupVersion, ProxiedVersion>);

impl ProxiedVersions {
    pub(crate) fn of(versions: Vec<ProxiedVersion>) -> Self {
        let entries = versions.into_iter();
        Self(
            entries
                .map(|version| (version.group_version.clone(), version))
                .collect(),
        )
    }

    pub(crate) fn find(&self, group: &str, version: &str) -> Option<&ProxiedVersion> {
        // Most servers proxy nothing, and every request asks.
        if self.0.is_empty() {
            return None;
        }
        self.0.get(&GroupVersion::new(group, version))
    }

    /// All in the order of groups and versions.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &ProxiedVersion> {
        self.0.values()
    }

    /// All in the order in which their OpenAPI 2 documents are merged (`openapi/aggregator/priority.go`): by the greatest
    /// priority of their group, then by the names of their APIServices.
    pub(crate) fn by_priority(&self) -> Vec<&ProxiedVersion> {
        let mut priorities: HashMap<&str, i32> = HashMap::new();
        for version in self.iter() {
            let priority = priorities.entry(&version.group_version.group).or_insert(i32::MIN);
            *priority = version.group_priority.max(*priority);
        }
        let mut versions: Vec<&ProxiedVersion> = self.iter().collect();
        versions.sort_by_key(|version| {
            let priority = priorities.get(&*version.group_version.group).copied();
            (Reverse(priority), &version.service)
        });
        versions
    }

    /// The server that has the OpenAPI 3 document at a path below `/openapi/v3/`: of its own version first, then one that names
    /// the path in its index.
    pub(crate) fn find_openapi(&self, path: &str) -> Option<&ProxiedVersion> {
        let of_version = path.strip_prefix("apis/").and_then(|version| version.split_once('/'));
        let own = of_version.and_then(|(group, version)| self.find(group, version));
        own.or_else(|| self.iter().find(|version| version.openapi.v3_hashes.contains_key(path)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(service: &str, group_priority: i32, paths: &[&str]) -> ProxiedVersion {
        let (version, group) = service.split_once('.').expect("a version and a group");
        let hashes = paths.iter().map(|path| ((*path).to_owned(), String::new()));
        ProxiedVersion {
            group_version: GroupVersion::new(group, version),
            service: service.into(),
            group_priority,
            version_priority: 1,
            discovery: "{}".into(),
            openapi: Arc::new(ProxiedOpenApi {
                v3_hashes: hashes.collect(),
                v2: None,
            }),
        }
    }

    #[test]
    fn documents_are_merged_by_the_priorities_of_groups_then_by_name() {
        let versions = [("v1.a", 100), ("v1.b", 200), ("v2.b", 50), ("v3.c", 200), ("v0.d", 200)];
        let versions = versions.map(|(service, priority)| version(service, priority, &[]));
        let versions = ProxiedVersions::of(versions.into());
        let order: Vec<&str> = versions.by_priority().iter().map(|version| &*version.service).collect();
        assert_eq!(order, ["v0.d", "v1.b", "v2.b", "v3.c", "v1.a"]);
    }

    #[test]
    fn a_document_is_asked_of_the_server_of_its_version_or_one_that_names_it() {
        let versions = [
            version("v1.a", 1, &["apis/a", "apis/b/v1", "apis/a/v2"]),
            version("v1.b", 1, &[]),
        ];
        let versions = ProxiedVersions::of(versions.into());
        let find = |path: &str| versions.find_openapi(path).map(|version| &*version.service);
        assert_eq!(find("apis/a"), Some("v1.a"));
        assert_eq!(find("apis/a/v2"), Some("v1.a"));
        assert_eq!(
            find("apis/b/v1"),
            Some("v1.b"),
            "its own server, whatever another one names"
        );
        assert_eq!(find("apis/b"), None);
    }
}
