//! Watches that go on where the last one ended, and what they must have seen.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Mutex;

use futures_util::future::join_all;
use futures_util::{StreamExt as _, pin_mut};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{WatchEvent, WatchParams};
use kube::{Api, ResourceExt as _};

use crate::Scene;
use crate::clients::{NAMESPACE, connect};

/// The writes, and the events that each watcher saw.
#[derive(Default)]
pub(crate) struct Watched(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    /// The revisions of acknowledged writes.
    written: Vec<u64>,
    seen: BTreeMap<usize, Seen>,
}

#[derive(Default)]
struct Seen {
    /// The revisions of events, in the order in which they came.
    revisions: Vec<u64>,
    watches: usize,
    trouble: Vec<String>,
}

fn revision(object: &ConfigMap) -> u64 {
    let text = object.resource_version().expect("every object has one");
    text.parse().expect("it is a number")
}

impl Watched {
    /// A write has been acknowledged.
    pub(crate) fn wrote(&self, object: &ConfigMap) {
        self.0.lock().expect("no holder panics").written.push(revision(object));
    }

    /// The number of watches it took.
    pub(crate) fn watches(&self) -> usize {
        let inner = self.0.lock().expect("no holder panics");
        inner.seen.values().map(|seen| seen.watches).sum()
    }

    fn with<T>(&self, watcher: usize, change: impl FnOnce(&mut Seen) -> T) -> T {
        let mut inner = self.0.lock().expect("no holder panics");
        change(inner.seen.entry(watcher).or_default())
    }

    /// Every acknowledged write was seen by every watcher once and in order, over several watches.
    pub(crate) fn check(&self, watchers: usize) {
        let inner = self.0.lock().expect("no holder panics");
        assert_eq!(inner.seen.len(), watchers);
        for (watcher, seen) in &inner.seen {
            println!(
                "watcher {watcher}: {} events over {} watches",
                seen.revisions.len(),
                seen.watches
            );
            assert_eq!(seen.trouble, Vec::<String>::new(), "watcher {watcher}");
            assert!(
                seen.revisions.is_sorted_by(|a, b| a < b),
                "watcher {watcher} saw things twice"
            );
            // The last ones may have come after the watcher had ended.
            let last = seen.revisions.last().copied().unwrap_or_default();
            let missed: Vec<u64> = inner
                .written
                .iter()
                .copied()
                .filter(|revision| *revision <= last && seen.revisions.binary_search(revision).is_err())
                .collect();
            assert_eq!(missed, Vec::<u64>::new(), "watcher {watcher} missed some");
        }
    }
}

/// Several watchers, each with a connection of its own. Until the scene ends.
pub(crate) async fn follow_all(scene: &Scene, watched: &Watched, start: &str, watchers: usize) {
    tokio::select! {
        () = scene.end() => {}
        _ = join_all((0..watchers).map(|watcher| follow(scene, watched, start, watcher))) => {}
    }
}

/// A watch may end at any time, but only in order.
async fn follow(scene: &Scene, watched: &Watched, start: &str, watcher: usize) -> Infallible {
    let configmaps: Api<ConfigMap> = Api::namespaced(connect(&scene.kubeconfig()).await, NAMESPACE);
    let mut from = start.to_owned();
    loop {
        watched.with(watcher, |seen| seen.watches += 1);
        let events = match configmaps.watch(&WatchParams::default().timeout(290), &from).await {
            Ok(events) => events,
            Err(error) => {
                watched.with(watcher, |seen| seen.trouble.push(format!("{error:?}")));
                continue;
            }
        };
        pin_mut!(events);
        while let Some(event) = events.next().await {
            match event {
                Ok(WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object)) => {
                    from = object.resource_version().expect("every object has one");
                    watched.with(watcher, |seen| seen.revisions.push(revision(&object)));
                }
                Ok(WatchEvent::Bookmark(bookmark)) => from = bookmark.metadata.resource_version,
                Ok(WatchEvent::Error(status)) => watched.with(watcher, |seen| seen.trouble.push(format!("{status:?}"))),
                Err(error) => watched.with(watcher, |seen| seen.trouble.push(format!("{error:?}"))),
            }
        }
    }
}
