//! The discovery documents. Their fields have the order of kube-apiserver, since scripts search them as text: upstream's
//! tests of kubectl do.

mod forms;
#[cfg(test)]
mod tests;

use std::sync::{Arc, OnceLock};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use trireme_machinery::GroupVersion;

use self::forms::{
    ApiGroup, ApiGroupList, ApiResource, ApiResourceList, ApiVersions, GroupVersionForDiscovery, ResourceDiscovery,
    ResponseKind, ServerAddress, SubresourceDiscovery, VersionDiscovery,
};
use super::{Document, Documents, GroupEntry, VersionEntry, VersionedResource};
use crate::definition::{ResourceDefinition, SubresourceDefinition};

const CUSTOM_VERBS: [&str; 8] = [
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "create",
    "update",
    "watch",
];

/// The documents of all groups that have been rendered.
#[derive(Default)]
pub(super) struct RenderedDiscovery {
    group_list: OnceLock<Document>,
    aggregated_core: OnceLock<Document>,
    aggregated_groups: OnceLock<Document>,
}

/// `/api`: the versions of the core group. `server_address` is the host and port that clients reach the server at.
pub fn api_versions(server_address: &str) -> Document {
    Document::of(&ApiVersions {
        kind: "APIVersions",
        versions: ["v1"],
        server_addresses: [ServerAddress {
            client_cidr: "0.0.0.0/0",
            server_address,
        }],
    })
}

/// The `storageVersionHash` of a kind: clients compare it to learn that the stored version changed.
pub fn storage_version_hash(group: &str, version: &str, kind: &str) -> String {
    let digest = Sha256::digest(format!("{group}/{version}/{kind}"));
    STANDARD.encode(digest.first_chunk::<8>().expect("SHA-256 has 32 bytes"))
}

impl Documents {
    /// `/apis`: all groups with a name.
    pub fn group_list(&self) -> &Document {
        self.discovery.group_list.get_or_init(|| {
            let named = self.groups.iter().filter(|group| !group.name.is_empty());
            Document::of(&ApiGroupList {
                kind: "APIGroupList",
                api_version: "v1",
                groups: named.map(|group| group.form(false)).collect(),
            })
        })
    }

    /// `/apis/GROUP`: one group with a name; `None` if nothing is served in it.
    pub fn group(&self, name: &str) -> Option<&Document> {
        let mut groups = self.groups.iter();
        let group = groups.find(|group| *group.name == *name && !name.is_empty())?;
        Some(group.document.get_or_init(|| Document::of(&group.form(true))))
    }

    /// `/api/v1` and `/apis/GROUP/VERSION`: the resources of a version; `None` if nothing is served in it.
    pub fn resource_list(&self, group: &str, version: &str) -> Option<&Document> {
        let entry = self.version(group, version)?;
        let group_version = GroupVersion::new(group, version);
        Some(entry.resource_list.get_or_init(|| resource_list(&group_version, entry)))
    }

    /// `/api` as an aggregated `APIGroupDiscoveryList` (apidiscovery.k8s.io/v2): the core group.
    pub fn aggregated_core(&self) -> &Document {
        self.discovery.aggregated_core.get_or_init(|| self.aggregated(true))
    }

    /// `/apis` as an aggregated `APIGroupDiscoveryList`: all groups with a name.
    pub fn aggregated_groups(&self) -> &Document {
        self.discovery.aggregated_groups.get_or_init(|| self.aggregated(false))
    }

    fn aggregated(&self, core: bool) -> Document {
        let groups = self.groups.iter().filter(|group| group.name.is_empty() == core);
        let items: Vec<String> = groups.map(|group| self.aggregated_group(group)).collect();
        let head = r#"{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","metadata":{},"items":["#;
        Document::new(format!("{head}{}]}}", items.join(",")).into_bytes())
    }

    /// Text of a group, put together from what the group versions keep of theirs.
    fn aggregated_group(&self, group: &GroupEntry) -> String {
        let versions = group.versions.iter().filter_map(|version| {
            if let Some(proxied) = self.proxied.find(&version.group, &version.version) {
                return Some(&*proxied.discovery);
            }
            let entry = self.versions.get(version)?;
            Some(
                entry
                    .aggregated
                    .get_or_init(|| aggregated_version(version, entry))
                    .as_str(),
            )
        });
        let versions: Vec<&str> = versions.collect();
        let metadata = match &*group.name {
            "" => "{}".to_owned(),
            name => format!(r#"{{"name":{}}}"#, text_of(&name)),
        };
        format!(r#"{{"metadata":{metadata},"versions":[{}]}}"#, versions.join(","))
    }
}

impl GroupEntry {
    /// The group, in a document of its own if it is `alone`.
    fn form(&self, alone: bool) -> ApiGroup<'_> {
        ApiGroup {
            kind: alone.then_some("APIGroup"),
            api_version: alone.then_some("v1"),
            name: &self.name,
            versions: self.versions.iter().map(version_form).collect(),
            preferred_version: self.versions.first().map(version_form),
        }
    }
}

fn version_form(group_version: &GroupVersion) -> GroupVersionForDiscovery<'_> {
    GroupVersionForDiscovery {
        group_version: group_version.to_string(),
        version: &group_version.version,
    }
}

fn resource_list(group_version: &GroupVersion, entry: &VersionEntry) -> Document {
    Document::of(&ApiResourceList {
        kind: "APIResourceList",
        // The core group's list has come without it from the beginning.
        api_version: (!group_version.group.is_empty()).then_some("v1"),
        group_version: group_version.to_string(),
        resources: entry.resources.iter().flat_map(rows).collect(),
    })
}

/// A resource's row and those of its subresources.
fn rows(resource: &VersionedResource) -> impl Iterator<Item = ApiResource<'_>> {
    let definition = &*resource.definition;
    let hash = || {
        let GroupVersion { group, version } = &definition.stored().group_version;
        storage_version_hash(group, version, &definition.kind)
    };
    let row = ApiResource {
        name: (*definition.resource.resource).to_owned(),
        singular_name: &definition.singular,
        namespaced: definition.namespaced,
        group: "",
        version: "",
        kind: &definition.kind,
        verbs: verbs(definition),
        short_names: texts(&definition.short_names),
        categories: texts(&definition.categories),
        storage_version_hash: has_storage_version_hash(definition).then(hash),
    };
    let subresources = definition.subresources_in(resource.version());
    std::iter::once(row).chain(subresources.map(|subresource| subresource_row(definition, subresource)))
}

/// Reports whether discovery shows a hash: of custom resources if their stored version is served.
fn has_storage_version_hash(definition: &ResourceDefinition) -> bool {
    let is_shown = !definition.is_custom || definition.stored().is_served;
    is_shown && !definition.storage_prefix.is_empty()
}

/// The verbs of a resource; kube-apiserver has an order of its own for those of custom resources.
fn verbs(definition: &ResourceDefinition) -> Vec<&'static str> {
    let mut names = definition.strategy.discovered_verbs(definition.verbs).names();
    if definition.is_custom {
        let place = |name: &str| CUSTOM_VERBS.iter().position(|verb| *verb == name);
        names.sort_by_key(|name| place(name));
    }
    names
}

fn subresource_row<'d>(definition: &'d ResourceDefinition, subresource: &'d SubresourceDefinition) -> ApiResource<'d> {
    let (group, version) = parts(subresource.group_version.as_ref());
    ApiResource {
        name: format!("{}/{}", definition.resource.resource, subresource.name),
        singular_name: "",
        namespaced: definition.namespaced,
        group,
        version,
        kind: &subresource.kind,
        verbs: subresource.verbs.names(),
        short_names: Vec::new(),
        categories: Vec::new(),
        storage_version_hash: None,
    }
}

fn aggregated_version(group_version: &GroupVersion, entry: &VersionEntry) -> String {
    text_of(&VersionDiscovery {
        version: &group_version.version,
        resources: entry.resources.iter().map(aggregated_resource).collect(),
        freshness: "Current",
    })
}

fn aggregated_resource(resource: &VersionedResource) -> ResourceDiscovery<'_> {
    let definition = &*resource.definition;
    let subresources = definition.subresources_in(resource.version());
    // Custom resources name their own group and version.
    let own = definition.is_custom.then_some(&resource.version().group_version);
    ResourceDiscovery {
        resource: &definition.resource.resource,
        response_kind: response_kind(&definition.kind, own),
        scope: if definition.namespaced { "Namespaced" } else { "Cluster" },
        singular_resource: &definition.singular,
        verbs: verbs(definition),
        short_names: texts(&definition.short_names),
        categories: texts(&definition.categories),
        subresources: subresources
            .map(|subresource| SubresourceDiscovery {
                subresource: &subresource.name,
                response_kind: response_kind(&subresource.kind, subresource.group_version.as_ref().or(own)),
                verbs: subresource.verbs.names(),
            })
            .collect(),
    }
}

/// An empty group and version stand for those of the enclosing entry.
fn response_kind<'k>(kind: &'k str, group_version: Option<&'k GroupVersion>) -> ResponseKind<'k> {
    let (group, version) = parts(group_version);
    ResponseKind { group, version, kind }
}

fn parts(group_version: Option<&GroupVersion>) -> (&str, &str) {
    group_version.map_or(("", ""), |version| (&*version.group, &*version.version))
}

fn texts(names: &[Arc<str>]) -> Vec<&str> {
    names.iter().map(|name| &**name).collect()
}

fn text_of(form: &impl Serialize) -> String {
    serde_json::to_string(form).expect("texts, lists and records are JSON")
}
