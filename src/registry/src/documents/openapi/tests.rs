//! The documents of custom resources, after `builder_test.go` and a recorded document of kube-apiserver.

use std::{collections::BTreeSet, sync::Arc};

use serde_json::{Value, json};
use trireme_machinery::GroupVersion;

use super::{
    operations::{tag, valid_id},
    schemas,
};
use crate::{
    definition::{ResourceDefinition, ServedVersion, SubresourceDefinition, SubresourceKind},
    documents::Documents,
    fixtures::{nodes, widgets},
    openapi_fragment::{NoSchemas, OpenApiFragment, SchemaSource},
    proxied::{ProxiedOpenApi, ProxiedVersion, ProxiedVersions},
    verb::Verb,
};

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";
const SCALE: &str = "io.k8s.api.autoscaling.v1.Scale";

/// Has every schema.
struct AnySchema;

impl SchemaSource for AnySchema {
    fn component(&self, _: &str) -> Option<Arc<Value>> {
        Some(Arc::new(json!({"type": "object"})))
    }

    fn digest(&self) -> &str {
        ""
    }
}

fn subresource(name: &str, kind: &str) -> SubresourceDefinition {
    SubresourceDefinition {
        name: name.into(),
        role: SubresourceKind::Update,
        verbs: [Verb::Get, Verb::Patch, Verb::Update].into_iter().collect(),
        kind: kind.into(),
        group_version: None,
        type_name: None,
        columns: None,
        has_tables: true,
        versions: None,
    }
}

fn custom(namespaced: bool) -> ResourceDefinition {
    let widgets = widgets();
    let version = ServedVersion::new(
        GroupVersion::new("example.com", "v1"),
        widgets.stored().type_id,
        "com.example.v1.Widget",
    );
    let scale = SubresourceDefinition {
        group_version: Some(GroupVersion::new("autoscaling", "v1")),
        type_name: Some(SCALE.into()),
        ..subresource("scale", "Scale")
    };
    ResourceDefinition {
        versions: vec![version],
        list_kind: "WidgetCollection".into(),
        namespaced,
        subresources: vec![scale, subresource("status", "Widget")],
        openapi: OpenApiFragment::new(Arc::new(AnySchema)),
        is_custom: true,
        ..widgets
    }
}

fn documents(definition: ResourceDefinition) -> Documents {
    Documents::new(vec![Arc::new(definition), Arc::new(nodes())], Arc::new(NoSchemas))
}

fn v3(definition: ResourceDefinition) -> Value {
    let document = documents(definition).openapi_v3("apis/example.com/v1");
    serde_json::from_slice(&document.expect("it is served").body).expect("it is JSON")
}

fn keys(value: &Value) -> Vec<&str> {
    value
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, _)| key.as_str())
        .collect()
}

#[test]
fn the_paths_are_those_of_the_resource_alone() {
    let root = "/apis/example.com/v1/widgets";
    assert_eq!(
        keys(&v3(custom(false))["paths"]),
        [
            root.to_owned(),
            format!("{root}/{{name}}"),
            format!("{root}/{{name}}/scale"),
            format!("{root}/{{name}}/status"),
        ]
    );
    let namespaced = "/apis/example.com/v1/namespaces/{namespace}/widgets";
    assert_eq!(
        keys(&v3(custom(true))["paths"]),
        [
            namespaced.to_owned(),
            format!("{namespaced}/{{name}}"),
            format!("{namespaced}/{{name}}/scale"),
            format!("{namespaced}/{{name}}/status"),
            root.to_owned(),
        ]
    );
}

/// One line for each operation.
fn operations(document: &Value) -> Vec<String> {
    let paths = document["paths"].as_object().into_iter().flatten();
    let operations = paths.flat_map(|(_, item)| item.as_object().into_iter().flatten());
    let named = operations.filter(|(method, _)| *method != "parameters");
    named
        .map(|(method, operation)| {
            let codes = keys(&operation["responses"]).join(" ");
            let text = |name: &str| operation[name].as_str().unwrap_or_default();
            let (id, description) = (text("operationId"), text("description"));
            format!("{method}: {id}: {description}: {codes}")
        })
        .collect()
}

#[test]
fn operations_are_described_as_by_kube_apiserver() {
    assert_eq!(
        operations(&v3(custom(true))),
        [
            "delete: deleteExampleComV1CollectionNamespacedWidget: delete collection of Widget: 200 401",
            "get: listExampleComV1NamespacedWidget: list objects of kind Widget: 200 401",
            "post: createExampleComV1NamespacedWidget: create a Widget: 200 201 202 401",
            "delete: deleteExampleComV1NamespacedWidget: delete a Widget: 200 202 401",
            "get: readExampleComV1NamespacedWidget: read the specified Widget: 200 401",
            "patch: patchExampleComV1NamespacedWidget: partially update the specified Widget: 200 401",
            "put: replaceExampleComV1NamespacedWidget: replace the specified Widget: 200 201 401",
            "get: readExampleComV1NamespacedWidgetScale: read scale of the specified Widget: 200 401",
            "patch: patchExampleComV1NamespacedWidgetScale: partially update scale of the specified Widget: 200 401",
            "put: replaceExampleComV1NamespacedWidgetScale: replace scale of the specified Widget: 200 201 401",
            "get: readExampleComV1NamespacedWidgetStatus: read status of the specified Widget: 200 401",
            "patch: patchExampleComV1NamespacedWidgetStatus: partially update status of the specified Widget: 200 401",
            "put: replaceExampleComV1NamespacedWidgetStatus: replace status of the specified Widget: 200 201 401",
            "get: listExampleComV1WidgetForAllNamespaces: list objects of kind Widget: 200 401",
        ]
    );
}

#[test]
fn all_operations_are_of_the_kind_of_the_resource() {
    let document = v3(custom(false));
    let kind = json!({"group": "example.com", "version": "v1", "kind": "Widget"});
    for (path, item) in document["paths"].as_object().into_iter().flatten() {
        for (method, operation) in item.as_object().into_iter().flatten() {
            if method != "parameters" {
                assert_eq!(operation["x-kubernetes-group-version-kind"], kind, "{method} {path}");
            }
        }
    }
    let scale = &document["paths"]["/apis/example.com/v1/widgets/{name}/scale"];
    let answer = &scale["get"]["responses"]["200"]["content"]["application/json"]["schema"];
    assert_eq!(answer["$ref"], format!("#/components/schemas/{SCALE}"));
}

#[test]
fn the_document_has_a_title_and_components_of_its_own() {
    let document = v3(custom(true));
    assert_eq!(
        document["info"],
        json!({"title": "Kubernetes CRD Swagger", "version": "v0.1.0"})
    );
    assert_eq!(keys(&document["components"]), ["schemas"]);
    let schemas = &document["components"]["schemas"];
    let meta = |name: &str| format!("{META}.{name}");
    assert_eq!(
        keys(schemas).into_iter().map(str::to_owned).collect::<BTreeSet<_>>(),
        BTreeSet::from([
            "com.example.v1.Widget".to_owned(),
            "com.example.v1.WidgetCollection".to_owned(),
            SCALE.to_owned(),
            meta("DeleteOptions"),
            meta("ObjectMeta"),
            meta("Patch"),
            meta("Status"),
        ])
    );
    let kinds = |name: &str| schemas[name]["x-kubernetes-group-version-kind"].clone();
    let list = json!([{"group": "example.com", "version": "v1", "kind": "WidgetCollection"}]);
    assert_eq!(kinds("com.example.v1.WidgetCollection"), list);
    let options = kinds(&meta("DeleteOptions"));
    assert_eq!(options.as_array().map(Vec::len), Some(53));
    assert_eq!(
        options[0],
        json!({"group": "", "version": "v1", "kind": "DeleteOptions"})
    );
    let last = json!({"group": "storagemigration.k8s.io", "version": "v1beta1", "kind": "DeleteOptions"});
    assert_eq!(options[52], last);
}

#[test]
fn a_group_of_custom_resources_has_no_document_and_no_paths() {
    let documents = documents(custom(true));
    assert_eq!(documents.openapi_v3_hash("apis/example.com"), None);
    assert!(documents.openapi_v3_hash("apis/example.com/v1").is_some());
    assert!(documents.openapi_v3_hash("api/v1").is_some());
    let v2: Value = serde_json::from_slice(&documents.openapi_v2_json().body).expect("it is JSON");
    let paths = keys(&v2["paths"]);
    assert!(paths.contains(&"/api/v1/"), "{paths:?}");
    assert!(paths.contains(&"/apis/example.com/v1/widgets"), "{paths:?}");
    let of_group = ["/apis/example.com/", "/apis/example.com/v1/"];
    assert!(!paths.iter().any(|path| of_group.contains(path)), "{paths:?}");
}

#[test]
fn ids_are_made_of_letters_and_digits() {
    for (text, id) in [
        ("rbac.authorization", "rbacAuthorization"),
        ("3scale.net", "ScaleNet"),
        ("v1-beta2", "v1Beta2"),
        ("a.-b", "aB"),
        ("my_kind", "my_kind"),
    ] {
        assert_eq!(valid_id(text), id);
    }
    assert_eq!(tag("networking.k8s.io", "v1"), "networking_v1");
    assert_eq!(tag("a.k8s.io.k8s.io", "v1-x"), "aK8sIo_v1X");
    assert_eq!(tag("", "v1"), "core_v1");
}

#[test]
fn references_within_data_are_none() {
    let schema = json!({"type": "object", "properties": {
        "default": {"$ref": "test.Other"},
        "given": {"type": "object", "default": {"$ref": "x"}, "enum": [{"$ref": "x"}], "example": {"$ref": "x"}},
    }});
    let component = |name: &str| match name {
        "test.Own" => Some(Arc::new(schema.clone())),
        other => Some(Arc::new(json!({"title": other}))),
    };
    let found = schemas::reachable(component, ["test.Own".to_owned()]);
    assert_eq!(found.keys().collect::<Vec<_>>(), ["test.Other", "test.Own"]);
    let shown = schemas::v2("test.Own", schema.clone(), &schemas::Kinds::new());
    let mut wanted = schema.clone();
    wanted["properties"]["default"] = json!({"$ref": "#/definitions/test.Other"});
    assert_eq!(shown, wanted);
}

/// A version of another server, whose index names these paths, and whose definition `com.Thing` has this type.
fn proxied(service: &str, group_priority: i32, paths: &[&str], of_type: &str) -> ProxiedVersion {
    let (version, group) = service.split_once('.').expect("a version and a group");
    let hashes = paths.iter().map(|path| ((*path).to_owned(), format!("of-{service}")));
    let v2 = json!({"paths": {}, "definitions": {"com.Thing": {"type": of_type}}});
    ProxiedVersion {
        group_version: GroupVersion::new(group, version),
        service: service.into(),
        group_priority,
        version_priority: 1,
        discovery: "{}".into(),
        openapi: Arc::new(ProxiedOpenApi {
            v3_hashes: hashes.collect(),
            v2: Some((of_type.to_owned(), v2)),
        }),
    }
}

#[test]
fn documents_of_other_servers_are_those_that_this_one_does_not_have() {
    let definitions = vec![Arc::new(custom(true)), Arc::new(nodes())];
    let versions = vec![
        proxied(
            "v1.a.com",
            100,
            &["apis/a.com", "apis/a.com/v1", "api/v1", "apis/b.com/v1"],
            "string",
        ),
        proxied("v1.b.com", 200, &["apis/b.com/v1"], "integer"),
        proxied("v1.example.com", 50, &[], "number"),
    ];
    let documents = documents(custom(true)).changed_to(definitions, ProxiedVersions::of(versions));
    let index: Value = serde_json::from_slice(&documents.openapi_index().body).expect("it is JSON");
    let url = |path: &str| index["paths"][path]["serverRelativeURL"].as_str().map(str::to_owned);
    let of = |path: &str, service: &str| Some(format!("/openapi/v3/{path}?hash=of-{service}"));
    assert_eq!(url("apis/a.com"), of("apis/a.com", "v1.a.com"));
    assert_eq!(url("apis/a.com/v1"), of("apis/a.com/v1", "v1.a.com"));
    assert_eq!(url("apis/b.com/v1"), of("apis/b.com/v1", "v1.b.com"), "its own server");
    assert_ne!(url("api/v1"), of("api/v1", "v1.a.com"), "that of this server");
    assert_eq!(url("apis/example.com/v1"), None, "another server answers, and has none");

    let server = |path: &str| documents.openapi_v3_server(path).map(|found| &*found.service);
    assert_eq!(server("apis/a.com"), Some("v1.a.com"));
    assert_eq!(server("apis/b.com/v1"), Some("v1.b.com"));
    assert_eq!(server("apis/example.com/v1"), Some("v1.example.com"));
    assert_eq!((server("api/v1"), server("apis/c.com")), (None, None));
    assert!(documents.openapi_v3("api/v1").is_some() && documents.openapi_v3("apis/a.com").is_none());

    let v2: Value = serde_json::from_slice(&documents.openapi_v2_json().body).expect("it is JSON");
    let types = ["com.Thing", "com.Thing_v2", "com.Thing_v3"].map(|name| v2["definitions"][name]["type"].clone());
    assert_eq!(
        types,
        ["integer", "string", "number"],
        "by the priorities of their groups"
    );
    assert!(!keys(&v2["paths"]).contains(&"/apis/a.com/"));
}
