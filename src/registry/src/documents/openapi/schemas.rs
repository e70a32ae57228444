//! Component schemas as each OpenAPI version wants them.
//!
//! They come with bare names in `$ref`. OpenAPI 2 keeps a description beside a `$ref`; OpenAPI 3 wraps the reference
//! in `allOf`.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Value, json};
use trireme_machinery::{Object, scheme::Scheme};

use crate::documents::VersionedResource;

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

/// Names of definitions and what `x-kubernetes-group-version-kind` says of them.
pub(super) type Kinds = BTreeMap<String, Vec<Value>>;

/// The kinds of all served resources, and those of the API machinery.
pub(super) fn kinds(resources: &[&VersionedResource]) -> Kinds {
    let mut kinds = Kinds::new();
    for resource in resources {
        let (definition, version) = (&resource.definition, resource.version());
        let (group, name) = (&*version.group_version.group, &*version.group_version.version);
        kinds.insert(
            version.type_name.to_string(),
            vec![entry(group, name, &definition.kind)],
        );
        kinds.insert(
            definition.list_type_name(version),
            vec![entry(group, name, &definition.list_kind)],
        );
        for subresource in definition.subresources_in(version) {
            if let (Some(of), Some(type_name)) = (&subresource.group_version, &subresource.type_name) {
                let entry = entry(&of.group, &of.version, &subresource.kind);
                kinds.insert(type_name.to_string(), vec![entry]);
            }
        }
    }
    for kind in ["APIGroup", "APIGroupList", "APIResourceList", "APIVersions", "Status"] {
        kinds.insert(format!("{META}.{kind}"), vec![entry("", "v1", kind)]);
    }
    kinds
}

/// The kinds that every group version has, as the document of one of them lists them.
pub(super) fn of_group_version(group: &str, version: &str) -> Kinds {
    let core = ("", "v1");
    let own = Some((group, version)).filter(|own| *own != core);
    let entries = |kind: &str| {
        let group_versions = [core].into_iter().chain(own);
        group_versions
            .map(|(group, version)| entry(group, version, kind))
            .collect()
    };
    ["DeleteOptions", "WatchEvent"]
        .map(|kind| (format!("{META}.{kind}"), entries(kind)))
        .into()
}

/// The kinds that every group version has, as the documents of custom resources list them: those that clients in Go know,
/// whatever is served.
pub(super) fn of_client_scheme() -> Kinds {
    let all = Scheme::Clients.group_versions();
    let all = all.map(|(group, version)| entry(group, version, "DeleteOptions"));
    Kinds::from([(format!("{META}.DeleteOptions"), all.collect())])
}

fn entry(group: &str, version: &str, kind: &str) -> Value {
    json!({"group": group, "version": version, "kind": kind})
}

/// All components that can be reached from `roots`, by name.
pub(super) fn reachable(
    component: impl Fn(&str) -> Option<Arc<Value>>,
    roots: impl IntoIterator<Item = String>,
) -> BTreeMap<String, Arc<Value>> {
    let mut found = BTreeMap::new();
    let mut open: Vec<String> = roots.into_iter().collect();
    while let Some(name) = open.pop() {
        if found.contains_key(&name) {
            continue;
        }
        if let Some(schema) = component(&name) {
            references(&schema, &mut open);
            found.insert(name, schema);
        }
    }
    found
}

fn references(schema: &Value, found: &mut Vec<String>) {
    match schema {
        Value::Object(entries) => {
            if let Some(Value::String(name)) = entries.get("$ref") {
                found.push(name.clone());
            }
            for (name, value) in entries.iter().filter(|(name, _)| !is_data(name)) {
                match value.as_object().filter(|_| name == "properties") {
                    Some(properties) => properties.values().for_each(|schema| references(schema, found)),
                    None => references(value, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}

/// Reports whether a keyword of schemas has values of objects, in which a `$ref` is none.
fn is_data(keyword: &str) -> bool {
    matches!(keyword, "default" | "enum" | "example")
}

/// A component for OpenAPI 2.
pub(super) fn v2(name: &str, mut schema: Value, kinds: &Kinds) -> Value {
    qualify(&mut schema, "#/definitions/");
    add_kinds(&mut schema, name, kinds);
    schema
}

fn qualify(schema: &mut Value, root: &str) {
    match schema {
        Value::Object(entries) => {
            if let Some(Value::String(name)) = entries.get_mut("$ref") {
                name.insert_str(0, root);
            }
            for (name, value) in entries.iter_mut().filter(|(name, _)| !is_data(name)) {
                match value.as_object_mut().filter(|_| name == "properties") {
                    Some(properties) => properties.values_mut().for_each(|schema| qualify(schema, root)),
                    None => qualify(value, root),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| qualify(item, root)),
        _ => {}
    }
}

/// A component for OpenAPI 3.
pub(super) fn v3(name: &str, mut schema: Value, kinds: &Kinds) -> Value {
    match name {
        "io.k8s.apimachinery.pkg.api.resource.Quantity" => {
            replace_type(&mut schema, json!([{"type": "string"}, {"type": "number"}]));
        }
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString" => {
            replace_type(&mut schema, json!([{"type": "integer"}, {"type": "string"}]));
        }
        _ => wrap_references(&mut schema),
    }
    qualify(&mut schema, "#/components/schemas/");
    add_kinds(&mut schema, name, kinds);
    schema
}

fn replace_type(schema: &mut Value, alternatives: Value) {
    if let Some(entries) = schema.as_object_mut() {
        entries.remove("type");
        entries.insert("oneOf".to_owned(), alternatives);
    }
}

fn add_kinds(schema: &mut Value, name: &str, kinds: &Kinds) {
    if let Some(entries) = kinds.get(name) {
        schema["x-kubernetes-group-version-kind"] = json!(entries);
    }
}

/// Puts references into `allOf` that have a description or a default beside them. The fields of types that nothing here describes
/// have descriptions in kube-apiserver.
fn wrap_references(schema: &mut Value) {
    let Some(entries) = schema.as_object_mut() else {
        return;
    };
    if let Some(Value::Object(fields)) = entries.get_mut("properties") {
        let is_described = fields.values().any(|field| field.get("description").is_some());
        for field in fields.values_mut() {
            wrap_references(field);
            if let Some(field) = field.as_object_mut().filter(|_| !is_described) {
                wrap(field);
            }
        }
    }
    for name in ["items", "additionalProperties"] {
        entries.get_mut(name).into_iter().for_each(wrap_references);
    }
    if entries.len() > 1 {
        wrap(entries);
    }
}

/// Puts the reference of a schema, if there is one, into `allOf`.
fn wrap(schema: &mut Object) {
    if let Some(name) = schema.remove("$ref") {
        schema.insert("allOf".to_owned(), json!([{"$ref": name}]));
    }
}
