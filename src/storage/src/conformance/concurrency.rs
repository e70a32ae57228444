//! Many callers at once.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use futures_util::future::join_all;

use super::subject::{Subject, text};
use crate::{Compare, Revision, WriteOutcome};

/// Races 16 writes of one key; the winner's text and revision, and the number of those that got a conflict.
async fn race(s: &Subject, compare: Compare) -> (Vec<(String, Revision)>, usize) {
    let racers = (0..16).map(|racer| {
        let s = s.clone();
        tokio::spawn(async move { (racer.to_string(), s.write("a", &racer.to_string(), compare).await) })
    });
    let (mut winners, mut losers) = (Vec::new(), 0);
    for racer in join_all(racers).await {
        match racer.expect("no racer fails") {
            (value, WriteOutcome::Committed(revision)) => winners.push((value, revision)),
            (_, WriteOutcome::Conflict(current)) => {
                assert!(current.is_some(), "a loser gets the winner's entry");
                losers += 1;
            }
        }
    }
    (winners, losers)
}

pub(super) async fn one_create_wins(s: Subject) {
    let (winners, losers) = race(&s, Compare::Absent).await;
    assert_eq!((winners.len(), losers), (1, 15));
    let entry = s.read("a").await.expect("the key exists");
    assert_eq!((text(&entry), entry.mod_revision), winners[0]);
}

pub(super) async fn one_update_wins(s: Subject) {
    let created = s.create("a", "start").await;
    let (winners, losers) = race(&s, Compare::ModRevision(created)).await;
    assert_eq!((winners.len(), losers), (1, 15));
    let entry = s.read("a").await.expect("the key exists");
    assert_eq!((text(&entry), entry.mod_revision, entry.create_revision), {
        let (value, revision) = winners[0].clone();
        (value, revision, created)
    });
}

pub(super) async fn counter_loses_no_increment(s: Subject) {
    s.create("a", "0").await;
    let workers = (0..8).map(|_| {
        let s = s.clone();
        tokio::spawn(async move {
            for _ in 0..10 {
                let mut entry = s.read("a").await.expect("the counter exists");
                loop {
                    let next = text(&entry).parse::<u32>().expect("a number") + 1;
                    match s
                        .write("a", &next.to_string(), Compare::ModRevision(entry.mod_revision))
                        .await
                    {
                        WriteOutcome::Committed(_) => break,
                        WriteOutcome::Conflict(current) => entry = current.expect("the counter exists"),
                    }
                }
            }
        })
    });
    for worker in join_all(workers).await {
        worker.expect("no worker fails");
    }
    assert_eq!(text(&s.read("a").await.expect("the counter exists")), "80");
}

pub(super) async fn read_index_covers_acknowledged_writes(s: Subject) {
    let acknowledged = Arc::new(AtomicI64::new(0));
    let writers = (0..4).map(|writer| {
        let (s, acknowledged) = (s.clone(), acknowledged.clone());
        tokio::spawn(async move {
            for write in 0..50 {
                let revision = s.create(&format!("{writer}/{write}"), "x").await;
                acknowledged.fetch_max(revision, Ordering::SeqCst);
            }
        })
    });
    let writers: Vec<_> = writers.collect();
    while !writers.iter().all(tokio::task::JoinHandle::is_finished) {
        // A store that answers without waiting must not starve the writers of their only thread.
        tokio::task::yield_now().await;
        let floor = acknowledged.load(Ordering::SeqCst);
        let index = s.read_index().await.expect("the store answers");
        assert!(index >= floor, "read index {index} is below the acknowledged {floor}");
    }
    for writer in writers {
        writer.await.expect("no writer fails");
    }
}

pub(super) async fn reads_see_acknowledged_writes(s: Subject) {
    let workers = (0..8).map(|worker: u32| {
        let s = s.clone();
        tokio::spawn(async move {
            for write in 0..20 {
                let name = format!("{worker}/{write}");
                let revision = s.create(&name, "x").await;
                assert_eq!(s.read(&name).await.map(|entry| entry.mod_revision), Some(revision));
                let page = s.page(|request| request.prefix.push_str(&format!("{worker}/"))).await;
                assert_eq!(page.count, write + 1);
                assert!(page.revision >= revision);
            }
        })
    });
    for worker in join_all(workers).await {
        worker.expect("no read is stale");
    }
}
