//! Checks beyond redb's checksums: whether the parts of the file fit each other.

use openraft::{LogId, RaftLogId as _, Vote};
use redb::{Database, ReadableDatabase as _, ReadableTable as _};

use super::file::{LOG, StoreFileError, key, look_up, redb_error};
use super::machine::StoredSnapshot;
use crate::core::ReplicaId;
use crate::raft::RaftTypes;

type Entry = openraft::Entry<RaftTypes>;

/// Refuses a log with a hole or without its beginning, entries at the wrong place, a vote older than the log, and a log that was purged further
/// than the snapshot goes.
pub(super) fn check(database: &Database) -> Result<(), StoreFileError> {
    let transaction = database.begin_read().map_err(redb_error)?;
    let purged: Option<LogId<ReplicaId>> = look_up(&transaction, key::PURGED)?;
    let snapshot: Option<StoredSnapshot> = look_up(&transaction, key::SNAPSHOT)?;
    if let Some(snapshot) = &snapshot {
        snapshot.state()?;
    }
    let covered = snapshot.and_then(|snapshot| snapshot.meta.last_log_id);
    if purged > covered {
        return wrong("the log is purged beyond the snapshot");
    }
    let mut last = purged;
    let log = transaction.open_table(LOG).map_err(redb_error)?;
    for item in log.iter().map_err(redb_error)? {
        let (index, entry) = item.map_err(redb_error)?;
        let entry: Entry = serde_json::from_slice(entry.value())?;
        let id = *entry.get_log_id();
        if id.index != index.value() || Some(id) <= last {
            return wrong(&format!("entry {} stands at {}", id.index, index.value()));
        }
        if last.map_or(0, |last| last.index + 1) != id.index {
            return wrong(&format!("the log has a hole before {}", id.index));
        }
        last = Some(id);
    }
    let vote: Option<Vote<ReplicaId>> = look_up(&transaction, key::VOTE)?;
    let voted = vote.map(|vote| vote.leader_id().term);
    if last.map(|last| last.leader_id.term) > voted {
        return wrong("the vote is older than the log");
    }
    Ok(())
}

fn wrong<T>(why: &str) -> Result<T, StoreFileError> {
    Err(StoreFileError::Wrong(why.to_owned()))
}
