//! What exists: every resource with its verbs and subresources, and the discovery documents.

use std::collections::{BTreeSet, HashMap};

use serde_json::Value;
use sha2::{Digest, Sha512};
use trireme_kinds::{
    data::{self, ResourceData},
    discovery,
};

/// A document and its ETag.
pub(crate) struct Tagged {
    pub(crate) value: Value,
    pub(crate) etag: String,
}

impl Tagged {
    fn new(value: Value) -> Self {
        let mut etag = String::from("\"");
        for byte in Sha512::digest(value.to_string()) {
            etag.push_str(&format!("{byte:02X}"));
        }
        etag.push('"');
        Self { value, etag }
    }
}

/// The resources, and the documents that tell of them.
pub(crate) struct Catalogue {
    resources: HashMap<(String, String), &'static ResourceData>,
    versions: BTreeSet<(String, String)>,
    lists: HashMap<(String, String), Value>,
    groups: HashMap<String, Value>,
    pub(crate) core: Tagged,
    pub(crate) group_list: Tagged,
    pub(crate) aggregated_core: Tagged,
    pub(crate) aggregated_groups: Tagged,
}

impl Catalogue {
    /// The built-in resources. Clients are told to reach the server at `address`.
    pub(crate) fn built_in(address: &str) -> Self {
        let all = data::resources();
        let key = |resource: &'static ResourceData| ((resource.group.clone(), resource.plural.clone()), resource);
        let versions: BTreeSet<(String, String)> = all
            .iter()
            .flat_map(|resource| {
                resource
                    .versions
                    .iter()
                    .map(|version| (resource.group.clone(), version.name.clone()))
            })
            .collect();
        let list = |(group, version): &(String, String)| {
            discovery::resource_list(all, group, version).map(|list| ((group.clone(), version.clone()), list))
        };
        let group = |(name, _): &(String, String)| discovery::group(all, name).map(|group| (name.clone(), group));
        Self {
            resources: all.iter().map(key).collect(),
            lists: versions.iter().filter_map(list).collect(),
            groups: versions.iter().filter_map(group).collect(),
            versions,
            core: Tagged::new(discovery::api_versions(address)),
            group_list: Tagged::new(discovery::group_list(all)),
            aggregated_core: Tagged::new(discovery::aggregated(all, true)),
            aggregated_groups: Tagged::new(discovery::aggregated(all, false)),
        }
    }

    /// A resource by group and plural.
    pub(crate) fn resource(&self, group: &str, plural: &str) -> Option<&'static ResourceData> {
        self.resources.get(&(group.to_owned(), plural.to_owned())).copied()
    }

    /// Whether anything is served in a group and version.
    pub(crate) fn serves(&self, group: &str, version: &str) -> bool {
        self.versions.contains(&(group.to_owned(), version.to_owned()))
    }

    /// The `APIGroup` of a group with a name.
    pub(crate) fn group(&self, name: &str) -> Option<&Value> {
        self.groups.get(name)
    }

    /// The `APIResourceList` of a group and version.
    pub(crate) fn resource_list(&self, group: &str, version: &str) -> Option<&Value> {
        self.lists.get(&(group.to_owned(), version.to_owned()))
    }

    /// All paths of groups and versions.
    pub(crate) fn paths(&self) -> BTreeSet<String> {
        let mut paths = BTreeSet::from(["/api".to_owned(), "/apis".to_owned()]);
        for (group, version) in &self.versions {
            if group.is_empty() {
                paths.insert(format!("/api/{version}"));
            } else {
                paths.insert(format!("/apis/{group}"));
                paths.insert(format!("/apis/{group}/{version}"));
            }
        }
        paths
    }
}
