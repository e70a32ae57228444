//! From stored bytes to an [`Item`]: one cheap pass, one copy.
//!
//! Called for every entry that comes from the store, so it borrows what it can and builds a tree only for resources
//! with selectable fields. Objects that we stored are canonical and only get their `resourceVersion` spliced in;
//! those that others stored in another layout or version, or in protobuf, are decoded as requests are, and encoded anew. An
//! unreadable one is a typed error, also if the decoder panics: the caller keeps the key as
//! [unreadable](crate::unreadable), since one bad entry must not take a whole resource down.

#![cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use std::{
    any::Any,
    panic::{self, AssertUnwindSafe},
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use serde_json::Value;
use trireme_machinery::{json, protobuf};
use trireme_storage::{
    Revision,
    encryption::{ENCRYPTED_PREFIX, UNDECRYPTED_PREFIX},
};

use self::foreign::StoredForm;
use crate::{
    definition::{ResourceDefinition, StorageMediaType},
    encode,
    event_kind::EventKind,
    item::{Item, ItemKey, make_line},
    selectable::{Head, Metadata},
};

mod at_rest;
mod foreign;

pub(crate) use at_rest::at_rest;

/// The reason that a stored entry is not an object of the resource.
#[derive(Debug, thiserror::Error)]
pub enum ItemError {
    /// The key is not `prefix/namespace/name` or `prefix/name`.
    #[error("key {0:?} does not belong to the resource")]
    Key(String),
    /// The value is not a JSON object with metadata.
    #[error("value cannot be decoded")]
    Undecodable(#[source] serde_json::Error),
    /// The value is neither JSON within our caps nor a message of the kind, or does not fit the kind's type.
    #[error("value cannot be decoded: {0}")]
    Unparsable(String),
    /// The value is of another kind, or of a version that is not served.
    #[error("value is a {kind:?} of {api_version:?}")]
    Foreign {
        /// Its `apiVersion`.
        api_version: String,
        /// Its `kind`.
        kind: String,
    },
    /// The value is encrypted, and no provider of its resource can decrypt it.
    #[error("{0}")]
    Undecrypted(String),
    /// The decoder has a bug that this value meets.
    #[error("the decoder panicked: {0}")]
    Panicked(String),
}

impl Item {
    /// Makes an item of a stored entry; `key` is the full key in the store.
    pub fn from_stored(
        info: &ResourceDefinition,
        key: &str,
        value: Bytes,
        revision: Revision,
    ) -> Result<Self, ItemError> {
        Self::from_stored_as(EventKind::Added, info, key, &value, revision)
    }

    /// Makes an item of an object that is not in the store, such as the outcome of a dry run; the revision is the
    /// object's own `resourceVersion`.
    pub fn from_object(info: &ResourceDefinition, object: &Value) -> Result<Self, ItemError> {
        let text = |pointer| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let key = info.storage_key(text("/metadata/namespace"), text("/metadata/name"));
        let revision = text("/metadata/resourceVersion").parse().unwrap_or_default();
        Self::from_stored_as(EventKind::Added, info, &key, &encode::object(object), revision)
    }

    /// As [`from_stored`](Self::from_stored), with the watch line that is most likely wanted.
    pub(crate) fn from_stored_as(
        line_kind: EventKind,
        info: &ResourceDefinition,
        key: &str,
        value: &[u8],
        revision: Revision,
    ) -> Result<Self, ItemError> {
        if let Some(reason) = undecrypted(value) {
            return Err(ItemError::Undecrypted(reason));
        }
        // A line break is the end of JSON that Go has written, and of a frame of a watch.
        let value = if protobuf::is_enveloped(value) {
            value
        } else {
            value.trim_ascii_end()
        };
        // Nothing is left half done behind a panic: what was being made is dropped.
        let decoded = panic::catch_unwind(AssertUnwindSafe(|| match restored(info, value)? {
            Some(restored) => {
                let item = Self::from_canonical(line_kind, info, key, &restored, revision)?;
                let is_stale = !is_in_its_envelope(info, value);
                Ok(Self { is_stale, ..item })
            }
            None => {
                let item = Self::from_canonical(line_kind, info, key, value, revision)?;
                let is_stale = item.is_stale || info.storage_media_type == StorageMediaType::Protobuf;
                Ok(Self { is_stale, ..item })
            }
        }));
        decoded.unwrap_or_else(|panic| {
            let resource = info.resource.to_string();
            metrics::counter!("trireme_store_decoder_panics_total", "resource" => resource).increment(1);
            Err(ItemError::Panicked(panic_text(&*panic)))
        })
    }

    fn from_canonical(
        line_kind: EventKind,
        info: &ResourceDefinition,
        key: &str,
        value: &[u8],
        revision: Revision,
    ) -> Result<Self, ItemError> {
        let head = Head::read(&info.selectable, value).map_err(ItemError::Undecodable)?;
        let canonical = head.metadata.resource_version.is_none();
        let body = canonical.then(|| canonical_body(info, value, &head)).flatten();
        let is_stale = body.is_none();
        let made = match body {
            Some(body) => (
                splice(line_kind, value, body, revision),
                info.selectable.values(&head.selected),
            ),
            None => encode_anew(line_kind, info, &head, value, revision)?,
        };
        let item = Self::assemble(line_kind, info, key, head.metadata, made, revision)?;
        Ok(Self { is_stale, ..item })
    }

    /// As [`from_stored_as`](Self::from_stored_as) of an object that [`encode::object`] has just made these bytes of: they
    /// need not be read again.
    pub(crate) fn from_encoded(
        line_kind: EventKind,
        info: &ResourceDefinition,
        key: &str,
        object: &Value,
        value: &[u8],
        revision: Revision,
    ) -> Result<Self, ItemError> {
        let head = Head::of(object).map_err(ItemError::Undecodable)?;
        let Some(body) = canonical_body(info, value, &head) else {
            return Self::from_stored_as(line_kind, info, key, value, revision);
        };
        let made = (splice(line_kind, value, body, revision), info.selectable.values(object));
        Self::assemble(line_kind, info, key, head.metadata, made, revision)
    }

    fn assemble(
        line_kind: EventKind,
        info: &ResourceDefinition,
        key: &str,
        metadata: Metadata,
        ((line, bytes, body), fields): (Encoded, Fields),
        revision: Revision,
    ) -> Result<Self, ItemError> {
        let (key, namespace_len) = item_key(info, key)?;
        let labels = metadata.labels.unwrap_or_default();
        let owners = metadata.owner_references.unwrap_or_default();
        Ok(Self {
            fields,
            bytes,
            body,
            revision,
            key,
            namespace_len,
            uid: metadata.uid.unwrap_or_default(),
            labels: labels
                .into_iter()
                .map(|(key, value)| (key, value.unwrap_or_default()))
                .collect(),
            owners: owners.into_iter().filter_map(|owner| owner.uid).collect(),
            is_terminating: metadata.deletion_timestamp.is_some(),
            is_stale: false,
            line,
            line_kind,
            protobuf: OnceLock::new(),
        })
    }
}

/// Reports whether a value is in protobuf, as the resource is stored, and in the version that it is stored in.
fn is_in_its_envelope(info: &ResourceDefinition, value: &[u8]) -> bool {
    let version = info.stored().group_version.to_string();
    info.storage_media_type == StorageMediaType::Protobuf
        && protobuf::envelope(value).is_ok_and(|envelope| envelope.api_version == version)
}

/// The reason why a value is still encrypted, if it is.
fn undecrypted(value: &[u8]) -> Option<String> {
    if let Some(reason) = value.strip_prefix(UNDECRYPTED_PREFIX) {
        return Some(String::from_utf8_lossy(reason).into_owned());
    }
    let is_encrypted = value.starts_with(ENCRYPTED_PREFIX);
    is_encrypted.then(|| "identity transformer tried to read encrypted data".to_owned())
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_default()
}

/// The key within the resource, and the length of the namespace in it.
pub(crate) fn item_key(info: &ResourceDefinition, key: &str) -> Result<(ItemKey, usize), ItemError> {
    let malformed = || ItemError::Key(key.to_owned());
    let within = key
        .strip_prefix(&*info.storage_prefix)
        .and_then(|rest| rest.strip_prefix('/'))
        .ok_or_else(malformed)?;
    let namespace_len = match (info.namespaced, within.split_once('/')) {
        (true, Some((namespace, name))) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
            namespace.len()
        }
        (false, None) if !within.is_empty() => 0,
        _ => return Err(malformed()),
    };
    Ok((Arc::from(within), namespace_len))
}

/// The value as JSON of the stored version, if it is something else: in an envelope, or in the form of another schema of a
/// custom resource, whose schema may have changed since. A custom resource in another version is converted first, when it is
/// read.
fn restored(info: &ResourceDefinition, value: &[u8]) -> Result<Option<Vec<u8>>, ItemError> {
    if protobuf::is_enveloped(value) {
        return Ok(Some(encode::object(&foreign::open_envelope(info, value)?)));
    }
    if info
        .stored()
        .schema
        .as_ref()
        .is_none_or(|schema| schema.is_settled(value))
    {
        return Ok(None);
    }
    let mut object = parse(value)?;
    let is_restored = {
        let given = object.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
        let version = info
            .versions
            .iter()
            .find(|version| version.group_version.to_string() == given);
        let schema = version.and_then(|version| version.schema.clone());
        schema.is_some_and(|schema| schema.restore(&mut object))
    };
    Ok(is_restored.then(|| encode::object(&object)))
}

fn is_stored_version(info: &ResourceDefinition, head: &Head<'_>) -> bool {
    let group_version = &info.stored().group_version;
    let version = head.api_version.strip_prefix(&*group_version.group);
    let version = version.and_then(|rest| {
        if group_version.group.is_empty() {
            Some(rest)
        } else {
            rest.strip_prefix('/')
        }
    });
    version == Some(&*group_version.version) && head.kind == *info.kind
}

/// The offset of `"metadata"`, if the value is of the stored version and laid out as [`encode::object`] does it.
fn canonical_body(info: &ResourceDefinition, value: &[u8], head: &Head<'_>) -> Option<usize> {
    if !is_stored_version(info, head) {
        return None;
    }
    let rest = value
        .strip_prefix(br#"{"apiVersion":""#)?
        .strip_prefix(head.api_version.as_bytes())?;
    let rest = rest
        .strip_prefix(br#"","kind":""#)?
        .strip_prefix(head.kind.as_bytes())?;
    let rest = rest.strip_prefix(br#"","#)?;
    rest.strip_prefix(br#""metadata":{""#)?;
    value.len().checked_sub(rest.len())
}

/// The watch line, the object within it, and where the object's `"metadata"` begins.
type Encoded = (Bytes, Bytes, usize);

/// Values of the selectable fields.
type Fields = Box<[Box<str>]>;

fn splice(kind: EventKind, value: &[u8], body: usize, revision: Revision) -> Encoded {
    let (before, after) = value.split_at(body);
    let fields = after.get(br#""metadata":{"#.len()..).unwrap_or_default();
    let digits = revision.to_string();
    let parts = [
        before,
        encode::BODY_TO_REVISION.as_bytes(),
        digits.as_bytes(),
        b"\",",
        fields,
    ];
    let (line, bytes) = make_line(kind, &parts);
    (line, bytes, body)
}

fn encode_anew(
    kind: EventKind,
    info: &ResourceDefinition,
    head: &Head<'_>,
    value: &[u8],
    revision: Revision,
) -> Result<(Encoded, Fields), ItemError> {
    let form = StoredForm::find(info, &head.api_version, &head.kind)?;
    let object = parse(value)?;
    // Webhooks convert when the object is read: this must not wait for a webhook.
    let (group_version, object) = match &info.converter {
        Some(_) => (form.group_version, object),
        None => (
            &info.stored().group_version,
            foreign::in_stored_version(info, &form, object)?,
        ),
    };
    let api_version = group_version.to_string();
    let body = format!(r#"{{"apiVersion":"{api_version}","kind":"{}","#, info.kind).len();
    let (line, bytes) = make_line(kind, &[&encode::object_at(&object, revision)]);
    Ok(((line, bytes, body), info.selectable.values(&object)))
}

/// Reads a whole object into a tree.
pub(crate) fn parse(value: &[u8]) -> Result<Value, ItemError> {
    let decoded = json::decode(value).map_err(|error| ItemError::Unparsable(error.to_string()))?;
    Ok(decoded.value)
}

#[cfg(test)]
mod tests;
