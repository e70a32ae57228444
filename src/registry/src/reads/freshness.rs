//! Freshness of reads: asked for, and reached.
//!
//! The state of a resource is exact at the revision of its snapshot, but also at any later revision up to which nothing
//! happened to it. The clock of the store watcher says up to where it is known that nothing did: once the cache has
//! applied what was dispatched to it before the clock showed R, its snapshot is the state at R. That ends when the cache is
//! superseded: from then on it may get nothing more, and the clock says nothing about it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Instant,
};

use trireme_actors::Clock;
use trireme_storage::Revision;

use crate::{
    store_watcher::StoreWatcherHandle,
    watch_cache::{CacheSnapshot, WatchCacheHandle},
};

/// A snapshot, and the revision whose exact state it is.
#[derive(Debug, Clone)]
pub(crate) struct Fresh {
    pub(crate) snapshot: Arc<CacheSnapshot>,
    pub(crate) revision: Revision,
}

/// The reason that a wait for freshness ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Late {
    /// The cache was never loaded.
    NotLoaded,
    /// It is only here.
    At(Revision),
    /// The cache was superseded by another one.
    Superseded,
}

/// The revision that one cache has reached. Cheap to clone.
#[derive(Clone)]
pub(crate) struct CacheProgress {
    cache: WatchCacheHandle,
    store_watcher: StoreWatcherHandle,
    clock: Clock,
    /// The highest revision that was ever reported, so that no lower one is reported later.
    reported: Arc<AtomicI64>,
}

impl CacheProgress {
    pub(crate) fn new(cache: WatchCacheHandle, store_watcher: StoreWatcherHandle, clock: Clock) -> Self {
        Self {
            cache,
            store_watcher,
            clock,
            reported: Arc::new(AtomicI64::new(0)),
        }
    }

    /// Up to which revision everything is in the snapshot and has been sent to the topics.
    pub(crate) fn reached(&self) -> Revision {
        // In this order: what is dispatched after the clock was read is later than what it showed, and the cache is superseded
        // before the clock shows what it did not get.
        let clock = self.store_watcher.revision();
        let dispatched = self.cache.dispatched();
        let applied = self.cache.applied_revision();
        let reached = if applied >= dispatched && !self.cache.is_superseded() {
            applied.max(clock)
        } else {
            applied
        };
        self.reported.fetch_max(reached, Ordering::AcqRel).max(reached)
    }

    /// The state now, if it is not older than `revision`, which is the case most of the time.
    pub(crate) fn at_hand(&self, revision: Revision) -> Option<Fresh> {
        if !self.cache.is_loaded() {
            return None;
        }
        let fresh = self.newest();
        (fresh.revision >= revision.max(self.store_watcher.floor())).then_some(fresh)
    }

    /// Waits until the state is not older than `revision`.
    pub(crate) async fn wait(&self, revision: Revision, deadline: Instant) -> Result<Fresh, Late> {
        if let Some(fresh) = self.at_hand(revision) {
            return Ok(fresh);
        }
        let fresh = self.clock.timeout_at(deadline, self.catch_up(revision)).await.flatten();
        fresh.ok_or_else(|| {
            if self.cache.is_superseded() {
                Late::Superseded
            } else if self.cache.is_loaded() {
                Late::At(self.reached())
            } else {
                Late::NotLoaded
            }
        })
    }

    /// Waits as [`wait`](Self::wait) does, without a deadline; nothing if the cache is superseded before.
    pub(crate) async fn catch_up(&self, revision: Revision) -> Option<Fresh> {
        tokio::select! {
            () = self.cache.superseded() => None,
            fresh = self.follow(revision) => fresh,
        }
    }

    async fn follow(&self, revision: Revision) -> Option<Fresh> {
        let (mut clock, mut applied) = (self.store_watcher.clock(), self.cache.applied());
        applied.wait_for(|applied| *applied >= 0).await.ok()?;
        let needed = revision.max(self.store_watcher.floor());
        let reached = *clock.wait_for(|clock| *clock >= needed).await.ok()?;
        let dispatched = self.cache.dispatched();
        applied.wait_for(|applied| *applied >= dispatched).await.ok()?;
        if self.cache.is_superseded() {
            return None;
        }
        self.reported.fetch_max(reached, Ordering::AcqRel);
        Some(self.newest())
    }

    /// The state now. The revision is read first: a snapshot from before it would lack what happened in between.
    fn newest(&self) -> Fresh {
        let reached = self.reached();
        let snapshot = self.cache.snapshot();
        Fresh {
            revision: reached.max(snapshot.revision),
            snapshot,
        }
    }
}
