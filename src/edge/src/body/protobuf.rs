//! Bodies in protobuf that are read here and not by a registry: delete options.

use serde_json::Value;
use trireme_machinery::{ApiError, protobuf, schema::TypeTable};

use crate::negotiation;

/// Reads a body that should hold a `type_name` of these types. The kind that the client says it is stays, as in JSON.
///
/// # Errors
/// 400 if it is no protobuf, 415 if there is no such type: resources without it are not written in protobuf.
pub(crate) fn decode(bytes: &[u8], types: &TypeTable, type_name: &str) -> Result<Value, ApiError> {
    let ty = types.find(type_name).ok_or_else(negotiation::no_protobuf)?;
    let bad = |error: protobuf::ProtobufError| ApiError::bad_request(error.to_string());
    let envelope = protobuf::envelope(bytes).map_err(bad)?;
    let mut value = protobuf::decode(types, ty, envelope.raw).map_err(bad)?;
    for (name, text) in [("apiVersion", envelope.api_version), ("kind", envelope.kind)] {
        if let Some(fields) = value.as_object_mut().filter(|_| !text.is_empty()) {
            fields.insert(name.to_owned(), text.into());
        }
    }
    Ok(value)
}
