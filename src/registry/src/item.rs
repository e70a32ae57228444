//! An object at rest in the cache: its final JSON bytes and the few facts needed to index it.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde_json::Value;
use trireme_machinery::{ApiError, json};
use trireme_storage::Revision;

use crate::{
    encode::{self, BODY_TO_REVISION},
    event_kind::{EventKind, LINE_TAIL},
    protobuf_form::ProtobufForm,
};

/// `namespace/name`, or `name` for cluster-scoped resources; ordered as the store orders its keys.
pub type ItemKey = Arc<str>;

/// One object, immutable.
///
/// `bytes` is laid out `{"apiVersion":…,"kind":…,"metadata":{"resourceVersion":"N",…},…}`: an item of a list is
/// `{` followed by everything from `body` on.
#[derive(Debug)]
pub struct Item {
    /// The object as a GET in the stored version answers it.
    pub bytes: Bytes,
    /// Offset in `bytes` of the `"metadata"` key.
    pub body: usize,
    /// The revision of the last write, which is `metadata.resourceVersion`.
    pub revision: Revision,
    /// The key within the resource.
    pub key: ItemKey,
    /// Length of the namespace in `key`; 0 for cluster-scoped.
    pub namespace_len: usize,
    /// `metadata.uid`
    pub uid: Box<str>,
    /// `metadata.labels`, sorted by key.
    pub labels: Box<[(Box<str>, Box<str>)]>,
    /// The uids that `metadata.ownerReferences` names.
    pub owners: Box<[Box<str>]>,
    /// True if a deletion is under way: there is a `metadata.deletionTimestamp`.
    pub is_terminating: bool,
    /// True if the store has it in another form than it would be written in: an older version, another media type.
    pub(crate) is_stale: bool,
    /// Values of the resource's selectable fields, in the order of `ResourceDefinition::selectable`.
    pub fields: Box<[Box<str>]>,
    /// The object as the line of a watch; `bytes` is a part of it, so that the most frequent form costs no memory.
    pub(crate) line: Bytes,
    /// The kind of change of `line`.
    pub(crate) line_kind: EventKind,
    /// The object in protobuf, once a client has asked for it; `None` in it if it has no such form.
    pub(crate) protobuf: OnceLock<Option<Box<ProtobufForm>>>,
}

impl Item {
    /// `metadata.namespace`, empty for cluster-scoped resources.
    pub fn namespace(&self) -> &str {
        self.key.get(..self.namespace_len).unwrap_or("")
    }

    /// `metadata.name`
    pub fn name(&self) -> &str {
        let start = if self.namespace_len == 0 {
            0
        } else {
            self.namespace_len + 1
        };
        self.key.get(start..).unwrap_or("")
    }

    /// The value of a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        let place = self.labels.binary_search_by(|(label, _)| (**label).cmp(key)).ok()?;
        self.labels.get(place).map(|(_, value)| &**value)
    }

    /// The object as an item of a list, after its opening brace: `"metadata":{…},…}`.
    pub fn list_body(&self) -> Bytes {
        self.bytes.slice(self.body..)
    }

    /// The same object at another revision: the last state of a deleted one.
    pub fn with_revision(&self, revision: Revision) -> Self {
        let digits = self.body + BODY_TO_REVISION.len();
        let before = self.bytes.slice(..digits);
        let after = self.bytes.slice(digits + self.revision.to_string().len()..);
        let (line, bytes) = make_line(EventKind::Deleted, &[&before, revision.to_string().as_bytes(), &after]);
        Self {
            bytes,
            body: self.body,
            revision,
            key: self.key.clone(),
            namespace_len: self.namespace_len,
            uid: self.uid.clone(),
            labels: self.labels.clone(),
            owners: self.owners.clone(),
            is_terminating: self.is_terminating,
            is_stale: self.is_stale,
            fields: self.fields.clone(),
            line,
            line_kind: EventKind::Deleted,
            protobuf: OnceLock::new(),
        }
    }

    /// The same item with its object in another version, in which labels and selectable fields may have other values; these
    /// are `fields`.
    pub(crate) fn with_object(&self, object: &Value, fields: Box<[Box<str>]>) -> Self {
        let encoded = encode::object_at(object, self.revision);
        let (line, bytes) = make_line(self.line_kind, &[&encoded]);
        let body = memchr::memmem::find(&bytes, br#""metadata":{"#).unwrap_or(1);
        Self {
            bytes,
            body,
            revision: self.revision,
            key: self.key.clone(),
            namespace_len: self.namespace_len,
            uid: self.uid.clone(),
            labels: labels_of(object),
            owners: self.owners.clone(),
            is_terminating: self.is_terminating,
            is_stale: self.is_stale,
            fields,
            line,
            line_kind: self.line_kind,
            protobuf: OnceLock::new(),
        }
    }

    /// Reports whether the line of a watch that says `kind` is at hand without a copy.
    pub(crate) fn has_line(&self, kind: EventKind) -> bool {
        self.line_kind == kind
    }

    /// The line of a watch that says `kind` of this object.
    pub(crate) fn line(&self, kind: EventKind) -> Bytes {
        if self.has_line(kind) {
            return self.line.clone();
        }
        make_line(kind, &[&self.bytes]).0
    }
}

/// The labels of an object, sorted by key.
fn labels_of(object: &Value) -> Box<[(Box<str>, Box<str>)]> {
    let labels = json::at(object, "/metadata/labels").and_then(Value::as_object);
    let labels = labels.into_iter().flatten();
    let mut labels: Vec<(Box<str>, Box<str>)> = labels
        .map(|(key, value)| (key.as_str().into(), value.as_str().unwrap_or_default().into()))
        .collect();
    labels.sort_unstable();
    labels.into()
}

/// A cached object as a tree, in the stored version and with its `resourceVersion`.
///
/// # Errors
/// If the store holds something else than JSON.
pub fn parse(item: &Item) -> Result<Value, ApiError> {
    let decoded = json::decode(&item.bytes).map_err(|error| {
        tracing::error!(key = %item.key, %error, "a cached object is not JSON");
        ApiError::internal("a stored object cannot be read")
    })?;
    Ok(decoded.value)
}

/// Makes a watch line of the parts of an object; the second value is the object within it.
pub(crate) fn make_line(kind: EventKind, object: &[&[u8]]) -> (Bytes, Bytes) {
    let head = kind.line_head();
    let object_len: usize = object.iter().map(|part| part.len()).sum();
    let mut line = Vec::with_capacity(head.len() + object_len + LINE_TAIL.len());
    line.extend_from_slice(head);
    for part in object {
        line.extend_from_slice(part);
    }
    line.extend_from_slice(LINE_TAIL);
    let line = Bytes::from(line);
    let bytes = line.slice(head.len()..head.len() + object_len);
    (line, bytes)
}
