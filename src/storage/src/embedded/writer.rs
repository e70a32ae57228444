//! The one thread that writes. It drains its bounded queue into one redb transaction (group
//! commit), commits durably, publishes the new snapshot, and only then answers:
//!
//! ```text
//! queue ─ drain ─▶ apply to tables and index ─▶ commit (one fsync) ─▶ publish snapshot ─▶ answer all
//!    ▲                                             │ while this runs, the next batch queues up
//! ```
//! The revision clock is written in the same transaction as the changes, and no reader sees a
//! revision before its commit, so no revision is ever used twice. After a failed commit what is on disk is unknown until the
//! file is opened again. That is tried now and then, and requests are refused for as long as it fails; but never after a
//! failed sync, when the system may show a file that is not on the disk.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, RecvTimeoutError},
    },
    time::Duration,
};

use imbl::Vector;
use redb::{Database, ReadableDatabase, ReadableTable};
use tokio::{sync::watch, time::Instant};

use super::{
    apply::{Batch, PendingReply, StoreJob, StoreState},
    file::{StoreFile, Syncs, damaged, load_error, redb_error},
    leases::StoreLeases,
    snapshot::{Commit, Index, Live, StoreSnapshot},
    tables::{
        FORMAT, KEYS, LEASES, LOG, META, META_COMPACTED, META_FORMAT, META_NEXT_LEASE, META_REVISION, META_SWEPT,
    },
};
use crate::{Event, KeyValue, Revision, StorageError};

/// A batch is bounded so that the first in it does not wait long for the last.
const BATCH_JOBS: usize = 512;
/// Bounds the memory of a batch and the length of its commit.
const BATCH_BYTES: usize = 8 << 20;
/// The time for which the writer waits for the next request when the last batch was larger than this one: the
/// callers just answered are about to ask again, and a commit is worth far more than this.
const LINGER: Duration = Duration::from_micros(200);
/// Log records swept per commit after a compaction: a few milliseconds of work between batches.
const SWEEP_RECORDS: usize = 512;
/// Leases ended per batch. No more are when so many keys have gone with them: after a restart all leases that are
/// left end at once.
const EXPIRE_LEASES: usize = 64;
const EXPIRE_KEYS: usize = 1_000;
/// After the file was opened again, or could not be, so many times what that took passes until the next time: to open it
/// is to read all of it. But no more than this: what has space again is to be written to soon.
const REOPEN_PAUSE: u32 = 10;
const LONGEST_REOPEN_PAUSE: Duration = Duration::from_secs(10);
/// Recent events kept in memory so that watchers that keep up need no disk.
const RECENT_EVENTS: usize = 4096;
const RECENT_BYTES: usize = 8 << 20;
/// An empty store's revision, as in etcd: the first write gets the next one.
const FIRST_REVISION: Revision = 1;

/// Counters since the store was opened, and the state of its file.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) commits: AtomicU64,
    pub(super) revisions: AtomicU64,
    pub(super) syncs: Arc<Syncs>,
    write_failure: Mutex<Option<String>>,
}

impl Counters {
    /// The reason that nothing can be written.
    pub(super) fn write_failure(&self) -> Option<String> {
        let failure = self.write_failure.lock();
        failure.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_write_failure(&self, why: Option<String>) {
        metrics::gauge!("trireme_store_writable").set(if why.is_none() { 1.0 } else { 0.0 });
        let failure = self.write_failure.lock();
        *failure.unwrap_or_else(PoisonError::into_inner) = why;
    }
}

pub(super) struct EmbeddedWriter {
    file: StoreFile,
    /// `None` after the file could not be opened again.
    database: Option<Database>,
    state: StoreState,
    recent: Vector<Arc<Commit>>,
    recent_events: usize,
    recent_bytes: usize,
    last_batch: usize,
    counters: Arc<Counters>,
    /// The reason that nothing can be written: a commit has failed.
    broken: Option<String>,
    /// The file is not opened again before.
    next_reopen: Instant,
}

impl EmbeddedWriter {
    /// Loads the state; the second value is the first snapshot to publish.
    pub(super) fn load(file: StoreFile, counters: Arc<Counters>) -> Result<(Self, StoreSnapshot), StorageError> {
        let (database, state) = load(&file)?;
        let writer = Self {
            file,
            database: Some(database),
            state,
            recent: Vector::new(),
            recent_events: 0,
            recent_bytes: 0,
            last_batch: 0,
            counters,
            broken: None,
            next_reopen: Instant::now(),
        };
        let snapshot = writer.snapshot()?;
        writer.counters.set_write_failure(None);
        Ok((writer, snapshot))
    }

    /// Serves the queue until it is stopped, or until the store's handle is gone.
    pub(super) fn run(mut self, queue: &Receiver<StoreJob>, published: &watch::Sender<Arc<StoreSnapshot>>) {
        loop {
            let (jobs, stop) = self.collect(queue);
            self.last_batch = jobs.len();
            self.reopen(published);
            match self.refusal() {
                None => self.commit(jobs, published),
                Some(refusal) => refuse(jobs, &refusal),
            }
            if stop {
                break;
            }
        }
        self.close();
    }

    /// Releases the file at once, though a watcher may still hold a snapshot.
    fn close(&mut self) {
        if let Some(Err(error)) = self.database.take().map(Database::close) {
            tracing::warn!(path = %self.file.path.display(), error = %error, "the store was not closed cleanly");
        }
    }

    fn database(&self) -> Result<&Database, StorageError> {
        let closed = || StorageError::Failed("the file is not open".to_owned());
        self.database.as_ref().ok_or_else(closed)
    }

    /// Opens the file again if a commit has failed, since only that shows what is on disk.
    fn reopen(&mut self, published: &watch::Sender<Arc<StoreSnapshot>>) {
        let began = Instant::now();
        if self.broken.is_none() || began < self.next_reopen || self.file.sync_has_failed() {
            return;
        }
        self.close();
        let path = self.file.path.display().to_string();
        let loaded = load(&self.file).and_then(|(database, state)| {
            let acknowledged = published.borrow().revision;
            if state.revision < acknowledged {
                return Err(damaged(&self.file.path, &"it lacks what was acknowledged"));
            }
            self.database = Some(database);
            self.state = state;
            self.recent = Vector::new();
            (self.recent_events, self.recent_bytes) = (0, 0);
            self.snapshot()
        });
        match loaded {
            Ok(snapshot) => {
                tracing::info!(path, revision = snapshot.revision, "the embedded store writes again");
                published.send_replace(Arc::new(snapshot));
                self.broken = None;
                self.counters.set_write_failure(None);
            }
            Err(error) => tracing::warn!(path, %error, "the embedded store cannot be opened again yet"),
        }
        self.next_reopen = Instant::now() + reopen_pause(began.elapsed()).max(self.file.options.reopen_interval);
    }

    /// The answer to all requests while nothing can be written.
    fn refusal(&self) -> Option<StorageError> {
        let why = self.broken.clone()?;
        Some(if self.file.sync_has_failed() {
            StorageError::Failed(format!("{why}; start the server again"))
        } else {
            StorageError::Unavailable(why)
        })
    }

    /// Waits for work: requests, leases that end, or history to sweep.
    fn collect(&self, queue: &Receiver<StoreJob>) -> (Vec<StoreJob>, bool) {
        let (mut jobs, mut bytes) = (Vec::new(), 0_usize);
        let mut next = match self.idle_time() {
            None => queue.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(wait) => queue.recv_timeout(wait),
        };
        loop {
            match next {
                Ok(StoreJob::Stop) | Err(RecvTimeoutError::Disconnected) => return (jobs, true),
                Err(RecvTimeoutError::Timeout) => return (jobs, false),
                Ok(job) => {
                    bytes += job.bytes();
                    jobs.push(job);
                }
            }
            if jobs.len() >= BATCH_JOBS || bytes >= BATCH_BYTES {
                return (jobs, false);
            }
            let linger = if jobs.len() < self.last_batch {
                LINGER
            } else {
                Duration::ZERO
            };
            next = queue.recv_timeout(linger);
        }
    }

    /// The time for which the writer may sleep; `None` is until a request comes.
    fn idle_time(&self) -> Option<Duration> {
        if self.broken.is_some() {
            // Readers need the file, too, and leases are to end, though nobody writes.
            let reopens = !self.file.sync_has_failed();
            return reopens.then(|| self.next_reopen.saturating_duration_since(Instant::now()));
        }
        if self.state.swept < self.state.compacted {
            return Some(Duration::ZERO);
        }
        let deadline = self.state.leases.next_deadline()?;
        Some(deadline.saturating_duration_since(Instant::now()))
    }

    fn commit(&mut self, jobs: Vec<StoreJob>, published: &watch::Sender<Arc<StoreSnapshot>>) {
        let started = Instant::now();
        let requests = jobs.len();
        let mut answers = Vec::with_capacity(requests);
        let base = self.state.revision;
        let result = self.transact(jobs, &mut answers, started);
        let changed = match result {
            Ok(None) => return answers.into_iter().for_each(PendingReply::send),
            Ok(Some(events)) => {
                self.remember(base, events);
                self.snapshot()
            }
            Err(error) => Err(error),
        };
        match changed {
            Ok(snapshot) => {
                published.send_replace(Arc::new(snapshot));
                self.count(base, requests, started.elapsed());
                answers.into_iter().for_each(PendingReply::send);
            }
            Err(error) => {
                let why = format!("{}: {error}", self.file.path.display());
                tracing::error!(why, "the embedded store has stopped writing");
                self.broken = Some(why);
                if let Some(refusal) = self.refusal() {
                    self.counters.set_write_failure(Some(refusal.to_string()));
                    answers
                        .into_iter()
                        .for_each(|answer| answer.send_commit_failed(&refusal));
                }
            }
        }
    }

    /// Applies the requests and commits if anything changed.
    fn transact(
        &mut self,
        jobs: Vec<StoreJob>,
        answers: &mut Vec<PendingReply>,
        now: Instant,
    ) -> Result<Option<Vec<Event>>, StorageError> {
        let mut transaction = self.database()?.begin_write().map_err(redb_error)?;
        // With one phase a commit whose pages are damaged later is taken for one that never came about, and the one
        // before it is served; with two, what was acknowledged is there or the file is refused.
        transaction.set_two_phase_commit(true);
        let mut batch = Batch::open(&transaction, now)?;
        for lease in self.state.leases.expired(now, EXPIRE_LEASES) {
            if batch.events.len() < EXPIRE_KEYS {
                batch.revoke(&mut self.state, lease)?;
            }
        }
        for job in jobs {
            answers.extend(batch.apply(&mut self.state, job)?);
        }
        if let Some(limit) = self.file.options.history_limit {
            // A tenth of slack, so that this happens now and then and not at every write.
            let horizon = self.state.revision - limit;
            if horizon - self.state.compacted > limit / 10 {
                batch.compact(&mut self.state, horizon)?;
            }
        }
        if self.state.swept < self.state.compacted {
            batch.sweep(&mut self.state, SWEEP_RECORDS)?;
        }
        batch.finish(&self.state)?;
        let (events, dirty) = (std::mem::take(&mut batch.events), batch.dirty);
        drop(batch);
        if !dirty {
            transaction.abort().map_err(redb_error)?;
            return Ok(None);
        }
        transaction.commit().map_err(redb_error)?;
        Ok(Some(events))
    }

    /// Adds a commit to the recent ones and forgets the oldest beyond the bounds.
    fn remember(&mut self, base: Revision, events: Vec<Event>) {
        if events.is_empty() {
            return;
        }
        let bytes = events.iter().map(event_bytes).sum();
        self.recent_events += events.len();
        self.recent_bytes += bytes;
        self.recent.push_back(Arc::new(Commit {
            base,
            revision: self.state.revision,
            events,
            bytes,
        }));
        while self.recent_events > RECENT_EVENTS || self.recent_bytes > RECENT_BYTES {
            let Some(oldest) = self.recent.pop_front() else { break };
            self.recent_events -= oldest.events.len();
            self.recent_bytes -= oldest.bytes;
        }
    }

    fn snapshot(&self) -> Result<StoreSnapshot, StorageError> {
        let transaction = self.database()?.begin_read().map_err(redb_error)?;
        Ok(StoreSnapshot {
            revision: self.state.revision,
            compacted: self.state.compacted,
            index: self.state.index.clone(),
            recent: self.recent.clone(),
            log: transaction.open_table(LOG).map_err(redb_error)?,
            keys: transaction.open_table(KEYS).map_err(redb_error)?,
        })
    }

    fn count(&self, base: Revision, requests: usize, took: Duration) {
        let revisions = u64::try_from(self.state.revision - base).unwrap_or(0);
        self.counters.commits.fetch_add(1, Ordering::Relaxed);
        self.counters.revisions.fetch_add(revisions, Ordering::Relaxed);
        metrics::counter!("trireme_store_commits_total").increment(1);
        metrics::counter!("trireme_store_revisions_total").increment(revisions);
        metrics::histogram!("trireme_store_commit_batch_size").record(f64::from(u32::try_from(requests).unwrap_or(0)));
        metrics::histogram!("trireme_store_commit_duration_seconds").record(took.as_secs_f64());
    }
}

/// The time until the file is opened again after that has taken `took`.
fn reopen_pause(took: Duration) -> Duration {
    took.saturating_mul(REOPEN_PAUSE).min(LONGEST_REOPEN_PAUSE)
}

fn refuse(jobs: Vec<StoreJob>, refusal: &StorageError) {
    for job in jobs {
        match job {
            StoreJob::Put { reply, .. } | StoreJob::Delete { reply, .. } => {
                PendingReply::Write(reply, Err(refusal.clone())).send()
            }
            StoreJob::Grant { reply, .. } => PendingReply::Lease(reply, Err(refusal.clone())).send(),
            StoreJob::Revoke { reply, .. } | StoreJob::Compact { reply, .. } => {
                PendingReply::Done(reply, Err(refusal.clone())).send()
            }
            StoreJob::Stop => {}
        }
    }
}

/// Opens the file and reads its newest state.
fn load(file: &StoreFile) -> Result<(Database, StoreState), StorageError> {
    let database = file.database()?;
    match load_state(&database) {
        Ok(Ok(state)) => Ok((database, state)),
        Ok(Err(why)) => Err(damaged(&file.path, &why)),
        Err(error) => Err(load_error(&file.path, error)),
    }
}

fn event_bytes(event: &Event) -> usize {
    let size = |entry: &KeyValue| entry.value.len();
    match event {
        Event::Put { entry, previous } => entry.key.len() + size(entry) + previous.as_ref().map_or(0, size),
        Event::Delete { key, previous, .. } => key.len() + previous.as_ref().map_or(0, size),
    }
}

/// Makes the tables if the file is new, and reads the newest state; or says why the file is no store of this version.
fn load_state(database: &Database) -> Result<Result<StoreState, String>, redb::Error> {
    let mut transaction = database.begin_write()?;
    transaction.set_two_phase_commit(true);
    let state = {
        let mut meta = transaction.open_table(META)?;
        let number = |name| -> Result<Option<i64>, redb::Error> { Ok(meta.get(name)?.map(|found| found.value())) };
        let format = number(META_FORMAT)?.unwrap_or(FORMAT);
        if format != FORMAT {
            return Ok(Err(format!("its layout is {format}, this version knows {FORMAT}")));
        }
        let mut state = StoreState {
            revision: number(META_REVISION)?.unwrap_or(FIRST_REVISION),
            compacted: number(META_COMPACTED)?.unwrap_or(0),
            swept: number(META_SWEPT)?.unwrap_or(0),
            next_lease: number(META_NEXT_LEASE)?.unwrap_or(1),
            index: Index::new(),
            leases: StoreLeases::default(),
        };
        meta.insert(META_FORMAT, FORMAT)?;
        transaction.open_table(LOG)?;
        let now = Instant::now();
        for item in transaction.open_table(LEASES)?.iter()? {
            let (id, ttl_s) = item?;
            state.leases.grant(id.value(), Duration::from_secs(ttl_s.value()), now);
        }
        let keys = transaction.open_table(KEYS)?;
        for item in keys.iter()? {
            let (place, facts) = item?;
            load_version(&mut state, place.value(), facts.value());
        }
        state
    };
    transaction.commit()?;
    Ok(Ok(state))
}

/// Versions come oldest first, so the last one seen of a key is its newest.
fn load_version(state: &mut StoreState, (key, revision): (&str, Revision), facts: (Revision, u32, bool, i64)) {
    let (create_revision, number, deleted, lease) = facts;
    let (key, before) = match state.index.get_key_value(key) {
        Some((known, live)) => (known.clone(), live.lease),
        None => (Arc::from(key), 0),
    };
    let lease = if deleted { 0 } else { lease };
    state.leases.move_key(&key, before, lease);
    if deleted {
        state.index.remove(&*key);
    } else {
        state.index.insert(
            key,
            Live {
                place: (revision, number),
                lease,
                create_revision,
            },
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_file_is_opened_again_soon() {
        assert_eq!(reopen_pause(Duration::from_millis(3)), Duration::from_millis(30));
        assert_eq!(reopen_pause(Duration::from_secs(30)), Duration::from_secs(10));
    }
}
