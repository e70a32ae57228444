//! The one place that writes to the store.
//!
//! A write has three outcomes: committed, surely not committed, unknown. The store itself tries again and finds out as
//! much as it can in its time, so nothing is looked up here: what it calls unknown, the client hears to be unknown. What
//! was reserved for such a write stays reserved, since the object may hold it.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;
use trireme_machinery::ApiError;
use trireme_storage::{Compare, KeyValue, PutOptions, StorageError, WriteOutcome};

use super::Writer;
use crate::{
    encode, event::EventKind, fence::Fence, item::Item, request::Target, store_error, strategy::Reservation,
    trace::TraceStep,
};

/// Where an object is in the store, and what is asked of it.
pub(super) struct Place<'t> {
    pub(super) key: String,
    pub(super) target: &'t Target,
}

/// What became of a compare-and-put.
pub(super) enum Put {
    /// Committed; the object as it is now.
    Committed(Arc<Item>),
    /// The key holds something else; nothing was written.
    Conflict(Option<KeyValue>),
}

/// Why a write has no outcome.
enum Fault {
    /// Surely nothing was written.
    NotWritten(ApiError),
    /// It was written, or may have been, or may yet be.
    Unknown(ApiError),
}

impl From<StorageError> for Fault {
    fn from(error: StorageError) -> Self {
        if matches!(error, StorageError::UnknownOutcome(_)) {
            Self::Unknown(store_error(error))
        } else {
            Self::NotWritten(store_error(error))
        }
    }
}

impl Writer {
    /// Reserves what the object needs beside itself, writes it if `compare` holds, and ends the reservation. The
    /// object's `resourceVersion` is not stored.
    pub(super) async fn put(
        &self,
        place: &Place<'_>,
        object: &mut Value,
        old: Option<&Value>,
        compare: Compare,
    ) -> Result<Put, ApiError> {
        let reservation = match &self.info.side_effects {
            Some(effects) => {
                let reserved = effects.reserve(object, old, false).await;
                place.target.trace.pass(TraceStep::Reserved);
                reserved?
            }
            None => Reservation::default(),
        };
        let put = self.write(place, object, compare).await;
        place.target.trace.pass(match &put {
            Ok(Put::Committed(_)) => TraceStep::Stored,
            Ok(Put::Conflict(_)) => TraceStep::RaceLost,
            Err(_) => TraceStep::StoreFailed,
        });
        if let Some(effects) = &self.info.side_effects {
            match &put {
                Ok(Put::Committed(_)) => effects.finish(reservation, true).await,
                Ok(Put::Conflict(_)) | Err(Fault::NotWritten(_)) => effects.finish(reservation, false).await,
                Err(Fault::Unknown(_)) => {}
            }
        }
        put.map_err(|fault| match fault {
            Fault::NotWritten(error) | Fault::Unknown(error) => error,
        })
    }

    async fn write(&self, place: &Place<'_>, object: &Value, compare: Compare) -> Result<Put, Fault> {
        let Place { key, target } = place;
        let fence = target.fence.as_ref();
        let bytes = Bytes::from(encode::object(object));
        // A change renews the time to live: a put without a lease would make the object stay for ever.
        let lease = match self.info.ttl {
            Some(ttl) => Some(
                self.store
                    .grant_lease(ttl)
                    .await
                    .map_err(|e| Fault::NotWritten(store_error(e)))?,
            ),
            None => None,
        };
        let options = PutOptions {
            lease,
            fence: fence.map(Fence::at),
        };
        let written = self.store.put(key, bytes.clone(), compare, options).await;
        Fence::note(fence, &written);
        match written? {
            WriteOutcome::Committed(revision) => {
                let kind = if compare == Compare::Absent {
                    EventKind::Added
                } else {
                    EventKind::Modified
                };
                let item = Item::from_encoded(kind, &self.info, key, object, &bytes, revision);
                Ok(Put::Committed(Arc::new(
                    item.map_err(|error| Fault::Unknown(ApiError::internal(error)))?,
                )))
            }
            WriteOutcome::Conflict(current) => Ok(Put::Conflict(current)),
        }
    }

    /// Deletes an object if it is still at this revision; gives back its last state at the revision of the deletion.
    pub(super) async fn remove(&self, place: &Place<'_>, item: &Item) -> Result<Put, ApiError> {
        let Place { key, target } = place;
        let fence = target.fence.as_ref();
        let outcome = self.store.delete(key, item.revision, fence.map(Fence::at)).await;
        Fence::note(fence, &outcome);
        target.trace.pass(match &outcome {
            Ok(WriteOutcome::Committed(_)) => TraceStep::Removed,
            Ok(WriteOutcome::Conflict(_)) => TraceStep::RaceLost,
            Err(_) => TraceStep::StoreFailed,
        });
        match outcome.map_err(store_error)? {
            WriteOutcome::Committed(revision) => Ok(Put::Committed(Arc::new(item.with_revision(revision)))),
            WriteOutcome::Conflict(current) => Ok(Put::Conflict(current)),
        }
    }
}
