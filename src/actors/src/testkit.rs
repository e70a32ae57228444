//! For the tests of rooms: a system in a test, time by hand, conditions instead of sleeps, and no leaks.

use std::collections::BTreeSet;
use std::future::Future;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::mpsc;

use crate::actor::{Actor, Receive, Turn};
use crate::clock::{Clock, ManualClock};
use crate::edges::HandleUse;
use crate::handle::Owned;
use crate::message::{Message, Reply};
use crate::restart::Fatal;
use crate::system::{ActorSystem, SpawnError};
use crate::topology::{ActorKind, Caller, FIVE_A_MINUTE, Placement, Topology, TopologyRow};

/// The time that a test waits for what must happen. Only a failing test ever waits that long.
const PATIENCE: Duration = Duration::from_secs(10);

/// The time that a test may take as a whole, so that one that hangs fails.
const LIMIT: Duration = Duration::from_secs(60);

/// The surroundings of a test.
pub struct TestKit {
    /// The system, with one arbiter, so that all actors of a test share a thread.
    pub system: ActorSystem,
    /// The system's clock; it stands still until advanced.
    pub clock: ManualClock,
    fatal: Arc<Mutex<Vec<Fatal>>>,
}

impl TestKit {
    /// The actors that have used up their restart budget.
    pub fn fatal(&self) -> Vec<Fatal> {
        self.fatal
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
            .clone()
    }
}

/// A row for the table of a test: one actor with 8 permits that anyone outside may ask.
pub const fn entry(kind: ActorKind) -> TopologyRow {
    TopologyRow {
        kind,
        count: "1",
        owner: "actors",
        rank: 10,
        permits: 8,
        permits_reason: "a test",
        asked_by: &[Caller::Outside],
        noted_by: &[],
        timers: &[],
        restart: FIVE_A_MINUTE,
        placement: Placement::RoundRobin,
        purpose: "a test",
    }
}

/// The kind of [`NoteProbe`]; `entry(PROBE)` is its row.
pub const PROBE: ActorKind = ActorKind::named("Probe");

/// An actor that hands every note it gets to the test.
pub struct NoteProbe<M> {
    seen: mpsc::UnboundedSender<M>,
}

impl<M: Message<Reply = ()>> NoteProbe<M> {
    /// Spawns a probe; the receiver yields the messages that it gets, in order.
    pub fn spawn(system: &ActorSystem) -> Result<(Owned<Self>, mpsc::UnboundedReceiver<M>), SpawnError> {
        let (seen, notes) = mpsc::unbounded_channel();
        let probe = system.spawn("", move || Self { seen: seen.clone() })?;
        Ok((probe, notes))
    }
}

impl<M: 'static> Actor for NoteProbe<M> {
    const KIND: ActorKind = PROBE;
}

impl<M: Message<Reply = ()>> Receive<M> for NoteProbe<M> {
    fn receive(&mut self, message: M, reply: Reply<()>, _: &mut Turn<'_, Self>) {
        // The test may have seen enough.
        let _ = self.seen.send(message);
        reply.send(());
    }
}

/// Runs a test in a system with the actors of `topology` and a manual clock. Fails if an actor or a task does not end.
pub fn run<F: Future>(topology: Topology, test: impl FnOnce(TestKit) -> F) -> F::Output {
    let clock = ManualClock::new();
    run_with(topology, clock.clone().into(), clock, test)
}

/// As [`run`], with the machine's clock, for what must be fast in earnest.
pub fn run_in_real_time<F: Future>(topology: Topology, test: impl FnOnce(TestKit) -> F) -> F::Output {
    run_with(topology, Clock::system(), ManualClock::new(), test)
}

fn run_with<F: Future>(
    topology: Topology,
    clock: Clock,
    manual: ManualClock,
    test: impl FnOnce(TestKit) -> F,
) -> F::Output {
    let one = NonZeroUsize::MIN;
    let main = async move {
        let fatal = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&fatal);
        let system = ActorSystem::builder()
            .topology(topology)
            .clock(clock)
            .arbiters(one)
            .on_fatal(move |fatal| seen.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(fatal))
            .build()
            .expect("a test can start a thread");
        let test = test(TestKit {
            system: system.clone(),
            clock: manual,
            fatal,
        });
        let output = tokio::time::timeout(LIMIT, test)
            .await
            .expect("the test came to no end");
        let leaked = system.shutdown(PATIENCE).await;
        assert!(leaked.is_empty(), "the test leaks {leaked:?}");
        output
    };
    crate::arbiters::run_system(one, main).expect("a test can start a runtime")
}

/// Holds the rows of a room's actors against what has happened in a system: fails on a use of a handle that was given
/// out in another's name, on a declared edge that was never used, and on a declared timer that does not run.
///
/// # Panics
/// If they differ.
pub fn assert_topology_happened(system: &ActorSystem, room: &str) {
    let edges: Vec<_> = system.edges_into(room).collect();
    assert!(!edges.is_empty(), "no actor of {room} is in the topology");
    let declared: BTreeSet<HandleUse> = edges.iter().flat_map(|edges| edges.declared()).collect();
    let used: BTreeSet<HandleUse> = edges.iter().flat_map(|edges| edges.used()).collect();
    let misnamed: BTreeSet<HandleUse> = edges.iter().flat_map(|edges| edges.misnamed()).collect();
    assert!(misnamed.is_empty(), "used with a handle of another's: {misnamed:?}");
    let idle: Vec<_> = declared.difference(&used).collect();
    assert!(idle.is_empty(), "declared, but never used: {idle:?}");
    let running = system.tasks().names();
    for timer in system.declared_timers(room) {
        assert!(
            running.contains(&timer),
            "the timer {timer} is declared and does not run"
        );
    }
}

/// Waits until `condition` holds; fails the test with `what` if it never does.
pub async fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let waiting = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    assert!(
        tokio::time::timeout(PATIENCE, waiting).await.is_ok(),
        "never came about: {what}"
    );
}
