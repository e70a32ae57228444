//! Definitions as each OpenAPI version wants them.
//!
//! They come with bare names in `$ref`. OpenAPI 2 keeps a description beside a `$ref`; OpenAPI 3 wraps the reference
//! in `allOf`, and shows the zero values of fields that are always written as their defaults.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use trireme_machinery::{
    Object,
    schema::{Presence, Shape, StringFormat},
};

use super::enums;
use crate::data::{ResourceData, type_name, type_table};

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

/// Names of definitions and what `x-kubernetes-group-version-kind` says of them.
pub(super) type Kinds = BTreeMap<String, Vec<Value>>;

/// The kinds of all served resources, and those of the API machinery.
pub(super) fn kinds(resources: &[ResourceData]) -> Kinds {
    let mut kinds = Kinds::new();
    let mut group_versions = BTreeSet::new();
    for resource in resources {
        for version in &resource.versions {
            let (group, name) = (resource.group.as_str(), version.name.as_str());
            kinds.insert(version.type_name.clone(), vec![entry(group, name, &resource.kind)]);
            kinds.insert(
                format!("{}List", version.type_name),
                vec![entry(group, name, &resource.list_kind)],
            );
            group_versions.insert((group, name));
        }
        for subresource in &resource.subresources {
            if let Some((group, version)) = &subresource.group_version {
                let kind = &subresource.kind;
                kinds.insert(type_name(group, version, kind), vec![entry(group, version, kind)]);
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

/// The names of all definitions that can be reached from `roots`.
pub(super) fn reachable(definitions: &Object, roots: impl IntoIterator<Item = String>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut open: Vec<String> = roots.into_iter().collect();
    while let Some(name) = open.pop() {
        if let Some(definition) = definitions.get(&name).filter(|_| !found.contains(&name)) {
            references(definition, &mut open);
            found.insert(name);
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

/// A definition for OpenAPI 2.
pub(super) fn v2(name: &str, definition: &Value, kinds: &Kinds) -> Value {
    let mut schema = definition.clone();
    qualify(&mut schema, "#/definitions/");
    enums::add(&mut schema, name);
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

/// A definition for OpenAPI 3.
pub(super) fn v3(name: &str, definition: &Value, kinds: &Kinds) -> Value {
    let mut schema = definition.clone();
    match name {
        "io.k8s.apimachinery.pkg.api.resource.Quantity" => {
            replace_type(&mut schema, json!([{"type": "string"}, {"type": "number"}]));
        }
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString" => {
            replace_type(&mut schema, json!([{"type": "integer"}, {"type": "string"}]));
        }
        _ => {
            add_zeroes(&mut schema, name);
            enums::add(&mut schema, name);
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
fn add_zeroes(schema: &mut Value, name: &str) {
    let table = type_table();
    let Some(definition) = table.find(name).map(|id| table.get(id)) else {
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
