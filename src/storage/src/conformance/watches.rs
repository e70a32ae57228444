//! Following changes.

use std::{collections::HashSet, time::Duration};

use bytes::Bytes;
use futures_util::future::join_all;

use super::subject::{CheckedWatch, Subject, committed, text};
use crate::{Compare, Event, PutOptions, Revision};

async fn newest(s: &Subject) -> Revision {
    s.read_index().await.expect("the store answers")
}

pub(super) async fn past_is_replayed(s: Subject) {
    let start = newest(&s).await;
    let a = s.create("a", "1").await;
    let b = s.create("b", "1").await;
    let a2 = s.update("a", "2", a).await;
    let gone = s.remove("b", b).await;
    let mut watch = s.watch_from(start).await;
    let events = watch.events(4).await;
    assert_eq!(
        s.described(&events),
        [
            format!("a=1@{a}"),
            format!("b=1@{b}"),
            format!("a=2@{a2}"),
            format!("b-@{gone}")
        ]
    );
}

pub(super) async fn from_now_on_only_new_changes(s: Subject) {
    let a = s.create("a", "1").await;
    let mut watch = s.watch_from(newest(&s).await).await;
    let a2 = s.update("a", "2", a).await;
    assert_eq!(s.described(&watch.events(1).await), [format!("a=2@{a2}")]);
}

pub(super) async fn events_carry_the_previous_entry(s: Subject) {
    let start = newest(&s).await;
    let mut live = s.watch_from(start).await;
    let created = s.create("a", "1").await;
    let first = s.read("a").await.expect("the key exists");
    let updated = s.update("a", "2", created).await;
    let second = s.read("a").await.expect("the key exists");
    let deleted = s.remove("a", updated).await;
    let expected = [
        Event::Put {
            entry: first.clone(),
            previous: None,
        },
        Event::Put {
            entry: second.clone(),
            previous: Some(first),
        },
        Event::Delete {
            key: s.key("a").into(),
            revision: deleted,
            previous: Some(second),
        },
    ];
    assert_eq!(live.events(3).await, expected);
    assert_eq!(s.watch_from(start).await.events(3).await, expected);
}

pub(super) async fn future_revision_waits_for_it(s: Subject) {
    let a = s.create("a", "1").await;
    let mut watch = s.watch_from(a + 2).await;
    let a2 = s.update("a", "2", a).await;
    let a3 = s.update("a", "3", a2).await;
    let a4 = s.update("a", "4", a3).await;
    assert_eq!(s.described(&watch.events(1).await), [format!("a=4@{a4}")]);
}

pub(super) async fn other_keys_are_left_out(s: Subject) {
    let start = newest(&s).await;
    let stream = s.watch(&s.key("a/"), start).await.expect("the watch opens");
    let mut watch = CheckedWatch::new(stream);
    for name in ["a", "a/1", "a0", "b", "a/2"] {
        s.create(name, "1").await;
    }
    let events = watch.events(2).await;
    let names: Vec<_> = events.iter().map(|event| s.name(event.key())).collect();
    assert_eq!(names, ["a/1", "a/2"]);
}

pub(super) async fn every_revision_can_be_resumed_from(s: Subject) {
    let start = newest(&s).await;
    let mut at = s.create("a", "0").await;
    for step in 1..10 {
        at = s.update("a", &step.to_string(), at).await;
    }
    let all = s.described(&s.watch_from(start).await.events(10).await);
    for (seen, after) in (start..at).enumerate() {
        let rest = s.watch_from(after).await.events(10 - seen).await;
        assert_eq!(s.described(&rest), all[seen..]);
    }
}

/// Runs eight writers of `each` creations; the revisions of the answers.
async fn eight_writers(s: &Subject, each: usize) -> Vec<Revision> {
    let writers = (0..8).map(|writer| {
        let s = s.clone();
        tokio::spawn(async move {
            let mut revisions = Vec::new();
            for write in 0..each {
                revisions.push(s.create(&format!("{writer}/{write}"), "x").await);
            }
            revisions
        })
    });
    let revisions = join_all(writers)
        .await
        .into_iter()
        .flat_map(|writer| writer.expect("no writer fails"));
    let mut revisions: Vec<_> = revisions.collect();
    revisions.sort_unstable();
    revisions
}

pub(super) async fn eight_writers_without_gap_or_duplicate(s: Subject) {
    let mut watch = s.watch_from(newest(&s).await).await;
    let written = eight_writers(&s, 40).await;
    let seen: Vec<_> = watch.events(320).await.iter().map(Event::revision).collect();
    assert_eq!(seen, written);
    assert_eq!(written.iter().collect::<HashSet<_>>().len(), 320);
}

pub(super) async fn past_and_live_join_while_writes_go_on(s: Subject) {
    let start = newest(&s).await;
    let writers = tokio::spawn({
        let s = s.clone();
        async move { eight_writers(&s, 40).await }
    });
    let mut seen: Vec<Vec<Revision>> = Vec::new();
    while !writers.is_finished() {
        // A watch with all it wants at hand must not starve the writers of their only thread.
        tokio::task::yield_now().await;
        let mut watch = s.watch_from(start).await;
        seen.push(watch.events(320).await.iter().map(Event::revision).collect());
    }
    let written = writers.await.expect("no writer fails");
    seen.push(
        s.watch_from(start)
            .await
            .events(320)
            .await
            .iter()
            .map(Event::revision)
            .collect(),
    );
    assert!(
        seen.iter().all(|revisions| *revisions == written),
        "every watch got every write, in order"
    );
}

pub(super) async fn big_history_arrives_whole(s: Subject) {
    let start = newest(&s).await;
    let value = Bytes::from(vec![b'x'; 400_000]);
    let mut compare = Compare::Absent;
    for _ in 0..30 {
        let put = s.put(&s.key("a"), value.clone(), compare, PutOptions::default()).await;
        compare = Compare::ModRevision(committed(put.expect("the store takes writes")));
    }
    let events = s.watch_from(start).await.events(30).await;
    let sizes = |event: &Event| event.previous().map_or(0, |previous| previous.value.len());
    assert_eq!(events.iter().map(sizes).sum::<usize>(), 29 * 400_000);
}

pub(super) async fn empty_prefix_watches_everything(s: Subject) {
    let start = newest(&s).await;
    let mut watch = CheckedWatch::new(s.watch("", start).await.expect("the watch opens"));
    let key = format!("elsewhere{}", s.prefix);
    let put = s
        .put(&key, Bytes::from_static(b"1"), Compare::Absent, PutOptions::default())
        .await;
    let elsewhere = committed(put.expect("the store takes writes"));
    let here = s.create("a", "1").await;
    let seen: Vec<_> = watch
        .events(2)
        .await
        .iter()
        .map(|e| (e.key().to_string(), e.revision()))
        .collect();
    assert_eq!(seen, [(key, elsewhere), (s.key("a"), here)]);
}

pub(super) async fn batches_never_split_a_revision(s: Subject) {
    let start = newest(&s).await;
    let mut live = s.watch_from(start).await;
    let lease = s
        .grant_lease(Duration::from_secs(600))
        .await
        .expect("a lease is granted");
    let value = Bytes::from(vec![b'x'; 50_000]);
    for number in 0..100 {
        let key = s.key(&format!("{number:03}"));
        let put = s
            .put(
                &key,
                value.clone(),
                Compare::Absent,
                PutOptions {
                    lease: Some(lease),
                    fence: None,
                },
            )
            .await;
        committed(put.expect("the store takes writes"));
    }
    s.revoke_lease(lease).await.expect("the lease is revoked");
    let last = s.create("after", "1").await;
    for watch in [&mut live, &mut s.watch_from(start).await] {
        let mut deletions = Vec::new();
        loop {
            let batch = watch.batch().await;
            let deleted = batch
                .events
                .iter()
                .filter(|event| matches!(event, Event::Delete { .. }))
                .count();
            deletions.extend((deleted > 0).then_some(deleted));
            if batch.revision >= last {
                break;
            }
        }
        assert_eq!(deletions, [100], "all deletions of the one revision come in one batch");
    }
}

pub(super) async fn dropped_watch_is_freed(s: Subject) {
    let start = newest(&s).await;
    let before = s.open_watches().await;
    let mut watches = Vec::new();
    for _ in 0..5 {
        watches.push(s.watch_from(start).await);
    }
    s.create("a", "1").await;
    for watch in &mut watches {
        assert_eq!(text_of(&watch.events(1).await), ["1"]);
    }
    // Not the sum: those of earlier cases may be freed only now.
    assert!(s.open_watches().await >= 5);
    drop(watches);
    tokio::time::timeout(Duration::from_secs(20), async {
        while s.open_watches().await > before {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("dropped watches are freed");
}

fn text_of(events: &[Event]) -> Vec<String> {
    let value = |event: &Event| match event {
        Event::Put { entry, .. } => text(entry),
        Event::Delete { .. } => "deleted".to_owned(),
    };
    events.iter().map(value).collect()
}
