//! The embedded store: one process, one file, durable group commits.
//!
//! Callers: the composition root opens it when no etcd is configured; all others see
//! [`Storage`]. Promises:
//! * a write is acknowledged only after the commit that holds it is synced to disk;
//! * no revision is used twice, whatever kills the process;
//! * a write that failed for want of space or by a broken disk has an unknown outcome, and those after it are refused, until
//!   the file can be written again; it is opened again for that, unless a sync has failed;
//! * a read sees every write acknowledged before it began, and a consistent snapshot;
//! * a watch delivers every change once, in order, in whole revisions.
//!
//! Writes go through one thread (`writer`), which shares each sync between all who wait; its queue
//! is bounded, and a full queue is an answer. Reads use the newest published `snapshot` and never
//! wait for writes. What is not here: encryption, and access by a second process.

mod apply;
mod file;
mod leases;
mod snapshot;
mod tables;
#[cfg(test)]
mod tests;
mod watch;
mod writer;

use std::{
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering, mpsc},
    thread::JoinHandle,
    time::Duration,
};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use tokio::sync::{oneshot, watch as channel};

pub use self::file::warn_if_others_may_enter;
use self::{
    apply::{JobReply, StoreJob},
    file::{OpenBackend, StoreFile},
    snapshot::StoreSnapshot,
    writer::{Counters, EmbeddedWriter},
};
use crate::{
    Compare, Fence, KeyValue, LeaseId, PutOptions, RangePage, RangeRequest, Revision, Storage, StorageError,
    WatchStream, WriteOutcome,
};

/// The largest request that is taken: etcd's default, so that what fits here fits there.
pub const MAX_REQUEST_BYTES: usize = 1_572_864;

/// Writes that may wait for the writer: eight full batches, some tens of milliseconds of work.
const QUEUE_JOBS: usize = 4096;

/// Options of an [`EmbeddedStore`].
#[derive(Debug, Clone)]
pub struct EmbeddedOptions {
    /// Sync the file at every commit. Without it a crash of the machine may lose acknowledged
    /// writes; a crash of the process does not.
    pub fsync: bool,
    /// Compact by itself so that about so many revisions of history stay readable. `None` leaves
    /// compaction to the caller.
    pub history_limit: Option<Revision>,
    /// Memory for the database's page cache.
    pub cache_bytes: usize,
    /// Verify the checksums of the whole file when it is opened, so that damage is found then and
    /// not served later. After a crash they are verified in any case.
    pub verify_on_open: bool,
    /// After a write has failed the file is opened again at most so often.
    pub reopen_interval: Duration,
}

impl Default for EmbeddedOptions {
    fn default() -> Self {
        Self {
            fsync: true,
            history_limit: None,
            cache_bytes: 64 << 20,
            verify_on_open: true,
            reopen_interval: Duration::from_secs(1),
        }
    }
}

/// Counters of an [`EmbeddedStore`] since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EmbeddedStats {
    /// Committed transactions.
    pub commits: u64,
    /// Revisions made by them.
    pub revisions: u64,
    /// Times the file was synced.
    pub syncs: u64,
    /// Watches that are open.
    pub watches: usize,
}

/// A [`Storage`] in one local file. Closing is by dropping it, which waits for the running commit.
pub struct EmbeddedStore {
    queue: mpsc::SyncSender<StoreJob>,
    published: Arc<channel::Sender<Arc<StoreSnapshot>>>,
    counters: Arc<Counters>,
    writer: Option<JoinHandle<()>>,
    path: PathBuf,
}

impl EmbeddedStore {
    /// Opens or creates the store in `dir`. Reads the whole index: blocks for as long as that takes.
    pub fn open(dir: &Path, options: EmbeddedOptions) -> Result<Self, StorageError> {
        let path = file::prepare(dir, options.fsync)?;
        let opened = path.clone();
        Self::start(path, Box::new(move || file::backend(&opened)), options)
    }

    fn start(path: PathBuf, open: OpenBackend, options: EmbeddedOptions) -> Result<Self, StorageError> {
        let counters = Arc::new(Counters::default());
        let (queue, jobs) = mpsc::sync_channel(QUEUE_JOBS);
        let (opened, result) = mpsc::sync_channel(1);
        let (shown_path, writer_counters) = (path.clone(), counters.clone());
        let serve = move || {
            let file = StoreFile::new(path, open, options, writer_counters.syncs.clone());
            match EmbeddedWriter::load(file, writer_counters) {
                Err(error) => drop(opened.send(Err(error))),
                Ok((writer, snapshot)) => {
                    let published = Arc::new(channel::Sender::new(Arc::new(snapshot)));
                    drop(opened.send(Ok(published.clone())));
                    writer.run(&jobs, &published);
                }
            }
        };
        let writer = std::thread::Builder::new()
            .name("trireme-store".to_owned())
            .spawn(serve)
            .map_err(|error| StorageError::Failed(format!("cannot start the store's thread: {error}")))?;
        // redb may panic on a file that was damaged behind its back: then the channel just ends.
        let gave_up = |_| file::damaged(&shown_path, &"the database gave up while reading it");
        let published = result.recv().map_err(gave_up)??;
        Ok(Self {
            queue,
            published,
            counters,
            writer: Some(writer),
            path: shown_path,
        })
    }

    /// The counters so far.
    pub fn stats(&self) -> EmbeddedStats {
        EmbeddedStats {
            commits: self.counters.commits.load(Ordering::Relaxed),
            revisions: self.counters.revisions.load(Ordering::Relaxed),
            syncs: self.counters.syncs.count.load(Ordering::Relaxed),
            watches: self.published.receiver_count(),
        }
    }

    fn snapshot(&self) -> Arc<StoreSnapshot> {
        self.published.borrow().clone()
    }

    async fn submit<T>(&self, job: impl FnOnce(JobReply<T>) -> StoreJob) -> Result<T, StorageError> {
        let (reply, answer) = oneshot::channel();
        self.queue.try_send(job(reply)).map_err(|error| match error {
            mpsc::TrySendError::Full(_) => StorageError::Unavailable("the store's write queue is full".to_owned()),
            mpsc::TrySendError::Disconnected(_) => StorageError::Failed("the store has stopped".to_owned()),
        })?;
        let lost = |_| StorageError::UnknownOutcome("the store stopped before it answered".to_owned());
        answer.await.map_err(lost)?
    }
}

impl std::fmt::Debug for EmbeddedStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EmbeddedStore")
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}

impl Drop for EmbeddedStore {
    fn drop(&mut self) {
        if let Some(writer) = self.writer.take() {
            // Blocks only while the queue is full, which the writer is emptying.
            drop(self.queue.send(StoreJob::Stop));
            drop(writer.join());
        }
    }
}

impl Storage for EmbeddedStore {
    fn get<'a>(
        &'a self,
        key: &'a str,
        revision: Option<Revision>,
    ) -> BoxFuture<'a, Result<(Option<KeyValue>, Revision), StorageError>> {
        Box::pin(async move {
            let key = owned(key)?;
            let snapshot = self.snapshot();
            blocking(move || Ok((snapshot.get(&key, revision)?, snapshot.revision))).await
        })
    }

    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<RangePage, StorageError>> {
        Box::pin(async move {
            let snapshot = self.snapshot();
            blocking(move || snapshot.range(&request)).await
        })
    }

    fn put<'a>(
        &'a self,
        key: &'a str,
        value: Bytes,
        compare: Compare,
        options: PutOptions,
    ) -> BoxFuture<'a, Result<WriteOutcome, StorageError>> {
        Box::pin(async move {
            let key = owned(key)?;
            if key.len() + value.len() > MAX_REQUEST_BYTES {
                return Err(StorageError::TooLarge);
            }
            self.submit(|reply| StoreJob::Put {
                key,
                value,
                compare,
                options,
                reply,
            })
            .await
        })
    }

    fn delete<'a>(
        &'a self,
        key: &'a str,
        revision: Revision,
        fence: Option<Fence>,
    ) -> BoxFuture<'a, Result<WriteOutcome, StorageError>> {
        Box::pin(async move {
            let key = owned(key)?;
            self.submit(|reply| StoreJob::Delete {
                key,
                revision,
                fence,
                reply,
            })
            .await
        })
    }

    fn watch<'a>(&'a self, prefix: &'a str, after: Revision) -> BoxFuture<'a, Result<WatchStream, StorageError>> {
        Box::pin(async move {
            let oldest = self.snapshot().compacted;
            if after < oldest {
                return Err(StorageError::Compacted { oldest });
            }
            let stream = watch::watch_after(self.published.subscribe(), Arc::from(prefix), after);
            Ok(Box::pin(stream) as WatchStream)
        })
    }

    fn read_index(&self) -> BoxFuture<'_, Result<Revision, StorageError>> {
        Box::pin(async move { Ok(self.snapshot().revision) })
    }

    fn grant_lease(&self, ttl: Duration) -> BoxFuture<'_, Result<LeaseId, StorageError>> {
        Box::pin(self.submit(move |reply| StoreJob::Grant { ttl, reply }))
    }

    fn revoke_lease(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), StorageError>> {
        Box::pin(self.submit(move |reply| StoreJob::Revoke { lease, reply }))
    }

    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<(), StorageError>> {
        Box::pin(self.submit(move |reply| StoreJob::Compact { revision, reply }))
    }

    fn compacted(&self) -> Revision {
        self.snapshot().compacted
    }

    fn size_bytes(&self) -> BoxFuture<'_, Result<Option<u64>, StorageError>> {
        Box::pin(async move {
            let path = self.path.clone();
            blocking(move || file::size(&path).map(Some)).await
        })
    }

    fn write_failure(&self) -> Option<String> {
        self.counters.write_failure()
    }
}

/// etcd knows no empty key, so neither do we.
fn owned(key: &str) -> Result<Arc<str>, StorageError> {
    if key.is_empty() {
        Err(StorageError::Failed("key is not provided".to_owned()))
    } else {
        Ok(Arc::from(key))
    }
}

/// Runs what may touch the disk away from the threads that serve others.
async fn blocking<T: Send + 'static>(
    read: impl FnOnce() -> Result<T, StorageError> + Send + 'static,
) -> Result<T, StorageError> {
    let lost = |error| StorageError::Failed(format!("a read was given up: {error}"));
    tokio::task::spawn_blocking(read).await.map_err(lost)?
}

/// For fuzzing: reads a record of the log on disk and writes it again.
///
/// # Errors
/// If it is damaged.
#[cfg(feature = "testing")]
#[doc(hidden)]
pub fn reread_log_record(bytes: &[u8]) -> Result<Vec<u8>, StorageError> {
    tables::StoredRecord::decode(bytes).map(|record| record.encode())
}
