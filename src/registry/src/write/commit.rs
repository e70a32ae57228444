//! Stage *commit*: the one place that writes to the store.
//!
//! A write has three outcomes: committed, surely not committed, unknown. The store itself tries again and finds out as
//! much as it can in its time, so nothing is looked up here: what it calls unknown, the client hears to be unknown. What
//! was reserved for such a write stays reserved, since the object may hold it.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;
use trireme_machinery::{ApiError, Reason, json};
use trireme_storage::{Compare, KeyValue, PutOptions, StorageError, WriteOutcome};

use super::{Writer, managed::MANAGED_FIELDS, metadata};
use crate::{
    admission::WriteRequest,
    definition::{ObjectSchema, ServedVersion, StorageMediaType},
    event_kind::EventKind,
    fence::WriteFence,
    item::Item,
    store_error, stored,
    strategy::Reservation,
    trace::TraceStep,
    versions,
};

/// The outcome of a compare-and-put.
pub(super) enum PutResult {
    /// Committed; the object as it is now.
    Committed(Arc<Item>),
    /// The key holds something else; nothing was written.
    Conflict(Option<KeyValue>),
}

/// The reason that a write has no outcome.
enum PutError {
    /// Surely nothing was written.
    NotWritten(ApiError),
    /// It was written, or may have been, or may yet be.
    Unknown(ApiError),
}

impl From<StorageError> for PutError {
    fn from(error: StorageError) -> Self {
        if matches!(error, StorageError::UnknownOutcome(_)) {
            Self::Unknown(store_error(error))
        } else {
            Self::NotWritten(store_error(error))
        }
    }
}

/// An object without its managed fields, which can be as large as the rest of it; `None` if it has none. kube-apiserver gives them
/// up, too, when an object is too large for the store, but not those of an apply.
fn without_managers(object: &Value) -> Option<Value> {
    json::at(object, "/metadata/managedFields")?;
    let mut object = object.clone();
    metadata::of(&mut object).remove(MANAGED_FIELDS);
    Some(object)
}

impl Writer {
    /// Reserves what the object needs beside itself, writes it if `compare` holds, and ends the reservation. The
    /// object's `resourceVersion` is not stored.
    pub(super) async fn put(
        &self,
        request: &WriteRequest,
        key: &str,
        object: &mut Value,
        old: Option<&Value>,
        compare: Compare,
    ) -> Result<PutResult, ApiError> {
        let reservation = match &self.info.side_effects {
            Some(effects) => {
                let reserved = effects.reserve(object, old, false).await;
                request.target.trace.pass(TraceStep::Reserved);
                reserved?
            }
            None => Reservation::default(),
        };
        let put = self.write(request, key, object, compare).await;
        request.target.trace.pass(match &put {
            Ok(PutResult::Committed(_)) => TraceStep::Stored,
            Ok(PutResult::Conflict(_)) => TraceStep::RaceLost,
            Err(_) => TraceStep::StoreFailed,
        });
        if let Some(effects) = &self.info.side_effects {
            match &put {
                Ok(PutResult::Committed(_)) => effects.finish(reservation, true).await,
                Ok(PutResult::Conflict(_)) | Err(PutError::NotWritten(_)) => effects.finish(reservation, false).await,
                Err(PutError::Unknown(_)) => {}
            }
        }
        put.map_err(|error| match error {
            PutError::NotWritten(error) | PutError::Unknown(error) => error,
        })
    }

    async fn write(
        &self,
        request: &WriteRequest,
        key: &str,
        object: &Value,
        compare: Compare,
    ) -> Result<PutResult, PutError> {
        let version = self.version(&request.target).map_err(PutError::NotWritten)?;
        let converted = versions::as_stored(&self.info, version, object).await;
        let converted = converted.map_err(PutError::NotWritten)?;
        let object = converted.as_ref().unwrap_or(object);
        let written = self.write_stored(request, key, object, compare).await;
        match written {
            Err(PutError::NotWritten(error))
                if error.reason == Reason::RequestEntityTooLarge && !request.is_apply() =>
            {
                let Some(bare) = without_managers(object) else {
                    return Err(PutError::NotWritten(error));
                };
                self.write_stored(request, key, &bare, compare).await
            }
            written => written,
        }
    }

    /// Writes an object that is in the stored version.
    async fn write_stored(
        &self,
        request: &WriteRequest,
        key: &str,
        object: &Value,
        compare: Compare,
    ) -> Result<PutResult, PutError> {
        let fence = request.target.fence.as_ref();
        let bytes = stored::at_rest(&self.info, object).map_err(|e| PutError::NotWritten(ApiError::internal(e)))?;
        let items = self.reader.cache().items();
        let _expected = items.expect();
        let mut written = self.put_bytes(key, &bytes, compare, fence).await?;
        if matches!(written, Err(StorageError::LeaseNotFound)) {
            // The lease was shared, and has ended since; the next one is new.
            written = self.put_bytes(key, &bytes, compare, fence).await?;
        }
        WriteFence::note(fence, &written);
        match written? {
            WriteOutcome::Committed(revision) => {
                let kind = if compare == Compare::Absent {
                    EventKind::Added
                } else {
                    EventKind::Modified
                };
                let make = || {
                    if self.reads_as_written(request, &bytes) {
                        Item::from_encoded(kind, &self.info, key, object, &bytes, revision)
                    } else {
                        Item::from_stored_as(kind, &self.info, key, &bytes, revision)
                    }
                };
                let item = items.take_or_make(&self.info, (key, revision), make);
                let item = item.map_err(|error| PutError::Unknown(ApiError::internal(error)))?;
                Ok(PutResult::Committed(item))
            }
            WriteOutcome::Conflict(current) => Ok(PutResult::Conflict(current)),
        }
    }

    /// Reports whether what a request writes is read as it is. A custom resource gets the defaults of the stored version when it is
    /// read: those of a status that its creation has dropped, and those of fields that the version of the request lacks.
    fn reads_as_written(&self, request: &WriteRequest, bytes: &[u8]) -> bool {
        let stored = self.info.stored();
        let is_stored = |version: &ServedVersion| version.group_version == stored.group_version;
        let reads_as_written = |schema: &Arc<dyn ObjectSchema>| {
            self.version(&request.target).is_ok_and(is_stored) && schema.is_settled(bytes)
        };
        self.info.storage_media_type == StorageMediaType::Json && stored.schema.as_ref().is_none_or(reads_as_written)
    }

    /// Writes the bytes, with a lease if the kind expires: a change renews the time to live, and a put without a lease would
    /// make the object stay for ever.
    async fn put_bytes(
        &self,
        key: &str,
        bytes: &Bytes,
        compare: Compare,
        fence: Option<&WriteFence>,
    ) -> Result<Result<WriteOutcome, StorageError>, PutError> {
        let lease = match self.info.ttl {
            Some(life) => Some(
                self.leases
                    .take(&*self.store, life, self.clock.now())
                    .await
                    .map_err(|e| PutError::NotWritten(store_error(e)))?,
            ),
            None => None,
        };
        let options = PutOptions {
            lease,
            fence: fence.map(WriteFence::at),
        };
        let written = self.store.put(key, bytes.clone(), compare, options).await;
        if let Some(lease) = lease {
            self.leases.settle(&*self.store, lease, &written).await;
        }
        Ok(written)
    }

    /// Deletes an object if it is still at this revision; gives back its last state at the revision of the deletion.
    pub(super) async fn remove(&self, request: &WriteRequest, key: &str, item: &Item) -> Result<PutResult, ApiError> {
        let fence = request.target.fence.as_ref();
        let outcome = self.store.delete(key, item.revision, fence.map(WriteFence::at)).await;
        WriteFence::note(fence, &outcome);
        request.target.trace.pass(match &outcome {
            Ok(WriteOutcome::Committed(_)) => TraceStep::Removed,
            Ok(WriteOutcome::Conflict(_)) => TraceStep::RaceLost,
            Err(_) => TraceStep::StoreFailed,
        });
        match outcome.map_err(store_error)? {
            WriteOutcome::Committed(revision) => Ok(PutResult::Committed(Arc::new(item.with_revision(revision)))),
            WriteOutcome::Conflict(current) => Ok(PutResult::Conflict(current)),
        }
    }
}
