//! From an object to the bytes that are stored of it.

use bytes::Bytes;
use serde_json::Value;
use trireme_machinery::protobuf::{self, EncodeError};

use crate::{
    definition::{ResourceDefinition, StorageMediaType},
    encode,
};

/// The bytes to store, in the media type of the resource and without `resourceVersion`.
///
/// # Errors
/// If the object does not have the form of its type, or nests too deeply for a message.
pub(crate) fn at_rest(info: &ResourceDefinition, object: &Value) -> Result<Bytes, EncodeError> {
    if info.storage_media_type == StorageMediaType::Json {
        return Ok(encode::object(object).into());
    }
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("resourceVersion");
    }
    protobuf::encode_enveloped(&info.types, info.stored().type_id, &object).map(Bytes::from)
}
