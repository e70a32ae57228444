//! Shared by these tests: watchers read to an end, and the truth to hold them against.

use futures_util::StreamExt as _;
use serde_json::Value;
use trireme_machinery::selector::LabelSelector;
use trireme_storage::{Event as StoreEvent, Revision, Storage};

use crate::{
    event_kind::EventKind,
    reads::{Reader, WatchFrame, Watcher},
    request::{Freshness, WatchRequest, WatchStart},
};

/// One event, as a client sees it.
pub(super) type ObservedEvent = (EventKind, String, Revision);

/// Everything that happened, in the order of the store, as a watcher of everything must see it.
pub(super) async fn truth(store: &dyn Storage, plural: &str, up_to: Revision) -> Vec<ObservedEvent> {
    let prefix = format!("/registry/{plural}/");
    let mut stream = store.watch(&prefix, 0).await.expect("nothing is compacted");
    let mut events = Vec::new();
    let mut seen = 0;
    while seen < up_to {
        let batch = stream
            .next()
            .await
            .expect("the watch goes on")
            .expect("the store is well");
        seen = batch.revision;
        events.extend(batch.events.into_iter().map(|event| match event {
            StoreEvent::Put { entry, previous } => {
                let kind = if previous.is_some() {
                    EventKind::Modified
                } else {
                    EventKind::Added
                };
                (
                    kind,
                    entry.key.trim_start_matches(&prefix).to_owned(),
                    entry.mod_revision,
                )
            }
            StoreEvent::Delete { key, revision, .. } => {
                (EventKind::Deleted, key.trim_start_matches(&prefix).to_owned(), revision)
            }
        }));
    }
    events.retain(|(_, _, revision)| *revision <= up_to);
    events
}

/// The event in a frame, after a check that its line says the same.
pub(super) fn observed_event(frame: &WatchFrame) -> ObservedEvent {
    let WatchFrame::Event { kind, item, frame, .. } = frame else {
        panic!("not an event: {frame:?}")
    };
    assert!(frame.ends_with(b"}\n"), "a line ends");
    let line: Value = serde_json::from_slice(frame).expect("a line is JSON");
    assert_eq!(line["type"], kind.as_str());
    assert_eq!(line["object"]["metadata"]["resourceVersion"], item.revision.to_string());
    assert_eq!(line["object"]["metadata"]["name"], item.name());
    (*kind, item.key.to_string(), item.revision)
}

/// The next `count` events.
pub(super) async fn events(watcher: &mut Watcher, count: usize) -> Vec<ObservedEvent> {
    let mut seen = Vec::new();
    while seen.len() < count {
        let frames = watcher.next().await.expect("the watch goes on");
        seen.extend(frames.iter().map(observed_event));
    }
    assert_eq!(seen.len(), count, "more than expected: {:?}", seen.get(count..));
    seen
}

/// The error that ends a watch, and the events before it.
pub(super) async fn until_error(watcher: &mut Watcher) -> (Vec<ObservedEvent>, trireme_machinery::ApiError) {
    let mut seen = Vec::new();
    loop {
        for frame in watcher.next().await.expect("an error comes first") {
            match frame {
                WatchFrame::Error(error) => {
                    assert!(watcher.next().await.is_none(), "an error is the last frame");
                    return (seen, error);
                }
                other => seen.push(observed_event(&other)),
            }
        }
    }
}

pub(super) async fn open(reader: &Reader, request: WatchRequest) -> Watcher {
    reader.watch(request).await.expect("the watch opens")
}

pub(super) fn labelled(mut request: WatchRequest, selector: &str) -> WatchRequest {
    request.selection.labels = LabelSelector::parse(selector).expect("the selector is sound");
    request
}

pub(super) const STATE: WatchStart = WatchStart::State(Freshness::Latest);
