//! The task that keeps one view.

use std::{
    collections::{HashMap, HashSet},
    panic::AssertUnwindSafe,
    pin::pin,
    sync::Arc,
    time::Duration,
};

use futures_util::{
    FutureExt as _,
    future::{join_all, select_all},
};
use trireme_actors::Clock;
use trireme_storage::Revision;

use super::{
    Fold,
    follower::{Follower, ObjectChanges},
    published::PublishedView,
};
use crate::{
    event_kind::EventKind,
    item::{Item, ItemKey},
    reads::Reader,
};

/// Between two tries of a fold that panics: an object that cannot be folded is not to keep a CPU busy.
pub(super) const RETRY_AFTER_PANIC: Duration = Duration::from_secs(1);
/// The number of objects that are folded before other tasks of the thread have a turn.
const FOLD_AT_ONCE: usize = 64;

/// The parts that the task needs.
pub(super) struct Following<T> {
    pub(super) name: Arc<str>,
    pub(super) sources: Arc<Vec<Reader>>,
    pub(super) published: Arc<PublishedView<T>>,
    pub(super) clock: Clock,
    /// True if the states of the past that caches begin with are published too.
    pub(super) publishes_history: bool,
}

impl<T: Send + Sync + 'static> Following<T> {
    /// Runs until it is dropped.
    pub(super) async fn run<F: Fold<Value = T>>(self, fold: impl Fn() -> F + Send + Sync) {
        loop {
            let life = ViewLife::new(&self, fold());
            if AssertUnwindSafe(life.run()).catch_unwind().await.is_err() {
                let view = self.name.to_string();
                tracing::error!(view, "a view could not be derived and is derived anew from all objects");
                metrics::counter!("trireme_view_panics_total", "view" => view).increment(1);
                self.clock.sleep(RETRY_AFTER_PANIC).await;
            }
        }
    }
}

/// A fold and what it has been given, until it panics.
struct ViewLife<'a, F: Fold> {
    following: &'a Following<F::Value>,
    fold: F,
    sources: Vec<ViewSource>,
    folded: Vec<Revision>,
}

struct ViewSource {
    follower: Follower,
    /// The objects that the fold has, with their revisions.
    known: HashMap<ItemKey, Revision>,
    is_loaded: bool,
}

impl<'a, F: Fold> ViewLife<'a, F> {
    fn new(following: &'a Following<F::Value>, fold: F) -> Self {
        let sources = following.sources.iter().map(|reader| ViewSource {
            follower: Follower::new(reader.clone()),
            known: HashMap::new(),
            is_loaded: false,
        });
        Self {
            sources: sources.collect(),
            folded: vec![-1; following.sources.len()],
            following,
            fold,
        }
    }

    async fn run(mut self) -> ! {
        if !self.following.publishes_history {
            self.catch_up().await;
            self.publish();
        }
        loop {
            let (number, changes) = self.next().await;
            self.take(number, changes).await;
            self.publish();
        }
    }

    /// Folds the states of the past that caches begin with, up to where the store was when they were loaded.
    async fn catch_up(&mut self) {
        let following = self.following;
        let mut caught_up = pin!(join_all(following.sources.iter().map(Reader::caught_up)));
        loop {
            let (number, changes) = tokio::select! {
                biased;
                news = self.next() => news,
                _ = &mut caught_up => break,
            };
            self.take(number, changes).await;
        }
        // The last of them may have come between the two looks.
        while let Some((number, changes)) = self.next().now_or_never() {
            self.take(number, changes).await;
        }
    }

    fn publish(&self) {
        if self.sources.iter().all(|source| source.is_loaded) {
            self.following.published.publish(self.fold.value(), &self.folded);
        }
    }

    async fn next(&mut self) -> (usize, ObjectChanges) {
        if self.sources.is_empty() {
            return std::future::pending().await;
        }
        let next = self.sources.iter_mut().map(|source| Box::pin(source.follower.next()));
        let (changes, number, _) = select_all(next).await;
        (number, changes)
    }

    async fn take(&mut self, number: usize, changes: ObjectChanges) {
        let revision = match changes {
            ObjectChanges::Relisted {
                items,
                unreadable,
                revision,
            } => {
                self.remove_all_but(number, &items, &unreadable);
                for (count, item) in items.iter().enumerate() {
                    self.put(number, item);
                    give_way(count).await;
                }
                revision
            }
            ObjectChanges::Changed { changes, revision } => {
                for (count, (kind, item)) in changes.iter().enumerate() {
                    match kind {
                        EventKind::Deleted => self.remove(number, &item.key),
                        EventKind::Added | EventKind::Modified => self.put(number, item),
                    }
                    give_way(count).await;
                }
                revision
            }
        };
        if let (Some(source), Some(folded)) = (self.sources.get_mut(number), self.folded.get_mut(number)) {
            source.is_loaded = true;
            *folded = revision;
        }
    }

    fn put(&mut self, number: usize, item: &Arc<Item>) {
        let Some(source) = self.sources.get_mut(number) else {
            return;
        };
        // After a cache was rebuilt everything comes again, and most of it is the same.
        if source.known.insert(item.key.clone(), item.revision) != Some(item.revision) {
            self.fold.put(number, item);
        }
    }

    fn remove(&mut self, number: usize, key: &ItemKey) {
        let Some(source) = self.sources.get_mut(number) else {
            return;
        };
        if source.known.remove(key).is_some() {
            self.fold.remove(number, key);
        }
    }

    /// Objects that can no longer be read count as they were last: a rule that is unreadable now was not deleted.
    fn remove_all_but(&mut self, number: usize, items: &[Arc<Item>], unreadable: &[ItemKey]) {
        let Some(source) = self.sources.get(number) else { return };
        let there: HashSet<&ItemKey> = items.iter().map(|item| &item.key).chain(unreadable).collect();
        let gone: Vec<ItemKey> = source
            .known
            .keys()
            .filter(|key| !there.contains(key))
            .cloned()
            .collect();
        for key in gone {
            self.remove(number, &key);
        }
    }
}

async fn give_way(count: usize) {
    if count % FOLD_AT_ONCE == FOLD_AT_ONCE - 1 {
        tokio::task::yield_now().await;
    }
}
