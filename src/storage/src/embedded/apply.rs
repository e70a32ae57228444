//! Application of requests to the state and the tables, inside the writer's open transaction.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use redb::{ReadableTable, Table, WriteTransaction};
use tokio::{sync::oneshot, time::Instant};

use super::{
    file::redb_error,
    leases::StoreLeases,
    snapshot::{Index, Live},
    tables::{
        ChangePosition, KEYS, KeysKey, KeysValue, LEASES, LOG, LogWriter, META, META_COMPACTED, META_NEXT_LEASE,
        META_REVISION, META_SWEPT, StoredRecord, entry_at,
    },
};
use crate::{Compare, Event, Fence, KeyValue, LeaseId, PutOptions, Revision, StorageError, WriteOutcome};

/// etcd's longest time to live, some 285 years.
const MAX_TTL_S: u64 = 9_000_000_000;

/// The sender of a request's answer. The receiver may be gone: the caller gave up.
pub(super) type JobReply<T> = oneshot::Sender<Result<T, StorageError>>;

/// A request to the writer.
#[derive(Debug)]
pub(super) enum StoreJob {
    Put {
        key: Arc<str>,
        value: Bytes,
        compare: Compare,
        options: PutOptions,
        reply: JobReply<WriteOutcome>,
    },
    Delete {
        key: Arc<str>,
        revision: Revision,
        fence: Option<Fence>,
        reply: JobReply<WriteOutcome>,
    },
    Grant {
        ttl: Duration,
        reply: JobReply<LeaseId>,
    },
    Revoke {
        lease: LeaseId,
        reply: JobReply<()>,
    },
    Compact {
        revision: Revision,
        reply: JobReply<()>,
    },
    Stop,
}

impl StoreJob {
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Put { key, value, .. } => key.len() + value.len(),
            _ => 0,
        }
    }
}

/// An answer held back until the commit that it depends on is durable.
#[derive(Debug)]
pub(super) enum PendingReply {
    Write(JobReply<WriteOutcome>, Result<WriteOutcome, StorageError>),
    Lease(JobReply<LeaseId>, Result<LeaseId, StorageError>),
    Done(JobReply<()>, Result<(), StorageError>),
}

impl PendingReply {
    pub(super) fn send(self) {
        match self {
            Self::Write(reply, result) => drop(reply.send(result)),
            Self::Lease(reply, result) => drop(reply.send(result)),
            Self::Done(reply, result) => drop(reply.send(result)),
        }
    }

    /// Answers when the commit failed: what asked for a change may or may not be on disk, all else gets the refusal.
    pub(super) fn send_commit_failed(self, refusal: &StorageError) {
        let unknown = StorageError::UnknownOutcome(refusal.to_string());
        let failed = refusal.clone();
        match self {
            Self::Write(reply, Ok(WriteOutcome::Committed(_))) => drop(reply.send(Err(unknown))),
            Self::Write(reply, _) => drop(reply.send(Err(failed))),
            Self::Lease(reply, result) => drop(reply.send(Err(if result.is_ok() { unknown } else { failed }))),
            Self::Done(reply, result) => drop(reply.send(Err(if result.is_ok() { unknown } else { failed }))),
        }
    }
}

/// The newest state, ahead of the disk only while a transaction is open.
#[derive(Debug)]
pub(super) struct StoreState {
    pub(super) revision: Revision,
    pub(super) compacted: Revision,
    /// Superseded versions are physically gone up to here.
    pub(super) swept: Revision,
    pub(super) next_lease: LeaseId,
    pub(super) index: Index,
    pub(super) leases: StoreLeases,
}

/// The tables of an open transaction and what has happened in it so far.
pub(super) struct Batch<'t> {
    pub(super) log: LogWriter<'t>,
    pub(super) keys: Table<'t, KeysKey, KeysValue>,
    leases: Table<'t, i64, u64>,
    meta: Table<'t, &'static str, i64>,
    pub(super) events: Vec<Event>,
    /// True if anything must be committed.
    pub(super) dirty: bool,
    now: Instant,
}

impl<'t> Batch<'t> {
    pub(super) fn open(transaction: &'t WriteTransaction, now: Instant) -> Result<Self, StorageError> {
        Ok(Self {
            log: transaction.open_table(LOG).map_err(redb_error)?,
            keys: transaction.open_table(KEYS).map_err(redb_error)?,
            leases: transaction.open_table(LEASES).map_err(redb_error)?,
            meta: transaction.open_table(META).map_err(redb_error)?,
            events: Vec::new(),
            dirty: false,
            now,
        })
    }

    /// Carries out one request. An error is the database's: the whole batch must be given up.
    pub(super) fn apply(
        &mut self,
        state: &mut StoreState,
        job: StoreJob,
    ) -> Result<Option<PendingReply>, StorageError> {
        Ok(Some(match job {
            StoreJob::Put {
                key,
                value,
                compare,
                options,
                reply,
            } => PendingReply::Write(reply, definite(self.put(state, key, value, compare, options))?),
            StoreJob::Delete {
                key,
                revision,
                fence,
                reply,
            } => PendingReply::Write(reply, definite(self.delete(state, &key, revision, fence))?),
            StoreJob::Grant { ttl, reply } => PendingReply::Lease(reply, Ok(self.grant(state, ttl)?)),
            StoreJob::Revoke { lease, reply } => PendingReply::Done(reply, definite(self.revoke(state, lease))?),
            StoreJob::Compact { revision, reply } => {
                PendingReply::Done(reply, definite(self.compact(state, revision))?)
            }
            StoreJob::Stop => return Ok(None),
        }))
    }

    fn put(
        &mut self,
        state: &mut StoreState,
        key: Arc<str>,
        value: Bytes,
        compare: Compare,
        options: PutOptions,
    ) -> Result<WriteOutcome, StorageError> {
        hold(&state.index, options.fence)?;
        let (key, live) = find(&state.index, key);
        let wanted = match compare {
            Compare::Absent => 0,
            Compare::ModRevision(revision) => revision,
        };
        let previous = self.entry(&key, live)?;
        if live.map_or(0, |live| live.place.0) != wanted {
            return Ok(WriteOutcome::Conflict(previous));
        }
        let lease = options.lease.unwrap_or(0);
        if lease != 0 && !state.leases.exists(lease) {
            return Err(StorageError::LeaseNotFound);
        }
        let revision = state.revision + 1;
        let create_revision = live.map_or(revision, |live| live.create_revision);
        let record = StoredRecord {
            deleted: false,
            create_revision,
            previous: live.map(|live| live.place),
            lease,
            key: &key,
            value: &value,
        };
        self.write((revision, 0), &record)?;
        state.revision = revision;
        state.leases.move_key(&key, live.map_or(0, |live| live.lease), lease);
        state.index.insert(
            key.clone(),
            Live {
                place: (revision, 0),
                lease,
                create_revision,
            },
        );
        let entry = KeyValue {
            key,
            value,
            create_revision,
            mod_revision: revision,
        };
        self.events.push(Event::Put { entry, previous });
        Ok(WriteOutcome::Committed(revision))
    }

    fn delete(
        &mut self,
        state: &mut StoreState,
        key: &Arc<str>,
        revision: Revision,
        fence: Option<Fence>,
    ) -> Result<WriteOutcome, StorageError> {
        hold(&state.index, fence)?;
        let (key, live) = find(&state.index, key.clone());
        match live {
            Some(live) if live.place.0 == revision => {
                let place = (state.revision + 1, 0);
                self.bury(state, key, live, place)?;
                state.revision = place.0;
                Ok(WriteOutcome::Committed(place.0))
            }
            live => Ok(WriteOutcome::Conflict(self.entry(&key, live)?)),
        }
    }

    /// Writes a key's tombstone at `place`.
    fn bury(
        &mut self,
        state: &mut StoreState,
        key: Arc<str>,
        live: Live,
        place: ChangePosition,
    ) -> Result<(), StorageError> {
        let previous = self.entry(&key, Some(live))?;
        let record = StoredRecord {
            deleted: true,
            create_revision: live.create_revision,
            previous: Some(live.place),
            lease: 0,
            key: &key,
            value: &[],
        };
        self.write(place, &record)?;
        state.leases.move_key(&key, live.lease, 0);
        state.index.remove(&*key);
        self.events.push(Event::Delete {
            key,
            revision: place.0,
            previous,
        });
        Ok(())
    }

    fn grant(&mut self, state: &mut StoreState, ttl: Duration) -> Result<LeaseId, StorageError> {
        let ttl_s = ttl
            .as_secs()
            .saturating_add(u64::from(ttl.subsec_nanos() > 0))
            .clamp(1, MAX_TTL_S);
        let id = state.next_lease;
        state.next_lease += 1;
        self.leases.insert(id, ttl_s).map_err(redb_error)?;
        self.set(META_NEXT_LEASE, state.next_lease)?;
        state.leases.grant(id, Duration::from_secs(ttl_s), self.now);
        Ok(id)
    }

    /// Ends a lease; all that was attached to it goes at one revision.
    pub(super) fn revoke(&mut self, state: &mut StoreState, lease: LeaseId) -> Result<(), StorageError> {
        let keys = state.leases.remove(lease).ok_or(StorageError::LeaseNotFound)?;
        self.leases.remove(lease).map_err(redb_error)?;
        self.dirty = true;
        let revision = state.revision + 1;
        for (number, key) in (0..).zip(keys) {
            let (key, live) = find(&state.index, key);
            if let Some(live) = live {
                self.bury(state, key, live, (revision, number))?;
                state.revision = revision;
            }
        }
        Ok(())
    }

    pub(super) fn compact(&mut self, state: &mut StoreState, revision: Revision) -> Result<(), StorageError> {
        if revision > state.revision {
            return Err(StorageError::Future {
                current: state.revision,
            });
        }
        if revision <= state.compacted {
            return Err(StorageError::Compacted {
                oldest: state.compacted,
            });
        }
        state.compacted = revision;
        self.set(META_COMPACTED, revision)
    }

    /// Removes superseded versions for about `limit` log records of the compacted history.
    pub(super) fn sweep(&mut self, state: &mut StoreState, limit: usize) -> Result<(), StorageError> {
        let (mut gone, mut swept, mut seen) = (Vec::<(ChangePosition, String)>::new(), state.compacted, 0_usize);
        let mut last = state.swept;
        for item in self
            .log
            .range((state.swept + 1, 0)..=(state.compacted, u32::MAX))
            .map_err(redb_error)?
        {
            let (place, record) = item.map_err(redb_error)?;
            let place = place.value();
            if seen >= limit && place.0 > last {
                swept = last;
                break;
            }
            (last, seen) = (place.0, seen + 1);
            let record = StoredRecord::decode(record.value())?;
            gone.extend(record.previous.map(|previous| (previous, record.key.to_owned())));
            gone.extend(record.deleted.then(|| (place, record.key.to_owned())));
        }
        for (place, key) in gone {
            self.log.remove(place).map_err(redb_error)?;
            self.keys.remove((key.as_str(), place.0)).map_err(redb_error)?;
        }
        state.swept = swept;
        self.set(META_SWEPT, swept)
    }

    /// Writes the clock if it moved. Must be the last step before the commit.
    pub(super) fn finish(&mut self, state: &StoreState) -> Result<(), StorageError> {
        if self.events.is_empty() {
            Ok(())
        } else {
            self.set(META_REVISION, state.revision)
        }
    }

    fn write(&mut self, place: ChangePosition, record: &StoredRecord<'_>) -> Result<(), StorageError> {
        self.log.insert(place, record.encode().as_slice()).map_err(redb_error)?;
        let facts = (record.create_revision, place.1, record.deleted, record.lease);
        self.keys.insert((record.key, place.0), facts).map_err(redb_error)?;
        self.dirty = true;
        Ok(())
    }

    fn set(&mut self, name: &'static str, value: i64) -> Result<(), StorageError> {
        self.meta.insert(name, value).map_err(redb_error)?;
        self.dirty = true;
        Ok(())
    }

    fn entry(&self, key: &Arc<str>, live: Option<Live>) -> Result<Option<KeyValue>, StorageError> {
        live.map_or(Ok(None), |live| entry_at(&self.log, key.clone(), live.place))
    }
}

/// The index's own copy of the key, so that a hot key is held once, and where its newest version is.
fn find(index: &Index, key: Arc<str>) -> (Arc<str>, Option<Live>) {
    match index.get_key_value(&*key) {
        Some((known, live)) => (known.clone(), Some(*live)),
        None => (key, None),
    }
}

/// Fails unless the fence, if there is one, holds.
fn hold(index: &Index, fence: Option<Fence>) -> Result<(), StorageError> {
    let Some(fence) = fence else { return Ok(()) };
    let is_now = index.get(&*fence.key).map_or(0, |live| live.place.0);
    if is_now == fence.mod_revision {
        Ok(())
    } else {
        Err(StorageError::Fenced)
    }
}

/// Separates an answer to the request from an error of the database.
fn definite<T>(result: Result<T, StorageError>) -> Result<Result<T, StorageError>, StorageError> {
    match result {
        Err(StorageError::Failed(why)) => Err(StorageError::Failed(why)),
        other => Ok(other),
    }
}
