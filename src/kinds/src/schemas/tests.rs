use std::{collections::BTreeSet, sync::Arc};

use serde_json::{Value, json};
use trireme_machinery::{Feature, Features, GroupResource, GroupVersion};
use trireme_registry::{
    Documents, OpenApiFragment, ResourceDefinition, SchemaSource, ServedVersion, Verb,
    protobuf_fields::{fields, only},
};

use super::schemas;
use crate::{builtin, testing::settings};

/// Every built-in resource.
pub(super) fn definitions() -> Vec<Arc<ResourceDefinition>> {
    let (_dir, settings) = settings();
    let all = builtin::resources(&settings)
        .into_iter()
        .chain(builtin::virtual_resources(
            &trireme_schema::ApiSelection::default(),
            Features::default(),
        ));
    all.map(Arc::new).collect()
}

/// The documents of every built-in resource.
pub(super) fn documents() -> Documents {
    Documents::new(definitions(), schemas(Features::default()))
}

fn parsed(documents: &Documents, path: &str) -> Value {
    let document = documents
        .openapi_v3(path)
        .unwrap_or_else(|| panic!("no document {path}"));
    serde_json::from_slice(&document.body).expect("documents are JSON")
}

fn v2(documents: &Documents) -> Value {
    serde_json::from_slice(&documents.openapi_v2_json().body).expect("documents are JSON")
}

fn references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(entries) => {
            found.extend(entries.get("$ref").and_then(Value::as_str).map(str::to_owned));
            entries.values().for_each(|value| references(value, found));
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}

fn dangling(document: &Value) -> Vec<String> {
    let mut found = BTreeSet::new();
    references(document, &mut found);
    let resolves = |reference: &String| document.pointer(reference.trim_start_matches('#')).is_some();
    found.into_iter().filter(|reference| !resolves(reference)).collect()
}

#[test]
fn every_reference_leads_somewhere() {
    let documents = documents();
    let index: Value = serde_json::from_slice(&documents.openapi_index().body).expect("the index is JSON");
    assert_eq!(index["paths"].as_object().map(|paths| paths.len()), Some(47));
    for path in ["api/v1", "apis/apps/v1", "apis/apiextensions.k8s.io/v1", "version"] {
        assert_eq!(dangling(&parsed(&documents, path)), Vec::<String>::new(), "{path}");
    }
    assert_eq!(dangling(&v2(&documents)), Vec::<String>::new());
}

#[test]
fn every_kind_that_can_be_patched_shows_dry_run_and_field_validation() {
    let documents = documents();
    for resource in definitions()
        .iter()
        .filter(|resource| resource.verbs.contains(Verb::Patch))
    {
        for version in resource.versions.iter().filter(|version| version.is_served) {
            let GroupVersion { group, version } = &version.group_version;
            let path = if group.is_empty() {
                "api/v1".to_owned()
            } else {
                format!("apis/{group}/{version}")
            };
            let document = parsed(&documents, &path);
            let kind = json!({"group": &**group, "version": &**version, "kind": &*resource.kind});
            let paths = document["paths"].as_object().expect("paths are an object");
            let patch = paths.values().filter_map(|path| path.get("patch"));
            let patch = patch
                .filter(|patch| patch["x-kubernetes-group-version-kind"] == kind)
                .find(|patch| {
                    let names: Vec<&Value> = patch["parameters"]
                        .as_array()
                        .into_iter()
                        .flatten()
                        .map(|p| &p["name"])
                        .collect();
                    names.contains(&&json!("dryRun")) && names.contains(&&json!("fieldValidation"))
                });
            assert!(patch.is_some(), "{kind}");
        }
    }
}

#[test]
fn operations_have_ids_of_their_own() {
    let documents = documents();
    let document = v2(&documents);
    let paths = document["paths"].as_object().expect("paths are an object");
    let mut ids = BTreeSet::new();
    for (path, entry) in paths {
        for (method, operation) in entry
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(key, _)| *key != "parameters")
        {
            let id = operation["operationId"]
                .as_str()
                .unwrap_or_else(|| panic!("{method} {path} has no id"));
            assert!(ids.insert(id), "{id} is there twice");
        }
    }
    for id in [
        "listCoreV1NamespacedPod",
        "readAppsV1NamespacedDeploymentScale",
        "connectCoreV1PostNamespacedPodExec",
    ] {
        assert!(ids.contains(id), "{id} is missing");
    }
}

#[test]
fn fields_carry_what_patches_need() {
    let documents = documents();
    let document = parsed(&documents, "api/v1");
    let spec = &document["components"]["schemas"]["io.k8s.api.core.v1.PodSpec"];
    let containers = &spec["properties"]["containers"];
    assert_eq!(containers["x-kubernetes-patch-merge-key"], "name");
    assert_eq!(containers["x-kubernetes-list-type"], "map");
    assert_eq!(containers["x-kubernetes-list-map-keys"], json!(["name"]));
    let reference = json!({"$ref": "#/components/schemas/io.k8s.api.core.v1.Container"});
    assert_eq!(containers["items"], reference);
    let v2 = v2(&documents);
    let volumes = &v2["definitions"]["io.k8s.api.core.v1.PodSpec"]["properties"]["volumes"];
    assert_eq!(volumes["x-kubernetes-patch-strategy"], "merge,retainKeys");
    assert_eq!(
        volumes["items"],
        json!({"$ref": "#/definitions/io.k8s.api.core.v1.Volume"})
    );
}

#[test]
fn types_tell_their_kinds() {
    let document = parsed(&documents(), "apis/apps/v1");
    let schemas = &document["components"]["schemas"];
    let kinds = |name: &str| schemas[name]["x-kubernetes-group-version-kind"].clone();
    let deployment = json!([{"group": "apps", "version": "v1", "kind": "Deployment"}]);
    assert_eq!(kinds("io.k8s.api.apps.v1.Deployment"), deployment);
    assert_eq!(kinds("io.k8s.api.autoscaling.v1.Scale")[0]["kind"], "Scale");
    let options = kinds("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions");
    let of_core = json!({"group": "", "version": "v1", "kind": "DeleteOptions"});
    let of_apps = json!({"group": "apps", "version": "v1", "kind": "DeleteOptions"});
    assert_eq!(options, json!([of_core, of_apps]));
}

#[test]
fn the_index_names_the_hash_of_each_document() {
    let documents = documents();
    let index: Value = serde_json::from_slice(&documents.openapi_index().body).expect("the index is JSON");
    let document = documents.openapi_v3("apis/batch/v1").expect("batch is served");
    let url = format!("/openapi/v3/apis/batch/v1?hash={}", document.hash);
    assert_eq!(index["paths"]["apis/batch/v1"]["serverRelativeURL"], url);
    assert_eq!(
        document.hash,
        self::documents().openapi_v3("apis/batch/v1").expect("again").hash
    );
    assert!(documents.openapi_v3("apis/batch/v9").is_none());
}

/// The schemas of widgets, whose spec has one field.
struct Widgets {
    field: &'static str,
}

impl SchemaSource for Widgets {
    fn component(&self, name: &str) -> Option<Arc<Value>> {
        let field = self.field;
        Some(Arc::new(match name {
            "com.example.v1.Widget" => json!({"type": "object", "properties": {field: {"type": "string"}}}),
            "com.example.v1.WidgetList" => json!({"type": "object"}),
            _ => return None,
        }))
    }

    fn digest(&self) -> &str {
        self.field
    }
}

pub(super) fn widgets(field: &'static str) -> Arc<ResourceDefinition> {
    let config_maps = definitions()
        .into_iter()
        .find(|definition| &*definition.resource.resource == "configmaps")
        .expect("config maps are served");
    let version = GroupVersion::new("example.com", "v1");
    let type_id = config_maps.stored().type_id;
    Arc::new(ResourceDefinition {
        resource: GroupResource {
            group: "example.com".into(),
            resource: "widgets".into(),
        },
        kind: "Widget".into(),
        list_kind: "WidgetList".into(),
        versions: vec![ServedVersion::new(version, type_id, "com.example.v1.Widget")],
        openapi: OpenApiFragment::new(Arc::new(Widgets { field })),
        ..ResourceDefinition::clone(&config_maps)
    })
}

#[test]
fn custom_resources_get_documents_beside_the_built_in_ones() {
    let with = |field| {
        let all = definitions().into_iter().chain([widgets(field)]);
        Documents::new(all.collect(), schemas(Features::default()))
    };
    let (before, documents, changed) = (self::documents(), with("size"), with("colour"));
    let document = parsed(&documents, "apis/example.com/v1");
    assert!(document["paths"]["/apis/example.com/v1/namespaces/{namespace}/widgets/{name}"]["patch"].is_object());
    assert!(document["components"]["schemas"]["com.example.v1.Widget"]["properties"]["size"].is_object());
    assert_eq!(dangling(&document), Vec::<String>::new());
    assert_eq!(
        before.openapi_v3_hash("apis/apps/v1"),
        documents.openapi_v3_hash("apis/apps/v1")
    );
    assert_eq!(parsed(&before, "apis/apps/v1"), parsed(&documents, "apis/apps/v1"));
    let hash = |documents: &Documents| documents.openapi_v3_hash("apis/example.com/v1").map(str::to_owned);
    assert_ne!(hash(&documents), hash(&changed));
    assert_eq!(hash(&documents), hash(&with("size")));
    assert!(v2(&documents)["definitions"]["com.example.v1.Widget"].is_object());
}

#[test]
fn the_protobuf_form_holds_all_definitions_and_paths() {
    let documents = documents();
    let document = v2(&documents);
    let bytes = documents.openapi_v2_protobuf().body;
    let top = fields(&bytes);
    assert_eq!(only(&top, 1), b"2.0");
    let names = |tag: u64| -> BTreeSet<String> {
        let entries = fields(only(&top, tag)).into_iter().map(|(_, entry)| fields(entry));
        entries
            .map(|entry| String::from_utf8_lossy(only(&entry, 1)).into_owned())
            .collect()
    };
    let keys = |name: &str| -> BTreeSet<String> {
        document[name]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(key, _)| key.clone())
            .collect()
    };
    assert_eq!(names(9), keys("definitions"));
    assert_eq!(names(8), keys("paths"));
}

#[test]
fn fields_list_the_values_that_they_take() {
    let documents = documents();
    let core = parsed(&documents, "api/v1");
    let field = |pointer: &str| {
        core.pointer(&format!("/components/schemas/io.k8s.api.core.v1.{pointer}"))
            .cloned()
    };
    let policy = field("PodSpec/properties/restartPolicy").expect("pods have a restart policy");
    assert_eq!(policy["enum"], json!(["Always", "Never", "OnFailure"]));
    let description = policy["description"].as_str().expect("fields are described");
    assert!(description.ends_with("Possible enum values:\n - `\"Always\"`\n - `\"Never\"`\n - `\"OnFailure\"`"));
    let families = field("ServiceSpec/properties/ipFamilies/items/enum");
    assert_eq!(families, Some(json!(["", "IPv4", "IPv6"])));
    let states = field("PersistentVolumeClaimStatus/properties/allocatedResourceStatuses/additionalProperties/enum");
    assert_eq!(
        states.expect("a map's values are listed")[0],
        "ControllerResizeInProgress"
    );
    let v2 = v2(&documents);
    let kind = v2.pointer("/definitions/io.k8s.api.core.v1.ServiceSpec/properties/type/enum");
    assert_eq!(
        kind,
        Some(&json!(["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"]))
    );
}

#[test]
fn without_openapi_enums_no_values_are_listed() {
    let source = |features| {
        let source = schemas(features);
        let service = source.component("io.k8s.api.core.v1.ServiceSpec").expect("it is there");
        (service["properties"]["type"].clone(), source.digest().to_owned())
    };
    let (on, digest) = source(Features::default());
    assert!(
        on["enum"].is_array()
            && on["description"]
                .as_str()
                .is_some_and(|text| text.contains("enum values"))
    );
    let (off, other_digest) = source(Features::without(&[Feature::OpenApiEnums]));
    assert_eq!(off.get("enum"), None);
    assert_eq!(
        off["description"].as_str().map(|text| text.contains("enum values")),
        Some(false)
    );
    assert_ne!(
        digest, other_digest,
        "documents that are kept are not mistaken for each other"
    );
}

#[test]
fn every_listed_field_exists_and_its_values_are_in_order() {
    for (type_name, field, values) in trireme_schema::enums() {
        let full = trireme_schema::definitions()
            .keys()
            .find(|name| trireme_schema::short_name(name) == type_name);
        let full = full.unwrap_or_else(|| panic!("no type {type_name}"));
        let property = trireme_schema::definitions()[full].pointer(&format!("/properties/{field}"));
        let property = property.unwrap_or_else(|| panic!("no field {type_name}.{field}"));
        let members = property.get("items").or_else(|| property.get("additionalProperties"));
        let scalar = members.unwrap_or(property);
        assert_eq!(scalar["type"], "string", "{type_name}.{field}");
        assert!(values.is_sorted(), "{type_name}.{field}: {values:?}");
    }
}
