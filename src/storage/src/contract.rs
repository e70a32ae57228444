//! The contract of every store. Terms and semantics follow etcd v3 (`etcdserverpb`).

use std::{pin::Pin, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::{Stream, future::BoxFuture};
use tokio::sync::watch;

/// A store revision: one number for the whole keyspace, growing by one with each committed write.
pub type Revision = i64;

/// Identifies a time-to-live lease in the store.
pub type LeaseId = i64;

/// One stored entry as of some revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyValue {
    /// The full key.
    pub key: Arc<str>,
    /// The value bytes.
    pub value: Bytes,
    /// Revision at which this incarnation of the key was created.
    pub create_revision: Revision,
    /// Revision of the last write to the key.
    pub mod_revision: Revision,
}

/// One change, in revision order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The key was created or updated; `previous` is the entry it replaced, if the key existed.
    Put {
        /// The entry as written.
        entry: KeyValue,
        /// The entry as it was before, unless created.
        previous: Option<KeyValue>,
    },
    /// The key was deleted (by a request or by its lease's expiry).
    Delete {
        /// The deleted key.
        key: Arc<str>,
        /// The revision of the deletion.
        revision: Revision,
        /// The entry as it was before; `None` only if the store has compacted it away.
        previous: Option<KeyValue>,
    },
}

impl Event {
    /// The key that changed.
    pub fn key(&self) -> &Arc<str> {
        match self {
            Self::Put { entry, .. } => &entry.key,
            Self::Delete { key, .. } => key,
        }
    }

    /// The revision of the change.
    pub fn revision(&self) -> Revision {
        match self {
            Self::Put { entry, .. } => entry.mod_revision,
            Self::Delete { revision, .. } => *revision,
        }
    }

    /// The entry as it was before the change.
    pub fn previous(&self) -> Option<&KeyValue> {
        match self {
            Self::Put { previous, .. } | Self::Delete { previous, .. } => previous.as_ref(),
        }
    }
}

/// All events of one or more whole revisions: a revision is never split across batches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchBatch {
    /// Events in revision order; empty for a progress notification.
    pub events: Vec<Event>,
    /// Everything at or below this revision that matches the watch has now been delivered.
    pub revision: Revision,
}

/// A running watch. It ends after an error; [`StorageError::Compacted`] says from where to go on.
pub type WatchStream = Pin<Box<dyn Stream<Item = Result<WatchBatch, StorageError>> + Send>>;

/// Which keys to read, and as of when.
#[derive(Debug, Clone, Default)]
pub struct RangeRequest {
    /// All keys that start with this prefix.
    pub prefix: String,
    /// Only keys at or after this one (a full key), to go on with a paged read.
    pub start: Option<String>,
    /// At most so many entries; 0 means all.
    pub limit: usize,
    /// As of this revision; `None` (or 0, as in etcd) reads the newest state, linearizably.
    pub revision: Option<Revision>,
}

/// A page of entries in key order.
#[derive(Debug, Clone)]
pub struct RangePage {
    /// The entries.
    pub entries: Vec<KeyValue>,
    /// The revision this page is a snapshot of when none was asked for, else the store's newest.
    pub revision: Revision,
    /// True if more keys follow under the prefix.
    pub more: bool,
    /// The number of keys under the prefix, from `start` on, at that revision.
    pub count: usize,
}

/// The condition of a conditional write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compare {
    /// The key must not exist.
    Absent,
    /// The key's `mod_revision` must be this.
    ModRevision(Revision),
}

/// A second key that must not have changed for a write to be made, compared in the same transaction. A replica
/// that takes over some work from another writes the key, and from then on the other's writes have no effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fence {
    /// The key; not the one that is written.
    pub key: Arc<str>,
    /// The key's `mod_revision` must be this.
    pub mod_revision: Revision,
    /// The fencing token that the holder wrote into the key. Nothing compares it: a store that leaves a trace of its writes
    /// names it there, for checks from outside.
    pub token: u64,
}

/// Optional parts of a put.
#[derive(Debug, Clone, Default)]
pub struct PutOptions {
    /// Attach the entry to this lease; it is deleted when the lease expires.
    pub lease: Option<LeaseId>,
    /// Write only if this holds; else the put fails with [`StorageError::Fenced`].
    pub fence: Option<Fence>,
}

/// The outcome of a conditional write whose fate is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WriteOutcome {
    /// The write was committed at this revision.
    Committed(Revision),
    /// The compare failed and nothing was written; the entry as it is now, if any.
    Conflict(Option<KeyValue>),
}

/// The reason that the store did not answer as asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StorageError {
    /// The wanted revision lies before the compaction horizon.
    #[error("required revision has been compacted, oldest is {oldest}")]
    Compacted {
        /// The oldest revision that can still be read or watched from.
        oldest: Revision,
    },
    /// The wanted revision has not happened yet.
    #[error("required revision is a future revision, current is {current}")]
    Future {
        /// The newest revision.
        current: Revision,
    },
    /// The request is larger than the store takes. Nothing was written.
    #[error("request is too large")]
    TooLarge,
    /// The store could not be reached, and the request surely had no effect.
    #[error("store is unavailable: {0}")]
    Unavailable(String),
    /// The deadline passed or the connection broke after a write was sent: it may or may not have
    /// been, or may yet be, committed.
    #[error("outcome of the write is unknown: {0}")]
    UnknownOutcome(String),
    /// A read did not finish before its deadline.
    #[error("store did not answer in time")]
    Timeout,
    /// The write's [`Fence`] does not hold. Nothing was written, whether or not the key is as wanted.
    #[error("fenced out: another holder has taken over")]
    Fenced,
    /// The lease does not exist (any more).
    #[error("lease not found")]
    LeaseNotFound,
    /// The store has no room left. Nothing was written; reads and deletions go on.
    #[error("store is full: {0}")]
    Full(String),
    /// The value could not be encrypted, such as because a KMS plugin is away. Nothing was written.
    #[error("failed to encrypt data: {0}")]
    Encryption(String),
    /// The store is damaged or misconfigured. Nothing was written.
    #[error("store failed: {0}")]
    Failed(String),
}

/// An ordered, revisioned, watchable map from keys to bytes.
///
/// All methods may be called from any thread inside a tokio runtime, and all futures may be dropped
/// at any time; a write whose future is dropped may still be committed.
pub trait Storage: Send + Sync + 'static {
    /// Reads one key: the newest entry (linearizable), or the one at `revision`. The second value
    /// is the store's newest revision as seen by this read.
    fn get<'a>(
        &'a self,
        key: &'a str,
        revision: Option<Revision>,
    ) -> BoxFuture<'a, Result<(Option<KeyValue>, Revision), StorageError>>;

    /// Reads keys under a prefix in key order.
    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<RangePage, StorageError>>;

    /// Writes `value` if `compare` holds. On return of `Committed` the write is durable.
    fn put<'a>(
        &'a self,
        key: &'a str,
        value: Bytes,
        compare: Compare,
        options: PutOptions,
    ) -> BoxFuture<'a, Result<WriteOutcome, StorageError>>;

    /// Deletes the key if its `mod_revision` is `revision`. Fails with `Fenced` if there is a fence that does not hold.
    fn delete<'a>(
        &'a self,
        key: &'a str,
        revision: Revision,
        fence: Option<Fence>,
    ) -> BoxFuture<'a, Result<WriteOutcome, StorageError>>;

    /// Streams all changes under `prefix` with a revision above `after`, in order, without gaps.
    /// Sends an empty batch now and then so that the reader's clock moves on when nothing happens
    /// under the prefix, if the store can do so truthfully. Fails with `Compacted` if `after` lies
    /// before the compaction horizon, at once or as the stream's first item. `after` may lie in the
    /// future: then nothing is sent until a revision above it.
    fn watch<'a>(&'a self, prefix: &'a str, after: Revision) -> BoxFuture<'a, Result<WatchStream, StorageError>>;

    /// Reports whether the newest entry at a key would be stored otherwise if it were written again as it is: encrypted by
    /// another provider or key, or not at all. Then an update without a change is written all the same.
    fn is_stale<'a>(&'a self, _key: &'a str) -> BoxFuture<'a, Result<bool, StorageError>> {
        Box::pin(std::future::ready(Ok(false)))
    }

    /// Changes when values that could not be decrypted may be readable now; `None` if that never happens.
    fn readable_anew(&self) -> Option<watch::Receiver<u64>> {
        None
    }

    /// The newest committed revision, linearizably: no write acknowledged before the call has a
    /// higher one.
    fn read_index(&self) -> BoxFuture<'_, Result<Revision, StorageError>>;

    /// Makes a lease that expires after `ttl` (rounded up to whole seconds).
    fn grant_lease(&self, ttl: Duration) -> BoxFuture<'_, Result<LeaseId, StorageError>>;

    /// Ends a lease and deletes what is attached to it.
    fn revoke_lease(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), StorageError>>;

    /// Forgets all history before `revision`: reads and watches from before it fail with
    /// `Compacted`. The newest entry of each key stays. Compacting twice to one revision fails with
    /// `Compacted`, as etcd does.
    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<(), StorageError>>;

    /// The compaction horizon as far as it is known here, 0 if nothing is known of one: what is older cannot be read. It
    /// covers what was compacted through this handle, or was found to be when that was tried.
    fn compacted(&self) -> Revision;

    /// The bytes that the database takes on disk, of one member if there are several; `None` if the store cannot tell.
    fn size_bytes(&self) -> BoxFuture<'_, Result<Option<u64>, StorageError>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// The reason that the store takes no writes, if the last one that was tried has shown that; a store that is asked over a
    /// network cannot tell.
    fn write_failure(&self) -> Option<String> {
        None
    }
}
