//! The types that give answers their protobuf form, where the answer is no object of the resource.

use bytes::Bytes;
use serde_json::Value;
use trireme_machinery::{
    ApiError,
    protobuf::{self, MessageType},
    schema::TypeTable,
};
use trireme_registry::{Item, ResourceDefinition, protobuf as objects};

use crate::{
    negotiation::MetaVersion,
    views::{partial, stored},
};

/// The kind of an object that shows its metadata alone.
pub(crate) const PARTIAL: &str = "PartialObjectMetadata";
/// The kind of a list of those.
pub(crate) const PARTIAL_LIST: &str = "PartialObjectMetadataList";

/// The package of the API machinery's own types.
const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";
/// The package of discovery in one document.
const DISCOVERY: &str = "io.k8s.api.apidiscovery.v2";

/// A type by its full name.
pub(crate) fn named<'t>(table: &'t TypeTable, name: &str) -> Option<MessageType<'t>> {
    table.find(name).map(|id| MessageType { table, id })
}

/// A type of the API machinery, such as `Status`.
pub(crate) fn meta_type<'t>(table: &'t TypeTable, kind: &str) -> Option<MessageType<'t>> {
    named(table, &format!("{META}.{kind}"))
}

/// The type of a document of discovery, by its kind.
pub(crate) fn document_type<'t>(table: &'t TypeTable, document: &Value) -> Option<MessageType<'t>> {
    let kind = document.get("kind")?.as_str()?;
    meta_type(table, kind).or_else(|| named(table, &format!("{DISCOVERY}.{kind}")))
}

/// The type of an answer that may be a `Status`.
pub(crate) fn or_status<'t>(
    table: &'t TypeTable,
    answer: &Value,
    otherwise: Option<MessageType<'t>>,
) -> Option<MessageType<'t>> {
    match is_status(answer) {
        true => meta_type(table, "Status"),
        false => otherwise,
    }
}

/// True if an answer is a `Status`.
pub(crate) fn is_status(answer: &Value) -> bool {
    let text = |name| answer.get(name).and_then(Value::as_str);
    (text("kind"), text("apiVersion")) == (Some("Status"), Some("v1"))
}

/// The message of a cached object's `PartialObjectMetadata`, which is the same in all versions.
///
/// # Errors
/// 500 for an object that is not of its type.
pub(crate) fn metadata_message(types: &TypeTable, info: &ResourceDefinition, item: &Item) -> Result<Bytes, ApiError> {
    if let Some(message) = objects::metadata(info, item)? {
        return Ok(message);
    }
    let value = partial(info, &stored(info, item), MetaVersion::V1);
    message(meta_type(types, PARTIAL), &value)
}

/// The message of a value.
///
/// # Errors
/// 500 if it has none.
pub(crate) fn message(ty: Option<MessageType<'_>>, value: &Value) -> Result<Bytes, ApiError> {
    let ty = ty.ok_or_else(|| ApiError::internal("the answer has no protobuf form"))?;
    let message = protobuf::encode(ty.table, ty.id, value).map_err(|error| objects::not_encodable(&error))?;
    Ok(message.into())
}
