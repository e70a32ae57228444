//! The redb file: opening, identity, and transactions that are durable when they return.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use openraft::LogId;
use redb::{Database, DatabaseError, ReadableDatabase as _, StorageBackend, TableDefinition, WriteTransaction};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::early_purge::EarlyPurge;
use super::{StoreError, check, creation};
use crate::core::{Incarnation, ReplicaId};

/// The layout of the tables. A file with another number is refused.
const FORMAT: u32 = 1;

pub(super) const META: TableDefinition<'static, &str, &[u8]> = TableDefinition::new("meta");
/// Raft's log by index; each entry as JSON.
pub(super) const LOG: TableDefinition<'static, u64, &[u8]> = TableDefinition::new("log");

/// The keys of [`META`].
pub(super) mod key {
    pub(crate) const FORMAT: &str = "format";
    pub(crate) const REPLICA: &str = "replica";
    pub(crate) const INCARNATION: &str = "incarnation";
    pub(crate) const VOTE: &str = "vote";
    pub(crate) const PURGED: &str = "purged";
    pub(crate) const SNAPSHOT: &str = "snapshot";
}

/// Anything that goes wrong with the file once it is open.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreFileError {
    #[error("raft file: {0}")]
    Redb(#[from] redb::Error),
    #[error("raft file: not JSON: {0}")]
    Json(#[from] serde_json::Error),
    #[error("raft file: {0}")]
    Wrong(String),
    #[error("raft file: the thread that works on it is gone")]
    Gone,
    #[error("raft file: the snapshot that the log was purged by was not installed")]
    NoSnapshot,
}

/// Turns the many errors of redb into one.
pub(super) fn redb_error(error: impl Into<redb::Error>) -> StoreFileError {
    StoreFileError::Redb(error.into())
}

/// The identity of this replica: made with the file, and one start further each time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoreIdentity {
    pub(crate) replica: ReplicaId,
    pub(crate) incarnation: Incarnation,
}

/// The thread that transactions run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// On the pool of blocking threads: a sync takes milliseconds.
    Pool,
    /// The calling thread. The simulation has one thread.
    #[cfg_attr(not(test), expect(dead_code, reason = "the simulation works in place"))]
    InPlace,
}

/// The open file. Clones are the same file.
#[derive(Clone, Debug)]
pub(crate) struct RaftFile {
    database: Arc<Database>,
    work: Work,
    early_purge: Arc<EarlyPurge>,
}

impl RaftFile {
    /// Opens or makes the file in `dir`. redb's lock keeps other processes out.
    pub(crate) fn open(dir: &Path) -> Result<(Self, StoreIdentity), StoreError> {
        let path = creation::prepare(dir)?;
        let backend = creation::backend(&path)?;
        Self::open_on(backend, &path, Work::Pool, ReplicaId(rand::random()))
    }

    /// Opens or makes the file on `backend`; `path` is for messages, and a new file gets `fresh` as its id.
    pub(crate) fn open_on(
        backend: impl StorageBackend,
        path: &Path,
        work: Work,
        fresh: ReplicaId,
    ) -> Result<(Self, StoreIdentity), StoreError> {
        let mut builder = redb::Builder::new();
        builder.set_check_integrity_on_open(true);
        let database = builder.create_with_backend(backend);
        let database = database.map_err(|error| open_error(path, error))?;
        let damaged = |error: StoreFileError| StoreError::Damaged {
            path: path.display().to_string(),
            why: error.to_string(),
        };
        let identity = start(&database, fresh).map_err(damaged)?;
        check::check(&database).map_err(damaged)?;
        let file = Self {
            database: Arc::new(database),
            work,
            early_purge: Arc::default(),
        };
        Ok((file, identity))
    }

    /// The purge that waits for its snapshot: what it covers still stands in the file.
    pub(super) fn early_purge(&self) -> &EarlyPurge {
        &self.early_purge
    }

    /// Runs a transaction and returns when it is on disk.
    pub(super) async fn write<T, F>(&self, change: F) -> Result<T, StoreFileError>
    where
        T: Send + 'static,
        F: FnOnce(&WriteTransaction) -> Result<T, StoreFileError> + Send + 'static,
    {
        self.run(move |database| write_now(database, change)).await
    }

    /// Reads a consistent state.
    pub(super) async fn read<T, F>(&self, look: F) -> Result<T, StoreFileError>
    where
        T: Send + 'static,
        F: FnOnce(&redb::ReadTransaction) -> Result<T, StoreFileError> + Send + 'static,
    {
        self.run(move |database| look(&database.begin_read().map_err(redb_error)?))
            .await
    }

    async fn run<T, F>(&self, work: F) -> Result<T, StoreFileError>
    where
        T: Send + 'static,
        F: FnOnce(&Database) -> Result<T, StoreFileError> + Send + 'static,
    {
        match self.work {
            Work::InPlace => work(&self.database),
            Work::Pool => {
                let database = Arc::clone(&self.database);
                let done = tokio::task::spawn_blocking(move || work(&database)).await;
                done.unwrap_or(Err(StoreFileError::Gone))
            }
        }
    }
}

fn write_now<T>(
    database: &Database,
    change: impl FnOnce(&WriteTransaction) -> Result<T, StoreFileError>,
) -> Result<T, StoreFileError> {
    let mut transaction = database.begin_write().map_err(redb_error)?;
    transaction.set_two_phase_commit(true);
    let done = change(&transaction)?;
    transaction.commit().map_err(redb_error)?;
    Ok(done)
}

/// Makes the id of a new file, and counts this start.
fn start(database: &Database, fresh: ReplicaId) -> Result<StoreIdentity, StoreFileError> {
    write_now(database, |transaction| {
        transaction.open_table(LOG).map_err(redb_error)?;
        let format: Option<u32> = get(transaction, key::FORMAT)?;
        match format {
            Some(FORMAT) => {}
            None => {
                put(transaction, key::FORMAT, &FORMAT)?;
                put(transaction, key::REPLICA, &fresh)?;
            }
            Some(other) => {
                return Err(StoreFileError::Wrong(format!(
                    "it has the format {other}, not {FORMAT}"
                )));
            }
        }
        let replica = get(transaction, key::REPLICA)?;
        let replica = replica.ok_or_else(|| StoreFileError::Wrong("it has no replica id".to_owned()))?;
        let former: Incarnation = get(transaction, key::INCARNATION)?.unwrap_or_default();
        let incarnation = Incarnation(former.0 + 1);
        put(transaction, key::INCARNATION, &incarnation)?;
        Ok(StoreIdentity { replica, incarnation })
    })
}

/// Reads a value of [`META`] in a transaction that writes.
pub(super) fn get<T: DeserializeOwned>(transaction: &WriteTransaction, key: &str) -> Result<Option<T>, StoreFileError> {
    let table = transaction.open_table(META).map_err(redb_error)?;
    let found = redb::ReadableTable::get(&table, key).map_err(redb_error)?;
    let value = found.map(|found| serde_json::from_slice(found.value()));
    Ok(value.transpose()?)
}

/// Writes a value of [`META`].
pub(super) fn put<T: Serialize>(transaction: &WriteTransaction, key: &str, value: &T) -> Result<(), StoreFileError> {
    let mut table = transaction.open_table(META).map_err(redb_error)?;
    let value = serde_json::to_vec(value)?;
    table.insert(key, value.as_slice()).map_err(redb_error)?;
    Ok(())
}

/// Forgets the log up to an entry.
pub(super) fn purge(transaction: &WriteTransaction, upto: LogId<ReplicaId>) -> Result<(), StoreFileError> {
    put(transaction, key::PURGED, &upto)?;
    let mut log = transaction.open_table(LOG).map_err(redb_error)?;
    log.retain_in(..=upto.index, |_, _| false).map_err(redb_error)?;
    Ok(())
}

/// Reads a value of [`META`].
pub(super) fn look_up<T: DeserializeOwned>(
    transaction: &redb::ReadTransaction,
    key: &str,
) -> Result<Option<T>, StoreFileError> {
    let table = transaction.open_table(META).map_err(redb_error)?;
    let found = table.get(key).map_err(redb_error)?;
    let value = found.map(|found| serde_json::from_slice(found.value()));
    Ok(value.transpose()?)
}

pub(super) fn open_error(path: &Path, error: DatabaseError) -> StoreError {
    let path: PathBuf = path.into();
    let path = path.display().to_string();
    match error {
        DatabaseError::DatabaseAlreadyOpen | DatabaseError::LockProtocolMismatch => StoreError::InUse { path },
        DatabaseError::Storage(redb::StorageError::Io(error)) if error.kind() != io::ErrorKind::InvalidData => {
            let why = error.to_string();
            StoreError::Io { path, why }
        }
        error => StoreError::Damaged {
            path,
            why: error.to_string(),
        },
    }
}
