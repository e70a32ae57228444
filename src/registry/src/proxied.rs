//! Groups and versions that other API servers answer for.

use std::sync::Arc;

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

/// The OpenAPI documents of another server, as far as they are about one group and version.
#[derive(Debug, Default)]
pub struct ProxiedOpenApi {
    /// The hash of the OpenAPI 3 document; `None` if the server has none.
    pub v3_hash: Option<String>,
    /// The paths and definitions of OpenAPI 2, and the hash of the document that they are from.
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
}
