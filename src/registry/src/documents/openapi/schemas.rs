//! Component schemas as each OpenAPI version wants them.
//!
//! They come with bare names in `$ref`. OpenAPI 2 keeps a description beside a `$ref`; OpenAPI 3 wraps the reference
//! in `allOf`, and shows the zero values of fields that are always written as their defaults.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde_json::{Value, json};
use trireme_machinery::{
    Object,
    schema::{Presence, Shape, StringFormat, TypeTable},
};

use crate::documents::VersionedResource;

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

/// Names of definitions and what `x-kubernetes-group-version-kind` says of them.
pub(super) type Kinds = BTreeMap<String, Vec<Value>>;

/// The kinds of all served resources, and those of the API machinery.
pub(super) fn kinds(resources: &[&VersionedResource]) -> Kinds {
    let mut kinds = Kinds::new();
    let mut group_versions = BTreeSet::new();
    for resource in resources {
        let (definition, version) = (&resource.definition, resource.version());
        let (group, name) = (&*version.group_version.group, &*version.group_version.version);
        kinds.insert(
            version.type_name.to_string(),
            vec![entry(group, name, &definition.kind)],
        );
        kinds.insert(
            format!("{}List", version.type_name),
            vec![entry(group, name, &definition.list_kind)],
        );
        group_versions.insert((group, name));
        for subresource in &definition.subresources {
            if let (Some(of), Some(type_name)) = (&subresource.group_version, &subresource.type_name) {
                let entry = entry(&of.group, &of.version, &subresource.kind);
                kinds.insert(type_name.to_string(), vec![entry]);
            }
        }
    }
    for kind in ["DeleteOptions", "WatchEvent"] {
        let entries = group_versions
            .iter()
            .map(|(group, version)| entry(group, version, kind))
            .collect();
        kinds.insert(format!("{META}.{kind}"), entries);
    }
    for kind in ["APIGroup", "APIGroupList", "APIResourceList", "APIVersions", "Status"] {
        kinds.insert(format!("{META}.{kind}"), vec![entry("", "v1", kind)]);
    }
    kinds
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
            entries.values().for_each(|value| references(value, found));
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
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
            entries.values_mut().for_each(|value| qualify(value, root));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| qualify(item, root)),
        _ => {}
    }
}

/// A component for OpenAPI 3.
pub(super) fn v3(name: &str, mut schema: Value, kinds: &Kinds, types: &[Arc<TypeTable>]) -> Value {
    match name {
        "io.k8s.apimachinery.pkg.api.resource.Quantity" => {
            replace_type(&mut schema, json!([{"type": "string"}, {"type": "number"}]));
        }
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString" => {
            replace_type(&mut schema, json!([{"type": "integer"}, {"type": "string"}]));
        }
        _ => {
            add_zeroes(&mut schema, name, types);
            wrap_references(&mut schema);
        }
    }
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

/// Shows what Go writes for fields that were not given.
fn add_zeroes(schema: &mut Value, name: &str, types: &[Arc<TypeTable>]) {
    let of_name = types.iter().find_map(|table| Some(table.get(table.find(name)?)));
    let Some(definition) = of_name else {
        return;
    };
    let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) else {
        return;
    };
    for field in definition.fields.iter() {
        let Some(property) = properties.get_mut(&field.name).and_then(Value::as_object_mut) else {
            continue;
        };
        if let Shape::List { item, .. } = &field.shape {
            set_default(property.get_mut("items").and_then(Value::as_object_mut), zero(item));
        }
        if let Shape::Map { value, .. } = &field.shape {
            set_default(
                property.get_mut("additionalProperties").and_then(Value::as_object_mut),
                zero(value),
            );
        }
        if field.presence == Presence::Always {
            set_default(Some(property), zero(&field.shape));
        }
    }
}

fn set_default(schema: Option<&mut Object>, zero: Option<Value>) {
    if let (Some(schema), Some(zero)) = (schema, zero) {
        schema.entry("default").or_insert(zero);
    }
}

fn zero(shape: &Shape) -> Option<Value> {
    match shape {
        Shape::Struct(_) => Some(json!({})),
        Shape::String(StringFormat::Plain) => Some(json!("")),
        Shape::Boolean => Some(json!(false)),
        Shape::Int32 | Shape::Int64 | Shape::Number => Some(json!(0)),
        _ => None,
    }
}

/// Turns `{$ref, description, default}` into `{allOf: [{$ref}], description, default}`.
fn wrap_references(schema: &mut Value) {
    match schema {
        Value::Object(entries) => {
            entries.values_mut().for_each(wrap_references);
            let Some(Value::String(name)) = entries.get("$ref") else {
                return;
            };
            let reference = json!({"$ref": format!("#/components/schemas/{name}")});
            if entries.len() == 1 {
                *schema = reference;
            } else {
                entries.remove("$ref");
                entries.insert("allOf".to_owned(), json!([reference]));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(wrap_references),
        _ => {}
    }
}
