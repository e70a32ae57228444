//! Objects in the versions that clients ask for: bytes are spliced where only `apiVersion` differs, and go through a
//! tree only where a conversion does something.

use bytes::Bytes;
use serde_json::Value;

use crate::{
    definition::{ResourceDefinition, ServedVersion},
    encode,
    item::Item,
    stored,
};

/// The answer to a GET.
pub fn object_bytes(info: &ResourceDefinition, item: &Item, version: usize) -> Bytes {
    match served(info, version) {
        None => item.bytes.clone(),
        Some(served) if served.conversion.is_some() => converted(info, item, served),
        Some(served) => respelled(item, served),
    }
}

/// The item of a list: the object without `apiVersion` and `kind`.
pub fn list_item_bytes(info: &ResourceDefinition, item: &Item, version: usize) -> Bytes {
    let body = list_item_body(info, item, version);
    let mut bytes = Vec::with_capacity(body.len() + 1);
    bytes.push(b'{');
    bytes.extend_from_slice(&body);
    bytes.into()
}

/// The item of a list after its opening brace; costs no copy unless a conversion does something.
pub fn list_item_body(info: &ResourceDefinition, item: &Item, version: usize) -> Bytes {
    match served(info, version) {
        Some(served) if served.conversion.is_some() => {
            let bytes = converted(info, item, served);
            let body = memchr::memmem::find(&bytes, br#""metadata":{"#).unwrap_or(1);
            bytes.slice(body..)
        }
        Some(_) | None => item.list_body(),
    }
}

/// The object as a tree; `Null` in the impossible case that a cached object cannot be parsed.
pub fn object_value(info: &ResourceDefinition, item: &Item, version: usize) -> Value {
    let mut object = stored::parse(&item.bytes).unwrap_or_default();
    if let Some(served) = served(info, version) {
        from_stored(info, served, &mut object);
    }
    object
}

/// Turns an object of the stored version into one of a served version.
pub fn from_stored(info: &ResourceDefinition, version: &ServedVersion, object: &mut Value) {
    if let Some(conversion) = &version.conversion {
        conversion.to_served(object);
    }
    name_version(info, version, object);
}

/// Turns an object of a served version into one of the stored version.
pub fn to_stored(info: &ResourceDefinition, version: &ServedVersion, object: &mut Value) {
    if let Some(conversion) = &version.conversion {
        conversion.to_stored(object);
    }
    name_version(info, info.stored(), object);
}

fn name_version(info: &ResourceDefinition, version: &ServedVersion, object: &mut Value) {
    if let Some(fields) = object.as_object_mut() {
        fields.insert("apiVersion".into(), version.group_version.to_string().into());
        fields.insert("kind".into(), Value::from(&*info.kind));
    }
}

/// The version, if it is another than the stored one.
fn served(info: &ResourceDefinition, version: usize) -> Option<&ServedVersion> {
    if version == info.storage_version {
        None
    } else {
        info.versions.get(version)
    }
}

fn converted(info: &ResourceDefinition, item: &Item, version: &ServedVersion) -> Bytes {
    let mut object = stored::parse(&item.bytes).unwrap_or_default();
    from_stored(info, version, &mut object);
    encode::object_at(&object, item.revision).into()
}

fn respelled(item: &Item, version: &ServedVersion) -> Bytes {
    let api_version = version.group_version.to_string();
    let head = br#"{"apiVersion":""#;
    let after = item.bytes.get(head.len()..).unwrap_or_default();
    let rest = after
        .iter()
        .position(|byte| *byte == b'"')
        .and_then(|end| after.get(end..))
        .unwrap_or_default();
    [head, api_version.as_bytes(), rest].concat().into()
}
