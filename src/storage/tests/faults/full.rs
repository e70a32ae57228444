//! An etcd that is full.

use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use trireme_storage::{
    Compare, EtcdOptions, EtcdStore, PutOptions, Storage, StorageError, WriteOutcome,
    testing::{EtcdProcess, EtcdSetup},
};

const LIMIT: Duration = Duration::from_secs(30);

/// etcd makes the writes that were proposed before it knew that it is full, and says of them that there is no space.
#[tokio::test]
async fn what_is_refused_for_want_of_space_was_not_written() {
    let setup = EtcdSetup {
        args: vec!["--quota-backend-bytes=4000000".to_owned()],
        ..EtcdSetup::default()
    };
    let etcd = EtcdProcess::start_with(setup).await.expect("etcd starts");
    let options = EtcdOptions::new([etcd.endpoint()]);
    let store = EtcdStore::connect(options).await.expect("the options are sound");
    let _etcd = etcd.ready(&store).await.expect("etcd serves");
    let (mut committed, mut refused) = (0, 0);
    for round in 0..200 {
        let put = async |number: usize| {
            let key = format!("/{round}/{number}");
            let value = Bytes::from(vec![b'x'; 20_000]);
            let outcome = store.put(&key, value, Compare::Absent, PutOptions::default()).await;
            (key, outcome)
        };
        for (key, outcome) in join_all((0..24).map(put)).await {
            let (there, _) = store.get(&key, None).await.expect("reads go on");
            let revision = there.map(|entry| entry.mod_revision);
            match outcome {
                Ok(WriteOutcome::Committed(at)) => assert_eq!(revision, Some(at), "{key}"),
                Err(StorageError::Full(_)) => {
                    assert_eq!(revision, None, "{key} is there, though there was no space");
                    refused += 1;
                    continue;
                }
                other => panic!("{key}: {other:?}"),
            }
            committed += 1;
        }
        if refused > 0 {
            break;
        }
    }
    assert!(
        committed > 0 && refused > 0,
        "{committed} were written, {refused} refused"
    );
}

#[tokio::test]
async fn a_full_etcd_refuses_puts_until_room_is_made() {
    let setup = EtcdSetup {
        args: vec!["--quota-backend-bytes=1000000".to_owned()],
        ..EtcdSetup::default()
    };
    let etcd = EtcdProcess::start_with(setup).await.expect("etcd starts");
    let options = EtcdOptions::new([etcd.endpoint()]);
    let store = EtcdStore::connect(options).await.expect("the options are sound");
    let etcd = etcd.ready(&store).await.expect("etcd serves");
    let put = async |key: &str, bytes: usize| {
        let value = Bytes::from(vec![b'x'; bytes]);
        store.put(key, value, Compare::Absent, PutOptions::default()).await
    };
    let mut written = Vec::new();
    let fill = async {
        // etcd looks at the size of its file, which grows ten times a second, however much is put meanwhile.
        loop {
            let key = format!("/{}", written.len());
            match put(&key, 300_000).await {
                Ok(WriteOutcome::Committed(revision)) => written.push((key, revision)),
                other => return other,
            }
        }
    };
    let refused = tokio::time::timeout(LIMIT, fill).await.expect("1 MB is full");
    let Err(StorageError::Full(why)) = refused else {
        panic!("the full etcd refuses: {refused:?}")
    };
    assert!(why.contains("space exceeded"), "{why}");
    assert!(store.get("/0", None).await.expect("reads go on").0.is_some());

    let mut last = 0;
    for (key, revision) in written {
        let deleted = store.delete(&key, revision, None).await;
        let Ok(WriteOutcome::Committed(at)) = deleted else {
            panic!("deletes go on: {deleted:?}")
        };
        last = at;
    }
    assert!(
        matches!(put("/small", 1).await, Err(StorageError::Full(_))),
        "the alarm stands"
    );
    store.compact(last).await.expect("history can be forgotten");
    let alarms = etcd.post("/v3/maintenance/alarm", r#"{"action":"GET"}"#).await;
    let alarms = alarms.expect("etcd lists its alarms");
    let member = alarms
        .split("\"memberID\":\"")
        .nth(1)
        .and_then(|rest| rest.split('"').next());
    let member = member.expect("the alarm is of a member");
    let disarm = format!(r#"{{"action":"DEACTIVATE","memberID":"{member}","alarm":"NOSPACE"}}"#);
    let room = async {
        // The compaction goes on behind its answer, and until it is done there is no room to give back.
        loop {
            let defragmented = etcd.post("/v3/maintenance/defragment", "{}").await;
            defragmented.expect("etcd gives room back");
            etcd.post("/v3/maintenance/alarm", &disarm)
                .await
                .expect("the alarm is disarmed");
            match put("/small", 1).await {
                Err(StorageError::Full(_)) => {}
                other => return other,
            }
        }
    };
    let again = tokio::time::timeout(LIMIT, room).await.expect("there is room");
    assert!(matches!(again, Ok(WriteOutcome::Committed(_))), "{again:?}");
}
