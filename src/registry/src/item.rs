//! An object at rest in the cache: its final JSON bytes and the few facts needed to index it.

use std::sync::Arc;

use bytes::Bytes;
use trireme_storage::Revision;

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
    /// Values of the resource's selectable fields, in the order of `ResourceInfo::selectable`.
    pub fields: Box<[Box<str>]>,
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

    /// The object as an item of a list, after its opening brace: `"metadata":{…},…}`.
    pub fn list_body(&self) -> Bytes {
        self.bytes.slice(self.body..)
    }
}
