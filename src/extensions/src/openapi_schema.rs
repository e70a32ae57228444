//! The schema of a version as OpenAPI documents publish it (`schema.Unfold`, `ToKubeOpenAPI`, `addEmbeddedProperties`).

use serde_json::{Value, json};
use trireme_machinery::Object;

use crate::{
    definition::says_int_or_string,
    openapi_v2::{map_mut, preserves_unknown_fields},
};

const INT_OR_STRING: &str = "x-kubernetes-int-or-string";
const EMBEDDED: &str = "x-kubernetes-embedded-resource";

/// The place of a schema: in the structure of objects, or in a combination such as `anyOf`.
#[derive(Clone, Copy, PartialEq)]
enum Nesting {
    Structure,
    Combination,
}

/// Publishes a structural schema: without what says nothing, and with the types of an int-or-string.
pub(crate) fn to_kube_openapi(schema: &Value) -> Value {
    publish(schema, Nesting::Structure)
}

fn publish(schema: &Value, nesting: Nesting) -> Value {
    let fields = schema.as_object().into_iter().flatten();
    let published = fields.filter_map(|(name, value)| Some((name.clone(), publish_field(name, value, nesting)?)));
    let mut published: Object = published.collect();
    let is_int_or_string = schema.get(INT_OR_STRING) == Some(&Value::Bool(true));
    if nesting == Nesting::Structure && is_int_or_string && !says_int_or_string(schema) {
        unfold(&mut published);
    }
    published.into()
}

fn publish_field(name: &str, value: &Value, nesting: Nesting) -> Option<Value> {
    match (name, value) {
        ("default" | "example", _) if !value.is_null() => Some(value.clone()),
        (_, Value::Null | Value::Bool(false)) if name != "additionalProperties" => None,
        ("additionalProperties", _) if nesting == Nesting::Combination || value.is_null() => None,
        ("items" | "additionalProperties", Value::Object(_)) => Some(publish(value, nesting)),
        ("not", Value::Object(_)) => Some(publish(value, Nesting::Combination)),
        ("properties", Value::Object(properties)) if !properties.is_empty() => {
            let properties = properties.iter();
            let published = properties.map(|(name, schema)| (name.clone(), publish(schema, nesting)));
            Some(Value::Object(published.collect()))
        }
        ("allOf" | "anyOf" | "oneOf", Value::Array(schemas)) if !schemas.is_empty() => {
            let schemas = schemas.iter();
            Some(schemas.map(|schema| publish(schema, Nesting::Combination)).collect())
        }
        (_, Value::String(text)) if text.is_empty() => None,
        (_, Value::Array(items)) if items.is_empty() => None,
        (_, Value::Object(fields)) if fields.is_empty() => None,
        _ => Some(value.clone()),
    }
}

/// Says of an int-or-string which types it may have, where its schema does not.
fn unfold(schema: &mut Object) {
    let types = || json!([{"type": "integer"}, {"type": "string"}]);
    if !schema.contains_key("anyOf") {
        schema.insert("anyOf".to_owned(), types());
        return;
    }
    let all = schema.entry("allOf").or_insert_with(|| json!([]));
    if let Some(all) = all.as_array_mut() {
        all.insert(0, json!({"anyOf": types()}));
    }
}

/// Adds the fields that all objects have to the schemas of embedded objects, and requires them. In OpenAPI 2, objects with
/// unknown fields stay without: clients would take those for the only ones.
pub(crate) fn add_embedded_properties(schema: &mut Value, fields: &[(&str, Value)], is_v2: bool) {
    let Some(entries) = schema.as_object_mut() else {
        return;
    };
    for (_, property) in map_mut(entries, "properties") {
        add_embedded_properties(property, fields, is_v2);
    }
    for name in ["items", "additionalProperties"] {
        if let Some(inner) = entries.get_mut(name) {
            add_embedded_properties(inner, fields, is_v2);
        }
    }
    let is_embedded = schema.get(EMBEDDED) == Some(&Value::Bool(true));
    if !is_embedded || (is_v2 && preserves_unknown_fields(schema)) {
        return;
    }
    set_properties(schema, fields);
    require(schema, "kind");
    require(schema, "apiVersion");
}

/// Sets properties of a schema.
pub(crate) fn set_properties(schema: &mut Value, fields: &[(&str, Value)]) {
    for (name, field) in fields {
        schema["properties"][*name] = field.clone();
    }
}

fn require(schema: &mut Value, name: &str) {
    let required = schema.as_object_mut().map(|fields| fields.entry("required"));
    let required = required.map(|required| required.or_insert_with(|| json!([])));
    if let Some(Value::Array(required)) = required
        && !required.iter().any(|known| known == name)
    {
        required.push(name.into());
    }
}
