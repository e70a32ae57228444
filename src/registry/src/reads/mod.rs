//! Reads: get, list and the start of watches, answered from snapshots of the watch cache.
//!
//! A read without a resource version asks the read index how far the store is and waits until the cache is there; with
//! one it waits for that revision at most. Nothing here takes a turn in a mailbox but a subscription, and nothing asks
//! the store for objects but a list at a revision that has left the cache's history. What would have to show a value that
//! cannot be read fails.

mod converted;
pub(crate) mod errors;
mod filter;
mod freshness;
mod list;
#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test awaits what it spawns")]
mod tests;
pub(crate) mod token;
mod watch;

use std::{
    borrow::Cow,
    ops::Bound,
    sync::Arc,
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;
use tokio::sync::Semaphore;
use trireme_actors::Clock;
use trireme_machinery::ApiError;
use trireme_storage::{Revision, Storage};

use self::{
    converted::ConvertedSelection,
    filter::Filter,
    freshness::{CacheProgress, Fresh, Late},
    list::{HistoryReader, PageRequest},
    token::Continuation,
};
pub use self::{
    list::ListPage,
    watch::{WatchFrame, Watcher},
};
use crate::{
    definition::ResourceDefinition,
    item::{Item, ItemKey},
    read_index::ReadIndexHandle,
    request::{Freshness, GetRequest, ListRequest, Selection, Target, WatchRequest, WatchStart},
    store_watcher::StoreWatcherHandle,
    trace::{Trace, TraceStep, waited},
    unreadable::{self, UnreadableValue},
    watch_cache::{ItemIndex, WatchCacheHandle},
};

/// The time that a read waits for the cache to be fresh enough, as in kube-apiserver.
const FRESH_WITHIN: Duration = Duration::from_secs(3);
/// Lists that may be read from the store at a time, for each resource: they are rare and dear, and a crowd of them
/// must not take the store down.
const LISTS_FROM_STORE: usize = 4;

/// Answers the reads of one resource. Cheap to clone.
#[derive(Clone)]
pub struct Reader {
    info: Arc<ResourceDefinition>,
    current: Arc<ArcSwap<ResourceDefinition>>,
    cache: WatchCacheHandle,
    progress: CacheProgress,
    read_index: ReadIndexHandle,
    store: Arc<dyn Storage>,
    clock: Clock,
    from_store: Arc<Semaphore>,
}

impl Reader {
    /// A reader of the resource that `cache` holds.
    pub fn new(
        info: Arc<ResourceDefinition>,
        cache: WatchCacheHandle,
        store_watcher: StoreWatcherHandle,
        read_index: ReadIndexHandle,
        store: Arc<dyn Storage>,
        clock: Clock,
    ) -> Self {
        let progress = CacheProgress::new(cache.clone(), store_watcher, clock.clone());
        let from_store = Arc::new(Semaphore::new(LISTS_FROM_STORE));
        Self {
            current: Arc::new(ArcSwap::new(info.clone())),
            info,
            cache,
            progress,
            read_index,
            store,
            clock,
            from_store,
        }
    }

    /// The reads of the same resource by another definition.
    pub(crate) fn redefined(&self, definition: Arc<ResourceDefinition>) -> Self {
        Self {
            info: definition,
            ..self.clone()
        }
    }

    /// The definition that is in effect.
    pub(crate) fn current(&self) -> &Arc<ArcSwap<ResourceDefinition>> {
        &self.current
    }

    /// Has running watches look whether their version is still served.
    pub(crate) fn wake_watches(&self) {
        self.cache.close_topics();
    }

    /// The definition of the resource.
    pub fn info(&self) -> &Arc<ResourceDefinition> {
        &self.info
    }

    /// The object as the cache has it now, however old that is.
    pub fn cached(&self, key: &ItemKey) -> Option<Arc<Item>> {
        self.cache.snapshot().index.get(key).cloned()
    }

    /// The number of objects in the cache now, and the bytes that they take as JSON.
    pub fn size(&self) -> (usize, usize) {
        let snapshot = self.cache.snapshot();
        (snapshot.index.len(), snapshot.index.bytes())
    }

    /// Reports whether the resource has been loaded and has caught up with where the store was then.
    pub fn is_ready(&self) -> bool {
        self.progress.at_hand(0).is_some()
    }

    /// Up to which revision everything is known; `None` until the resource is loaded.
    pub fn revision(&self) -> Option<Revision> {
        self.cache.is_loaded().then(|| self.progress.reached())
    }

    /// Shows in metrics how many objects there are, how large they are, and up to which revision everything is known.
    pub fn show_state(&self) {
        if let Some(revision) = self.revision() {
            self.cache.meters().show_state(&self.cache.snapshot().index, revision);
        }
    }

    /// Reports whether the cache is at a revision by `deadline`; waits for it.
    pub(crate) async fn reaches(&self, revision: Revision, deadline: Instant) -> bool {
        self.progress.wait(revision, deadline).await.is_ok()
    }

    /// The cache that the reads are answered from.
    pub(crate) fn cache(&self) -> &WatchCacheHandle {
        &self.cache
    }

    /// The time by which reads wait.
    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The revision of the newest change of the resource as of `revision` or later; waits for that until `deadline`.
    pub(crate) async fn last_change_at(&self, revision: Revision, deadline: Instant) -> Result<Revision, ApiError> {
        let fresh = self
            .wait(revision, deadline, errors::lagging, &Trace::default())
            .await?;
        Ok(fresh.snapshot.revision)
    }

    /// A revision that no write acknowledged before the call has exceeded.
    pub(crate) async fn revision_of_store(&self, deadline: Instant) -> Result<Revision, ApiError> {
        self.read_index.revision(deadline).await
    }

    /// Waits until the cache is where the store was when the caches were loaded; for ever if it is never loaded, or superseded
    /// before.
    pub(crate) async fn caught_up(&self) {
        if self.progress.catch_up(0).await.is_none() {
            std::future::pending().await
        }
    }

    /// The revision of the newest change, once the resource [is ready](Self::is_ready).
    pub(crate) fn last_change_if_ready(&self) -> Option<Revision> {
        self.progress.at_hand(0).map(|fresh| fresh.snapshot.revision)
    }

    /// Reads one object.
    pub async fn get(&self, request: GetRequest) -> Result<Arc<Item>, ApiError> {
        let target = &request.target;
        let fresh = self.fresh(request.freshness, &target.trace).await?;
        let index = &fresh.snapshot.index;
        let key = if self.info.namespaced {
            Cow::Owned(format!("{}/{}", target.namespace, target.name))
        } else {
            Cow::Borrowed(target.name.as_str())
        };
        if let Some(unreadable) = index.unreadable(&key) {
            return Err(unreadable.error(&self.info));
        }
        index
            .get(&key)
            .cloned()
            .ok_or_else(|| ApiError::not_found(&self.info.resource_in(target.version), &target.name))
    }

    /// The objects that name this uid as an owner, among those that can be read.
    pub async fn owned_by(&self, uid: &str, freshness: Freshness) -> Result<Vec<Arc<Item>>, ApiError> {
        let fresh = self.fresh(freshness, &Trace::default()).await?;
        Ok(fresh.snapshot.index.owned_by(uid).cloned().collect())
    }

    /// The objects in a namespace, or everywhere, that name this uid as an owner.
    ///
    /// # Errors
    /// If a value there cannot be read: it may name the uid, too.
    pub async fn all_owned_by(
        &self,
        uid: &str,
        namespace: &str,
        freshness: Freshness,
    ) -> Result<Vec<Arc<Item>>, ApiError> {
        let fresh = self.fresh(freshness, &Trace::default()).await?;
        let index = &fresh.snapshot.index;
        let target = Target {
            namespace: namespace.to_owned(),
            ..Target::default()
        };
        let filter = Filter::new(&self.info, &target, &Selection::default());
        self.check_readable(index, &filter, None)?;
        let owned = index.owned_by(uid).filter(|item| filter.matches(item));
        Ok(owned.cloned().collect())
    }

    /// The values of the resource that cannot be read, as far as they are known here.
    pub fn unreadable(&self) -> Vec<Arc<UnreadableValue>> {
        let all = (Bound::Unbounded, Bound::Unbounded);
        self.cache.snapshot().index.unreadable_in(all).cloned().collect()
    }

    /// Refuses to make something of the selected keys, from `start` on, if one of their values cannot be read.
    fn check_readable(&self, index: &ItemIndex, filter: &Filter, start: Option<&str>) -> Result<(), ApiError> {
        let (from, to) = filter.bounds_from(start);
        let unreadable = index.unreadable_in((from.as_ref().map(String::as_str), to.as_ref().map(String::as_str)));
        unreadable::error_of_all(&self.info, unreadable).map_or(Ok(()), Err)
    }

    /// The objects that can be read, of all namespaces.
    pub async fn all_readable(&self, freshness: Freshness) -> Result<Vec<Arc<Item>>, ApiError> {
        let fresh = self.fresh(freshness, &Trace::default()).await?;
        let all = (Bound::Unbounded, Bound::Unbounded);
        Ok(fresh.snapshot.index.range(all).cloned().collect())
    }

    /// The object with this uid, in whatever namespace: looks at all objects, so not for what happens often.
    pub async fn with_uid(&self, uid: &str, freshness: Freshness) -> Result<Option<Arc<Item>>, ApiError> {
        let fresh = self.fresh(freshness, &Trace::default()).await?;
        let all = (Bound::Unbounded, Bound::Unbounded);
        let mut items = fresh.snapshot.index.range(all);
        Ok(items.find(|item| *item.uid == *uid).cloned())
    }

    /// Reads a collection or a page of it.
    pub async fn list(&self, request: ListRequest) -> Result<ListPage, ApiError> {
        let ListRequest {
            target,
            selection,
            options,
        } = request;
        let filter = Filter::new(&self.info, &target, &selection);
        let continuation = options.continue_token.as_deref().filter(|token| !token.is_empty());
        let continuation = continuation.map(Continuation::decode).transpose()?;
        let freshness = match &continuation {
            Some(continuation) if continuation.revision > 0 => Freshness::Exact(continuation.revision),
            Some(_) => Freshness::Latest,
            None => options.freshness,
        };
        let start = continuation.as_ref().map(|continuation| continuation.start.as_str());
        let page = PageRequest {
            filter: &filter,
            converted: ConvertedSelection::of(&self.info, target.version, &filter),
            start,
            limit: options.limit,
            meters: self.cache.meters(),
        };
        if let Freshness::Exact(revision) = freshness {
            let listed = self.list_at(revision, &page, &target.trace).await;
            target.trace.pass(TraceStep::PageMade);
            return listed;
        }
        let listed = self.list_fresh(freshness, &page, &target.trace).await;
        if matches!(freshness, Freshness::Latest) {
            self.cache.meters().listed_consistently(listed.is_ok());
        }
        listed
    }

    async fn list_fresh(
        &self,
        freshness: Freshness,
        page: &PageRequest<'_>,
        trace: &Trace,
    ) -> Result<ListPage, ApiError> {
        let fresh = self.fresh(freshness, trace).await?;
        self.check_readable(&fresh.snapshot.index, page.filter, page.start)?;
        let listed = page.of_index(&fresh.snapshot.index, fresh.revision).await;
        trace.pass(TraceStep::PageMade);
        listed
    }

    async fn list_at(&self, revision: Revision, page: &PageRequest<'_>, trace: &Trace) -> Result<ListPage, ApiError> {
        let fresh = self.not_older_than(revision, trace).await?;
        let history = HistoryReader {
            store: &self.store,
            info: &self.info,
            revision,
        };
        // A log that is written to seldom reaches back further than the store: what a list answers is not to depend on that.
        history.check(page)?;
        if let Some(index) = fresh.snapshot.log.rewind(&fresh.snapshot.index, revision) {
            self.check_readable(&index, page.filter, page.start)?;
            return page.of_index(&index, revision).await;
        }
        let _permit = self.from_store.try_acquire().map_err(|_| errors::history_busy())?;
        metrics::counter!("trireme_lists_from_store_total", "resource" => self.info.resource.to_string()).increment(1);
        history.page(page).await
    }

    /// Follows a collection.
    pub async fn watch(&self, request: WatchRequest) -> Result<Watcher, ApiError> {
        let opened = self.clock.now();
        let trace = &request.target.trace;
        let filter = Filter::new(&self.info, &request.target, &request.selection);
        let reached = match request.start {
            WatchStart::State(freshness) | WatchStart::Now(freshness) => self.fresh(freshness, trace).await?.revision,
            // The revision may be yet to come: the watch waits for it.
            WatchStart::After(revision) => {
                self.fresh(Freshness::Any, trace).await?;
                revision
            }
        };
        let subscribing = self.cache.subscribe(filter.topic().clone(), self.deadline());
        let subscription = subscribing.await.map_err(errors::ask)?;
        if self.cache.is_superseded() {
            return Err(errors::superseded());
        }
        let source = watch::EventSource {
            cache: self.cache.clone(),
            progress: self.progress.clone(),
            filter,
            version: self
                .info
                .versions
                .get(request.target.version)
                .map(|version| version.group_version.clone()),
            current: self.current.clone(),
        };
        if matches!(request.start, WatchStart::State(_)) {
            self.check_readable(&subscription.snapshot.index, &source.filter, None)?;
        }
        Watcher::new(source, subscription, &request, reached, opened, self.clock.clone())
    }

    async fn fresh(&self, freshness: Freshness, trace: &Trace) -> Result<Fresh, ApiError> {
        match freshness {
            Freshness::Any => self.wait(0, self.deadline(), errors::lagging, trace).await,
            Freshness::NotOlderThan(revision) | Freshness::Exact(revision) => {
                self.not_older_than(revision, trace).await
            }
            Freshness::Latest => {
                let (revision, waited) = waited(self.read_index.revision(self.deadline())).await;
                let step = revision
                    .as_ref()
                    .map_or(TraceStep::StoreFailed, |_| TraceStep::RevisionKnown);
                trace.pass_if_waited(step, waited);
                self.wait(revision?, self.deadline(), errors::lagging, trace).await
            }
        }
    }

    async fn not_older_than(&self, revision: Revision, trace: &Trace) -> Result<Fresh, ApiError> {
        self.wait(revision, self.deadline(), errors::too_large, trace).await
    }

    async fn wait(
        &self,
        revision: Revision,
        deadline: Instant,
        late: fn(Revision, Revision) -> ApiError,
        trace: &Trace,
    ) -> Result<Fresh, ApiError> {
        let record = |time| {
            // A read that takes any state waits for none.
            if revision > 0 {
                self.cache.meters().waited(time);
            }
        };
        if let Some(fresh) = self.progress.at_hand(revision) {
            record(Duration::ZERO);
            return Ok(fresh);
        }
        let begun = self.clock.now();
        let waited = self.progress.wait(revision, deadline).await;
        record(self.clock.now().saturating_duration_since(begun));
        trace.pass_or(&waited, TraceStep::CaughtUp, TraceStep::StillBehind);
        waited.map_err(|error| match error {
            Late::NotLoaded => errors::initializing(),
            Late::At(current) => late(revision, current),
            Late::Superseded => errors::superseded(),
        })
    }

    fn deadline(&self) -> Instant {
        self.clock.now() + FRESH_WITHIN
    }
}
