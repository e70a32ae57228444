//! The one place that writes to the store.
//!
//! A write has three outcomes: committed, surely not committed, unknown. An unknown one is looked up once: our bytes at
//! the key mean that it was committed. If that cannot be told, the client hears that the outcome is unknown.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;
use trireme_machinery::ApiError;
use trireme_storage::{Compare, KeyValue, PutOptions, StorageError, WriteOutcome};

use super::Writer;
use crate::{encode, item::Item, store_error};

/// What became of a compare-and-put.
pub(super) enum Put {
    /// Committed; the object as it is now.
    Committed(Arc<Item>),
    /// The key holds something else; nothing was written.
    Conflict(Option<KeyValue>),
}

impl Writer {
    /// Writes an object if `compare` holds. Its `resourceVersion` is not stored.
    pub(super) async fn put(&self, key: &str, object: &Value, compare: Compare) -> Result<Put, ApiError> {
        let bytes = Bytes::from(encode::object(object));
        let lease = match self.info.ttl {
            Some(ttl) if compare == Compare::Absent => Some(self.store.grant_lease(ttl).await.map_err(store_error)?),
            _ => None,
        };
        let written = self.store.put(key, bytes.clone(), compare, PutOptions { lease }).await;
        let outcome = match written {
            Err(StorageError::UnknownOutcome(why)) => self.look_up_put(key, &bytes, compare, why).await?,
            other => other.map_err(store_error)?,
        };
        match outcome {
            WriteOutcome::Committed(revision) => {
                let item = Item::from_stored(&self.info, key, bytes, revision).map_err(ApiError::internal)?;
                Ok(Put::Committed(Arc::new(item)))
            }
            WriteOutcome::Conflict(current) => Ok(Put::Conflict(current)),
        }
    }

    async fn look_up_put(
        &self,
        key: &str,
        bytes: &Bytes,
        compare: Compare,
        why: String,
    ) -> Result<WriteOutcome, ApiError> {
        let unknown = || store_error(StorageError::UnknownOutcome(why.clone()));
        let (found, _) = self.store.get(key, None).await.map_err(|_| unknown())?;
        let before = match compare {
            Compare::Absent => 0,
            Compare::ModRevision(revision) => revision,
        };
        match found {
            Some(entry) if entry.mod_revision > before && entry.value == *bytes => {
                Ok(WriteOutcome::Committed(entry.mod_revision))
            }
            _ => Err(unknown()),
        }
    }

    /// Deletes an object if it is still at this revision; gives back its last state at the revision of the deletion.
    pub(super) async fn remove(&self, key: &str, item: &Item) -> Result<Put, ApiError> {
        match self.store.delete(key, item.revision).await.map_err(store_error)? {
            WriteOutcome::Committed(revision) => Ok(Put::Committed(Arc::new(item.with_revision(revision)))),
            WriteOutcome::Conflict(current) => Ok(Put::Conflict(current)),
        }
    }
}
