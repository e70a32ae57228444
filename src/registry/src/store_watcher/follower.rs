//! The task that follows the store: load, then watch, then go on from where it was after every failure.
//!
//! ```text
//!            ┌──────── history lost ────────┐
//!            ▼                              │
//!  load all at R ─▶ watch after R ─▶ batch: caches, then clock ─▶ …
//!                        ▲                  │
//!                        └─ back-off ◀─ error
//! ```
//! When the store says that values may be readable which could not be decrypted, the caches that have such are loaded again, as
//! of where the others are.
//!
//! Order of promises: a cache knows what is on its way to it before the clock shows the revision, so a reader that sees
//! the clock at R and a cache that has applied all that was dispatched has everything up to R.

use std::{collections::BTreeMap, sync::Arc};

use futures_util::{StreamExt as _, future};
use tokio::sync::watch;
use trireme_actors::Clock;
use trireme_storage::{RangePage, RangeRequest, Revision, StorageError, WatchBatch, WatchStream};

use super::{
    actor::Registrations,
    handle::WatchedStore,
    logic::{self, Backoff, Loaded, PrefixChanges, Routes},
    messages::Registration,
};
use crate::{
    definition::ResourceDefinition,
    watch_cache::{Feed, ItemIndex, ListCost},
};

/// Keys a page of a load: what kube-apiserver takes, too.
const LOAD_PAGE: usize = 10_000;
/// So many caches at once are loaded by one read of everything.
const LOAD_ALL_AT: usize = 8;
/// So many events are decoded in place (some 300 µs); more go to the pool of blocking threads.
const DECODE_IN_PLACE: usize = 32;

pub(super) struct StoreFollower {
    source: WatchedStore,
    clock: Clock,
    wanted: watch::Receiver<Registrations>,
    /// Changes when values may be readable that could not be decrypted.
    readable: Option<watch::Receiver<u64>>,
    routes: Arc<Routes>,
    feeds: BTreeMap<Arc<str>, FollowedPrefix>,
    /// Up to where the caches are fed; `None` before the first load and after history was lost.
    position: Option<Revision>,
    backoff: Backoff,
}

struct FollowedPrefix {
    /// The definition that it is decoded by.
    info: Arc<ResourceDefinition>,
    feed: Feed,
    /// `None` if it is to be loaded again.
    epoch: Option<u64>,
    /// True if it has, or had since it was loaded, values that could not be decrypted.
    has_undecrypted: bool,
    /// True if it has, or had since it was loaded, values that could not be decoded.
    has_undecoded: bool,
}

impl FollowedPrefix {
    fn loaded(registration: &Registration, index: &ItemIndex) -> Self {
        Self {
            info: registration.info.clone(),
            feed: registration.feed.clone(),
            epoch: Some(registration.epoch),
            has_undecrypted: index.has_undecrypted(),
            has_undecoded: index.has_undecoded(),
        }
    }

    /// Reports whether the cache of a registration is loaded as it wants to be. What could not be decoded can perhaps be by another
    /// definition: an object can be written in a new version before it is known here.
    fn has_loaded(&self, registration: &Registration) -> bool {
        let is_redefined = !Arc::ptr_eq(&self.info, &registration.info);
        self.epoch == Some(registration.epoch)
            && self.feed.is_same(&registration.feed)
            && !(is_redefined && self.has_undecoded)
    }
}

/// The reasons to look up from waiting.
enum FollowSignal {
    Batch(WatchBatch),
    /// The set of caches has changed.
    Wanted,
    /// Values may be readable that could not be decrypted.
    Readable,
}

impl StoreFollower {
    pub(super) fn new(source: WatchedStore, clock: Clock, wanted: watch::Receiver<Registrations>) -> Self {
        Self {
            readable: source.store.readable_anew(),
            source,
            clock,
            wanted,
            routes: Arc::default(),
            feeds: BTreeMap::new(),
            position: None,
            backoff: Backoff::default(),
        }
    }

    pub(super) async fn run(mut self) {
        loop {
            let Err(error) = self.follow().await;
            if let StorageError::Compacted { oldest } = error {
                tracing::warn!(
                    oldest,
                    position = self.position,
                    "history is lost: loading everything again"
                );
                self.position = None;
            } else {
                tracing::warn!(%error, position = self.position, "the store cannot be followed");
            }
            metrics::counter!("trireme_store_watch_failures_total").increment(1);
            self.clock.sleep(self.backoff.next(rand::random())).await;
        }
    }

    async fn follow(&mut self) -> Result<std::convert::Infallible, StorageError> {
        let mut position = match self.position {
            Some(position) => position,
            None => self.load_all().await?,
        };
        let store = self.source.store.clone();
        let watch_prefix = self.source.options.watch_prefix.clone();
        let mut stream = store.watch(&watch_prefix, position).await?;
        self.take_up_wanted(position).await?;
        loop {
            let signal = self.next_batch(&mut stream).await?;
            let is_readable = matches!(signal, FollowSignal::Readable);
            if is_readable {
                self.give_up_undecrypted();
            }
            // Also before a batch: it is decoded by all definitions that were known when it came.
            if is_readable || self.wanted.has_changed().unwrap_or(false) {
                self.take_up_wanted(position).await?;
            }
            if let FollowSignal::Batch(batch) = signal {
                position = batch.revision;
                self.dispatch(batch).await;
                self.backoff.reset();
            }
        }
    }

    async fn next_batch(&mut self, stream: &mut WatchStream) -> Result<FollowSignal, StorageError> {
        tokio::select! {
            biased;
            batch = stream.next() => match batch {
                Some(batch) => batch.map(FollowSignal::Batch),
                None => Err(StorageError::Unavailable("the watch has ended".to_owned())),
            },
            // The change stays unseen until it is taken up. The sender lives longer than this task.
            _ = self.wanted.changed() => {
                self.wanted.mark_changed();
                Ok(FollowSignal::Wanted)
            }
            () = changed(&mut self.readable) => Ok(FollowSignal::Readable),
        }
    }

    /// Has the caches loaded again in which there is what could not be decrypted.
    fn give_up_undecrypted(&mut self) {
        for followed in self.feeds.values_mut().filter(|followed| followed.has_undecrypted) {
            followed.epoch = None;
        }
    }

    /// Loads every wanted cache as of one revision.
    async fn load_all(&mut self) -> Result<Revision, StorageError> {
        let some = self.wanted.wait_for(|wanted| !wanted.is_empty()).await;
        let wanted = some
            .map_err(|_| StorageError::Unavailable("the store is not followed".to_owned()))?
            .clone();
        self.routes = Arc::new(Routes::new(wanted.values().map(Registration::route)));
        let now = self.source.store.read_index().await?;
        // Never back behind what readers have seen, also after this task was started anew.
        let seen = self.source.shared.revision();
        let mut at = (now - self.source.options.history).max(seen).max(1).min(now);
        let prefix = self.source.options.objects_prefix.clone();
        let mut loaded = self.load(&self.routes, &prefix, at).await;
        if let Err(StorageError::Compacted { oldest }) = loaded {
            at = oldest.clamp(at, now);
            loaded = self.load(&self.routes, &prefix, at).await;
        }
        if let Err(StorageError::Compacted { .. }) = loaded {
            at = now;
            loaded = self.load(&self.routes, &prefix, at).await;
        }
        let mut loaded = loaded?;
        // Before a cache is loaded: no read is to be answered from a state of the past.
        self.source.shared.set_floor(now);
        self.feeds.clear();
        for (prefix, registration) in wanted.iter() {
            let followed = self.hand_over(registration, loaded.remove(prefix), at).await;
            self.feeds.insert(prefix.clone(), followed);
        }
        self.reached(at);
        tracing::info!(
            revision = now,
            history_from = at,
            caches = self.feeds.len(),
            "the caches are loaded"
        );
        Ok(at)
    }

    /// Loads the caches that are new or want to be loaded again, as of where the others are.
    async fn take_up_wanted(&mut self, position: Revision) -> Result<(), StorageError> {
        let wanted = self.wanted.borrow_and_update().clone();
        self.feeds.retain(|prefix, _| wanted.contains_key(prefix));
        let behind: Vec<_> = wanted
            .iter()
            .filter(|(prefix, registration)| {
                let followed = self.feeds.get(*prefix);
                followed.is_none_or(|followed| !followed.has_loaded(registration))
            })
            .collect();
        for (prefix, followed) in &mut self.feeds {
            // Not of those that are to be loaded by it first.
            if let Some(registration) = wanted.get(prefix)
                && followed.has_loaded(registration)
            {
                followed.info = registration.info.clone();
            }
        }
        self.routes = Arc::new(Routes::new(wanted.values().map(Registration::route)));
        if behind.is_empty() {
            return Ok(());
        }
        // What the other caches have is not read again.
        let routes = Arc::new(Routes::new(behind.iter().map(|(_, registration)| registration.route())));
        let mut all = if behind.len() >= LOAD_ALL_AT {
            let prefix = &self.source.options.objects_prefix;
            Some(self.load(&routes, prefix, position).await?)
        } else {
            None
        };
        for (prefix, registration) in behind {
            let index = match &mut all {
                Some(all) => all.remove(prefix),
                None => {
                    let mut loaded = self.load(&routes, &format!("{prefix}/"), position).await?;
                    loaded.remove(prefix)
                }
            };
            let followed = self.hand_over(registration, index, position).await;
            self.feeds.insert(prefix.clone(), followed);
        }
        Ok(())
    }

    /// Reads the objects that there are routes for as of a revision. While a page is decoded, the store is busy with the next.
    ///
    /// Keys of other resources are skipped: a replica that starts does not know of custom resources yet, and reads nothing
    /// but the rest of one page of them.
    async fn load(&self, routes: &Arc<Routes>, prefix: &str, revision: Revision) -> Result<Loaded, StorageError> {
        let mut loaded = Loaded::new();
        let mut page = self.load_page(prefix, None, revision).await?;
        loop {
            let last = page.entries.last().filter(|_| page.more);
            let next = last.and_then(|last| routes.next_place(&last.key));
            let routes = routes.clone();
            let decoded = computed(move || {
                logic::load_entries(&routes, &page.entries, &mut loaded);
                loaded
            });
            let Some(next) = next else {
                return decoded.await;
            };
            let fetched = self.load_page(prefix, Some(next), revision);
            (loaded, page) = future::try_join(decoded, fetched).await?;
        }
    }

    async fn load_page(
        &self,
        prefix: &str,
        start: Option<String>,
        revision: Revision,
    ) -> Result<RangePage, StorageError> {
        let request = RangeRequest {
            prefix: prefix.to_owned(),
            start,
            limit: LOAD_PAGE,
            revision: Some(revision),
        };
        self.source.store.range(request).await
    }

    async fn hand_over(
        &self,
        registration: &Registration,
        loaded: Option<ItemIndex>,
        revision: Revision,
    ) -> FollowedPrefix {
        let index = loaded.unwrap_or_else(|| ItemIndex::of(&registration.info));
        registration.feed.meters().listed_from_store(ListCost {
            fetched: index.len() + index.unreadable_len(),
            evaluated: index.len() + index.unreadable_len(),
            returned: index.len(),
        });
        let followed = FollowedPrefix::loaded(registration, &index);
        if let Err(error) = registration.feed.replace(index, revision).await {
            // A cache that is being rebuilt asks for a reload when it is back.
            tracing::debug!(%error, "a cache did not take its load");
        }
        followed
    }

    async fn dispatch(&mut self, batch: WatchBatch) {
        let WatchBatch { events, revision } = batch;
        let parts = if events.len() <= DECODE_IN_PLACE {
            logic::route_events(&self.routes, &events)
        } else {
            let routes = self.routes.clone();
            match computed(move || logic::route_events(&routes, &events)).await {
                Ok(parts) => parts,
                Err(error) => panic!("decoding events failed: {error}"),
            }
        };
        for PrefixChanges { prefix, changes } in parts {
            let Some(followed) = self.feeds.get_mut(&prefix) else {
                continue;
            };
            followed.feed.meters().heard_of(changes.len());
            followed.has_undecrypted |= changes.iter().any(|(_, change)| change.is_undecrypted());
            followed.has_undecoded |= changes.iter().any(|(_, change)| change.is_undecoded());
            for (changes, revision) in logic::into_turns(changes) {
                if let Err(error) = followed.feed.apply(changes, revision).await {
                    tracing::debug!(%error, %prefix, "a cache did not take a batch");
                }
            }
        }
        self.reached(revision);
    }

    fn reached(&mut self, revision: Revision) {
        self.position = Some(revision);
        self.source.shared.advance(revision);
    }
}

/// Waits for the next change; for ever if there is never one.
async fn changed(readable: &mut Option<watch::Receiver<u64>>) {
    if let Some(receiver) = readable {
        if receiver.changed().await.is_ok() {
            return;
        }
        *readable = None;
    }
    future::pending().await
}

async fn computed<T: Send + 'static>(compute: impl FnOnce() -> T + Send + 'static) -> Result<T, StorageError> {
    let computed = tokio::task::spawn_blocking(compute).await;
    computed.map_err(|error| StorageError::Failed(format!("decoding failed: {error}")))
}
