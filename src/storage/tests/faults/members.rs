//! A cluster that loses members while it is written to and watched.

use std::{
    collections::BTreeMap,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures_util::{StreamExt, future::join_all};
use tokio::{
    task::JoinHandle,
    time::{sleep, timeout},
};
use trireme_storage::{
    Compare, EtcdOptions, EtcdStore, PutOptions, Revision, Storage, StorageError, WriteOutcome,
    testing::{EtcdCluster, EtcdProcess},
};

const WRITERS: usize = 8;
/// No wait of these tests takes a tenth of this.
const PATIENCE: Duration = Duration::from_secs(60);

/// Writers that each change one key after the other until they are stopped.
struct Load {
    store: Arc<EtcdStore>,
    stop: Arc<AtomicBool>,
    done: Arc<AtomicUsize>,
    writers: Vec<JoinHandle<Vec<(Revision, String)>>>,
}

impl Load {
    fn start(store: Arc<EtcdStore>) -> Self {
        let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let writer = |number| tokio::spawn(write(store.clone(), number, stop.clone(), done.clone()));
        let writers = (0..WRITERS).map(writer).collect();
        Self {
            store,
            stop,
            done,
            writers,
        }
    }

    /// Waits for so many more writes of each writer, on average.
    async fn goes_on(&self, writes: usize) {
        let wanted = self.done.load(Ordering::SeqCst) + writes * WRITERS;
        let going = async {
            while self.done.load(Ordering::SeqCst) < wanted {
                tokio::task::yield_now().await;
            }
        };
        timeout(PATIENCE, going).await.expect("writes go on");
    }

    /// Every acknowledged write by its revision.
    async fn end(self) -> BTreeMap<Revision, String> {
        self.stop.store(true, Ordering::SeqCst);
        let written = join_all(self.writers).await;
        written
            .into_iter()
            .flat_map(|one| one.expect("no write has failed"))
            .collect()
    }
}

/// Creates, updates and deletes keys; any outcome but success is a failure of the test.
async fn write(
    store: Arc<EtcdStore>,
    writer: usize,
    stop: Arc<AtomicBool>,
    done: Arc<AtomicUsize>,
) -> Vec<(Revision, String)> {
    let mut written = Vec::new();
    // All writers write the same bytes: a value does not show its writer.
    let put = async |key: &str, compare| {
        let value = Bytes::from_static(b"x");
        store.put(key, value, compare, PutOptions::default()).await
    };
    for round in 0.. {
        let key = format!("/load/{writer}/{}", round % 3);
        let created = committed(put(&key, Compare::Absent).await);
        let updated = committed(put(&key, Compare::ModRevision(created)).await);
        let deleted = committed(store.delete(&key, updated, None).await);
        for (revision, what) in [(created, "put"), (updated, "put"), (deleted, "delete")] {
            written.push((revision, format!("{what} {key}")));
            done.fetch_add(1, Ordering::SeqCst);
        }
        if stop.load(Ordering::SeqCst) {
            break;
        }
    }
    written
}

fn committed(outcome: Result<WriteOutcome, StorageError>) -> Revision {
    match outcome {
        Ok(WriteOutcome::Committed(revision)) => revision,
        other => panic!("not committed: {other:?}"),
    }
}

/// All that happened, as a reader hears it who opens a new watch from where the last one broke.
fn follow(store: Arc<EtcdStore>) -> JoinHandle<BTreeMap<Revision, String>> {
    tokio::spawn(async move {
        let (mut seen, mut position) = (BTreeMap::new(), 0);
        loop {
            let Ok(mut watch) = store.watch("/load/", position).await else {
                tokio::task::yield_now().await;
                continue;
            };
            while let Some(Ok(batch)) = watch.next().await {
                for event in &batch.events {
                    let what = if matches!(event, trireme_storage::Event::Put { .. }) {
                        "put"
                    } else {
                        "delete"
                    };
                    let earlier = seen.insert(event.revision(), format!("{what} {}", event.key()));
                    assert_eq!(earlier, None, "no event comes twice");
                    if event.key().ends_with("/end") {
                        seen.remove(&event.revision());
                        return seen;
                    }
                }
                position = batch.revision;
            }
        }
    })
}

async fn cluster() -> (EtcdCluster, Arc<EtcdStore>) {
    let started = EtcdCluster::start(|endpoints| {
        let mut options = EtcdOptions::new(endpoints);
        // Elections on a busy machine may take more than one round.
        options.request_timeout = PATIENCE;
        options
    });
    let (cluster, store) = started.await.expect("the cluster starts");
    (cluster, Arc::new(store))
}

/// The member that leads, once one does: on a busy machine an election may be under way. All members must answer.
async fn leader(cluster: &EtcdCluster) -> usize {
    let found = timeout(PATIENCE, async {
        loop {
            if let Ok(leader) = cluster.leader().await {
                return leader;
            }
            sleep(Duration::from_millis(20)).await;
        }
    });
    found.await.expect("one is elected")
}

/// Checks that acknowledged writes happened once each, and that a watch shows the same.
async fn check(load: Load, follower: JoinHandle<BTreeMap<Revision, String>>) {
    let store = load.store.clone();
    let acknowledged = load.end().await;
    let end = store.put("/load/end", Bytes::new(), Compare::Absent, PutOptions::default());
    committed(end.await);
    let followed = timeout(PATIENCE, follower).await.expect("the watch comes to the end");
    assert_eq!(followed.expect("the follower is sound"), acknowledged);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_write_fails_when_the_leader_is_killed() {
    let (mut cluster, store) = cluster().await;
    let (load, follower) = (Load::start(store.clone()), follow(store));
    load.goes_on(20).await;
    let leader = leader(&cluster).await;
    cluster.members[leader].kill();
    load.goes_on(20).await;
    check(load, follower).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_write_fails_or_comes_back_when_the_leader_freezes() {
    let (cluster, store) = cluster().await;
    let (load, follower) = (Load::start(store.clone()), follow(store));
    load.goes_on(20).await;
    let leader = leader(&cluster).await;
    cluster.members[leader].pause().expect("it is frozen");
    load.goes_on(20).await;
    // It comes back with what it was sent before.
    cluster.members[leader].resume().expect("it goes on");
    load.goes_on(20).await;
    check(load, follower).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_quorum_every_answer_comes_in_time_and_says_what_is_known() {
    let started = EtcdCluster::start(EtcdOptions::new);
    let (cluster, store) = started.await.expect("the cluster starts");
    let there = store.put("/a", Bytes::new(), Compare::Absent, PutOptions::default());
    let there = committed(there.await);
    let leader = leader(&cluster).await;
    let lost = [leader, (leader + 1) % 3];
    for member in lost {
        cluster.members[member].pause().expect("it is frozen");
    }
    let deadline = EtcdOptions::new([""]).request_timeout + Duration::from_secs(2);
    let at = Compare::ModRevision(there);
    let (write, read) = timeout(deadline, async {
        tokio::join!(
            store.put("/a", Bytes::from_static(b"2"), at, PutOptions::default()),
            store.read_index()
        )
    })
    .await
    .expect("both are answered in time");
    assert!(
        matches!(
            write,
            Err(StorageError::UnknownOutcome(_) | StorageError::Unavailable(_))
        ),
        "{write:?}"
    );
    assert!(
        matches!(read, Err(StorageError::Timeout | StorageError::Unavailable(_))),
        "{read:?}"
    );
    for member in lost {
        cluster.members[member].resume().expect("it goes on");
    }
    // A member that comes back may cause one more election, which a write may meet.
    let recovered = timeout(PATIENCE, async {
        let mut attempt = 0;
        loop {
            let key = format!("/b/{attempt}");
            let put = store.put(&key, Bytes::new(), Compare::Absent, PutOptions::default());
            if let Ok(outcome) = put.await {
                return outcome;
            }
            attempt += 1;
        }
    });
    let outcome = recovered.await.expect("the store recovers by itself");
    committed(Ok(outcome));
    store.read_index().await.expect("it has recovered");
}

#[tokio::test]
async fn an_etcd_that_has_ended_cannot_be_frozen() {
    let etcd = EtcdProcess::start().await.expect("etcd starts");
    let killed = Command::new("kill").args(["-KILL", &etcd.pid().to_string()]).status();
    assert!(killed.expect("kill runs").success());
    assert!(matches!(etcd.pause(), Err(StorageError::Failed(_))));
}
