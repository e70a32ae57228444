use serde_json::{Value, json};
use trireme_machinery::Features;
use trireme_registry::documents::{Document, Documents, api_versions, storage_version_hash};

use super::{
    schemas,
    tests::{definitions, documents, widgets},
};

fn value(document: &Document) -> Value {
    serde_json::from_slice(&document.body).expect("documents are JSON")
}

fn resource_list(group: &str, version: &str) -> Option<Value> {
    documents().resource_list(group, version).map(value)
}

fn names<'v>(list: &'v Value, pointer: &str, name: &str) -> Vec<&'v str> {
    let items = list
        .pointer(pointer)
        .and_then(Value::as_array)
        .expect("there is a list");
    items.iter().filter_map(|item| item.pointer(name)?.as_str()).collect()
}

#[test]
fn hashes_are_those_of_other_servers() {
    assert_eq!(storage_version_hash("", "v1", "Pod"), "xPOwRZ+Yhw8=");
    assert_eq!(
        storage_version_hash("autoscaling", "v2", "HorizontalPodAutoscaler"),
        "qwQve8ut294="
    );
}

#[test]
fn groups_stand_in_order_of_priority_and_name() {
    let list = value(documents().group_list());
    let groups = names(&list, "/groups", "/name");
    assert_eq!(
        groups.first_chunk(),
        Some(&["apiregistration.k8s.io", "apps", "events.k8s.io"])
    );
    let at = |name| groups.iter().position(|group| *group == name);
    assert!(at("admissionregistration.k8s.io") < at("apiextensions.k8s.io"));
    assert_eq!(groups.len(), 20);
}

#[test]
fn order_of_the_resources_does_not_matter() {
    let mut reversed = definitions();
    reversed.reverse();
    let (reversed, documents) = (Documents::new(reversed, schemas(Features::default())), documents());
    assert_eq!(reversed.group_list(), documents.group_list());
    assert_eq!(reversed.aggregated_groups(), documents.aggregated_groups());
    assert_eq!(reversed.resource_list("", "v1"), documents.resource_list("", "v1"));
    assert_eq!(reversed.openapi_index(), documents.openapi_index());
}

#[test]
fn a_group_lists_its_versions_preferred_first() {
    let expected = json!({
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": "autoscaling",
        "preferredVersion": {"groupVersion": "autoscaling/v2", "version": "v2"},
        "versions": [
            {"groupVersion": "autoscaling/v2", "version": "v2"},
            {"groupVersion": "autoscaling/v1", "version": "v1"},
        ],
    });
    assert_eq!(documents().group("autoscaling").map(value), Some(expected));
    assert_eq!(documents().group(""), None);
    assert_eq!(documents().group("nothing.example.com"), None);
}

#[test]
fn a_version_lists_resources_and_subresources() {
    let verbs = [
        "create",
        "delete",
        "deletecollection",
        "get",
        "list",
        "patch",
        "update",
        "watch",
    ];
    let expected = json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": "policy/v1",
        "resources": [
            {
                "name": "poddisruptionbudgets",
                "singularName": "poddisruptionbudget",
                "namespaced": true,
                "kind": "PodDisruptionBudget",
                "verbs": verbs,
                "shortNames": ["pdb"],
                "storageVersionHash": "EVWiDmWqyJw=",
            },
            {
                "name": "poddisruptionbudgets/status",
                "singularName": "",
                "namespaced": true,
                "kind": "PodDisruptionBudget",
                "verbs": ["get", "patch", "update"],
            },
        ],
    });
    assert_eq!(resource_list("policy", "v1"), Some(expected));
    assert_eq!(resource_list("policy", "v1beta1"), None);
}

#[test]
fn both_versions_of_a_resource_tell_the_stored_one() {
    let hash = |version| {
        let list = resource_list("autoscaling", version)?;
        Some(list.pointer("/resources/0/storageVersionHash")?.clone())
    };
    assert_eq!(hash("v1"), hash("v2"));
    let events = resource_list("events.k8s.io", "v1").expect("events are served");
    assert_eq!(events["resources"][0]["storageVersionHash"], "r2yiGXH7wu8=");
}

#[test]
fn subresources_of_other_groups_say_so() {
    let core = resource_list("", "v1").expect("core is served");
    assert_eq!(core.get("apiVersion"), None);
    let rows = core["resources"].as_array().expect("resources are a list");
    let eviction = rows
        .iter()
        .find(|row| row["name"] == "pods/eviction")
        .expect("pods can be evicted");
    assert_eq!(
        (&eviction["group"], &eviction["version"]),
        (&json!("policy"), &json!("v1"))
    );
}

#[test]
fn custom_resources_come_after_the_built_in_ones() {
    let mut all = definitions();
    all.insert(0, widgets("size"));
    let documents = Documents::new(all, schemas(Features::default()));
    let list = value(documents.group_list());
    assert_eq!(names(&list, "/groups", "/name").last(), Some(&"example.com"));
    let discovery = value(documents.aggregated_groups());
    assert_eq!(
        names(&discovery, "/items", "/metadata/name").last(),
        Some(&"example.com")
    );
    let entry = discovery
        .pointer("/items/20/versions/0/resources/0")
        .expect("widgets are shown");
    assert_eq!(
        entry["responseKind"],
        json!({"group": "", "version": "", "kind": "Widget"})
    );
    assert_eq!(entry["scope"], "Namespaced");
}

#[test]
fn the_core_group_has_a_document_of_its_own() {
    let core = value(documents().aggregated_core());
    assert_eq!(core.pointer("/items/0/metadata"), Some(&json!({})));
    assert_eq!(core["items"].as_array().map(Vec::len), Some(1));
    let versions = value(&api_versions("10.0.0.1:6443"));
    assert_eq!(
        versions.pointer("/serverAddressByClientCIDRs/0/serverAddress"),
        Some(&json!("10.0.0.1:6443"))
    );
}
