//! Bodies in protobuf that are read here and not by a registry: delete options.

use serde_json::Value;
use trireme_machinery::protobuf::{self, ProtobufError};

/// Reads a body that should hold a `type_name`. What the client says of its kind is kept, as in JSON.
///
/// # Errors
/// If it is no protobuf.
pub(crate) fn decode(bytes: &[u8], type_name: &str) -> Result<Value, ProtobufError> {
    let envelope = protobuf::envelope(bytes)?;
    let types = trireme_kinds::data::type_table();
    let ty = types.find(type_name).expect("only types of the table are asked for");
    let mut value = protobuf::decode(types, ty, envelope.raw)?;
    for (name, text) in [("apiVersion", envelope.api_version), ("kind", envelope.kind)] {
        if let Some(fields) = value.as_object_mut().filter(|_| !text.is_empty()) {
            fields.insert(name.to_owned(), text.into());
        }
    }
    Ok(value)
}
