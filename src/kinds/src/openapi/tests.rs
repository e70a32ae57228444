use std::collections::BTreeSet;

use serde_json::{Value, json};
use trireme_machinery::Object;

use super::{Document, Documents, builtin, index, v2_document, v2_protobuf, v3_document};
use crate::data::{self, ResourceData, VersionData, resource, resources};

fn v3(path: &str) -> Value {
    let document = builtin().v3(path).unwrap_or_else(|| panic!("no document {path}"));
    serde_json::from_slice(&document.body).expect("documents are JSON")
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
    assert_eq!(builtin().paths().count(), 47);
    for path in ["api/v1", "apis/apps/v1", "apis/apiextensions.k8s.io/v1", "version"] {
        assert_eq!(dangling(&v3(path)), Vec::<String>::new(), "{path}");
    }
    let v2 = v2_document(resources(), data::definitions());
    assert_eq!(dangling(&v2), Vec::<String>::new());
}

#[test]
fn every_kind_that_can_be_patched_shows_dry_run_and_field_validation() {
    for resource in resources().iter().filter(|resource| resource.has_verb("patch")) {
        for version in &resource.versions {
            let document = v3_document(resources(), data::definitions(), &resource.group, &version.name);
            let document = document.expect("the version is served");
            let kind = json!({"group": resource.group, "version": version.name, "kind": resource.kind});
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
    let document = v2_document(resources(), data::definitions());
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
    let document = v3("api/v1");
    let spec = &document["components"]["schemas"]["io.k8s.api.core.v1.PodSpec"];
    let containers = &spec["properties"]["containers"];
    assert_eq!(containers["x-kubernetes-patch-merge-key"], "name");
    assert_eq!(containers["x-kubernetes-list-type"], "map");
    assert_eq!(containers["x-kubernetes-list-map-keys"], json!(["name"]));
    let reference = json!([{"$ref": "#/components/schemas/io.k8s.api.core.v1.Container"}]);
    assert_eq!(containers["items"], json!({"allOf": reference, "default": {}}));
    let v2 = v2_document(resources(), data::definitions());
    let volumes = &v2["definitions"]["io.k8s.api.core.v1.PodSpec"]["properties"]["volumes"];
    assert_eq!(volumes["x-kubernetes-patch-strategy"], "merge,retainKeys");
    assert_eq!(
        volumes["items"],
        json!({"$ref": "#/definitions/io.k8s.api.core.v1.Volume"})
    );
}

#[test]
fn types_tell_their_kinds() {
    let document = v3("apis/apps/v1");
    let schemas = &document["components"]["schemas"];
    let kinds = |name: &str| schemas[name]["x-kubernetes-group-version-kind"].clone();
    let deployment = json!([{"group": "apps", "version": "v1", "kind": "Deployment"}]);
    assert_eq!(kinds("io.k8s.api.apps.v1.Deployment"), deployment);
    assert_eq!(kinds("io.k8s.api.autoscaling.v1.Scale")[0]["kind"], "Scale");
    let options = kinds("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions");
    assert_eq!(options.as_array().map(Vec::len), Some(22));
}

#[test]
fn the_index_names_the_hash_of_each_document() {
    let index = index([builtin()]);
    let document = builtin().v3("apis/batch/v1").expect("batch is served");
    let url = format!("/openapi/v3/apis/batch/v1?hash={}", document.hash);
    assert_eq!(index["paths"]["apis/batch/v1"]["serverRelativeURL"], url);
    assert_eq!(document.hash, Document::new(document.body.to_vec()).hash);
    assert!(builtin().v3("apis/batch/v9").is_none());
}

#[test]
fn custom_resources_get_documents_beside_the_built_in_ones() {
    let widgets = ResourceData {
        group: "example.com".to_owned(),
        versions: vec![VersionData {
            name: "v1".to_owned(),
            priority: 100,
            type_name: "com.example.v1.Widget".to_owned(),
        }],
        kind: "Widget".to_owned(),
        plural: "widgets".to_owned(),
        list_kind: "WidgetList".to_owned(),
        ..resource("", "configmaps").expect("config maps are served").clone()
    };
    let definitions: Object = [
        (
            "com.example.v1.Widget".to_owned(),
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
        ),
        ("com.example.v1.WidgetList".to_owned(), json!({"type": "object"})),
    ]
    .into_iter()
    .chain(data::definitions().clone())
    .collect();
    let own = Documents::new(vec![widgets], definitions);
    let joined = index([builtin(), &own]);
    assert!(joined["paths"]["apis/example.com/v1"].is_object() && joined["paths"]["api/v1"].is_object());
    let document = own.v3("apis/example.com/v1").expect("widgets are served");
    let document: Value = serde_json::from_slice(&document.body).expect("documents are JSON");
    assert!(document["paths"]["/apis/example.com/v1/namespaces/{namespace}/widgets/{name}"]["patch"].is_object());
    assert_eq!(dangling(&document), Vec::<String>::new());
}

/// The length-delimited fields of a protobuf message.
fn fields(mut bytes: &[u8]) -> Vec<(u64, &[u8])> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let number = varint(&mut bytes);
        if key & 7 == 0 {
            continue;
        }
        let length = usize::try_from(number).expect("lengths are small");
        let (value, rest) = bytes.split_at(length);
        found.push((key >> 3, value));
        bytes = rest;
    }
    found
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let (byte, rest) = bytes.split_first().expect("the message is whole");
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    value
}

fn only<'b>(fields: &[(u64, &'b [u8])], tag: u64) -> &'b [u8] {
    let mut found = fields.iter().filter(|(key, _)| *key == tag).map(|(_, value)| *value);
    let first = found.next().unwrap_or_else(|| panic!("no field {tag}"));
    assert!(found.next().is_none(), "field {tag} is there twice");
    first
}

#[test]
fn the_protobuf_form_holds_all_definitions_and_paths() {
    let document = v2_document(resources(), data::definitions());
    let bytes = v2_protobuf(&document);
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
fn the_protobuf_form_keeps_types_references_and_extensions() {
    let bytes = v2_protobuf(&json!({"definitions": {"A": {
        "type": "object",
        "properties": {"b": {"$ref": "#/definitions/B"}},
        "x-kubernetes-patch-merge-key": "name",
    }}}));
    let definition = fields(only(&fields(&bytes), 9))
        .first()
        .map(|(_, entry)| fields(entry))
        .expect("there is one");
    let schema = fields(only(&definition, 2));
    assert_eq!(only(&fields(only(&schema, 22)), 1), b"object");
    let extension = fields(only(&schema, 31));
    assert_eq!(only(&extension, 1), b"x-kubernetes-patch-merge-key");
    assert_eq!(only(&fields(only(&extension, 2)), 2), b"\"name\"\n");
    let property = fields(only(&fields(only(&schema, 25)), 1));
    assert_eq!(only(&fields(only(&property, 2)), 1), b"#/definitions/B");
}

#[test]
fn fields_list_the_values_that_they_take() {
    let core = v3("api/v1");
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
    let v2 = v2_document(resources(), data::definitions());
    let kind = v2.pointer("/definitions/io.k8s.api.core.v1.ServiceSpec/properties/type/enum");
    assert_eq!(
        kind,
        Some(&json!(["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"]))
    );
}

#[test]
fn every_listed_field_exists_and_its_values_are_in_order() {
    for (type_name, field, values) in data::enums() {
        let full = data::definitions()
            .keys()
            .find(|name| data::short_name(name) == type_name);
        let full = full.unwrap_or_else(|| panic!("no type {type_name}"));
        let property = data::definitions()[full].pointer(&format!("/properties/{field}"));
        let property = property.unwrap_or_else(|| panic!("no field {type_name}.{field}"));
        let members = property.get("items").or_else(|| property.get("additionalProperties"));
        let scalar = members.unwrap_or(property);
        assert_eq!(scalar["type"], "string", "{type_name}.{field}");
        assert!(values.is_sorted(), "{type_name}.{field}: {values:?}");
    }
}
