//! The discovery documents, as pure functions of the resources that are served.
//!
//! Called by the director whenever resources come or go; negotiation, caching and ETags are the edge's. The documents
//! do not depend on the order in which the resources are given.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use trireme_machinery::Object;

use crate::data::{ResourceData, SubresourceData};

pub(crate) mod endpointslices;

/// A group with its versions in the order of preference.
struct Group<'r> {
    name: &'r str,
    priority: i32,
    versions: Vec<(&'r str, i32)>,
}

/// `/api`: the versions of the core group. `server_address` is the host and port that clients reach the server at.
pub fn api_versions(server_address: &str) -> Value {
    json!({
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": server_address}],
    })
}

/// `/apis`: all groups with a name.
pub fn group_list(resources: &[ResourceData]) -> Value {
    let groups: Vec<Value> = groups(resources)
        .iter()
        .filter(|group| !group.name.is_empty())
        .map(group_entry)
        .collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// `/apis/GROUP`: one group with a name; `None` if nothing is served in it.
pub fn group(resources: &[ResourceData], name: &str) -> Option<Value> {
    let groups = groups(resources);
    let group = groups.iter().find(|group| group.name == name && !name.is_empty())?;
    let mut entry = group_entry(group);
    entry["kind"] = json!("APIGroup");
    entry["apiVersion"] = json!("v1");
    Some(entry)
}

/// `/api/v1` and `/apis/GROUP/VERSION`: the resources of a version; `None` if nothing is served in it.
pub fn resource_list(resources: &[ResourceData], group: &str, version: &str) -> Option<Value> {
    let rows: Vec<Value> = of_version(resources, group, version)
        .into_iter()
        .flat_map(rows)
        .collect();
    if rows.is_empty() {
        return None;
    }
    let mut list = json!({"kind": "APIResourceList", "groupVersion": group_version(group, version), "resources": rows});
    // The core group's list has come without apiVersion from the beginning.
    if !group.is_empty() {
        list["apiVersion"] = json!("v1");
    }
    Some(list)
}

/// `/api` and `/apis` as an aggregated `APIGroupDiscoveryList` (apidiscovery.k8s.io/v2): the core group, or all others.
pub fn aggregated(resources: &[ResourceData], core: bool) -> Value {
    let groups = groups(resources);
    let items = groups.iter().filter(|group| group.name.is_empty() == core);
    let items: Vec<Value> = items.map(|group| aggregated_group(resources, group)).collect();
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items})
}

/// What `storageVersionHash` shows for a kind: clients compare it to learn that the stored version changed.
pub fn storage_version_hash(group: &str, version: &str, kind: &str) -> String {
    let digest = Sha256::digest(format!("{group}/{version}/{kind}"));
    STANDARD.encode(digest.first_chunk::<8>().expect("SHA-256 has 32 bytes"))
}

fn group_version(group: &str, version: &str) -> String {
    if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    }
}

fn groups(resources: &[ResourceData]) -> Vec<Group<'_>> {
    let mut groups = Vec::<Group<'_>>::new();
    for resource in resources {
        let at = groups
            .iter()
            .position(|group| group.name == resource.group)
            .unwrap_or_else(|| {
                groups.push(Group {
                    name: &resource.group,
                    priority: resource.group_priority,
                    versions: Vec::new(),
                });
                groups.len() - 1
            });
        let Some(group) = groups.get_mut(at) else { continue };
        group.priority = group.priority.max(resource.group_priority);
        for version in &resource.versions {
            if !group.versions.iter().any(|(name, _)| *name == version.name) {
                group.versions.push((&version.name, version.priority));
            }
        }
    }
    for group in &mut groups {
        group.versions.sort_by_key(|(_, priority)| -priority);
    }
    groups.sort_by(|a, b| b.priority.cmp(&a.priority).then_with(|| a.name.cmp(b.name)));
    groups
}

fn group_entry(group: &Group<'_>) -> Value {
    let versions: Vec<Value> = group
        .versions
        .iter()
        .map(|(version, _)| json!({"groupVersion": group_version(group.name, version), "version": version}))
        .collect();
    json!({"name": group.name, "preferredVersion": versions.first(), "versions": versions})
}

fn of_version<'r>(resources: &'r [ResourceData], group: &str, version: &str) -> Vec<&'r ResourceData> {
    let mut found: Vec<&ResourceData> = resources
        .iter()
        .filter(|resource| resource.group == group && resource.version(version).is_some())
        .collect();
    found.sort_by(|a, b| a.plural.cmp(&b.plural));
    found
}

/// A resource's row and those of its subresources.
fn rows(resource: &ResourceData) -> Vec<Value> {
    let mut row = json!({
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": resource.verbs,
    });
    add_names(&mut row, resource);
    if let Some(storage) = &resource.storage {
        row["storageVersionHash"] = storage_version_hash(&storage.group, &storage.version, &resource.kind).into();
    }
    let subresources = resource
        .subresources
        .iter()
        .map(|subresource| subresource_row(resource, subresource));
    std::iter::once(row).chain(subresources).collect()
}

fn add_names(row: &mut Value, resource: &ResourceData) {
    if !resource.short_names.is_empty() {
        row["shortNames"] = json!(resource.short_names);
    }
    if !resource.categories.is_empty() {
        row["categories"] = json!(resource.categories);
    }
}

fn subresource_row(resource: &ResourceData, subresource: &SubresourceData) -> Value {
    let mut row = json!({
        "name": format!("{}/{}", resource.plural, subresource.name),
        "singularName": "",
        "namespaced": resource.namespaced,
        "kind": subresource.kind,
        "verbs": subresource.verbs,
    });
    if let Some((group, version)) = &subresource.group_version {
        row["group"] = json!(group);
        row["version"] = json!(version);
    }
    row
}

fn aggregated_group(resources: &[ResourceData], group: &Group<'_>) -> Value {
    let versions: Vec<Value> = group
        .versions
        .iter()
        .map(|(version, _)| {
            let resources = of_version(resources, group.name, version).into_iter();
            json!({
                "version": version,
                "freshness": "Current",
                "resources": resources.map(aggregated_resource).collect::<Vec<_>>(),
            })
        })
        .collect();
    let mut metadata = Object::new();
    if !group.name.is_empty() {
        metadata.insert("name".to_owned(), group.name.into());
    }
    json!({"metadata": metadata, "versions": versions})
}

fn aggregated_resource(resource: &ResourceData) -> Value {
    let mut entry = json!({
        "resource": resource.plural,
        "responseKind": response_kind(&resource.kind, None),
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": resource.singular,
        "verbs": resource.verbs,
    });
    add_names(&mut entry, resource);
    if !resource.subresources.is_empty() {
        let subresources = resource.subresources.iter().map(|subresource| {
            json!({
                "subresource": subresource.name,
                "responseKind": response_kind(&subresource.kind, subresource.group_version.as_ref()),
                "verbs": subresource.verbs,
            })
        });
        entry["subresources"] = subresources.collect();
    }
    entry
}

/// An empty group and version stand for those of the enclosing entry.
fn response_kind(kind: &str, group_version: Option<&(String, String)>) -> Value {
    let (group, version) = group_version.map_or(("", ""), |(group, version)| (group, version));
    json!({"group": group, "version": version, "kind": kind})
}

#[cfg(test)]
mod tests;
