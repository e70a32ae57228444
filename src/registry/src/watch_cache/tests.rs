use std::{ops::Bound, sync::Arc, time::Duration};

use proptest::prelude::*;
use serde_json::json;
use tokio::sync::broadcast::error::TryRecvError;
use trireme_storage::Revision;

use super::{
    index::ItemIndex,
    logic::{CacheChange, CacheState},
    topics::{Topic, Topics},
};
use crate::{
    event::LogEvent,
    event_kind::EventKind,
    fixtures::{configmaps, epoch, item, pods},
    item::Item,
    unreadable::UnreadableValue,
};

fn put(key: &str, revision: Revision) -> CacheChange {
    CacheChange::Put(item(
        &configmaps(),
        key,
        json!({"data": {"r": revision.to_string()}}),
        revision,
    ))
}

fn delete(key: &str, revision: Revision) -> CacheChange {
    CacheChange::Delete {
        key: Arc::from(key),
        revision,
    }
}

fn keys(index: &ItemIndex) -> Vec<String> {
    index
        .range((Bound::Unbounded, Bound::Unbounded))
        .map(|item| format!("{}@{}", item.key, item.revision))
        .collect()
}

fn loaded_at(revision: Revision) -> CacheState {
    let mut state = CacheState::default();
    state.replace(ItemIndex::default(), revision);
    state
}

#[test]
fn changes_become_events_in_order_and_a_snapshot() {
    let mut state = loaded_at(1);
    let changes = vec![
        put("ns/a", 2),
        put("ns/b", 3),
        put("ns/a", 4),
        delete("ns/b", 5),
        delete("ns/none", 6),
    ];
    let events = state.apply(changes, 6, epoch()).events;
    let described: Vec<_> = events
        .iter()
        .map(|event| (event.kind, event.item.name(), event.revision()))
        .collect();
    let expected = [
        (EventKind::Added, "a", 2),
        (EventKind::Added, "b", 3),
        (EventKind::Modified, "a", 4),
        (EventKind::Deleted, "b", 5),
    ];
    assert_eq!(described, expected);
    assert_eq!(keys(&state.snapshot().index), ["ns/a@4"]);
    assert_eq!(state.snapshot().revision, 6);
}

#[test]
fn selectors_turn_changes_into_additions_and_deletions() {
    let labelled = |value: &str, revision| item(&configmaps(), "ns/a", json!({"labels": {"x": value}}), revision);
    let selects = |value: &'static str| move |item: &Item| item.label("x") == Some(value);
    let change = LogEvent::put(0, labelled("2", 8), Some(labelled("1", 5)));

    let left = change.seen_by(selects("1")).expect("it left the selection");
    assert_eq!(
        (left.kind, left.item.label("x"), left.item.revision),
        (EventKind::Deleted, Some("1"), 8)
    );
    assert!(left.line.starts_with(br#"{"type":"DELETED","object":{"#));

    let entered = change.seen_by(selects("2")).expect("it entered the selection");
    assert_eq!((entered.kind, entered.item.revision), (EventKind::Added, 8));
    assert!(entered.line.starts_with(br#"{"type":"ADDED","object":{"#));

    assert!(change.seen_by(selects("3")).is_none());
    assert_eq!(
        change.seen_by(|_| true).map(|seen| seen.kind),
        Some(EventKind::Modified)
    );

    let deletion = LogEvent::delete(1, labelled("2", 8), 9);
    let gone = deletion.seen_by(selects("2")).expect("it was selected");
    assert_eq!(
        (gone.kind, gone.item.label("x"), gone.item.revision),
        (EventKind::Deleted, Some("2"), 9)
    );
    assert!(
        deletion.seen_by(selects("1")).is_none(),
        "it was not selected when it was deleted"
    );
}

#[test]
fn every_form_of_an_event_is_encoded_once() {
    let labelled = |value: &str, revision| item(&configmaps(), "ns/a", json!({"labels": {"x": value}}), revision);
    let change = LogEvent::put(0, labelled("2", 8), Some(labelled("1", 5)));
    for selects in [
        |_: &Item| true,
        |item: &Item| item.label("x") == Some("1"),
        |item: &Item| item.label("x") == Some("2"),
    ] {
        let line = || change.seen_by(selects).expect("it is seen").line.as_ptr();
        assert_eq!(line(), line());
    }
}

#[test]
fn the_log_tells_what_was_after_a_revision_or_that_it_does_not_know() {
    let mut state = loaded_at(10);
    state.apply(vec![put("ns/a", 12), put("ns/b", 15)], 15, epoch());
    let log = &state.snapshot().log;
    let after = |revision| {
        let first = log.after(revision)?;
        Some(
            (first..log.next_sequence())
                .filter_map(|at| log.get(at))
                .map(|event| event.revision())
                .collect::<Vec<_>>(),
        )
    };
    assert_eq!(after(9), None);
    assert_eq!(after(10), Some(vec![12, 15]));
    assert_eq!(after(12), Some(vec![15]));
    assert_eq!(after(14), Some(vec![15]));
    assert_eq!(after(15), Some(vec![]));
    assert_eq!(after(99), Some(vec![]));
}

#[test]
fn history_goes_by_age_but_a_quiet_resource_keeps_some() {
    let mut state = loaded_at(0);
    for revision in 1..=1500 {
        state.apply(vec![put("ns/a", revision)], revision, epoch());
    }
    state.trim(epoch() + Duration::from_secs(74));
    assert_eq!(state.snapshot().log.len(), 1500, "nothing is old enough");
    assert!(state.trim(epoch() + Duration::from_secs(75)));
    let log = &state.snapshot().log;
    assert_eq!((log.len(), log.start()), (1000, 500));
    assert_eq!(log.after(499), None);
    assert!(log.after(500).is_some());
}

#[test]
fn history_is_bounded_in_bytes_whatever_its_age() {
    let mut state = loaded_at(0);
    let text = "x".repeat(1 << 20);
    for revision in 1..=140 {
        let big = item(&configmaps(), "ns/a", json!({"data": {"text": text}}), revision);
        state.apply(vec![CacheChange::Put(big)], revision, epoch());
    }
    let kept = state.snapshot().log.len();
    assert!((100..=128).contains(&kept), "{kept} events of 1 MiB are kept");
}

#[test]
fn a_reload_leaves_a_hole_that_is_noticed() {
    let mut state = loaded_at(1);
    state.apply(vec![put("ns/a", 2)], 2, epoch());
    let next = state.snapshot().log.next_sequence();
    state.replace(ItemIndex::default(), 9);
    let log = &state.snapshot().log;
    assert!(!log.reaches(next), "who waited for the next event has missed something");
    assert_eq!((log.start(), log.after(8), log.after(9).is_some()), (9, None, true));
}

fn unreadable(key: &str, revision: Revision) -> CacheChange {
    let error = crate::stored::ItemError::Unparsable("it is junk".to_owned());
    CacheChange::Unreadable(UnreadableValue::new(key.into(), revision, &error))
}

#[test]
fn a_key_that_becomes_unreadable_or_readable_ends_history() {
    let mut state = loaded_at(1);
    state.apply(vec![put("ns/a", 2), put("ns/b", 3)], 3, epoch());
    let next = state.snapshot().log.next_sequence();

    let applied = state.apply(vec![put("ns/c", 4), unreadable("ns/a", 5), put("ns/d", 6)], 6, epoch());
    assert!(applied.history_lost);
    let names: Vec<_> = applied.events.iter().map(|event| event.item.name()).collect();
    assert_eq!(names, ["d"], "what was before is in no history");
    let snapshot = state.snapshot();
    assert!(!snapshot.log.reaches(next), "a watcher notices");
    assert_eq!((snapshot.log.after(4), snapshot.log.after(5).is_some()), (None, true));
    assert_eq!(keys(&snapshot.index), ["ns/b@3", "ns/c@4", "ns/d@6"], "it is no object");
    assert!(
        snapshot
            .index
            .unreadable("ns/a")
            .is_some_and(|value| value.revision == 5)
    );

    let again = state.apply(vec![unreadable("ns/a", 7)], 7, epoch());
    assert!(!again.history_lost, "nothing new");
    assert!(
        state
            .snapshot()
            .index
            .unreadable("ns/a")
            .is_some_and(|value| value.revision == 7)
    );

    assert!(state.apply(vec![put("ns/a", 8)], 8, epoch()).history_lost);
    assert_eq!(state.snapshot().index.unreadable_len(), 0);
    assert!(keys(&state.snapshot().index).contains(&"ns/a@8".to_owned()));

    state.apply(vec![unreadable("ns/x", 9)], 9, epoch());
    assert!(state.apply(vec![delete("ns/x", 10)], 10, epoch()).history_lost);
    assert_eq!(state.snapshot().index.unreadable_len(), 0);
}

fn recorded() -> impl Strategy<Value = Vec<(u8, bool)>> {
    prop::collection::vec((0u8..12, any::<bool>()), 1..400)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn any_kept_revision_can_be_restored(changes in recorded(), at in 0usize..400) {
        let mut state = loaded_at(0);
        let mut history = vec![ItemIndex::default()];
        // Enough before it that a checkpoint lies within.
        for revision in 1..=2_000 {
            state.apply(vec![put("ns/z", revision)], revision, epoch());
            history.push(state.snapshot().index.clone());
        }
        for (key, is_put) in changes {
            let revision = Revision::try_from(history.len()).expect("few");
            let key = format!("ns/{key}");
            let change = if is_put { put(&key, revision) } else { delete(&key, revision) };
            state.apply(vec![change], revision, epoch());
            history.push(state.snapshot().index.clone());
        }
        let revision = history.len() - 1 - at.min(history.len() - 1);
        let snapshot = state.snapshot();
        let restored = snapshot.log.rewind(&snapshot.index, Revision::try_from(revision).expect("few"));
        prop_assert_eq!(keys(&restored.expect("it is kept")), keys(&history[revision]));
    }
}

fn received(receiver: &mut tokio::sync::broadcast::Receiver<Arc<LogEvent>>) -> Vec<u64> {
    std::iter::from_fn(|| receiver.try_recv().ok())
        .map(|event| event.sequence)
        .collect()
}

#[test]
fn an_event_reaches_the_topics_that_it_concerns() {
    let info = pods();
    let mut topics = Topics::new(&info);
    let on_node = |node: &str| Topic::Field {
        field: 0,
        value: node.into(),
    };
    let mut all = topics.subscribe(Topic::All);
    let mut ns = topics.subscribe(Topic::Namespace("ns".into()));
    let mut other = topics.subscribe(Topic::Namespace("other".into()));
    let mut object = topics.subscribe(Topic::Object("ns/a".into()));
    let (mut n1, mut n2, mut n3) = (
        topics.subscribe(on_node("n1")),
        topics.subscribe(on_node("n2")),
        topics.subscribe(on_node("n3")),
    );
    let pod = |key, node: &str, revision| item(&info, key, json!({"spec": {"nodeName": node}}), revision);
    topics.publish(&Arc::new(LogEvent::put(0, pod("ns/a", "n1", 1), None)));
    topics.publish(&Arc::new(LogEvent::put(
        1,
        pod("ns/a", "n2", 2),
        Some(pod("ns/a", "n1", 1)),
    )));
    topics.publish(&Arc::new(LogEvent::put(2, pod("ns/b", "n2", 3), None)));
    topics.publish(&Arc::new(LogEvent::put(
        3,
        pod("ns/b", "n2", 4),
        Some(pod("ns/b", "n2", 3)),
    )));
    assert_eq!(received(&mut all), [0, 1, 2, 3]);
    assert_eq!(received(&mut ns), [0, 1, 2, 3]);
    assert!(received(&mut other).is_empty());
    assert_eq!(received(&mut object), [0, 1]);
    assert_eq!(received(&mut n1), [0, 1], "the pod came and went");
    assert_eq!(received(&mut n2), [1, 2, 3]);
    assert!(received(&mut n3).is_empty());
}

#[test]
fn topics_live_as_long_as_their_receivers() {
    let mut topics = Topics::new(&configmaps());
    for number in 0..1000 {
        drop(topics.subscribe(Topic::Object(format!("ns/{number}").into())));
    }
    assert!(topics.len() <= 65, "{} topics are left", topics.len());
    let mut kept = topics.subscribe(Topic::Object("ns/kept".into()));
    topics.publish(&Arc::new(LogEvent::put(
        0,
        item(&configmaps(), "ns/kept", json!({}), 1),
        None,
    )));
    assert_eq!(received(&mut kept), [0]);
    topics.close();
    assert_eq!(kept.try_recv().map(|event| event.sequence), Err(TryRecvError::Closed));
}
