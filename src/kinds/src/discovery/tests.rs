use serde_json::{Value, json};

use super::{aggregated, api_versions, group, group_list, resource_list, storage_version_hash};
use crate::data::{ResourceData, StorageData, VersionData, resource, resources};

fn names<'v>(list: &'v Value, pointer: &str, name: &str) -> Vec<&'v str> {
    let items = list
        .pointer(pointer)
        .and_then(Value::as_array)
        .expect("there is a list");
    items.iter().filter_map(|item| item.pointer(name)?.as_str()).collect()
}

fn widgets() -> ResourceData {
    ResourceData {
        group: "example.com".to_owned(),
        group_priority: 1000,
        versions: vec![VersionData {
            name: "v1alpha1".to_owned(),
            priority: 100,
            type_name: "com.example.v1alpha1.Widget".to_owned(),
        }],
        plural: "widgets".to_owned(),
        singular: "widget".to_owned(),
        kind: "Widget".to_owned(),
        list_kind: "WidgetList".to_owned(),
        storage: Some(StorageData {
            prefix: "example.com/widgets".to_owned(),
            group: "example.com".to_owned(),
            version: "v1alpha1".to_owned(),
        }),
        subresources: Vec::new(),
        ..resource("", "configmaps").expect("config maps are served").clone()
    }
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
    let list = group_list(resources());
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
    let mut reversed = resources().to_vec();
    reversed.reverse();
    assert_eq!(group_list(&reversed), group_list(resources()));
    assert_eq!(aggregated(&reversed, false), aggregated(resources(), false));
    assert_eq!(resource_list(&reversed, "", "v1"), resource_list(resources(), "", "v1"));
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
    assert_eq!(group(resources(), "autoscaling"), Some(expected));
    assert_eq!(group(resources(), ""), None);
    assert_eq!(group(resources(), "nothing.example.com"), None);
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
    assert_eq!(resource_list(resources(), "policy", "v1"), Some(expected));
    assert_eq!(resource_list(resources(), "policy", "v1beta1"), None);
}

#[test]
fn both_versions_of_a_resource_tell_the_stored_one() {
    let hash = |version| {
        let list = resource_list(resources(), "autoscaling", version)?;
        Some(list.pointer("/resources/0/storageVersionHash")?.clone())
    };
    assert_eq!(hash("v1"), hash("v2"));
    let events = resource_list(resources(), "events.k8s.io", "v1").expect("events are served");
    assert_eq!(events["resources"][0]["storageVersionHash"], "r2yiGXH7wu8=");
}

#[test]
fn subresources_of_other_groups_say_so() {
    let core = resource_list(resources(), "", "v1").expect("core is served");
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
    let mut all = resources().to_vec();
    all.insert(0, widgets());
    assert_eq!(
        names(&group_list(&all), "/groups", "/name").last(),
        Some(&"example.com")
    );
    let discovery = aggregated(&all, false);
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
    let core = aggregated(resources(), true);
    assert_eq!(core.pointer("/items/0/metadata"), Some(&json!({})));
    assert_eq!(core["items"].as_array().map(Vec::len), Some(1));
    let versions = api_versions("10.0.0.1:6443");
    assert_eq!(
        versions.pointer("/serverAddressByClientCIDRs/0/serverAddress"),
        Some(&json!("10.0.0.1:6443"))
    );
}
