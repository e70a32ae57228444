//! The OpenAPI definitions of all types, unpacked on first need.

use std::{io::Read as _, sync::LazyLock};

use flate2::read::ZlibDecoder;
use trireme_machinery::{Object, Value};

static DEFINITIONS: LazyLock<Object> = LazyLock::new(|| {
    let mut json = Vec::new();
    ZlibDecoder::new(packed_definitions())
        .read_to_end(&mut json)
        .expect("schema-generate packed the definitions");
    serde_json::from_slice(&json).expect("schema-generate wrote the definitions as JSON")
});

/// The OpenAPI definitions as they are packed.
pub fn packed_definitions() -> &'static [u8] {
    include_bytes!("../data/definitions.json.z")
}

/// The OpenAPI definitions by name. A `$ref` in them is the bare name of another definition.
pub fn definitions() -> &'static Object {
    &DEFINITIONS
}

/// What OpenAPI says of a field, or of the type itself if `field` is empty.
pub fn description(type_name: &str, field: &str) -> Option<&'static str> {
    let mut schema = DEFINITIONS.get(type_name)?;
    if !field.is_empty() {
        schema = schema.get("properties")?.get(field)?;
    }
    schema.get("description").and_then(Value::as_str)
}
