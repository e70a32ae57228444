//! Objects in protobuf, in the versions that clients ask for.
//!
//! The stored version is encoded when the first client asks for it and kept beside the JSON; others are encoded anew each
//! time. Custom resources have no protobuf form, but their metadata have.

use bytes::Bytes;
use trireme_machinery::{
    ApiError,
    protobuf::{self, EncodeError, MessageType, framing},
};

use crate::{
    definition::{ResourceDefinition, ServedVersion},
    event_kind::EventKind,
    item::Item,
    protobuf_form::ProtobufForm,
    versions,
};

/// The type of a version's objects.
pub fn type_of<'d>(info: &'d ResourceDefinition, version: &ServedVersion) -> MessageType<'d> {
    MessageType {
        table: &info.types,
        id: version.type_id,
    }
}

/// Reports whether objects of a version have a protobuf form: those of custom resources have none.
pub fn is_served(info: &ResourceDefinition, version: usize) -> bool {
    let version = info.versions.get(version);
    !info.is_custom && version.is_some_and(|version| protobuf::describes(&info.types, version.type_id))
}

/// The answer to a GET.
///
/// # Errors
/// 500 for an object that is not of its type.
pub fn object(info: &ResourceDefinition, item: &Item, version: usize) -> Result<Bytes, ApiError> {
    match other_version(info, version) {
        None => Ok(stored_form(info, item)?.object()),
        Some(served) => Ok(converted(info, item, served, version)?.object()),
    }
}

/// The item of a list.
///
/// # Errors
/// As [`object`].
pub fn message(info: &ResourceDefinition, item: &Item, version: usize) -> Result<Bytes, ApiError> {
    match other_version(info, version) {
        None => Ok(stored_form(info, item)?.message()),
        Some(served) => Ok(converted(info, item, served, version)?.message()),
    }
}

/// The frame of a watch.
///
/// # Errors
/// As [`object`].
pub fn frame(info: &ResourceDefinition, item: &Item, event: EventKind, version: usize) -> Result<Bytes, ApiError> {
    let served = match other_version(info, version) {
        None if item.has_line(event) => return Ok(stored_form(info, item)?.frame()),
        None => info.stored(),
        Some(served) => served,
    };
    let message = message(info, item, version)?;
    let api_version = served.group_version.to_string();
    let frame = framing::event_frame(event.as_str(), &api_version, &info.kind, &message);
    Ok(frame.bytes.into())
}

/// The message of the object's `PartialObjectMetadata`, which is a part of its own; `None` if the kind shows other metadata
/// than it has, or has no protobuf form.
///
/// # Errors
/// As [`object`].
pub fn metadata(info: &ResourceDefinition, item: &Item) -> Result<Option<Bytes>, ApiError> {
    if info.hide_metadata.is_some() || !is_served(info, info.storage_version) {
        return Ok(None);
    }
    let message = stored_form(info, item)?.message();
    Ok(framing::metadata_field(&message).map(|field| message.slice(field)))
}

/// The error for an object that its type has no message for.
pub fn not_encodable(error: &EncodeError) -> ApiError {
    ApiError::internal(format!("the object cannot be written in protobuf: {error}"))
}

/// The version, if it is not the stored one.
fn other_version(info: &ResourceDefinition, version: usize) -> Option<&ServedVersion> {
    info.versions.get(version).filter(|_| version != info.storage_version)
}

fn stored_form<'i>(info: &ResourceDefinition, item: &'i Item) -> Result<&'i ProtobufForm, ApiError> {
    let encode = || {
        let form = encoded(info, item, info.stored(), &item.bytes);
        let form =
            form.inspect_err(|error| tracing::error!(key = %item.key, %error, "a cached object is not of its type"));
        form.ok().map(Box::new)
    };
    let form = item.protobuf.get_or_init(encode).as_deref();
    form.ok_or_else(|| ApiError::internal("a stored object cannot be written in protobuf"))
}

fn converted(
    info: &ResourceDefinition,
    item: &Item,
    served: &ServedVersion,
    version: usize,
) -> Result<ProtobufForm, ApiError> {
    let object = versions::object_bytes(info, item, version);
    encoded(info, item, served, &object).map_err(|error| not_encodable(&error))
}

fn encoded(
    info: &ResourceDefinition,
    item: &Item,
    version: &ServedVersion,
    object: &[u8],
) -> Result<ProtobufForm, EncodeError> {
    let api_version = version.group_version.to_string();
    ProtobufForm::encode(
        type_of(info, version),
        item.line_kind,
        (&api_version, &info.kind),
        object,
    )
}

#[cfg(test)]
mod tests;
