use std::sync::Arc;

use tokio::sync::watch;
use trireme_actors::{testkit, topology::Topology};
use trireme_cluster::{FencingToken, LeaseWatch, Standalone, Tenure};
use trireme_storage::{EmbeddedOptions, EmbeddedStore};

use super::*;

/// The actions of a duty so far.
#[derive(Debug, Default)]
struct Done {
    /// The token of the run that is under way.
    running: Option<u64>,
    /// The tokens of all runs.
    runs: Vec<u64>,
}

/// A duty that is never done with its work, or fails at it.
struct Endless {
    done: Arc<watch::Sender<Done>>,
    fails: bool,
}

struct UnderWay(Arc<watch::Sender<Done>>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.send_modify(|done| done.running = None);
    }
}

const DUTY: Duty = Duty::named("endless");

impl Reconciler for Endless {
    fn duty(&self) -> Duty {
        DUTY
    }

    fn period(&self) -> Duration {
        Duration::from_secs(3600)
    }

    fn run<'a>(&'a self, term: &'a LeaseTenure) -> BoxFuture<'a, Result<(), ApiError>> {
        let token = term.lease().token.0;
        Box::pin(async move {
            self.done.send_modify(|done| {
                done.running = Some(token);
                done.runs.push(token);
            });
            let _under_way = UnderWay(Arc::clone(&self.done));
            if self.fails {
                return Err(ApiError::internal("it fails"));
            }
            future::pending().await
        })
    }
}

fn lease(token: u64) -> Option<Tenure> {
    Some(Standalone.acquire(DUTY, FencingToken(token)))
}

fn fences(dir: &tempfile::TempDir) -> Fences {
    let store = EmbeddedStore::open(dir.path(), EmbeddedOptions::default()).expect("opened");
    Fences::new(Arc::new(store), "/registry")
}

#[test]
fn a_duty_is_done_while_its_lease_is_held_and_no_longer() {
    testkit::run(Topology::trireme(), |kit| async move {
        let dir = tempfile::tempdir().expect("a directory");
        let fences = fences(&dir);
        let (leases, held) = watch::channel(None);
        let state = Arc::new(watch::Sender::new(Done::default()));
        let mut done = state.subscribe();
        let duty = Endless {
            done: state,
            fails: false,
        };
        keep(
            &kit.system,
            fences.clone(),
            LeaseWatch::new(held),
            SingleKeyController(duty),
        );

        leases.send_replace(lease(3));
        done.wait_for(|done| done.running == Some(3)).await.expect("it runs");
        leases.send_replace(None);
        done.wait_for(|done| done.running.is_none()).await.expect("it stops");
        leases.send_replace(lease(4));
        done.wait_for(|done| done.running == Some(4))
            .await
            .expect("it runs again");
        leases.send_replace(lease(5));
        done.wait_for(|done| done.running == Some(5))
            .await
            .expect("under the new token");

        let late = fences.raise(DUTY.name(), 4).await;
        assert!(matches!(late, Err(FenceError::Deposed { stored: 5, .. })), "{late:?}");
        fences.raise(DUTY.name(), 8).await.expect("another replica is later");
        leases.send_replace(None);
        done.wait_for(|done| done.running.is_none()).await.expect("it stops");
        leases.send_replace(lease(7));
        leases.send_replace(lease(9));
        done.wait_for(|done| done.running == Some(9)).await.expect("it runs");
        assert_eq!(done.borrow().runs, [3, 4, 5, 9], "an outdated token begins nothing");
    });
}

/// A duty that shows something while it is done here.
struct Showing(Arc<watch::Sender<bool>>);

impl Controller for Showing {
    type Key = SingleKey;

    fn duty(&self) -> Duty {
        DUTY
    }

    fn period(&self) -> Duration {
        Duration::from_secs(3600)
    }

    fn always(&self) -> Vec<SingleKey> {
        vec![SingleKey]
    }

    fn concerned(&self, _: &ObjectChange) -> Vec<SingleKey> {
        Vec::new()
    }

    fn release(&self) {
        self.0.send_replace(false);
    }

    fn run<'a>(
        &'a self,
        _: &'a SingleKey,
        _: &'a LeaseTenure,
    ) -> BoxFuture<'a, Result<ReconcileResult<SingleKey>, ApiError>> {
        self.0.send_replace(true);
        Box::pin(future::ready(Ok(ReconcileResult::done())))
    }
}

#[test]
fn what_a_duty_shows_is_forgotten_with_its_lease() {
    testkit::run(Topology::trireme(), |kit| async move {
        let dir = tempfile::tempdir().expect("a directory");
        let (leases, held) = watch::channel(lease(1));
        let shown = Arc::new(watch::Sender::new(false));
        let mut is_shown = shown.subscribe();
        keep(&kit.system, fences(&dir), LeaseWatch::new(held), Showing(shown));
        for token in [2, 3] {
            is_shown.wait_for(|is_shown| *is_shown).await.expect("it is done");
            leases.send_replace(None);
            is_shown.wait_for(|is_shown| !*is_shown).await.expect("it is released");
            leases.send_replace(lease(token));
        }
    });
}

#[test]
fn a_duty_that_fails_is_tried_again_later_each_time() {
    testkit::run(Topology::trireme(), |kit| async move {
        let dir = tempfile::tempdir().expect("a directory");
        let (_leases, held) = watch::channel(lease(1));
        let state = Arc::new(watch::Sender::new(Done::default()));
        let mut done = state.subscribe();
        let duty = Endless {
            done: state,
            fails: true,
        };
        keep(
            &kit.system,
            fences(&dir),
            LeaseWatch::new(held),
            SingleKeyController(duty),
        );
        done.wait_for(|done| done.runs.len() == 1).await.expect("it is tried");
        for (tries, pause_ms) in [(2, 50), (3, 100), (4, 200), (5, 400)] {
            kit.clock.elapse(Duration::from_millis(pause_ms)).await;
            done.wait_for(|done| done.runs.len() >= tries)
                .await
                .expect("it is tried again");
            assert_eq!(done.borrow().runs.len(), tries);
        }
    });
}

/// A duty of two keys and one worker. The first key is to be looked at again after a second; the second never ends.
struct BusyWorker {
    looked: Arc<watch::Sender<Vec<&'static str>>>,
    /// The number of times that the loop has asked for the number of workers.
    turns: watch::Sender<usize>,
}

const SOON: Duration = Duration::from_secs(1);
const PERIOD: Duration = Duration::from_secs(3600);

impl Controller for BusyWorker {
    type Key = &'static str;

    fn duty(&self) -> Duty {
        DUTY
    }

    fn period(&self) -> Duration {
        PERIOD
    }

    fn at_once(&self) -> usize {
        self.turns.send_modify(|turns| *turns += 1);
        1
    }

    fn always(&self) -> Vec<Self::Key> {
        vec!["again", "endless"]
    }

    fn concerned(&self, _change: &ObjectChange) -> Vec<Self::Key> {
        Vec::new()
    }

    fn run<'a>(
        &'a self,
        key: &'a Self::Key,
        _term: &'a LeaseTenure,
    ) -> BoxFuture<'a, Result<ReconcileResult<Self::Key>, ApiError>> {
        Box::pin(async move {
            self.looked.send_modify(|looked| looked.push(*key));
            if *key == "endless" {
                future::pending::<()>().await;
            }
            Ok(ReconcileResult::again_after(SOON))
        })
    }
}

#[test]
fn a_key_that_is_due_while_every_worker_is_busy_keeps_no_processor_busy() {
    testkit::run(Topology::trireme(), |kit| async move {
        let dir = tempfile::tempdir().expect("a directory");
        let (_leases, held) = watch::channel(lease(1));
        let looked = Arc::new(watch::Sender::new(Vec::new()));
        let turns = watch::Sender::new(0);
        let (mut seen, mut gone_round) = (looked.subscribe(), turns.subscribe());
        keep(
            &kit.system,
            fences(&dir),
            LeaseWatch::new(held),
            BusyWorker { looked, turns },
        );
        seen.wait_for(|looked| looked.contains(&"endless"))
            .await
            .expect("it runs");

        kit.clock.advance(SOON);
        let bound = *gone_round.borrow() + 1_000;
        tokio::select! {
            () = kit.clock.wait_for_sleep(PERIOD - SOON) => {}
            _ = gone_round.wait_for(|turns| *turns > bound) => panic!("the loop goes round and round"),
        }
        assert_eq!(*seen.borrow(), ["again", "endless"]);
    });
}
