//! Writes the structure of all types as lines that are quick to read. `src/decode.rs` reads the lines and describes them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use serde_json::Value;
use trireme_schema::{resources, short_name};

use crate::facts::{FieldData, FieldFacts};

/// The lines of all struct types: those of versions that are served by default, a line `#`, the others.
///
/// # Errors
/// Fields of which the facts say nothing.
pub(crate) fn structure(definitions: &BTreeMap<String, Value>, facts: &mut FieldData) -> Result<String, String> {
    let served = served_packages();
    let structs = definitions.iter().filter(|(name, body)| is_struct(name, body));
    let (by_default, others): (Vec<_>, Vec<_>) = structs.partition(|(name, _)| {
        let package = name.rsplit_once('.').map_or("", |(package, _)| package);
        name.starts_with("io.k8s.apimachinery.") || served.contains(package)
    });
    let places = by_default
        .iter()
        .chain(&others)
        .enumerate()
        .map(|(at, (name, _))| (name.as_str(), at))
        .collect();
    let mut out = String::new();
    for (name, body) in by_default {
        write_type(&mut out, name, body, facts, &places)?;
    }
    out.push_str("#\n");
    for (name, body) in others {
        write_type(&mut out, name, body, facts, &places)?;
    }
    Ok(out)
}

/// The packages of the versions that are served by default: `io.k8s.api.core.v1`.
fn served_packages() -> BTreeSet<&'static str> {
    let versions = resources().iter().flat_map(|resource| &resource.versions);
    versions
        .filter(|version| version.is_stable())
        .filter_map(|version| Some(version.type_name.rsplit_once('.')?.0))
        .collect()
}

/// `JSON` and its kin hold anything; `Time`, `Quantity` and the like are texts.
fn is_struct(name: &str, body: &Value) -> bool {
    let opaque = name.ends_with(".RawExtension") || name.ends_with(".FieldsV1") || name.ends_with(".Patch");
    body["type"] == "object" && !opaque
}

fn write_type(
    out: &mut String,
    name: &str,
    body: &Value,
    facts: &mut FieldData,
    places: &BTreeMap<&str, usize>,
) -> Result<(), String> {
    let short = short_name(name);
    let atomic = body["x-kubernetes-map-type"] == "atomic";
    out.push_str(&format!("={name}\t{}\n", if atomic { "a" } else { "" }));
    let required: Vec<&str> = body["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let mut fields = Vec::new();
    for (field, schema) in body["properties"].as_object().into_iter().flatten() {
        let known = facts
            .take(short, field)
            .ok_or_else(|| format!("nothing is known of {short}.{field}"))?;
        fields.push((known, field, schema));
    }
    fields.sort_by_key(|(known, ..)| known.position);
    for (known, field, schema) in fields {
        let shape = shape(schema, places);
        let said = |extension: &str| schema[extension].as_str().unwrap_or_default();
        writeln!(
            out,
            "{field}\t{}\t{}\t{}\t{shape}\t{}\t{}\t{}",
            known.tag,
            known.presence,
            if required.contains(&field.as_str()) { "r" } else { "" },
            said("x-kubernetes-patch-strategy"),
            said("x-kubernetes-patch-merge-key"),
            default_of(&known, schema, &shape)?,
        )
        .map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// The default that a server fills in; one that is the zero of a plain field would change nothing.
fn default_of(known: &FieldFacts, schema: &Value, shape: &str) -> Result<String, String> {
    let published = schema.get("default").map(Value::to_string).filter(|value| {
        let zero = matches!(value.as_str(), "\"\"" | "0" | "false");
        !zero || matches!(known.presence, 'p' | 'n')
    });
    let Some(default) = known.default.clone().or(published) else {
        return Ok(String::new());
    };
    let value: Value = serde_json::from_str(&default).map_err(|error| format!("{default}: {error}"))?;
    let fits = match shape.as_bytes().first() {
        Some(b's') => value.is_string(),
        Some(b'b') => value.is_boolean(),
        Some(b'i' | b'l') => value.is_i64(),
        Some(b'x') => value.is_i64() || value.is_string(),
        Some(b'$') => value.is_object(),
        _ => false,
    };
    if fits {
        Ok(default)
    } else {
        Err(format!("the default {default} does not fit the shape {shape}"))
    }
}

fn shape(schema: &Value, places: &BTreeMap<&str, usize>) -> String {
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
    match (schema["type"].as_str(), schema["format"].as_str()) {
        (Some("string"), Some("byte")) => "y".to_owned(),
        (Some("string"), _) => "s".to_owned(),
        (Some("boolean"), _) => "b".to_owned(),
        (Some("integer"), Some("int32")) => "i".to_owned(),
        (Some("integer"), _) => "l".to_owned(),
        (Some("number"), _) => "n".to_owned(),
        (Some("array"), _) => format!("[{}{}", list_kind(schema), shape(&schema["items"], places)),
        (Some("object"), _) if schema.get("additionalProperties").is_some() => {
            let atomic = if schema["x-kubernetes-map-type"] == "atomic" {
                "!"
            } else {
                ""
            };
            format!("{{{atomic}{}", shape(&schema["additionalProperties"], places))
        }
        _ => "a".to_owned(),
    }
}

fn list_kind(schema: &Value) -> String {
    match schema["x-kubernetes-list-type"].as_str() {
        Some("set") => "s".to_owned(),
        Some("map") => {
            let keys = schema["x-kubernetes-list-map-keys"].as_array();
            let keys: Vec<&str> = keys.into_iter().flatten().filter_map(Value::as_str).collect();
            format!("m({})", keys.join(","))
        }
        _ => "a".to_owned(),
    }
}
