use std::{collections::BTreeMap, time::Duration};

use futures_util::future::join_all;
use serde_json::json;
use trireme_actors::{
    testkit::{TestKit, eventually, run},
    topology::Topology,
};
use trireme_machinery::{Reason, selector::FieldSelector};

use super::support::{ObservedEvent, STATE, events, labelled, observed_event, open, truth, until_error};
use crate::{
    event_kind::EventKind,
    fixtures::{ReadSide, configmaps, pods, watch},
    reads::{WatchFrame, Watcher},
    request::{Freshness, WatchStart},
};

/// 1,000 writes by 4 concurrent writers over 10 objects in 2 namespaces; every tenth or so is a deletion.
async fn write_much(side: &ReadSide) -> i64 {
    let writers = (0..4).map(|writer| async move {
        let mut last = 0;
        for number in 0..250 {
            let name = format!("ns{}/w{writer}-{}", number % 2, number % 10 / 5);
            last = if number % 10 == 9 {
                side.delete("configmaps", &name).await
            } else {
                let parity = if number % 3 == 0 { "odd" } else { "even" };
                side.put("configmaps", &name, json!({"labels": {"p": parity}})).await
            };
        }
        last
    });
    join_all(writers).await.into_iter().max().expect("there are writers")
}

/// The events that a watcher of `p=odd` must see.
async fn odd_only(side: &ReadSide, all: &[ObservedEvent]) -> Vec<ObservedEvent> {
    let mut selected: BTreeMap<String, bool> = BTreeMap::new();
    let mut seen = Vec::new();
    for (kind, key, revision) in all {
        let full = format!("/registry/configmaps/{key}");
        let (entry, _) = side.store.get(&full, Some(*revision)).await.expect("history is kept");
        let now = entry.is_some_and(|entry| String::from_utf8_lossy(&entry.value).contains("\"p\":\"odd\""));
        let before = selected.insert(key.clone(), now).unwrap_or(false);
        let kind = match (before, now) {
            (false, false) => continue,
            (false, true) => EventKind::Added,
            (true, false) => EventKind::Deleted,
            (true, true) => *kind,
        };
        seen.push((kind, key.clone(), *revision));
    }
    seen
}

#[test]
fn watchers_see_everything_once_and_in_order() {
    run(Topology::trireme(), |kit| async move {
        let side = ReadSide::start(&kit, vec![configmaps()]).await;
        let reader = side.reader("configmaps");
        let mut all = open(&reader, watch("", STATE)).await;
        let mut of_namespace = open(&reader, watch("ns1", STATE)).await;
        let mut object = watch("ns0", STATE);
        object.selection.fields = FieldSelector::exactly("metadata.name", "w2-0");
        let mut of_object = open(&reader, object).await;
        let mut of_label = open(&reader, labelled(watch("", STATE), "p=odd")).await;

        let last = write_much(&side).await;

        let expected = truth(&*side.store, "configmaps", last).await;
        assert_eq!(expected.len(), 1000);
        assert_eq!(events(&mut all, 1000).await, expected);
        let part = |wanted: &dyn Fn(&str) -> bool| -> Vec<ObservedEvent> {
            expected.iter().filter(|(_, key, _)| wanted(key)).cloned().collect()
        };
        let in_namespace = part(&|key| key.starts_with("ns1/"));
        assert_eq!(events(&mut of_namespace, in_namespace.len()).await, in_namespace);
        let one = part(&|key| key == "ns0/w2-0");
        assert_eq!(events(&mut of_object, one.len()).await, one);
        let odd = odd_only(&side, &expected).await;
        assert_eq!(events(&mut of_label, odd.len()).await, odd);
    });
}

#[test]
fn a_watch_resumes_after_any_revision() {
    run(Topology::trireme(), |kit| async move {
        let side = ReadSide::start(&kit, vec![configmaps()]).await;
        let reader = side.reader("configmaps");
        let first = side.put("configmaps", "ns0/first", json!({})).await;
        let last = write_much(&side).await;
        let all = truth(&*side.store, "configmaps", last).await;
        for revision in (first..last).step_by(37) {
            let expected: Vec<_> = all.iter().filter(|(_, _, at)| *at > revision).cloned().collect();
            let mut watcher = open(&reader, watch("", WatchStart::After(revision))).await;
            assert_eq!(events(&mut watcher, expected.len()).await, expected, "after {revision}");
        }
    });
}

#[test]
fn a_watcher_that_lags_catches_up_from_the_log() {
    run(Topology::trireme(), |kit| async move {
        let side = ReadSide::start(&kit, vec![configmaps()]).await;
        let reader = side.reader("configmaps");
        let mut slow = open(&reader, watch("ns1", WatchStart::Now(Freshness::Latest))).await;
        side.put("configmaps", "ns1/first", json!({})).await;
        assert_eq!(events(&mut slow, 1).await.len(), 1, "it has gone live");
        let last = write_much(&side).await;
        let expected = truth(&*side.store, "configmaps", last).await;
        let expected: Vec<_> = expected
            .into_iter()
            .filter(|(_, key, _)| key.starts_with("ns1/"))
            .skip(1)
            .collect();
        assert!(expected.len() > 64, "more than its topic holds");
        assert_eq!(events(&mut slow, expected.len()).await, expected);
    });
}

#[test]
fn a_watcher_that_falls_off_the_log_gets_an_expired_error() {
    run(Topology::trireme(), |kit| async move {
        let side = ReadSide::start(&kit, vec![configmaps()]).await;
        let reader = side.reader("configmaps");
        let start = side.put("configmaps", "ns/a", json!({})).await;
        let mut slow = open(&reader, watch("", WatchStart::After(start))).await;
        for _ in 0..1100 {
            side.put("configmaps", "ns/a", json!({})).await;
        }
        reader
            .list(crate::fixtures::list(""))
            .await
            .expect("the cache is up to date");
        // The next trimming of the log.
        kit.clock.wait_for_sleep(Duration::from_secs(30)).await;
        kit.clock.advance(Duration::from_secs(75));
        eventually("old history is gone", || !reader.cache.snapshot().log.reaches(3)).await;
        let (seen, error) = until_error(&mut slow).await;
        assert!(seen.is_empty());
        assert_eq!(error.reason, Reason::Expired);
        assert!(
            error
                .message
                .starts_with(&format!("too old resource version: {start} (")),
            "{}",
            error.message
        );

        let refused = reader.watch(watch("", WatchStart::After(start))).await.map(|_| ());
        assert_eq!(refused.expect_err("it is too old").reason, Reason::Expired);
    });
}

#[test]
fn the_state_comes_first_then_its_end_then_changes() {
    run(Topology::trireme(), |kit| async move {
        let side = ReadSide::start(&kit, vec![configmaps()]).await;
        let reader = side.reader("configmaps");
        for number in 0..600 {
            side.put("configmaps", &format!("ns/{number:03}"), json!({})).await;
        }
        let newest = side.put("configmaps", "ns/000", json!({})).await;
        let mut request = watch("ns", STATE);
        request.bookmarks = true;
        request.initial_events_end = true;
        let mut watcher = open(&reader, request).await;
        let mut state = Vec::new();
        let end = loop {
            let mut frames = watcher.next().await.expect("the watch goes on");
            let bookmark = matches!(frames.last(), Some(WatchFrame::Bookmark { .. }))
                .then(|| frames.pop())
                .flatten();
            state.extend(frames.iter().map(observed_event));
            if let Some(bookmark) = bookmark {
                break bookmark;
            }
        };
        assert!(state.iter().all(|(kind, _, _)| *kind == EventKind::Added));
        let keys: Vec<_> = state.into_iter().map(|(_, key, _)| key).collect();
        assert_eq!(
            keys,
            (0..600).map(|number| format!("ns/{number:03}")).collect::<Vec<_>>()
        );
        let WatchFrame::Bookmark {
            revision,
            initial_events_end: true,
        } = end
        else {
            panic!("not the end: {end:?}")
        };
        assert!(revision >= newest);
        let later = side.put("configmaps", "ns/new", json!({})).await;
        assert_eq!(
            events(&mut watcher, 1).await,
            [(EventKind::Added, "ns/new".to_owned(), later)]
        );
    });
}

#[test]
fn a_node_hears_of_its_pods_only() {
    run(Topology::trireme(), |kit| async move {
        let side = ReadSide::start(&kit, vec![pods()]).await;
        let reader = side.reader("pods");
        let mut request = watch("", STATE);
        request.selection.fields = FieldSelector::exactly("spec.nodeName", "n1");
        let mut node = open(&reader, request).await;
        side.put("pods", "ns/a", json!({})).await;
        side.put("pods", "ns/b", json!({"spec": {"nodeName": "n2"}})).await;
        let bound = side.put("pods", "ns/a", json!({"spec": {"nodeName": "n1"}})).await;
        let moved = side.put("pods", "ns/a", json!({"spec": {"nodeName": "n2"}})).await;
        let expected = [
            (EventKind::Added, "ns/a".to_owned(), bound),
            (EventKind::Deleted, "ns/a".to_owned(), moved),
        ];
        assert_eq!(events(&mut node, 2).await, expected);
    });
}

/// The next frames of a watcher that sees every tick of a clock that runs on; `None` at its end.
async fn next_of_ticking(kit: &TestKit, watcher: &mut Watcher) -> Option<Vec<WatchFrame>> {
    let clock = kit.clock.clone();
    let ticking = async move {
        loop {
            clock.advance(Duration::from_millis(500));
            tokio::task::yield_now().await;
        }
    };
    // The watcher first.
    tokio::select! {
        biased;
        frames = watcher.next() => frames,
        () = ticking => None,
    }
}

#[test]
fn bookmarks_come_about_every_minute_and_before_the_end() {
    run(Topology::trireme(), |kit| async move {
        let side = ReadSide::start(&kit, vec![configmaps(), pods()]).await;
        let reader = side.reader("configmaps");
        let mut request = watch("ns", WatchStart::Now(Freshness::Latest));
        request.bookmarks = true;
        // Between two there are 45 to 75 s: two or three come before the last one, whatever is drawn.
        request.timeout = Duration::from_secs(180);
        let mut watcher = open(&reader, request).await;
        // The bookmark's revision moves on with the store, also by what others write.
        let elsewhere = side.put("pods", "ns/a", json!({})).await;
        eventually("the clock has reached it", || reader.revision() >= Some(elsewhere)).await;
        let began = kit.system.clock().now();
        let mut seen = Vec::new();
        while let Some(frames) = next_of_ticking(&kit, &mut watcher).await {
            for frame in frames {
                let WatchFrame::Bookmark {
                    revision,
                    initial_events_end: false,
                } = frame
                else {
                    panic!("{frame:?}")
                };
                assert!(revision >= elsewhere);
                seen.push((kit.system.clock().now() - began).as_secs_f64());
            }
        }
        assert!((3..=4).contains(&seen.len()), "{seen:?}");
        assert!((45.0..80.0).contains(&seen[0]), "{seen:?}");
        assert!(seen.last().is_some_and(|last| *last >= 178.0), "{seen:?}");
    });
}

#[test]
fn a_watch_from_the_future_is_silent_until_then() {
    run(Topology::trireme(), |kit| async move {
        let side = ReadSide::start(&kit, vec![configmaps()]).await;
        let reader = side.reader("configmaps");
        let now = side.put("configmaps", "ns/a", json!({})).await;
        let mut bookmarked = watch("", WatchStart::After(now + 99));
        bookmarked.bookmarks = true;
        bookmarked.timeout = Duration::from_secs(150);
        let mut silent = open(&reader, bookmarked).await;
        let mut watcher = open(&reader, watch("", WatchStart::After(now + 2))).await;
        for name in ["ns/b", "ns/c", "ns/d"] {
            side.put("configmaps", name, json!({})).await;
        }
        assert_eq!(
            events(&mut watcher, 1).await,
            [(EventKind::Added, "ns/d".to_owned(), now + 3)]
        );
        // Neither the events nor bookmarks of a time before: it ends as any watch that saw nothing.
        let frames = next_of_ticking(&kit, &mut silent).await;
        assert!(frames.is_none(), "{frames:?}");
    });
}

#[test]
fn a_watch_for_the_state_of_the_future_is_refused_after_a_wait() {
    run(Topology::trireme(), |kit| async move {
        let side = ReadSide::start(&kit, vec![configmaps()]).await;
        let reader = side.reader("configmaps");
        let now = side.put("configmaps", "ns/a", json!({})).await;
        eventually("the cache has it", || reader.revision() >= Some(now)).await;
        let start = WatchStart::State(Freshness::NotOlderThan(now + 99));
        let refused = tokio::spawn(async move { reader.watch(watch("", start)).await.map(|_| ()) });
        kit.clock.elapse(Duration::from_secs(3)).await;
        let error = refused.await.expect("no panic").expect_err("it never came");
        assert_eq!(
            error.message,
            format!("Timeout: Too large resource version: {}, current: {now}", now + 99)
        );
        let details = error.details.expect("a cause is given");
        assert_eq!(
            (details.retry_after_seconds, &*details.causes[0].reason),
            (1, "ResourceVersionTooLarge")
        );
    });
}

#[test]
fn a_watch_ends_cleanly_at_its_deadline() {
    run(Topology::trireme(), |kit| async move {
        let side = ReadSide::start(&kit, vec![configmaps()]).await;
        let mut watcher = open(&side.reader("configmaps"), watch("", STATE)).await;
        let ended = tokio::spawn(async move { watcher.next().await.is_none() });
        kit.clock.advance(Duration::from_secs(3600));
        assert!(ended.await.expect("no panic"));
    });
}

#[test]
fn an_idle_watcher_is_small() {
    let bytes = std::mem::size_of::<crate::reads::Watcher>();
    assert!(bytes <= 1024, "a watcher takes {bytes} bytes");
}
