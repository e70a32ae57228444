//! openraft's log store on the file. Every write is on disk when it returns, but for a purge that comes before its
//! snapshot: that only seems to be made, and entries right after it wait until it is (see [`early_purge`](super::early_purge)).

use std::fmt::Debug;
use std::io;
use std::ops::{Bound, RangeBounds};

use openraft::storage::{LogFlushed, LogState, RaftLogStorage};
use openraft::{AnyError, LogId, OptionalSend, RaftLogId as _, RaftLogReader, StorageError, StorageIOError, Vote};

use super::file::{LOG, RaftFile, StoreFileError, get, key, look_up, purge, put, redb_error};
use super::machine::StoredSnapshot;
use crate::core::ReplicaId;
use crate::raft::RaftTypes;

type Entry = openraft::Entry<RaftTypes>;

/// The vote and the log. Clones read and write the same file.
#[derive(Clone, Debug)]
pub(crate) struct LogStore(RaftFile);

impl LogStore {
    pub(crate) fn new(file: RaftFile) -> Self {
        Self(file)
    }

    /// Writes entries, behind a purge that waits for its snapshot.
    async fn write_entries(&self, entries: Vec<Entry>) -> Result<(), StoreFileError> {
        let first = entries.first().map_or(0, |entry| entry.get_log_id().index);
        self.0.early_purge().passed(first).await?;
        let written = self.0.write(move |transaction| {
            let mut log = transaction.open_table(LOG).map_err(redb_error)?;
            for entry in &entries {
                let value = serde_json::to_vec(entry)?;
                log.insert(entry.get_log_id().index, value.as_slice())
                    .map_err(redb_error)?;
            }
            Ok(())
        });
        written.await
    }
}

fn write_error(error: StoreFileError) -> StorageError<ReplicaId> {
    StorageIOError::write_logs(AnyError::new(&error)).into()
}

fn read_error(error: StoreFileError) -> StorageError<ReplicaId> {
    StorageIOError::read_logs(AnyError::new(&error)).into()
}

fn decode(value: &[u8]) -> Result<Entry, StoreFileError> {
    Ok(serde_json::from_slice(value)?)
}

impl RaftLogReader<RaftTypes> for LogStore {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> Result<Vec<Entry>, StorageError<ReplicaId>> {
        let range: (Bound<u64>, Bound<u64>) = (range.start_bound().cloned(), range.end_bound().cloned());
        let purged = self.0.early_purge().upto();
        let read = self.0.read(move |transaction| {
            let log = transaction.open_table(LOG).map_err(redb_error)?;
            let mut entries = Vec::new();
            for item in log.range(range).map_err(redb_error)? {
                let (index, entry) = item.map_err(redb_error)?;
                if purged.is_none_or(|purged| index.value() > purged.index) {
                    entries.push(decode(entry.value())?);
                }
            }
            Ok(entries)
        });
        read.await.map_err(read_error)
    }
}

impl RaftLogStorage<RaftTypes> for LogStore {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> Result<LogState<RaftTypes>, StorageError<ReplicaId>> {
        let early = self.0.early_purge().upto();
        let read = self.0.read(move |transaction| {
            let last_purged_log_id: Option<LogId<ReplicaId>> = look_up(transaction, key::PURGED)?;
            let last_purged_log_id = last_purged_log_id.max(early);
            let log = transaction.open_table(LOG).map_err(redb_error)?;
            let last = redb::ReadableTable::last(&log).map_err(redb_error)?;
            let last = last.map(|(_, value)| decode(value.value())).transpose()?;
            let last_log_id = last.map(|entry| *entry.get_log_id()).max(last_purged_log_id);
            Ok(LogState {
                last_purged_log_id,
                last_log_id,
            })
        });
        read.await.map_err(read_error)
    }

    async fn get_log_reader(&mut self) -> Self::LogReader {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote<ReplicaId>) -> Result<(), StorageError<ReplicaId>> {
        let vote = *vote;
        let saved = self.0.write(move |transaction| put(transaction, key::VOTE, &vote));
        saved
            .await
            .map_err(|error| StorageIOError::write_vote(AnyError::new(&error)).into())
    }

    async fn read_vote(&mut self) -> Result<Option<Vote<ReplicaId>>, StorageError<ReplicaId>> {
        let read = self.0.read(|transaction| look_up(transaction, key::VOTE));
        read.await
            .map_err(|error| StorageIOError::read_vote(AnyError::new(&error)).into())
    }

    async fn append<I>(&mut self, entries: I, callback: LogFlushed<RaftTypes>) -> Result<(), StorageError<ReplicaId>>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let entries: Vec<Entry> = entries.into_iter().collect();
        match self.write_entries(entries).await {
            Ok(()) => callback.log_io_completed(Ok(())),
            Err(error) => {
                callback.log_io_completed(Err(io::Error::other(error.to_string())));
                return Err(write_error(error));
            }
        }
        Ok(())
    }

    async fn truncate(&mut self, log_id: LogId<ReplicaId>) -> Result<(), StorageError<ReplicaId>> {
        let truncated = self.0.write(move |transaction| {
            let mut log = transaction.open_table(LOG).map_err(redb_error)?;
            log.retain_in(log_id.index.., |_, _| false).map_err(redb_error)?;
            Ok(())
        });
        truncated.await.map_err(write_error)
    }

    async fn purge(&mut self, log_id: LogId<ReplicaId>) -> Result<(), StorageError<ReplicaId>> {
        let file = self.0.clone();
        let purged = self.0.write(move |transaction| {
            let snapshot: Option<StoredSnapshot> = get(transaction, key::SNAPSHOT)?;
            if snapshot.and_then(|snapshot| snapshot.meta.last_log_id) >= Some(log_id) {
                return purge(transaction, log_id);
            }
            file.early_purge().begin(log_id);
            Ok(())
        });
        purged.await.map_err(write_error)
    }
}
