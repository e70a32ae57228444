//! openraft's state machine: [`GroupState`] in memory, made anew from the snapshot and the log at each start. Snapshots
//! are on disk before the log is purged by them.

use std::io::Cursor;
use std::sync::Arc;

use openraft::storage::RaftStateMachine;
use openraft::{
    AnyError, EntryPayload, LogId, OptionalSend, RaftSnapshotBuilder, Snapshot, SnapshotMeta, StorageError,
    StorageIOError, StoredMembership,
};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::file::{RaftFile, StoreFileError, get, key, look_up, purge, put};
use crate::core::{GroupState, ReplicaId};
use crate::raft::{Node, RaftTypes, Response};

type Entry = openraft::Entry<RaftTypes>;
type RaftMeta = SnapshotMeta<ReplicaId, Node>;

/// The state as of the last log entry that was applied.
#[derive(Clone, Debug, Default)]
pub(crate) struct Applied {
    pub(crate) last: Option<LogId<ReplicaId>>,
    pub(crate) membership: StoredMembership<ReplicaId, Node>,
    pub(crate) group: GroupState,
}

impl Applied {
    fn apply(&mut self, entry: Entry) -> Response {
        self.last = Some(entry.log_id);
        match entry.payload {
            EntryPayload::Blank => None,
            EntryPayload::Normal(command) => Some(self.group.apply(&command)),
            EntryPayload::Membership(membership) => {
                self.membership = StoredMembership::new(Some(entry.log_id), membership);
                None
            }
        }
    }
}

/// A snapshot as it stands in the file: the state as JSON text within JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct StoredSnapshot {
    pub(super) meta: RaftMeta,
    data: String,
}

impl StoredSnapshot {
    pub(super) fn state(&self) -> Result<Applied, StoreFileError> {
        Ok(Applied {
            last: self.meta.last_log_id,
            membership: self.meta.last_membership.clone(),
            group: serde_json::from_str(&self.data)?,
        })
    }

    fn into_snapshot(self) -> Snapshot<RaftTypes> {
        Snapshot {
            meta: self.meta,
            snapshot: Box::new(Cursor::new(self.data.into_bytes())),
        }
    }
}

/// Reads a snapshot as it stands in the file, and writes it again with the state that is in it.
#[cfg(feature = "testing")]
pub(crate) fn reread_stored_snapshot(bytes: &[u8]) -> Result<(Vec<u8>, GroupState), StoreFileError> {
    let snapshot: StoredSnapshot = serde_json::from_slice(bytes)?;
    let state = snapshot.state()?;
    Ok((serde_json::to_vec(&snapshot)?, state.group))
}

/// See the module's header. What is applied is published before openraft hears of it.
#[derive(Clone, Debug)]
pub(crate) struct StateMachine {
    file: RaftFile,
    applied: Arc<watch::Sender<Arc<Applied>>>,
    /// Dropped when no clone can install a snapshot any more.
    _alive: watch::Receiver<()>,
}

impl StateMachine {
    /// Starts from the file's snapshot.
    pub(crate) async fn open(file: RaftFile) -> Result<Self, StoreFileError> {
        let snapshot: Option<StoredSnapshot> = file.read(|found| look_up(found, key::SNAPSHOT)).await?;
        let applied = match snapshot {
            Some(snapshot) => snapshot.state()?,
            None => Applied::default(),
        };
        let applied = Arc::new(watch::Sender::new(Arc::new(applied)));
        let _alive = file.early_purge().machine();
        Ok(Self { file, applied, _alive })
    }

    /// The newest applied state, and every later one.
    pub(crate) fn applied(&self) -> watch::Receiver<Arc<Applied>> {
        self.applied.subscribe()
    }

    fn now(&self) -> Arc<Applied> {
        Arc::clone(&self.applied.borrow())
    }

    /// Keeps a snapshot unless a newer one is there: while one is built the leader may send another, by which the log
    /// is purged. A purge that was ahead of the snapshot is made with it.
    async fn keep(&self, snapshot: StoredSnapshot) -> Result<(), StorageError<ReplicaId>> {
        let signature = snapshot.meta.signature();
        let file = self.file.clone();
        let kept = self.file.write(move |found| {
            let known: Option<StoredSnapshot> = get(found, key::SNAPSHOT)?;
            let known = known.and_then(|known| known.meta.last_log_id);
            if known <= snapshot.meta.last_log_id {
                put(found, key::SNAPSHOT, &snapshot)?;
            }
            let covered = known.max(snapshot.meta.last_log_id);
            let early = file.early_purge().upto();
            if let Some(upto) = early.filter(|upto| Some(*upto) <= covered) {
                purge(found, upto)?;
            }
            Ok(covered)
        });
        let covered = kept
            .await
            .map_err(|error| StorageIOError::write_snapshot(Some(signature), AnyError::new(&error)))?;
        self.file.early_purge().end(covered);
        Ok(())
    }
}

fn read_error(error: &(impl std::error::Error + 'static)) -> StorageError<ReplicaId> {
    StorageIOError::read_snapshot(None, AnyError::new(error)).into()
}

impl RaftSnapshotBuilder<RaftTypes> for StateMachine {
    async fn build_snapshot(&mut self) -> Result<Snapshot<RaftTypes>, StorageError<ReplicaId>> {
        let applied = self.now();
        let data = serde_json::to_string(&applied.group).map_err(|error| read_error(&error))?;
        let last = applied.last.map_or_else(String::new, |last| last.to_string());
        let meta = RaftMeta {
            last_log_id: applied.last,
            last_membership: applied.membership.clone(),
            snapshot_id: last,
        };
        let snapshot = StoredSnapshot { meta, data };
        self.keep(snapshot.clone()).await?;
        Ok(snapshot.into_snapshot())
    }
}

impl RaftStateMachine<RaftTypes> for StateMachine {
    type SnapshotBuilder = Self;

    async fn applied_state(
        &mut self,
    ) -> Result<(Option<LogId<ReplicaId>>, StoredMembership<ReplicaId, Node>), StorageError<ReplicaId>> {
        let applied = self.now();
        Ok((applied.last, applied.membership.clone()))
    }

    async fn apply<I>(&mut self, entries: I) -> Result<Vec<Response>, StorageError<ReplicaId>>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut next = Applied::clone(&self.now());
        let responses = entries.into_iter().map(|entry| next.apply(entry)).collect();
        self.applied.send_replace(Arc::new(next));
        Ok(responses)
    }

    async fn get_snapshot_builder(&mut self) -> Self::SnapshotBuilder {
        self.clone()
    }

    async fn begin_receiving_snapshot(&mut self) -> Result<Box<Cursor<Vec<u8>>>, StorageError<ReplicaId>> {
        Ok(Box::default())
    }

    async fn install_snapshot(
        &mut self,
        meta: &RaftMeta,
        snapshot: Box<Cursor<Vec<u8>>>,
    ) -> Result<(), StorageError<ReplicaId>> {
        let data = String::from_utf8(snapshot.into_inner()).map_err(|error| read_error(&error))?;
        let snapshot = StoredSnapshot {
            meta: meta.clone(),
            data,
        };
        let applied = snapshot.state().map_err(|error| read_error(&error))?;
        self.keep(snapshot).await?;
        self.applied.send_replace(Arc::new(applied));
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<Snapshot<RaftTypes>>, StorageError<ReplicaId>> {
        let read = self.file.read(|found| look_up(found, key::SNAPSHOT)).await;
        let snapshot: Option<StoredSnapshot> = read.map_err(|error| read_error(&error))?;
        Ok(snapshot.map(StoredSnapshot::into_snapshot))
    }
}
