//! Writes whose request or answer is lost on the way are made once, and their caller hears of it.

use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use tokio::time::timeout;
use trireme_storage::{
    Compare, EtcdOptions, EtcdStore, Event, Fence, PutOptions, RangeRequest, Revision, Storage, StorageError,
    WriteOutcome, testing::EtcdProcess,
};

use crate::proxy::{Loss, Proxy};

/// No wait of these tests takes a tenth of this.
const PATIENCE: Duration = Duration::from_secs(30);

/// An etcd, a store that reaches it through a proxy or two, and one that reaches it directly.
struct Bench {
    etcd: EtcdProcess,
    proxies: Vec<Proxy>,
    store: EtcdStore,
    truth: EtcdStore,
}

async fn bench(proxies: usize) -> Bench {
    let etcd = EtcdProcess::start().await.expect("etcd starts");
    let mut in_front = vec![Proxy::before(&etcd.endpoint()).await];
    while in_front.len() < proxies {
        in_front.push(in_front[0].beside(&etcd.endpoint()).await);
    }
    let mut options = EtcdOptions::new(in_front.iter().map(|proxy| proxy.url.clone()));
    // The machine may be busy; nothing here is about the end of this time.
    options.request_timeout = PATIENCE;
    let truth = EtcdOptions::new([etcd.endpoint()]);
    Bench {
        store: EtcdStore::connect(options).await.expect("the options are sound"),
        truth: EtcdStore::connect(truth).await.expect("the options are sound"),
        etcd,
        proxies: in_front,
    }
}

impl Bench {
    /// Has the next requests of this key meet a loss, through whichever proxy they come.
    fn arm(&self, loss: Loss, key: &str, times: usize) {
        self.proxies[0].arm(loss, key, times);
    }

    fn lost(&self) -> usize {
        self.proxies.iter().map(Proxy::lost).sum()
    }

    async fn create(&self, key: &str) -> Revision {
        let put = self
            .store
            .put(key, Bytes::from_static(b"1"), Compare::Absent, PutOptions::default());
        committed(put.await)
    }

    /// All that ever happened to a key, oldest first.
    async fn history(&self, key: &str) -> Vec<(Revision, bool)> {
        // Written after all others, so that the end of the history is seen.
        let end = format!("{key}!");
        let last = self
            .truth
            .put(&end, Bytes::new(), Compare::Absent, PutOptions::default());
        let last = committed(last.await);
        let mut watch = self.truth.watch(key, 0).await.expect("the watch opens");
        let mut history = Vec::new();
        loop {
            let batch = timeout(PATIENCE, watch.next()).await.expect("the history comes");
            for event in batch.expect("the watch goes on").expect("the watch is sound").events {
                if event.revision() == last {
                    return history;
                }
                assert_eq!(&**event.key(), key, "nothing else is written here");
                history.push((event.revision(), matches!(event, Event::Put { .. })));
            }
        }
    }
}

fn committed(outcome: Result<WriteOutcome, StorageError>) -> Revision {
    match outcome {
        Ok(WriteOutcome::Committed(revision)) => revision,
        other => panic!("not committed: {other:?}"),
    }
}

/// Every kind of write, each losing its requests or their answers, so often.
async fn every_write_is_made_once(loss: Loss, times: usize) {
    let bench = bench(1).await;
    let store = &bench.store;
    let fence = bench.create("/fence").await;
    let lease = store.grant_lease(PATIENCE).await.expect("a lease is granted");
    let fenced = Some(Fence {
        key: "/fence".into(),
        mod_revision: fence,
        token: 1,
    });
    let options = PutOptions {
        lease: Some(lease),
        fence: fenced.clone(),
    };
    let same = Bytes::from_static(b"the same each time");

    bench.arm(loss, "/made", times);
    let created = committed(store.put("/made", same.clone(), Compare::Absent, options.clone()).await);
    bench.arm(loss, "/made", times);
    let at = Compare::ModRevision(created);
    let updated = committed(store.put("/made", same.clone(), at, PutOptions::default()).await);
    bench.arm(loss, "/made", times);
    let at = Compare::ModRevision(updated);
    let again = committed(store.put("/made", same, at, options).await);
    bench.arm(loss, "/made", times);
    let deleted = committed(store.delete("/made", again, fenced).await);

    assert_eq!(bench.lost(), 4 * times, "each write has lost something");
    let all = [(created, true), (updated, true), (again, true), (deleted, false)];
    assert_eq!(bench.history("/made").await, all);
}

#[tokio::test]
async fn a_write_that_loses_its_answer_is_made_once() {
    every_write_is_made_once(Loss::Answer, 1).await;
}

#[tokio::test]
async fn a_write_that_loses_its_answer_and_the_next_is_made_once() {
    every_write_is_made_once(Loss::Answer, 3).await;
}

#[tokio::test]
async fn a_write_that_never_arrives_is_made_once() {
    every_write_is_made_once(Loss::Request, 1).await;
}

#[tokio::test]
async fn a_fenced_write_names_its_token_and_fence_in_its_idempotency_key() {
    let bench = bench(1).await;
    let mod_revision = bench.create("/fence").await;
    let traces = async || {
        let request = RangeRequest {
            prefix: "/trireme/writes/".to_owned(),
            ..RangeRequest::default()
        };
        let page = bench.truth.range(request).await;
        let entries = page.expect("a page").entries;
        let text = |value: &Bytes| String::from_utf8(value.to_vec()).expect("a text");
        entries
            .iter()
            .map(|entry| (entry.mod_revision, text(&entry.value)))
            .collect::<Vec<_>>()
    };
    // The fence was the first write of the session.
    let mut slot_before = mod_revision;
    for name in ["/one", "/two"] {
        bench.arm(Loss::Answer, name, 1);
        let fence = Some(Fence {
            key: "/fence".into(),
            mod_revision,
            token: 7,
        });
        let options = PutOptions { lease: None, fence };
        let put = bench.store.put(name, Bytes::new(), Compare::Absent, options);
        let written = committed(put.await);
        let trace = (written, format!("made 7 {slot_before} /fence"));
        let found = traces().await;
        assert!(found.contains(&trace), "{trace:?} of {name} is not in {found:?}");
        slot_before = written;
    }
}

#[tokio::test]
async fn what_is_refused_after_a_loss_is_refused() {
    let bench = bench(1).await;
    let store = &bench.store;
    let there = bench.create("/there").await;
    let fence = bench.create("/fence").await;
    for (loss, times) in [(Loss::Answer, 1), (Loss::Answer, 2), (Loss::Request, 1)] {
        bench.arm(loss, "/there", times);
        let create = store.put(
            "/there",
            Bytes::from_static(b"1"),
            Compare::Absent,
            PutOptions::default(),
        );
        assert!(
            matches!(create.await, Ok(WriteOutcome::Conflict(Some(entry))) if entry.mod_revision == there),
            "the same bytes are there, and they are not of this write"
        );
        bench.arm(loss, "/there", times);
        let delete = store.delete("/there", there + 1, None).await;
        assert!(matches!(delete, Ok(WriteOutcome::Conflict(Some(_)))), "{delete:?}");
        bench.arm(loss, "/gone", times);
        let delete = store.delete("/gone", there, None).await;
        assert_eq!(delete, Ok(WriteOutcome::Conflict(None)));
        bench.arm(loss, "/there", times);
        let deposed = Fence {
            key: "/fence".into(),
            mod_revision: fence - 1,
            token: 1,
        };
        assert_eq!(
            store.delete("/there", there, Some(deposed)).await,
            Err(StorageError::Fenced)
        );
    }
    assert_eq!(bench.lost(), 16);
    assert_eq!(bench.history("/there").await, [(there, true)]);
}

#[tokio::test]
async fn what_is_too_large_after_a_loss_is_too_large() {
    let bench = bench(1).await;
    for loss in [Loss::Answer, Loss::Request] {
        bench.arm(loss, "/large", 1);
        let value = Bytes::from(vec![b'x'; 1_600_000]);
        let put = bench.store.put("/large", value, Compare::Absent, PutOptions::default());
        assert_eq!(put.await, Err(StorageError::TooLarge));
    }
    assert_eq!(bench.lost(), 2);
    assert_eq!(bench.history("/large").await, []);
}

/// Sends a create of `/slow` into a connection that holds it up; the answer to it, over another one.
async fn held_up(bench: &Bench) -> Result<WriteOutcome, StorageError> {
    // With a session at hand, so that only the create is held up.
    bench.create("/first").await;
    bench.arm(Loss::Time, "/slow", 1);
    let put = bench.store.put(
        "/slow",
        Bytes::from_static(b"ours"),
        Compare::Absent,
        PutOptions::default(),
    );
    let outcome = put.await;
    assert_eq!(bench.lost(), 1, "one attempt is on its way");
    outcome
}

async fn let_it_arrive(bench: &Bench) {
    let applied = || async {
        bench
            .etcd
            .metric("etcd_server_proposals_applied_total")
            .await
            .expect("a number")
    };
    let before = applied().await;
    bench.proxies.iter().for_each(Proxy::let_go);
    let arrived = async {
        while applied().await <= before {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, arrived).await.expect("etcd takes what comes late");
}

#[tokio::test]
async fn an_attempt_that_comes_late_brings_nothing_back() {
    let bench = bench(2).await;
    let created = committed(held_up(&bench).await);
    let deleted = committed(bench.truth.delete("/slow", created, None).await);
    let_it_arrive(&bench).await;
    assert_eq!(bench.history("/slow").await, [(created, true), (deleted, false)]);
}

#[tokio::test]
async fn an_attempt_that_comes_late_does_not_outlive_a_conflict() {
    let bench = bench(2).await;
    let theirs = bench.truth.put(
        "/slow",
        Bytes::from_static(b"theirs"),
        Compare::Absent,
        PutOptions::default(),
    );
    let theirs = committed(theirs.await);
    let ours = held_up(&bench).await;
    assert!(matches!(ours, Ok(WriteOutcome::Conflict(Some(_)))), "{ours:?}");
    // What was in the way goes; the caller got the answer that nothing was written, and so it stays.
    let deleted = committed(bench.truth.delete("/slow", theirs, None).await);
    let_it_arrive(&bench).await;
    assert_eq!(bench.history("/slow").await, [(theirs, true), (deleted, false)]);
}

#[tokio::test]
async fn a_session_that_etcd_has_forgotten_is_replaced() {
    let bench = bench(1).await;
    let first = bench.create("/a").await;
    let leases = bench.etcd.post("/v3/lease/leases", "{}").await.expect("etcd answers");
    let ids: Vec<&str> = leases
        .split("\"ID\":\"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .collect();
    // More than one if etcd was slow to answer and was asked again.
    assert!(!ids.is_empty(), "a session was opened: {leases}");
    for id in ids {
        let body = format!("{{\"ID\":\"{id}\"}}");
        let revoked = bench.etcd.post("/v3/lease/revoke", &body).await;
        revoked.expect("the lease is revoked");
    }
    let second = bench.create("/b").await;
    assert!(second > first);
    let unknown = PutOptions {
        lease: Some(4_711),
        fence: None,
    };
    let put = bench.store.put("/c", Bytes::new(), Compare::Absent, unknown).await;
    assert_eq!(put, Err(StorageError::LeaseNotFound), "that was the caller's lease");
}
