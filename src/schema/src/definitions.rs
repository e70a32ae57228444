//! The OpenAPI definitions of all types, unpacked on first need.

use std::{io::Read as _, sync::LazyLock};

use flate2::read::ZlibDecoder;
use trireme_machinery::{Object, Value};

static DEFINITIONS: LazyLock<Object> = LazyLock::new(|| {
    let mut definitions = unpack(packed_definitions());
    for (name, described) in &unpack(packed_descriptions()) {
        if let (Some(definition), Some(described)) = (definitions.get_mut(name), described.as_object()) {
            describe(definition, described);
        }
    }
    definitions
});

/// The OpenAPI definitions as they are packed, without descriptions.
pub fn packed_definitions() -> &'static [u8] {
    include_bytes!("../data/definitions.json.z")
}

/// The descriptions of types and fields as they are packed.
fn packed_descriptions() -> &'static [u8] {
    include_bytes!("../data/descriptions.json.z")
}

fn unpack(packed: &[u8]) -> Object {
    let mut json = Vec::new();
    ZlibDecoder::new(packed)
        .read_to_end(&mut json)
        .expect("the file is packed");
    serde_json::from_slice(&json).expect("the packed file is a JSON object")
}

/// Adds descriptions by field; that of the type itself has an empty name.
fn describe(definition: &mut Value, described: &Object) {
    for (field, text) in described {
        let schema = if field.is_empty() {
            Some(&mut *definition)
        } else {
            definition
                .get_mut("properties")
                .and_then(|fields| fields.get_mut(field))
        };
        if let Some(Value::Object(schema)) = schema {
            schema.insert("description".into(), text.clone());
        }
    }
}

/// The OpenAPI definitions by name, of all versions. A `$ref` in them is the bare name of another definition.
pub fn definitions() -> &'static Object {
    &DEFINITIONS
}

/// The OpenAPI description of a field, or of the type itself if `field` is empty.
pub fn description(type_name: &str, field: &str) -> Option<&'static str> {
    let mut schema = DEFINITIONS.get(type_name)?;
    if !field.is_empty() {
        schema = schema.get("properties")?.get(field)?;
    }
    schema.get("description").and_then(Value::as_str)
}
