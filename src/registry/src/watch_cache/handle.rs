//! The public face of a watch cache: snapshots for readers, subscriptions for watchers, a feed for the store watcher.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    time::Instant,
};

use arc_swap::ArcSwap;
use futures_util::future::BoxFuture;
use tokio::sync::watch;
use trireme_actors::{
    ActorKind, ActorSystem, AskError, Caller, Handle, NoteError, Notes, Owned, SpawnError, TaskHandle,
    topology::TopologyError,
};
use trireme_storage::Revision;

use super::{
    actor::WatchCache,
    index::ItemIndex,
    logic::{CacheChange, CacheSnapshot},
    messages::{Apply, CloseTopics, Replace, Subscribe, Subscription, TrimLog},
    meters::CacheMeters,
    shared_items::SharedItems,
    topics::Topic,
};
use crate::definition::ResourceDefinition;

/// The timer by which history is looked through although nothing happens.
const TRIM: &str = "watch-cache-trim";
/// No revision is below this: nothing has been loaded.
const NOT_LOADED: Revision = -1;

/// State that the actor publishes; outlives its instances.
#[derive(Debug)]
pub(crate) struct PublishedCache {
    snapshot: ArcSwap<CacheSnapshot>,
    applied: watch::Sender<Revision>,
    dispatched: AtomicI64,
    /// True from before the store watcher feeds it no longer.
    superseded: watch::Sender<bool>,
    delivered_sequence: AtomicU64,
    lives: AtomicU64,
    items: Arc<SharedItems>,
    meters: CacheMeters,
}

impl PublishedCache {
    fn new(info: &ResourceDefinition) -> Self {
        Self {
            snapshot: ArcSwap::default(),
            applied: watch::Sender::new(NOT_LOADED),
            dispatched: AtomicI64::new(NOT_LOADED),
            superseded: watch::Sender::new(false),
            delivered_sequence: AtomicU64::new(0),
            lives: AtomicU64::new(0),
            items: Arc::default(),
            meters: CacheMeters::new(info),
        }
    }

    pub(super) fn meters(&self) -> &CacheMeters {
        &self.meters
    }

    pub(super) fn snapshot(&self) -> Arc<CacheSnapshot> {
        self.snapshot.load_full()
    }

    pub(super) fn publish(&self, snapshot: &CacheSnapshot) {
        self.snapshot.store(Arc::new(snapshot.clone()));
    }

    pub(super) fn mark_applied(&self, revision: Revision, next_sequence: u64) {
        self.delivered_sequence.store(next_sequence, Ordering::Release);
        self.applied.send_replace(revision);
    }

    /// Counts the actor's instances; says whether this one takes over from another.
    pub(super) fn begin_life(&self) -> bool {
        self.lives.fetch_add(1, Ordering::Relaxed) > 0
    }

    pub(super) fn is_loaded(&self) -> bool {
        *self.applied.borrow() != NOT_LOADED
    }

    pub(super) fn is_superseded(&self) -> bool {
        *self.superseded.borrow()
    }
}

/// Asks the store watcher to load the cache with a storage prefix again, as it lost its state.
pub(crate) type ReloadFn = Arc<dyn Fn(Arc<str>) -> BoxFuture<'static, Result<(), AskError>> + Send + Sync>;

/// One resource's cache. Cheap to clone.
#[derive(Clone)]
pub struct WatchCacheHandle {
    handle: Handle<WatchCache>,
    notes: Notes<WatchCache>,
    published: Arc<PublishedCache>,
}

/// A running watch cache, as its owner holds it.
pub(crate) struct OwnedWatchCache {
    owned: Owned<WatchCache>,
    published: Arc<PublishedCache>,
    trimming: TaskHandle,
}

impl OwnedWatchCache {
    /// Starts the cache of a resource; it is empty until the store watcher feeds it.
    ///
    /// # Panics
    /// If the topology does not declare its timer.
    pub(crate) fn spawn(
        system: &ActorSystem,
        name: String,
        info: &Arc<ResourceDefinition>,
        reload: ReloadFn,
    ) -> Result<Self, SpawnError> {
        let published = Arc::new(PublishedCache::new(info));
        let (made_of, shown) = (info.clone(), published.clone());
        let make = move || WatchCache::new(made_of.clone(), shown.clone(), reload.clone());
        let owned = system.spawn(name, make)?;
        let trimming = owned
            .start_timer(system.tasks(), TRIM, || TrimLog)
            .expect("the topology declares the timer");
        Ok(Self {
            owned,
            published,
            trimming,
        })
    }

    /// A handle for request handlers.
    pub(crate) fn handle(&self) -> Result<WatchCacheHandle, TopologyError> {
        let handle = self.owned.for_caller(Caller::Outside)?;
        Ok(WatchCacheHandle {
            handle,
            notes: self.owned.notes_for(ActorKind::DIRECTOR)?,
            published: self.published.clone(),
        })
    }

    /// The end that the store watcher fills.
    pub(crate) fn feed(&self) -> Result<Feed, TopologyError> {
        let notes = self.owned.notes_for(ActorKind::STORE_WATCHER)?;
        Ok(Feed {
            notes,
            published: self.published.clone(),
        })
    }

    /// Ends the cache; its watches end too.
    pub(crate) async fn stop(&self) {
        self.trimming.cancel();
        self.owned.stop().await;
    }

    /// Shows in metrics that the resource is gone: its cache [has ended](Self::stop), and no other takes its place.
    pub(crate) fn show_gone(&self) {
        self.published.meters.show_gone();
    }
}

impl WatchCacheHandle {
    /// The newest snapshot.
    pub(crate) fn snapshot(&self) -> Arc<CacheSnapshot> {
        self.published.snapshot()
    }

    /// The series of the resource.
    pub(crate) fn meters(&self) -> &CacheMeters {
        &self.published.meters
    }

    /// The items that the writers of the resource share with the follower of the store.
    pub(crate) fn items(&self) -> &Arc<SharedItems> {
        &self.published.items
    }

    /// The identity of the cache among those that are held.
    pub(crate) fn id(&self) -> CacheId {
        CacheId(Arc::as_ptr(&self.published).addr())
    }

    /// The revision up to which the cache has applied its changes and published them to its topics.
    pub(crate) fn applied_revision(&self) -> Revision {
        *self.published.applied.borrow()
    }

    /// As [`applied_revision`](Self::applied_revision), to wait for; changes with every batch.
    pub(crate) fn applied(&self) -> watch::Receiver<Revision> {
        self.published.applied.subscribe()
    }

    /// The sequence before which all events have been sent to their topics.
    pub(crate) fn delivered_sequence(&self) -> u64 {
        self.published.delivered_sequence.load(Ordering::Acquire)
    }

    /// The revision of the last batch that is on its way to the cache or applied.
    pub(crate) fn dispatched(&self) -> Revision {
        self.published.dispatched.load(Ordering::Acquire)
    }

    /// Reports whether nothing more is certain to come to the cache: another one has taken its place, or none.
    pub(crate) fn is_superseded(&self) -> bool {
        self.published.is_superseded()
    }

    /// Waits until the cache [is superseded](Self::is_superseded).
    pub(crate) async fn superseded(&self) {
        let mut superseded = self.published.superseded.subscribe();
        // The sender lives in `self`.
        let _ = superseded.wait_for(|superseded| *superseded).await;
    }

    /// Ends all subscriptions; those who still want to hear of a topic subscribe anew.
    pub(crate) fn close_topics(&self) {
        // A cache that is gone, or that is being rebuilt, has no topics.
        let _ = self.notes.tell(CloseTopics);
    }

    /// Reports whether the first load is done.
    pub(crate) fn is_loaded(&self) -> bool {
        self.published.is_loaded()
    }

    /// Has the actor rebuilt.
    #[cfg(test)]
    pub(crate) fn crash(&self) {
        self.handle
            .tell(super::messages::Crash)
            .expect("the cache takes messages");
    }

    /// A place in the stream of events of a topic.
    pub(crate) async fn subscribe(&self, topic: Topic, deadline: Instant) -> Result<Subscription, AskError> {
        self.handle.ask_until(Subscribe(topic), deadline).await
    }
}

/// The identity of a watch cache, for as long as a handle of it is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CacheId(usize);

/// The end of a cache that the store watcher fills. One at a time may be in use, so that order is kept.
#[derive(Clone)]
pub(crate) struct Feed {
    notes: Notes<WatchCache>,
    published: Arc<PublishedCache>,
}

impl Feed {
    /// The items that the follower of the store shares with the writers of the resource.
    pub(crate) fn items(&self) -> &Arc<SharedItems> {
        &self.published.items
    }

    /// The series of the resource.
    pub(crate) fn meters(&self) -> &CacheMeters {
        &self.published.meters
    }

    /// Reports whether both fill one cache.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.published, &other.published)
    }

    /// Says that nothing more is certain to be handed over. To be called before the clock shows a revision that is not.
    pub(crate) fn supersede(&self) {
        self.published.superseded.send_replace(true);
    }

    /// Hands over whole revisions of changes; waits while the cache has enough to do.
    pub(crate) async fn apply(&self, changes: Vec<CacheChange>, revision: Revision) -> Result<(), NoteError> {
        self.published.dispatched.store(revision, Ordering::Release);
        self.notes.deliver(Apply { changes, revision }).await
    }

    /// Hands over the whole state.
    pub(crate) async fn replace(&self, index: ItemIndex, revision: Revision) -> Result<(), NoteError> {
        self.published.dispatched.store(revision, Ordering::Release);
        self.notes.deliver(Replace { index, revision }).await
    }
}
