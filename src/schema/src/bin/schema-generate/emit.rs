//! Writes what the crate embeds: the structure of all types as lines that are quick to read, and the OpenAPI
//! definitions. `src/decode.rs` reads the lines and describes them.

use std::{collections::BTreeMap, fmt::Write as _};

use serde_json::{Value, json};
use trireme_schema::short_name;

use crate::facts::{Facts, FieldFacts};

/// The definitions that are structs.
pub(crate) fn structs(definitions: &BTreeMap<String, Value>) -> impl Iterator<Item = (&String, &Value)> {
    definitions.iter().filter(|(name, body)| is_struct(name, body))
}

/// The lines of all struct types; also adds extensions and defaults to `definitions`.
pub(crate) fn structure(definitions: &mut BTreeMap<String, Value>, facts: &mut Facts) -> String {
    let structs: Vec<String> = structs(definitions).map(|(name, _)| name.clone()).collect();
    let places = structs
        .iter()
        .enumerate()
        .map(|(at, name)| (name.clone(), at))
        .collect();
    let mut out = String::new();
    for name in &structs {
        let body = definitions.get_mut(name).expect("only names of the map are listed");
        write_type(&mut out, name, body, facts, &places);
    }
    out
}

/// `JSON` and its kin hold anything; `Time`, `Quantity` and the like are texts.
fn is_struct(name: &str, body: &Value) -> bool {
    let opaque = name.ends_with(".RawExtension") || name.ends_with(".FieldsV1") || name.ends_with(".Patch");
    body["type"] == "object" && !opaque
}

fn write_type(out: &mut String, name: &str, body: &mut Value, facts: &mut Facts, places: &BTreeMap<String, usize>) {
    let short = short_name(name).to_owned();
    let atomic = facts.atomic.contains(&short);
    if atomic {
        body["x-kubernetes-map-type"] = json!("atomic");
    }
    writeln!(out, "={name}\t{}", if atomic { "a" } else { "" }).expect("strings grow");
    let required: Vec<String> = body["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(text)
        .collect();
    let Some(properties) = body.get_mut("properties").and_then(Value::as_object_mut) else {
        return;
    };
    let mut fields: Vec<(FieldFacts, String)> = properties
        .keys()
        .map(|field| (facts.take(&short, field), field.clone()))
        .collect();
    fields.sort_by(|a, b| (a.0.tag, &a.1).cmp(&(b.0.tag, &b.1)));
    for (known, field) in fields {
        let schema = properties.get_mut(&field).expect("only keys of the map are listed");
        let is_required = required.contains(&field);
        let shape = shape(schema, &known, places);
        let everywhere = if has_struct_shape(&shape) {
            facts.everywhere.get(&field).copied()
        } else {
            None
        };
        let presence = known
            .presence
            .or(everywhere)
            .unwrap_or_else(|| by_rule(&shape, &field, schema, is_required));
        let default = default_of(&known, presence, &shape);
        writeln!(
            out,
            "{field}\t{}\t{presence}\t{}\t{shape}\t{}\t{}\t{default}",
            known.tag,
            if is_required { "r" } else { "" },
            known.patch.as_deref().unwrap_or_default(),
            known.key.as_deref().unwrap_or_default(),
        )
        .expect("strings grow");
        extend_schema(schema, &known, &default);
    }
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn has_struct_shape(shape: &str) -> bool {
    shape.starts_with('$')
}

fn by_rule(shape: &str, field: &str, schema: &Value, required: bool) -> char {
    let is_metadata = field == "metadata" && schema["$ref"].as_str().is_some_and(|name| name.ends_with("Meta"));
    match shape.as_bytes().first() {
        _ if required || is_metadata => 'a',
        Some(b'[' | b'{' | b's' | b'y') => 'o',
        _ => 'p',
    }
}

/// The default that a server fills in; one that is the zero of a plain field would change nothing.
fn default_of(known: &FieldFacts, presence: char, shape: &str) -> String {
    let marked = known.marked_default.clone().filter(|value| {
        let zero = matches!(value.as_str(), "\"\"" | "0" | "false");
        !zero || presence == 'p' || presence == 'n'
    });
    let default = known.default.clone().or(marked).unwrap_or_default();
    if !default.is_empty() {
        let value: Value = serde_json::from_str(&default).unwrap_or_else(|_| panic!("not JSON: {default}"));
        let fits = match shape.as_bytes().first() {
            Some(b's') => value.is_string(),
            Some(b'b') => value.is_boolean(),
            Some(b'i' | b'l') => value.is_i64(),
            Some(b'x') => value.is_i64() || value.is_string(),
            Some(b'$') => value.is_object(),
            _ => false,
        };
        assert!(fits, "the default {default} does not fit the shape {shape}");
    }
    default
}

fn shape(schema: &Value, known: &FieldFacts, places: &BTreeMap<String, usize>) -> String {
    if let Some(name) = schema["$ref"].as_str() {
        return match (places.get(name), short_name(name)) {
            (Some(place), _) => format!("${place}"),
            (None, "meta.v1.Time") => "t".to_owned(),
            (None, "meta.v1.MicroTime") => "m".to_owned(),
            (None, "meta.v1.Duration") => "d".to_owned(),
            (None, "api.resource.Quantity") => "q".to_owned(),
            (None, "util.intstr.IntOrString") => "x".to_owned(),
            (None, _) => "a".to_owned(),
        };
    }
    let plain = FieldFacts::default();
    match (schema["type"].as_str(), schema["format"].as_str()) {
        (Some("string"), Some("byte")) => "y".to_owned(),
        (Some("string"), _) => "s".to_owned(),
        (Some("boolean"), _) => "b".to_owned(),
        (Some("integer"), Some("int32")) => "i".to_owned(),
        (Some("integer"), _) => "l".to_owned(),
        (Some("number"), _) => "n".to_owned(),
        (Some("array"), _) => {
            let list = match known.list.as_deref() {
                None | Some("atomic") => "a".to_owned(),
                Some("set") => "s".to_owned(),
                Some(map) => format!("m({})", map.trim_start_matches("map:")),
            };
            format!("[{list}{}", shape(&schema["items"], &plain, places))
        }
        (Some("object"), _) if schema.get("additionalProperties").is_some() => {
            let atomic = if known.map.as_deref() == Some("atomic") {
                "!"
            } else {
                ""
            };
            format!("{{{atomic}{}", shape(&schema["additionalProperties"], &plain, places))
        }
        _ => "a".to_owned(),
    }
}

fn extend_schema(schema: &mut Value, known: &FieldFacts, default: &str) {
    if let Some(list) = known.list.as_deref() {
        let (ty, keys) = list.split_once(':').unwrap_or((list, ""));
        schema["x-kubernetes-list-type"] = json!(ty);
        if !keys.is_empty() {
            schema["x-kubernetes-list-map-keys"] = keys.split(',').collect();
        }
    }
    if let Some(map) = &known.map {
        schema["x-kubernetes-map-type"] = json!(map);
    }
    if let Some(patch) = &known.patch {
        schema["x-kubernetes-patch-strategy"] = json!(patch);
    }
    if let Some(key) = &known.key {
        schema["x-kubernetes-patch-merge-key"] = json!(key);
    }
    let default = known
        .marked_default
        .as_deref()
        .or(Some(default))
        .filter(|default| !default.is_empty());
    if let Some(default) = default {
        schema["default"] = serde_json::from_str(default).expect("facts hold JSON");
    }
}
