//! The discovery documents.

use std::sync::OnceLock;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use trireme_machinery::{GroupVersion, Object};

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
    Document::of(&json!({
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": server_address}],
    }))
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
            let groups: Vec<Value> = named.map(GroupEntry::value).collect();
            Document::of(&json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}))
        })
    }

    /// `/apis/GROUP`: one group with a name; `None` if nothing is served in it.
    pub fn group(&self, name: &str) -> Option<&Document> {
        let mut groups = self.groups.iter();
        let group = groups.find(|group| *group.name == *name && !name.is_empty())?;
        Some(group.document.get_or_init(|| {
            let mut value = group.value();
            value["kind"] = json!("APIGroup");
            value["apiVersion"] = json!("v1");
            Document::of(&value)
        }))
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
        let head = r#"{"apiVersion":"apidiscovery.k8s.io/v2","items":["#;
        let tail = r#"],"kind":"APIGroupDiscoveryList","metadata":{}}"#;
        Document::new(format!("{head}{}{tail}", items.join(",")).into_bytes())
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
        let mut metadata = Object::new();
        if !group.name.is_empty() {
            metadata.insert("name".to_owned(), (&*group.name).into());
        }
        let metadata = Value::Object(metadata);
        format!(r#"{{"metadata":{metadata},"versions":[{}]}}"#, versions.join(","))
    }
}

impl GroupEntry {
    fn value(&self) -> Value {
        let versions = self
            .versions
            .iter()
            .map(|version| json!({"groupVersion": version.to_string(), "version": &*version.version}));
        let versions: Vec<Value> = versions.collect();
        json!({"name": &*self.name, "preferredVersion": versions.first(), "versions": versions})
    }
}

fn resource_list(group_version: &GroupVersion, entry: &VersionEntry) -> Document {
    let rows: Vec<Value> = entry.resources.iter().flat_map(rows).collect();
    let mut list = json!({
        "kind": "APIResourceList",
        "groupVersion": group_version.to_string(),
        "resources": rows,
    });
    // The core group's list has come without apiVersion from the beginning.
    if !group_version.group.is_empty() {
        list["apiVersion"] = json!("v1");
    }
    Document::of(&list)
}

/// A resource's row and those of its subresources.
fn rows(resource: &VersionedResource) -> Vec<Value> {
    let definition = &*resource.definition;
    let mut row = json!({
        "name": &*definition.resource.resource,
        "singularName": &*definition.singular,
        "namespaced": definition.namespaced,
        "kind": &*definition.kind,
        "verbs": verbs(definition),
    });
    add_names(&mut row, definition);
    if !definition.storage_prefix.is_empty() {
        let GroupVersion { group, version } = &definition.stored().group_version;
        row["storageVersionHash"] = storage_version_hash(group, version, &definition.kind).into();
    }
    let subresources = definition.subresources_in(resource.version());
    std::iter::once(row)
        .chain(subresources.map(|subresource| subresource_row(definition, subresource)))
        .collect()
}

/// The verbs of a resource; kube-apiserver has an order of its own for those of custom resources.
fn verbs(definition: &ResourceDefinition) -> Vec<&'static str> {
    let mut names = definition.verbs.names();
    if definition.is_custom {
        let place = |name: &str| CUSTOM_VERBS.iter().position(|verb| *verb == name);
        names.sort_by_key(|name| place(name));
    }
    names
}

fn add_names(row: &mut Value, definition: &ResourceDefinition) {
    for (field, names) in [
        ("shortNames", &definition.short_names),
        ("categories", &definition.categories),
    ] {
        if !names.is_empty() {
            row[field] = names.iter().map(|name| Value::from(&**name)).collect();
        }
    }
}

fn subresource_row(definition: &ResourceDefinition, subresource: &SubresourceDefinition) -> Value {
    let mut row = json!({
        "name": format!("{}/{}", definition.resource.resource, subresource.name),
        "singularName": "",
        "namespaced": definition.namespaced,
        "kind": &*subresource.kind,
        "verbs": subresource.verbs.names(),
    });
    if let Some(GroupVersion { group, version }) = &subresource.group_version {
        row["group"] = json!(&**group);
        row["version"] = json!(&**version);
    }
    row
}

fn aggregated_version(group_version: &GroupVersion, entry: &VersionEntry) -> String {
    let resources: Vec<Value> = entry.resources.iter().map(aggregated_resource).collect();
    json!({"version": &*group_version.version, "freshness": "Current", "resources": resources}).to_string()
}

fn aggregated_resource(resource: &VersionedResource) -> Value {
    let definition = &*resource.definition;
    let mut entry = json!({
        "resource": &*definition.resource.resource,
        "responseKind": response_kind(&definition.kind, None),
        "scope": if definition.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": &*definition.singular,
        "verbs": verbs(definition),
    });
    add_names(&mut entry, definition);
    let mut subresources = definition.subresources_in(resource.version()).peekable();
    if subresources.peek().is_some() {
        let subresources = subresources.map(|subresource| {
            json!({
                "subresource": &*subresource.name,
                "responseKind": response_kind(&subresource.kind, subresource.group_version.as_ref()),
                "verbs": subresource.verbs.names(),
            })
        });
        entry["subresources"] = subresources.collect();
    }
    entry
}

/// An empty group and version stand for those of the enclosing entry.
fn response_kind(kind: &str, group_version: Option<&GroupVersion>) -> Value {
    let (group, version) = group_version.map_or(("", ""), |version| (&*version.group, &*version.version));
    json!({"group": group, "version": version, "kind": kind})
}
