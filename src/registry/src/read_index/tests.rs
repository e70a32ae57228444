use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures_util::future::{BoxFuture, join_all};
use tokio::sync::{Semaphore, watch};
use trireme_actors::{
    testkit::{eventually, run},
    topology::Topology,
};
use trireme_machinery::Reason;
use trireme_storage::{
    Compare, Fence, KeyValue, LeaseId, PutOptions, RangePage, RangeRequest, Revision, Storage, StorageError,
    WatchStream, WriteOutcome,
};

use super::{ReadIndexHandle, logic::Rounds};
use crate::fixtures::{configmaps, open_store, put};

/// A store whose answers to `read_index` come as late as the test wants; all else goes to the real one.
struct Slow {
    inner: Arc<dyn Storage>,
    reads: AtomicUsize,
    begun: watch::Sender<usize>,
    let_through: Semaphore,
}

impl Slow {
    fn over(inner: Arc<dyn Storage>) -> Arc<Self> {
        Arc::new(Self {
            inner,
            reads: AtomicUsize::new(0),
            begun: watch::Sender::new(0),
            let_through: Semaphore::new(0),
        })
    }
}

impl Storage for Slow {
    fn read_index(&self) -> BoxFuture<'_, Result<Revision, StorageError>> {
        Box::pin(async {
            let revision = self.inner.read_index().await;
            self.reads.fetch_add(1, Ordering::SeqCst);
            self.begun.send_modify(|begun| *begun += 1);
            self.let_through.acquire().await.expect("it is never closed").forget();
            revision
        })
    }

    fn get<'a>(
        &'a self,
        key: &'a str,
        revision: Option<Revision>,
    ) -> BoxFuture<'a, Result<(Option<KeyValue>, Revision), StorageError>> {
        self.inner.get(key, revision)
    }

    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<RangePage, StorageError>> {
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

    fn watch<'a>(&'a self, prefix: &'a str, after: Revision) -> BoxFuture<'a, Result<WatchStream, StorageError>> {
        self.inner.watch(prefix, after)
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
fn a_reader_joins_the_next_round() {
    let mut rounds = Rounds::default();
    assert_eq!(rounds.next(), 1);
    assert!(!rounds.begin(0), "no reader wants one");
    assert!(rounds.begin(1));
    assert_eq!(rounds.next(), 2, "the one under way may have its answer already");
    assert!(!rounds.begin(2), "one at a time");
    rounds.end();
    assert!(rounds.begin(2));
    rounds.end();
    assert!(!rounds.begin(2), "all have been served");
}

#[test]
fn who_comes_during_a_read_gets_the_answer_of_the_next_one() {
    run(Topology::trireme(), |kit| async move {
        let (_dir, store) = open_store();
        let slow = Slow::over(store.clone());
        let handle = ReadIndexHandle::spawn(&kit.system, slow.clone()).expect("it is the only one");
        let deadline = kit.system.clock().now() + Duration::from_secs(3);
        let ask = || {
            let handle = handle.clone();
            tokio::spawn(async move { handle.revision(deadline).await })
        };
        let first = ask();
        let mut begun = slow.begun.subscribe();
        begun.wait_for(|begun| *begun == 1).await.expect("the store lives");

        let written = put(&*store, &configmaps(), "ns/a", serde_json::json!({})).await;
        let late = join_all((0..50).map(|_| ask()));
        eventually("all have asked", || handle.waiting() == 51).await;
        slow.let_through.add_permits(1);

        let before = first.await.expect("no panic").expect("the store answered");
        assert!(before < written);
        slow.let_through.add_permits(1);
        for revision in late.await {
            assert!(revision.expect("no panic").expect("the store answered") >= written);
        }
        assert_eq!(slow.reads.load(Ordering::SeqCst), 2, "50 readers shared one read");
    });
}

#[test]
fn a_store_that_does_not_answer_is_a_timeout() {
    run(Topology::trireme(), |kit| async move {
        let (_dir, store) = open_store();
        let slow = Slow::over(store);
        let handle = ReadIndexHandle::spawn(&kit.system, slow.clone()).expect("it is the only one");
        let deadline = kit.system.clock().now() + Duration::from_secs(3);
        let asked = tokio::spawn(async move { handle.revision(deadline).await });
        kit.clock.elapse(Duration::from_secs(3)).await;
        let error = asked.await.expect("no panic").expect_err("no answer came");
        assert_eq!(error.reason, Reason::Timeout);
        slow.let_through.add_permits(1);
    });
}
