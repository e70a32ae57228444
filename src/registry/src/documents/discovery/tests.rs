//! Discovery of custom resources, after `customresource_discovery_controller.go`.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::{
    definition::{ResourceDefinition, SubresourceDefinition, SubresourceKind},
    documents::{Document, Documents},
    fixtures::{configmaps, widgets},
    openapi_fragment::NoSchemas,
    strategy::Strategy,
    verb::{Verb, Verbs},
};

/// Can be read alone.
struct Shrinking;

impl Strategy for Shrinking {
    fn discovered_verbs(&self, _: Verbs) -> Verbs {
        [Verb::Watch, Verb::List, Verb::Delete].into_iter().collect()
    }
}

fn custom() -> ResourceDefinition {
    let status = SubresourceDefinition {
        name: "status".into(),
        role: SubresourceKind::Update,
        verbs: [Verb::Get, Verb::Patch, Verb::Update].into_iter().collect(),
        kind: "Widget".into(),
        group_version: None,
        type_name: None,
        columns: None,
        has_tables: true,
        versions: None,
    };
    ResourceDefinition {
        subresources: vec![status],
        is_custom: true,
        ..widgets()
    }
}

fn documents(definition: ResourceDefinition) -> Documents {
    Documents::new(vec![Arc::new(definition), Arc::new(configmaps())], Arc::new(NoSchemas))
}

fn read(document: &Document) -> Value {
    serde_json::from_slice(&document.body).expect("it is JSON")
}

fn row(definition: ResourceDefinition) -> Value {
    let documents = documents(definition);
    let list = documents.resource_list("example.com", "v1beta1").expect("it is served");
    read(list)["resources"][0].clone()
}

#[test]
fn custom_resources_name_their_group_and_version() {
    let documents = documents(custom());
    let kind = json!({"group": "example.com", "version": "v1", "kind": "Widget"});
    let resource = &read(documents.aggregated_groups())["items"][0]["versions"][0]["resources"][0];
    assert_eq!(resource["responseKind"], kind);
    assert_eq!(resource["subresources"][0]["responseKind"], kind);
    let core = &read(documents.aggregated_core())["items"][0]["versions"][0]["resources"][0];
    assert_eq!(
        core["responseKind"],
        json!({"group": "", "version": "", "kind": "ConfigMap"})
    );
}

#[test]
fn the_storage_version_of_a_custom_resource_is_told_while_it_is_served() {
    assert!(row(custom()).get("storageVersionHash").is_some());
    let mut definition = custom();
    if let Some(stored) = definition.versions.first_mut() {
        stored.is_served = false;
    }
    assert_eq!(row(definition).get("storageVersionHash"), None);
}

#[test]
fn discovery_shows_the_verbs_that_the_strategy_leaves() {
    let definition = ResourceDefinition {
        strategy: Arc::new(Shrinking),
        ..custom()
    };
    assert_eq!(row(definition)["verbs"], json!(["delete", "list", "watch"]));
}

#[test]
fn a_resource_that_is_not_listed_is_in_no_document() {
    let documents = documents(ResourceDefinition {
        is_listed: false,
        ..custom()
    });
    assert_eq!(read(documents.group_list())["groups"], json!([]));
    assert!(documents.group("example.com").is_none());
    assert!(documents.resource_list("example.com", "v1").is_none());
    assert_eq!(read(documents.aggregated_groups())["items"], json!([]));
    let paths = documents.paths();
    assert!(!paths.contains("/apis/example.com"), "{paths:?}");
}
