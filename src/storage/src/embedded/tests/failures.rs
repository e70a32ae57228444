//! Disks that fail, and crashes at any moment.

use super::{
    disk::{DiskFailure, TestDisk},
    *,
};

async fn try_create(store: &EmbeddedStore, key: &str) -> Result<WriteOutcome, StorageError> {
    let value = Bytes::from_static(b"1");
    store.put(key, value, Compare::Absent, PutOptions::default()).await
}

/// Creates a key, again and again while the store refuses that.
async fn create_in_the_end(store: &EmbeddedStore, key: &str) -> Revision {
    loop {
        match try_create(store, key).await {
            Ok(WriteOutcome::Committed(revision)) => return revision,
            Err(StorageError::Unavailable(_)) => tokio::task::yield_now().await,
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_store_writes_again_when_its_disk_has_space_again() {
    let disk = TestDisk::default();
    let store = on_disk(&disk);
    let before = create(&store, "before", "1").await;
    let mut watch = store.watch("", before).await.expect("the watch opens");
    for round in 0..3 {
        disk.fail(Some(DiskFailure::Full));
        let lost = try_create(&store, &format!("lost {round}")).await;
        assert!(matches!(lost, Err(StorageError::UnknownOutcome(_))), "{lost:?}");
        for _ in 0..3 {
            let refused = try_create(&store, "refused").await;
            assert!(matches!(refused, Err(StorageError::Unavailable(_))), "{refused:?}");
            assert!(store.write_failure().is_some());
        }
        assert_eq!(store.read_index().await, Ok(before + round));
        disk.fail(None);
        let revision = create_in_the_end(&store, &format!("after {round}")).await;
        assert_eq!(
            revision,
            before + round + 1,
            "no revision is left out, none is used twice"
        );
        assert_eq!(store.write_failure(), None);
        let batch = watch.next().await.expect("the watch goes on").expect("it is sound");
        let keys: Vec<&str> = batch.events.iter().map(|event| &**event.key()).collect();
        assert_eq!(keys, [format!("after {round}")]);
        assert_eq!(read(&store, "before").await.as_deref(), Some("1"));
        assert_eq!(read(&store, "refused").await, None);
    }
    drop(store);
    let store = on_disk(&disk);
    assert_eq!(read(&store, "after 2").await.as_deref(), Some("1"));
}

/// To open the file takes little space, but it reads all of it.
#[tokio::test]
async fn a_disk_that_stays_full_does_not_have_the_file_opened_at_every_write() {
    let disk = TestDisk::default();
    let store = try_on_disk_with(&disk, Duration::from_secs(3_600)).expect("the store opens");
    create(&store, "before", "1").await;
    disk.fail(Some(DiskFailure::AlmostFull));
    let large = Bytes::from(vec![b'x'; 100_000]);
    let mut outcomes = Vec::new();
    for _ in 0..4 {
        let put = store.put("large", large.clone(), Compare::Absent, PutOptions::default());
        outcomes.push(match put.await {
            Err(StorageError::UnknownOutcome(_)) => "unknown",
            Err(StorageError::Unavailable(_)) => "refused",
            other => panic!("{other:?}"),
        });
    }
    assert_eq!(outcomes, ["unknown", "unknown", "refused", "refused"]);
}

#[tokio::test]
async fn a_store_is_read_again_though_nobody_writes() {
    let disk = TestDisk::default();
    let store = on_disk(&disk);
    // The root of the table stays readable, so there must be more.
    for number in 0..4 {
        create(&store, &format!("before {number}"), &"x".repeat(100_000)).await;
    }
    disk.fail(Some(DiskFailure::Full));
    let lost = try_create(&store, "lost").await;
    assert!(matches!(lost, Err(StorageError::UnknownOutcome(_))), "{lost:?}");
    // The file is closed by then.
    let refused = try_create(&store, "refused").await;
    assert!(matches!(refused, Err(StorageError::Unavailable(_))), "{refused:?}");
    let unreadable = store.get("before 0", None).await;
    assert!(
        matches!(unreadable, Err(StorageError::Unavailable(_))),
        "{unreadable:?}"
    );
    disk.fail(None);
    let found = loop {
        match store.get("before 0", None).await {
            Ok((found, _)) => break found,
            Err(StorageError::Unavailable(_)) => tokio::task::yield_now().await,
            Err(other) => panic!("{other:?}"),
        }
    };
    assert!(found.is_some());
}

/// After a failed sync the system may show what is not on the disk, so only a person can say that the file is sound.
#[tokio::test]
async fn after_a_failed_sync_nothing_is_written_any_more() {
    let disk = TestDisk::default();
    let store = on_disk(&disk);
    create(&store, "before", "1").await;
    disk.fail(Some(DiskFailure::Unsynced));
    let lost = try_create(&store, "lost").await;
    assert!(matches!(lost, Err(StorageError::UnknownOutcome(_))), "{lost:?}");
    disk.fail(None);
    for _ in 0..3 {
        let refused = try_create(&store, "refused").await;
        let Err(StorageError::Failed(why)) = refused else {
            panic!("{refused:?}");
        };
        assert!(why.ends_with("the disk is broken; start the server again"), "{why}");
        let shown = store.write_failure().expect("nothing is written");
        assert!(shown.ends_with("the disk is broken; start the server again"), "{shown}");
    }
}

#[tokio::test]
async fn a_full_disk_is_not_taken_for_damage_at_the_start() {
    let disk = TestDisk::default();
    drop(on_disk(&disk));
    disk.fail(Some(DiskFailure::Full));
    let Err(StorageError::Failed(why)) = try_on_disk(&disk) else {
        panic!("a refusal")
    };
    assert!(
        why.starts_with("cannot open test disk: ") && !why.contains("damaged"),
        "{why}"
    );
    disk.fail(None);
    drop(on_disk(&disk));
}

/// Whenever the power goes, and whatever becomes of the writes that were not synced, whole or in part: what was acknowledged
/// is there, and the clock has not gone back.
#[tokio::test]
async fn acknowledged_writes_survive_a_crash_at_any_moment() {
    let disk = TestDisk::default();
    drop(on_disk(&disk));
    disk.record();
    let mut acknowledged = Vec::new();
    let store = on_disk(&disk);
    let lease = store
        .grant_lease(Duration::from_secs(600))
        .await
        .expect("a lease is granted");
    for n in 0..8 {
        let key = format!("/k/{n}");
        let lease = (n % 3 == 0).then_some(lease);
        let revision = put(&store, &key, &"v".repeat(3_000), Compare::Absent, lease).await;
        acknowledged.push((disk.steps(), key, revision));
        if n == 4 {
            store.compact(revision - 2).await.expect("the store compacts");
        }
    }
    drop(store);
    for (number, at) in (0..=disk.steps()).step_by(3).enumerate() {
        let store = on_disk(&disk.crashed_at(at, number % 3));
        let newest = store.read_index().await.expect("the store answers");
        for (step, key, revision) in &acknowledged {
            let found = store.get(key, None).await.expect("the store answers").0;
            let found = found.map(|entry| entry.mod_revision);
            assert!(found.is_none_or(|found| found == *revision), "{at}: {key}");
            assert!(
                *step > at || found.is_some() && newest >= *revision,
                "{at}: {key} is lost"
            );
        }
    }
}

#[tokio::test]
async fn leases_that_end_together_do_not_end_in_one_commit() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = EmbeddedStore::open(dir.path(), quick()).expect("the store opens");
    let mut newest = 0;
    for n in 0..3 {
        let lease = store
            .grant_lease(Duration::from_secs(600))
            .await
            .expect("a lease is granted");
        let store = &store;
        let keys = (0..600)
            .map(|key| async move { put(store, &format!("{n}/{key}"), "1", Compare::Absent, Some(lease)).await });
        newest = join_all(keys).await.into_iter().max().expect("there are some");
    }
    drop(store);
    end_leases(&dir.path().join("store.redb"));
    let store = EmbeddedStore::open(dir.path(), quick()).expect("the store opens again");
    let mut watch = store.watch("", newest).await.expect("the watch opens");
    let mut gone = 0;
    while gone < 1_800 {
        gone += watch
            .next()
            .await
            .expect("the watch goes on")
            .expect("it is sound")
            .events
            .len();
    }
    // Commits are counted before they are answered, but after they are published.
    create(&store, "after", "1").await;
    assert_eq!(
        store.stats().commits,
        3,
        "one for 1,200 keys, one for the rest, and this one"
    );
}

/// Has all leases of a closed store end when it is opened.
fn end_leases(path: &Path) {
    let database = redb::Database::open(path).expect("the file opens");
    let transaction = database.begin_write().expect("it is written to");
    let mut leases = transaction.open_table(tables::LEASES).expect("there are leases");
    for lease in 1..=3 {
        let former = leases.insert(lease, 0).expect("it is written");
        assert_eq!(former.map(|ttl_s| ttl_s.value()), Some(600));
    }
    drop(leases);
    transaction.commit().expect("it is written");
}
