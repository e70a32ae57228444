//! Tests of the promises that only the embedded store makes; the rest is in the conformance suite.

#![expect(
    clippy::disallowed_methods,
    reason = "this room has no task registry; each test awaits what it spawns"
)]

mod disk;
mod failures;

use std::{path::PathBuf, pin::Pin, sync::Mutex, task::Poll};

use futures_util::{StreamExt, future::join_all};
use redb::StorageBackend;

use self::disk::TestDisk;
use super::*;
use crate::Event;

fn quick() -> EmbeddedOptions {
    EmbeddedOptions {
        fsync: false,
        ..EmbeddedOptions::default()
    }
}

fn on_disk(disk: &TestDisk) -> EmbeddedStore {
    try_on_disk(disk).expect("the store opens")
}

fn try_on_disk(disk: &TestDisk) -> Result<EmbeddedStore, StorageError> {
    try_on_disk_with(disk, Duration::ZERO)
}

fn try_on_disk_with(disk: &TestDisk, reopen_interval: Duration) -> Result<EmbeddedStore, StorageError> {
    let disk = disk.clone();
    let open = move || -> Result<Box<dyn StorageBackend>, StorageError> { Ok(Box::new(disk.clone())) };
    let options = EmbeddedOptions {
        reopen_interval,
        ..EmbeddedOptions::default()
    };
    EmbeddedStore::start(PathBuf::from("test disk"), Box::new(open), options)
}

async fn create(store: &EmbeddedStore, key: &str, value: &str) -> Revision {
    put(store, key, value, Compare::Absent, None).await
}

async fn put(store: &EmbeddedStore, key: &str, value: &str, compare: Compare, lease: Option<LeaseId>) -> Revision {
    let value = Bytes::copy_from_slice(value.as_bytes());
    match store
        .put(key, value, compare, PutOptions { lease, fence: None })
        .await
        .expect("the store takes writes")
    {
        WriteOutcome::Committed(revision) => revision,
        WriteOutcome::Conflict(entry) => panic!("a conflict with {entry:?}"),
    }
}

async fn read(store: &EmbeddedStore, key: &str) -> Option<String> {
    let entry = store.get(key, None).await.expect("the store answers").0;
    entry.map(|entry| String::from_utf8_lossy(&entry.value).into_owned())
}

/// Events after `after`, until the newest revision.
async fn history(store: &EmbeddedStore, after: Revision) -> Vec<Event> {
    let newest = store.read_index().await.expect("the store answers");
    let mut watch = store.watch("", after).await.expect("the watch opens");
    let mut events = Vec::new();
    let mut seen = after;
    while seen < newest {
        let batch = watch
            .next()
            .await
            .expect("the watch goes on")
            .expect("the watch is sound");
        events.extend(batch.events);
        seen = batch.revision;
    }
    events
}

#[tokio::test]
async fn sixteen_writers_share_commits() {
    let disk = TestDisk::default();
    let store = on_disk(&disk);
    let before = store.stats().commits;
    disk.hold();
    let mut first = Box::pin(create(&store, "first", "1"));
    start(&mut first).await;
    disk.wait_for_held_sync();
    // While the first commit hangs in its sync, all the others queue up behind it.
    let writers = (0..16).map(|writer| {
        let store = &store;
        join_all((0..25).map(move |write| async move { create(store, &format!("{writer}/{write}"), "1").await }))
    });
    let mut writers = Box::pin(join_all(writers));
    start(&mut writers).await;
    assert_eq!(store.read_index().await, Ok(1), "nothing is seen before it is durable");
    disk.release();
    let (_, revisions) = tokio::join!(first, writers);
    let mut revisions = revisions.concat();
    revisions.sort_unstable();
    assert_eq!(revisions, (3..403).collect::<Vec<_>>());
    assert_eq!(store.stats().commits - before, 2, "401 writes in two commits");
    assert_eq!(store.stats().revisions, 401);
}

/// Polls a future once.
async fn start<F: Future>(future: &mut Pin<Box<F>>) {
    std::future::poll_fn(|cx| {
        assert!(future.as_mut().poll(cx).is_pending(), "not done before its commit");
        Poll::Ready(())
    })
    .await;
}

#[tokio::test]
async fn a_full_queue_is_an_answer() {
    let disk = TestDisk::default();
    let store = on_disk(&disk);
    disk.hold();
    let mut first = Box::pin(create(&store, "first", "1"));
    start(&mut first).await;
    disk.wait_for_held_sync();
    let mut queued = Vec::new();
    for number in 0..QUEUE_JOBS {
        let store = &store;
        let mut write = Box::pin(async move { create(store, &number.to_string(), "1").await });
        start(&mut write).await;
        queued.push(write);
    }
    let refused = store
        .put("one more", Bytes::new(), Compare::Absent, PutOptions::default())
        .await;
    assert!(matches!(refused, Err(StorageError::Unavailable(_))), "{refused:?}");
    disk.release();
    first.await;
    join_all(queued).await;
    assert_eq!(read(&store, "one more").await, None);
    assert_eq!(
        store.read_index().await,
        Ok(2 + Revision::try_from(QUEUE_JOBS).expect("small"))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_writes_survive_power_cuts() {
    let mut disk = TestDisk::default();
    let mut known: Vec<(String, Revision)> = Vec::new();
    for round in 0..12 {
        let store = Arc::new(on_disk(&disk));
        let newest = store.read_index().await.expect("the store answers");
        assert!(known.iter().all(|(_, revision)| *revision <= newest), "round {round}");
        for (key, revision) in &known {
            let found = store.get(key, None).await.expect("the store answers").0;
            assert_eq!(
                found.map(|entry| entry.mod_revision),
                Some(*revision),
                "round {round}: {key}"
            );
        }
        let acknowledged = Arc::new(Mutex::new(Vec::new()));
        let writers = (0..4).map(|writer| {
            let (store, acknowledged) = (store.clone(), acknowledged.clone());
            tokio::spawn(async move {
                for write in 0..20 {
                    let key = format!("{round}/{writer}/{write}");
                    let revision = create(&store, &key, &key).await;
                    acknowledged.lock().expect("no writer panics").push((key, revision));
                }
            })
        });
        let writers: Vec<_> = writers.collect();
        let cut_after = round * 7 % 80;
        let mut safe = Vec::new();
        while safe.len() < cut_after {
            tokio::task::yield_now().await;
            safe = acknowledged.lock().expect("no writer panics").clone();
        }
        // What was acknowledged before the cut must be on the disk after it.
        disk = disk.after_power_cut();
        known.extend(safe);
        for writer in writers {
            writer.await.expect("no writer fails");
        }
    }
}

#[tokio::test]
async fn everything_is_there_after_reopening() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = EmbeddedStore::open(dir.path(), quick()).expect("the store opens");
    let a = create(&store, "a", "1").await;
    let b = create(&store, "b", "1").await;
    let a2 = put(&store, "a", "2", Compare::ModRevision(a), None).await;
    store.delete("b", b, None).await.expect("the store answers");
    store.compact(a2).await.expect("the store compacts");
    let before = history(&store, a2).await;
    drop(store);

    let store = EmbeddedStore::open(dir.path(), quick()).expect("the store opens again");
    assert_eq!(read(&store, "a").await.as_deref(), Some("2"));
    assert_eq!(read(&store, "b").await, None);
    assert_eq!(store.compacted(), a2);
    assert_eq!(
        store.get("a", Some(a)).await,
        Err(StorageError::Compacted { oldest: a2 })
    );
    assert_eq!(history(&store, a2).await, before);
    assert_eq!(create(&store, "c", "1").await, a2 + 2, "the clock goes on");
}

#[tokio::test]
async fn leases_go_on_after_reopening() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = EmbeddedStore::open(dir.path(), quick()).expect("the store opens");
    let short = store
        .grant_lease(Duration::from_secs(1))
        .await
        .expect("a lease is granted");
    let ended = store
        .grant_lease(Duration::from_secs(600))
        .await
        .expect("a lease is granted");
    let written = put(&store, "a", "1", Compare::Absent, Some(short)).await;
    store.revoke_lease(ended).await.expect("the lease is revoked");
    drop(store);

    let store = EmbeddedStore::open(dir.path(), quick()).expect("the store opens again");
    assert_eq!(store.revoke_lease(ended).await, Err(StorageError::LeaseNotFound));
    let next = store
        .grant_lease(Duration::from_secs(600))
        .await
        .expect("a lease is granted");
    assert!(next > ended, "no lease id is used twice");
    let mut watch = store.watch("a", written).await.expect("the watch opens");
    let batch = watch
        .next()
        .await
        .expect("the watch goes on")
        .expect("the watch is sound");
    assert!(
        matches!(&batch.events[..], [Event::Delete { key, .. }] if &**key == "a"),
        "{batch:?}"
    );
}

#[tokio::test]
async fn a_second_opening_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = EmbeddedStore::open(dir.path(), quick()).expect("the store opens");
    let Err(StorageError::Failed(why)) = EmbeddedStore::open(dir.path(), quick()) else {
        panic!("a refusal")
    };
    assert!(why.ends_with("store.redb is in use by another process"), "{why}");
    drop(store);
    EmbeddedStore::open(dir.path(), quick()).expect("the store opens when the other has closed it");
}

#[tokio::test]
async fn damage_is_found_when_opening() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("store.redb");
    let store = EmbeddedStore::open(dir.path(), quick()).expect("the store opens");
    let marker = "a marker that is long enough to be found in the file".repeat(20);
    create(&store, "a", &marker).await;
    drop(store);

    let sound = std::fs::read(&path).expect("the file");
    let at = sound
        .windows(marker.len())
        .position(|window| window == marker.as_bytes())
        .expect("the value");
    let mut flipped = sound.clone();
    flipped[at + 100] ^= 1;
    let mut no_header = sound.clone();
    no_header[..64].fill(0xaa);
    let cut = sound[..sound.len() / 3].to_vec();
    for (what, bytes) in [("bit flip", flipped), ("header", no_header), ("short file", cut)] {
        std::fs::write(&path, bytes).expect("the file is damaged");
        let Err(StorageError::Failed(why)) = EmbeddedStore::open(dir.path(), quick()) else {
            panic!("{what} unseen")
        };
        assert!(
            why.contains("store.redb is damaged") && why.contains("backup"),
            "{what}: {why}"
        );
    }
    std::fs::write(&path, sound).expect("the file is healed");
    let store = EmbeddedStore::open(dir.path(), quick()).expect("the sound file opens");
    assert_eq!(read(&store, "a").await, Some(marker));
}

#[tokio::test]
async fn a_watcher_far_behind_reads_from_disk_without_gap() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = EmbeddedStore::open(dir.path(), quick()).expect("the store opens");
    let mut slow = store.watch("", 1).await.expect("the watch opens");
    let writes = 6000;
    for chunk in 0..12 {
        let store = &store;
        join_all((0..500).map(|n| async move { create(store, &format!("{chunk}/{n}"), "1").await })).await;
    }
    let mut seen = Vec::new();
    while seen.len() < writes {
        let batch = slow
            .next()
            .await
            .expect("the watch goes on")
            .expect("the watch is sound");
        seen.extend(batch.events.iter().map(Event::revision));
    }
    assert!(
        seen.iter()
            .copied()
            .eq(2..2 + Revision::try_from(writes).expect("small"))
    );
    drop(slow);
    assert_eq!(store.stats().watches, 0);
}

#[tokio::test]
async fn a_watcher_overtaken_by_compaction_ends() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = EmbeddedStore::open(dir.path(), quick()).expect("the store opens");
    let mut slow = store.watch("", 1).await.expect("the watch opens");
    let value = "x".repeat(1 << 20);
    let mut at = create(&store, "a", &value).await;
    for _ in 0..12 {
        at = put(&store, "a", &value, Compare::ModRevision(at), None).await;
    }
    store.compact(at).await.expect("the store compacts");
    assert_eq!(slow.next().await, Some(Err(StorageError::Compacted { oldest: at })));
    assert_eq!(slow.next().await, None);
}

#[tokio::test]
async fn compaction_frees_what_it_forgets() {
    let dir = tempfile::tempdir().expect("a directory");
    let options = EmbeddedOptions {
        history_limit: Some(100),
        ..quick()
    };
    let store = EmbeddedStore::open(dir.path(), options).expect("the store opens");
    let mut at = create(&store, "hot", "0").await;
    let kept = create(&store, "kept", "1").await;
    for step in 1..1500 {
        at = put(&store, "hot", &step.to_string(), Compare::ModRevision(at), None).await;
    }
    let horizon = store.compacted();
    assert!(
        (at - 110..=at - 100).contains(&horizon),
        "compacted {horizon}, newest {at}"
    );
    drop(store);
    // A store that is opened again first sweeps what it has not swept yet.
    let store = EmbeddedStore::open(dir.path(), quick()).expect("the store opens again");
    create(&store, "after", "1").await;
    create(&store, "after 2", "1").await;
    let snapshot = store.snapshot();
    let versions = redb::ReadableTableMetadata::len(&snapshot.keys).expect("a count");
    assert!(versions <= 115, "{versions} versions are left");
    assert_eq!(read(&store, "kept").await.as_deref(), Some("1"));
    assert_eq!(
        store
            .get("kept", Some(horizon))
            .await
            .expect("it can be read")
            .0
            .expect("it is")
            .mod_revision,
        kept
    );
    let hot = store
        .get("hot", Some(horizon))
        .await
        .expect("it can be read")
        .0
        .expect("it is");
    assert_eq!(hot.mod_revision, horizon);
    assert_eq!(
        history(&store, horizon).await.first().map(Event::revision),
        Some(horizon + 1)
    );
}

#[tokio::test]
async fn closing_ends_watches() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = EmbeddedStore::open(dir.path(), quick()).expect("the store opens");
    let mut watch = store.watch("", 1).await.expect("the watch opens");
    drop(store);
    assert!(matches!(watch.next().await, Some(Err(StorageError::Unavailable(_)))));
    assert!(watch.next().await.is_none());
}
