//! The view of clients when the watch of the store breaks.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures_util::{StreamExt as _, future::BoxFuture};
use serde_json::json;
use tokio::sync::watch as channel;
use trireme_actors::{
    testkit::{TestKit, run},
    topology::Topology,
};
use trireme_machinery::Reason;
use trireme_storage::{
    Compare, Fence, KeyValue, LeaseId, PutOptions, RangePage, RangeRequest, Revision, Storage, StorageError,
    WatchStream, WriteOutcome,
};

use super::{
    super::FRESH_WITHIN,
    support::{STATE, events, open, truth, until_error},
};
use crate::{
    fixtures::{HISTORY, ReadSide, configmaps, get, open_store, put, watch},
    item::Item,
    view::{View, compile_entries},
};

/// That of the store watcher.
const LONGEST_BACKOFF: Duration = Duration::from_secs(2);

/// A real store whose watches break or stand still when the test says so, and which counts what it is asked.
struct Breaking {
    inner: Arc<dyn Storage>,
    cut: channel::Sender<Option<StorageError>>,
    refuse: AtomicBool,
    stands: channel::Sender<bool>,
    /// Reads of the revision wait for this.
    answers: channel::Sender<bool>,
    objects_read: AtomicUsize,
    revisions_read: AtomicUsize,
}

impl Breaking {
    fn over(inner: Arc<dyn Storage>) -> Arc<Self> {
        Arc::new(Self {
            inner,
            cut: channel::Sender::new(None),
            refuse: AtomicBool::new(false),
            stands: channel::Sender::new(false),
            answers: channel::Sender::new(true),
            objects_read: AtomicUsize::new(0),
            revisions_read: AtomicUsize::new(0),
        })
    }
}

impl Storage for Breaking {
    fn watch<'a>(&'a self, prefix: &'a str, after: Revision) -> BoxFuture<'a, Result<WatchStream, StorageError>> {
        Box::pin(async move {
            if self.refuse.load(Ordering::SeqCst) {
                return Err(StorageError::Unavailable("refused".to_owned()));
            }
            let inner = self.inner.watch(prefix, after).await?;
            let mut cut = self.cut.subscribe();
            cut.mark_unchanged();
            let state = (inner, cut, self.stands.subscribe());
            let stream = futures_util::stream::unfold(state, |(mut inner, mut cut, mut stands)| async move {
                let next = tokio::select! {
                    biased;
                    _ = cut.changed() => cut.borrow_and_update().clone().map(Err),
                    batch = inner.next() => {
                        stands.wait_for(|stands| !stands).await.expect("the store lives");
                        batch
                    }
                };
                next.map(|next| (next, (inner, cut, stands)))
            });
            Ok(Box::pin(stream) as WatchStream)
        })
    }

    fn get<'a>(
        &'a self,
        key: &'a str,
        revision: Option<Revision>,
    ) -> BoxFuture<'a, Result<(Option<KeyValue>, Revision), StorageError>> {
        self.objects_read.fetch_add(1, Ordering::SeqCst);
        self.inner.get(key, revision)
    }

    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<RangePage, StorageError>> {
        self.objects_read.fetch_add(1, Ordering::SeqCst);
        self.inner.range(request)
    }

    fn put<'a>(
        &'a self,
        key: &'a str,
        value: Bytes,
        compare: Compare,
        options: PutOptions,
    ) -> BoxFuture<'a, Result<WriteOutcome, StorageError>> {
        self.inner.put(key, value, compare, options)
    }

    fn delete<'a>(
        &'a self,
        key: &'a str,
        revision: Revision,
        fence: Option<Fence>,
    ) -> BoxFuture<'a, Result<WriteOutcome, StorageError>> {
        self.inner.delete(key, revision, fence)
    }

    fn read_index(&self) -> BoxFuture<'_, Result<Revision, StorageError>> {
        Box::pin(async {
            // As over a network: never at once.
            tokio::task::yield_now().await;
            self.revisions_read.fetch_add(1, Ordering::SeqCst);
            let mut answers = self.answers.subscribe();
            answers.wait_for(|answers| *answers).await.expect("the store lives");
            self.inner.read_index().await
        })
    }

    fn grant_lease(&self, ttl: Duration) -> BoxFuture<'_, Result<LeaseId, StorageError>> {
        self.inner.grant_lease(ttl)
    }

    fn revoke_lease(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), StorageError>> {
        self.inner.revoke_lease(lease)
    }

    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<(), StorageError>> {
        self.inner.compact(revision)
    }

    fn compacted(&self) -> Revision {
        self.inner.compacted()
    }
}

#[test]
fn a_view_is_never_of_before_the_start_unless_it_goes_through_the_history() {
    run(Topology::trireme(), |kit| async move {
        let (_dir, inner) = open_store();
        let inner: Arc<dyn Storage> = inner;
        put(&*inner, &configmaps(), "n/gone", json!({})).await;
        let (entry, _) = inner
            .get("/registry/configmaps/n/gone", None)
            .await
            .expect("it answers");
        let written = entry.expect("it is there").mod_revision;
        // As far back as caches begin, it is still there.
        for _ in 1..HISTORY {
            put(&*inner, &configmaps(), "n/stays", json!({})).await;
        }
        let deleted = inner.delete("/registry/configmaps/n/gone", written, None).await;
        let Ok(WriteOutcome::Committed(now)) = deleted else {
            panic!("{deleted:?}");
        };
        assert_eq!(now - written, HISTORY);
        let store = Breaking::over(inner);
        store.stands.send_replace(true);
        let side = ReadSide::start_over(&kit.system, store.clone(), vec![configmaps()]).await;
        let keys = || compile_entries(|item: &Item| Some(item.revision));
        let view = View::start(&kit.system, "now", [side.reader("configmaps")], keys);
        let history = View::start_from_history(&kit.system, "history", side.reader("configmaps"), keys);
        let begun = history.changes().wait_for(|revision| *revision >= 0).await.is_ok();
        assert!(begun && history.load().find("n/gone").is_some());
        assert!(view.load().is_empty() && view.load().revision < 0);
        store.stands.send_replace(false);
        let first = view
            .changes()
            .wait_for(|revision| *revision >= 0)
            .await
            .map(|revision| *revision);
        assert_eq!(first.ok(), Some(now));
        let there: Vec<String> = view.load().iter().map(|(key, _)| key.to_string()).collect();
        assert_eq!(there, ["n/stays"]);
    });
}

/// Ends pauses of up to `longest` when they have begun, while `wanted` is waited for.
async fn skipping_pauses<T>(kit: &TestKit, longest: Duration, wanted: impl Future<Output = T>) -> T {
    let skipping = async {
        loop {
            kit.clock.elapse_within(longest).await;
        }
    };
    tokio::select! {
        biased;
        output = wanted => output,
        () = skipping => unreachable!("it has no end"),
    }
}

#[test]
fn a_broken_watch_goes_on_without_gap_or_repetition() {
    run(Topology::trireme(), |kit| async move {
        let (_dir, store) = open_store();
        let breaking = Breaking::over(store.clone());
        let side = ReadSide::start_over(&kit.system, breaking.clone(), vec![configmaps()]).await;
        let reader = side.reader("configmaps");
        let mut watcher = open(&reader, watch("", STATE)).await;
        let info = configmaps();
        let mut last = 0;
        for round in 0..10 {
            for number in 0..10 {
                last = put(
                    &*store,
                    &info,
                    &format!("ns/{number}"),
                    json!({"data": {"r": round.to_string()}}),
                )
                .await;
                if number == round {
                    breaking
                        .cut
                        .send_replace(Some(StorageError::Unavailable("cut".to_owned())));
                }
            }
        }
        let expected = truth(&*store, "configmaps", last).await;
        assert_eq!(
            skipping_pauses(&kit, LONGEST_BACKOFF, events(&mut watcher, 100)).await,
            expected
        );
    });
}

#[test]
fn a_resource_that_goes_and_comes_back_while_the_store_cannot_be_watched_is_loaded() {
    run(Topology::trireme(), |kit| async move {
        let (_dir, store) = open_store();
        let breaking = Breaking::over(store.clone());
        let side = ReadSide::start_over(&kit.system, breaking.clone(), vec![configmaps()]).await;
        let before = side.reader("configmaps");
        before.caught_up().await;
        breaking.refuse.store(true, Ordering::SeqCst);
        breaking
            .cut
            .send_replace(Some(StorageError::Unavailable("cut".to_owned())));
        // The follower has begun a pause, and looks at nothing.
        kit.clock.elapse_within(LONGEST_BACKOFF).await;
        let after = side.remove_and_add(&kit.system, "configmaps").await;
        assert!(before.cache().is_superseded() && !after.is_ready());
        breaking.refuse.store(false, Ordering::SeqCst);
        put(&*store, &configmaps(), "ns/a", json!({})).await;
        let read = after.get(get("ns/a"));
        skipping_pauses(&kit, LONGEST_BACKOFF, read)
            .await
            .expect("it is loaded");
    });
}

#[test]
fn when_history_is_lost_watches_end_and_the_state_is_right() {
    run(Topology::trireme(), |kit| async move {
        let (_dir, store) = open_store();
        let breaking = Breaking::over(store.clone());
        let side = ReadSide::start_over(&kit.system, breaking.clone(), vec![configmaps()]).await;
        let reader = side.reader("configmaps");
        let info = configmaps();
        put(&*store, &info, "ns/kept", json!({})).await;
        let first = put(&*store, &info, "ns/gone", json!({})).await;
        let mut watcher = open(&reader, watch("", STATE)).await;
        assert_eq!(events(&mut watcher, 2).await.len(), 2);

        breaking.refuse.store(true, Ordering::SeqCst);
        breaking
            .cut
            .send_replace(Some(StorageError::Unavailable("cut".to_owned())));
        let missed = put(&*store, &info, "ns/kept", json!({"data": {"new": "yes"}})).await;
        let deleted = store
            .delete("/registry/configmaps/ns/gone", first, None)
            .await
            .expect("the store answers");
        let WriteOutcome::Committed(deleted) = deleted else {
            panic!("{deleted:?}")
        };
        store.compact(deleted).await.expect("it can be compacted");
        breaking.refuse.store(false, Ordering::SeqCst);

        let (seen, error) = skipping_pauses(&kit, LONGEST_BACKOFF, until_error(&mut watcher)).await;
        assert!(seen.is_empty(), "what was missed is not made up: {seen:?}");
        assert_eq!(error.reason, Reason::Expired);
        assert_eq!(reader.get(get("ns/kept")).await.expect("it is there").revision, missed);
        assert_eq!(
            reader.get(get("ns/gone")).await.expect_err("it was deleted").reason,
            Reason::NotFound
        );
    });
}

#[test]
fn a_restarted_cache_lets_recent_watches_resume() {
    run(Topology::trireme(), |kit| async move {
        let (_dir, store) = open_store();
        let info = configmaps();
        for number in 0..50 {
            put(&*store, &info, &format!("ns/{number}"), json!({})).await;
        }
        let seen = put(&*store, &info, "ns/seen", json!({})).await;
        let missed = put(&*store, &info, "ns/missed", json!({})).await;
        let side = ReadSide::start_over(&kit.system, store, vec![configmaps()]).await;
        let mut watcher = open(
            &side.reader("configmaps"),
            watch("", crate::request::WatchStart::After(seen)),
        )
        .await;
        let expected = (crate::EventKind::Added, "ns/missed".to_owned(), missed);
        assert_eq!(events(&mut watcher, 1).await, [expected]);
    });
}

#[test]
fn a_late_resource_is_loaded_and_followed() {
    run(Topology::trireme(), |kit| async move {
        let side = ReadSide::start(&kit, vec![configmaps()]).await;
        side.reader("configmaps")
            .list(crate::fixtures::list(""))
            .await
            .expect("it is loaded");
        let widgets = crate::fixtures::widgets();
        put(&*side.store, &widgets, "ns/a", json!({"spec": {"x": 1}})).await;
        let reader = side.add(&kit.system, widgets.clone()).await;
        assert!(reader.get(get("ns/a")).await.is_ok(), "what was there before is loaded");
        let later = put(&*side.store, &widgets, "ns/a", json!({"spec": {"x": 2}})).await;
        assert_eq!(reader.get(get("ns/a")).await.expect("it is there").revision, later);
    });
}

const CROWD: usize = 200;

/// A store whose watch stands still behind a write; the revision of that write.
async fn lagging(kit: &TestKit) -> (tempfile::TempDir, Arc<Breaking>, ReadSide, Revision) {
    let (dir, store) = open_store();
    let breaking = Breaking::over(store.clone());
    let side = ReadSide::start_over(&kit.system, breaking.clone(), vec![configmaps()]).await;
    let info = configmaps();
    put(&*store, &info, "ns/a", json!({"data": {"n": "old"}})).await;
    side.reader("configmaps").get(get("ns/a")).await.expect("it is there");
    breaking.stands.send_replace(true);
    let written = put(&*store, &info, "ns/a", json!({"data": {"n": "new"}})).await;
    breaking.answers.send_replace(false);
    breaking.objects_read.store(0, Ordering::SeqCst);
    breaking.revisions_read.store(0, Ordering::SeqCst);
    (dir, breaking, side, written)
}

#[test]
fn a_crowd_of_readers_waits_for_a_cache_that_lags_and_leaves_the_store_alone() {
    run(Topology::trireme(), |kit| async move {
        let (_dir, breaking, side, written) = lagging(&kit).await;
        let reader = side.reader("configmaps");
        let crowd = futures_util::future::join_all((0..CROWD).map(|_| reader.get(get("ns/a"))));
        let any = async {
            let mut any = get("ns/a");
            any.freshness = crate::request::Freshness::Any;
            let old = reader.get(any).await.expect("what is there is good enough");
            assert!(old.revision < written, "it does not wait for the others");
            breaking.answers.send_replace(true);
            breaking.stands.send_replace(false);
        };
        let (answers, ()) = tokio::join!(crowd, any);
        for answer in answers {
            assert_eq!(answer.expect("the cache has caught up").revision, written);
        }
        assert_eq!(breaking.objects_read.load(Ordering::SeqCst), 0);
        let rounds = breaking.revisions_read.load(Ordering::SeqCst);
        assert!(rounds <= 3, "{CROWD} readers shared {rounds} reads of the revision");
    });
}

#[test]
fn readers_of_a_cache_that_stays_behind_get_an_error_and_leave_the_store_alone() {
    run(Topology::trireme(), |kit| async move {
        let (_dir, breaking, side, written) = lagging(&kit).await;
        let reader = side.reader("configmaps");
        let crowd = futures_util::future::join_all((0..CROWD).map(|_| reader.get(get("ns/a"))));
        let all_have_asked = async { breaking.answers.send_replace(true) };
        let crowd_served = async { tokio::join!(crowd, all_have_asked).0 };
        for answer in skipping_pauses(&kit, FRESH_WITHIN, crowd_served).await {
            let error = answer.expect_err("the cache is behind");
            assert_eq!(error.reason, Reason::Timeout);
            assert!(error.details.is_some_and(|details| details.retry_after_seconds == 1));
        }
        assert_eq!(breaking.objects_read.load(Ordering::SeqCst), 0);
        assert!(breaking.revisions_read.load(Ordering::SeqCst) <= 3);

        let within = || kit.system.clock().now() + Duration::from_secs(1);
        let reaches = skipping_pauses(&kit, FRESH_WITHIN, reader.reaches(written, within())).await;
        assert!(!reaches, "this is what readiness looks at");
        breaking.stands.send_replace(false);
        assert!(reader.reaches(written, within()).await);
    });
}
