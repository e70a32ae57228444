//! openraft's own suite on this store, and files that were damaged between two starts.

use std::io::Cursor;
use std::path::Path;
use std::pin::pin;

use futures_util::poll;
use openraft::storage::{RaftLogStorage as _, RaftLogStorageExt as _, RaftStateMachine as _};
use openraft::testing::{StoreBuilder, Suite, blank_ent, log_id};
use openraft::{LogId, RaftLogReader as _, RaftSnapshotBuilder as _, SnapshotMeta, StorageError, Vote};
use redb::backends::FileBackend;

use super::*;
use crate::core::{GroupState, ReplicaId};
use crate::raft::RaftTypes;

struct Builder;

impl StoreBuilder<RaftTypes, LogStore, StateMachine, tempfile::TempDir> for Builder {
    async fn build(&self) -> Result<(tempfile::TempDir, LogStore, StateMachine), StorageError<ReplicaId>> {
        let dir = tempfile::tempdir().expect("a directory");
        let (log, machine) = open(dir.path()).await;
        Ok((dir, log, machine))
    }
}

async fn open(dir: &Path) -> (LogStore, StateMachine) {
    let (file, _) = RaftFile::open(dir).expect("the file opens");
    let machine = StateMachine::open(file.clone()).await.expect("the state is sound");
    (LogStore::new(file), machine)
}

#[test]
fn the_store_passes_the_suite_of_openraft() {
    Suite::test_all(Builder).expect("the suite passes");
}

#[test]
fn the_id_stays_with_the_directory_and_the_incarnation_grows() {
    let dir = tempfile::tempdir().expect("a directory");
    let (file, first) = RaftFile::open(dir.path()).expect("the file opens");
    let in_use = RaftFile::open(dir.path()).expect_err("a second process is kept out");
    assert!(in_use.to_string().contains("in use"), "{in_use}");
    drop(file);
    let (_file, second) = RaftFile::open(dir.path()).expect("the file opens");
    assert_eq!(second.replica, first.replica);
    assert_eq!(second.incarnation.0, first.incarnation.0 + 1);
    let other = tempfile::tempdir().expect("a directory");
    let (_file, stranger) = RaftFile::open(other.path()).expect("the file opens");
    assert_ne!(stranger.replica, first.replica);
}

/// A closed file that has seen a vote; its path and the bytes in it.
async fn used_file(dir: &Path) -> (std::path::PathBuf, Vec<u8>) {
    let (mut log, _machine) = open(dir).await;
    log.save_vote(&Vote::new(7, ReplicaId(1)))
        .await
        .expect("a vote is saved");
    log.save_vote(&Vote::new(8, ReplicaId(2)))
        .await
        .expect("a vote is saved");
    let path = dir.join("raft.redb");
    drop((log, _machine));
    let bytes = std::fs::read(&path).expect("the file is there");
    (path, bytes)
}

#[tokio::test]
async fn a_vote_is_there_after_a_restart() {
    let dir = tempfile::tempdir().expect("a directory");
    used_file(dir.path()).await;
    let (mut log, mut machine) = open(dir.path()).await;
    let vote = log.read_vote().await.expect("the vote is read");
    assert_eq!(vote, Some(Vote::new(8, ReplicaId(2))));
    assert!(machine.get_current_snapshot().await.expect("read").is_none());
}

/// Whatever byte is flipped, the file is refused or the newest vote is still there; never an older one.
#[tokio::test]
async fn a_flipped_bit_never_brings_back_an_older_vote() {
    let dir = tempfile::tempdir().expect("a directory");
    let (path, bytes) = used_file(dir.path()).await;
    let text = br#""term":8"#;
    let places: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at..].starts_with(text)).collect();
    assert!(!places.is_empty(), "the vote can be found in the file");
    let mut refused = 0;
    for place in places
        .into_iter()
        .map(|place| place + 7)
        .chain((0..bytes.len()).step_by(bytes.len() / 40))
    {
        let mut damaged = bytes.clone();
        damaged[place] ^= 1;
        std::fs::write(&path, &damaged).expect("the file is damaged");
        match RaftFile::open(dir.path()) {
            Err(error) => {
                assert!(error.to_string().contains("damaged"), "{error}");
                refused += 1;
            }
            Ok((file, _)) => {
                let vote = LogStore::new(file).read_vote().await.expect("the vote is read");
                assert_eq!(vote, Some(Vote::new(8, ReplicaId(2))), "byte {place}");
            }
        }
    }
    assert!(refused > 0, "the vote's own bytes are covered");
}

#[tokio::test]
async fn a_file_that_was_cut_short_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let (path, bytes) = used_file(dir.path()).await;
    std::fs::write(&path, &bytes[..bytes.len() / 2]).expect("the file is cut");
    let error = RaftFile::open(dir.path()).expect_err("it is refused");
    assert!(error.to_string().contains("damaged"), "{error}");
    std::fs::write(&path, b"not a database").expect("the file is replaced");
    let error = RaftFile::open(dir.path()).expect_err("it is refused");
    assert!(error.to_string().contains("damaged"), "{error}");
}

/// A snapshot that is built takes its time; meanwhile the leader may have sent one, by which the log is purged.
#[tokio::test]
async fn a_newer_snapshot_is_not_replaced_by_an_older_one() {
    let dir = tempfile::tempdir().expect("a directory");
    let (file, _) = RaftFile::open(dir.path()).expect("the file opens");
    let open = || StateMachine::open(file.clone());
    let (mut behind, mut ahead) = (open().await.expect("sound"), open().await.expect("sound"));
    let newest = log_id(1, ReplicaId(1), 9);
    install(&mut ahead, newest).await;
    behind.build_snapshot().await.expect("it is built");
    let kept = behind
        .get_current_snapshot()
        .await
        .expect("read")
        .expect("there is one");
    assert_eq!(kept.meta.last_log_id, Some(newest));
    let mut log = LogStore::new(file.clone());
    log.save_vote(&Vote::new(1, ReplicaId(1)))
        .await
        .expect("a vote is saved");
    log.purge(newest).await.expect("the log is purged");
    drop(log);
    drop((behind, ahead, file));
    RaftFile::open(dir.path()).expect("a replica starts on it again");
}

/// openraft sends a snapshot to the task of the state machine and has the log purged by it at once. Whenever a crash comes,
/// the replica starts again, and has the old log or the snapshot.
#[tokio::test]
async fn a_log_that_is_purged_before_its_snapshot_has_arrived_is_not_lost() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut log, mut machine) = open(dir.path()).await;
    log.save_vote(&Vote::new(1, ReplicaId(1)))
        .await
        .expect("a vote is saved");
    let entries = (0..4).map(|index| blank_ent::<RaftTypes>(1, ReplicaId(1), index));
    log.blocking_append(entries).await.expect("it is appended");
    let newest = log_id(1, ReplicaId(1), 9);
    log.purge(newest).await.expect("the log is purged");
    assert_eq!(state(&mut log).await, (Some(newest), Some(newest), 0));
    let mut crashed = as_after_a_crash(dir.path()).await;
    assert_eq!(state(&mut crashed).await, (None, Some(log_id(1, ReplicaId(1), 3)), 4));

    install(&mut machine, newest).await;
    assert_eq!(state(&mut log).await, (Some(newest), Some(newest), 0));
    let mut crashed = as_after_a_crash(dir.path()).await;
    assert_eq!(state(&mut crashed).await, (Some(newest), Some(newest), 0));
}

/// openraft appends to a log that was purged without waiting for the snapshot.
#[tokio::test]
async fn entries_after_an_early_purge_are_written_when_their_snapshot_is() {
    for present in [0, 4] {
        let dir = tempfile::tempdir().expect("a directory");
        let (mut log, mut machine) = open_in_place(dir.path()).await;
        log.save_vote(&Vote::new(1, ReplicaId(1)))
            .await
            .expect("a vote is saved");
        let entries = (0..present).map(|index| blank_ent::<RaftTypes>(1, ReplicaId(1), index));
        log.blocking_append(entries).await.expect("it is appended");
        let newest = log_id(1, ReplicaId(1), 9);
        log.purge(newest).await.expect("the log is purged");
        let mut appended = log.clone();
        let mut append = pin!(appended.blocking_append([blank_ent::<RaftTypes>(1, ReplicaId(1), 10)]));
        assert!(poll!(append.as_mut()).is_pending(), "it waits for the snapshot");
        let mut crashed = as_after_a_crash(dir.path()).await;
        let last = (present > 0).then(|| log_id(1, ReplicaId(1), present - 1));
        assert_eq!(
            state(&mut crashed).await,
            (None, last, usize::try_from(present).expect("small"))
        );

        install(&mut machine, newest).await;
        append.await.expect("it is appended");
        let mut crashed = as_after_a_crash(dir.path()).await;
        let end = log_id(1, ReplicaId(1), 10);
        assert_eq!(state(&mut crashed).await, (Some(newest), Some(end), 1));
    }
}

#[tokio::test]
async fn an_append_fails_if_the_snapshot_before_it_never_comes() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut log, machine) = open_in_place(dir.path()).await;
    log.purge(log_id(1, ReplicaId(1), 9)).await.expect("the log is purged");
    let mut append = pin!(log.blocking_append([blank_ent::<RaftTypes>(1, ReplicaId(1), 10)]));
    assert!(poll!(append.as_mut()).is_pending(), "it waits for the snapshot");
    // As openraft does after a failed installation.
    drop(machine);
    let error = append.await.expect_err("nobody installs it any more");
    assert!(error.to_string().contains("was not installed"), "{error}");
}

#[tokio::test]
async fn a_log_without_its_beginning_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut log, machine) = open(dir.path()).await;
    log.save_vote(&Vote::new(1, ReplicaId(1)))
        .await
        .expect("a vote is saved");
    let entries = [blank_ent::<RaftTypes>(1, ReplicaId(1), 10)];
    log.blocking_append(entries).await.expect("it is appended");
    drop((log, machine));
    let error = RaftFile::open(dir.path()).expect_err("it is refused");
    assert!(error.to_string().contains("a hole before 10"), "{error}");
}

/// The store on a file that is written by the time that a future is first polled.
async fn open_in_place(dir: &Path) -> (LogStore, StateMachine) {
    let path = dir.join("raft.redb");
    let mut options = std::fs::OpenOptions::new();
    options.read(true).write(true).create_new(true);
    let backend = FileBackend::new(options.open(&path).expect("it is made")).expect("it is locked");
    let (file, _) = RaftFile::open_on(backend, &path, Work::InPlace, ReplicaId(1)).expect("the file opens");
    let machine = StateMachine::open(file.clone()).await.expect("the state is sound");
    (LogStore::new(file), machine)
}

/// Installs a snapshot of an empty group.
async fn install(machine: &mut StateMachine, last: LogId<ReplicaId>) {
    let meta = SnapshotMeta {
        last_log_id: Some(last),
        ..SnapshotMeta::default()
    };
    let data = serde_json::to_vec(&GroupState::default()).expect("the state is JSON");
    machine
        .install_snapshot(&meta, Box::new(Cursor::new(data)))
        .await
        .expect("it is kept");
}

/// Up to where a log is purged, where it ends, and the number of its entries.
async fn state(log: &mut LogStore) -> (Option<LogId<ReplicaId>>, Option<LogId<ReplicaId>>, usize) {
    let state = log.get_log_state().await.expect("read");
    let entries = log.try_get_log_entries(0..).await.expect("read");
    (state.last_purged_log_id, state.last_log_id, entries.len())
}

/// The log of the file as its process leaves it if that is killed now.
async fn as_after_a_crash(dir: &Path) -> LogStore {
    let found = tempfile::tempdir().expect("a directory");
    std::fs::copy(dir.join("raft.redb"), found.path().join("raft.redb")).expect("the file is copied");
    open(found.path()).await.0
}
