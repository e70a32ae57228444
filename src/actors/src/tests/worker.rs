//! The actor that the tests maltreat.

use std::sync::Arc;
use std::sync::mpsc;

use tokio::sync::Semaphore;

use crate::testkit::{TestKit, entry};
use crate::topology::{Placement, Topology, TopologyRow};
use crate::{Actor, ActorKind, Caller, Handle, Lost, Message, Owned, Receive, Reply, Turn};

const WORKER: ActorKind = ActorKind::named("Worker");

/// The number of permits that the worker has.
pub(crate) const PERMITS: usize = 4;

static TABLE: &[TopologyRow] = &[
    TopologyRow {
        permits: PERMITS,
        placement: Placement::ByInstance,
        ..entry(WORKER)
    },
    entry(crate::testkit::PROBE),
];

static ON_OWN_THREADS: &[TopologyRow] = &[TopologyRow {
    placement: Placement::OwnThread,
    ..entry(WORKER)
}];

/// A table in which each worker has a thread of its own.
pub(crate) fn on_own_threads() -> Topology {
    Topology::new(ON_OWN_THREADS).expect("the table is sound")
}

/// The worker's table.
pub(crate) fn topology() -> Topology {
    Topology::new(TABLE).expect("the table is sound")
}

/// Spawns a worker.
pub(crate) fn spawn(kit: &TestKit, instance: &str) -> (Owned<Worker>, Handle<Worker>) {
    let owned = kit
        .system
        .spawn(instance, Worker::default)
        .expect("the worker is in the table");
    let handle = owned.for_caller(Caller::Outside).expect("outside may ask");
    (owned, handle)
}

/// A counter with bad habits.
#[derive(Default)]
pub(crate) struct Worker {
    count: u64,
    /// True within a turn only.
    in_turn: bool,
    kept: Vec<Reply<u64>>,
}

impl Actor for Worker {
    const KIND: ActorKind = WORKER;
}

macro_rules! messages {
    ($($(#[$doc:meta])* $name:ident $({ $($field:ident: $type:ty),* })? $(($($inner:ty),*))? => $reply:ty;)*) => {$(
        $(#[$doc])*
        pub(crate) struct $name $({ $(pub(crate) $field: $type),* })? $(($(pub(crate) $inner),*))?;
        impl Message for $name { type Reply = $reply; }
    )*};
}

messages! {
    /// Count one up.
    Count() => u64;
    /// A note that counts one up.
    CountNote() => ();
    /// Hold the thread until the test lets go, after it was notified that the turn has begun.
    Block(mpsc::Sender<()>, mpsc::Receiver<()>) => ();
    /// Panic.
    Panic() => u64;
    /// Give up without a panic.
    Fail() => u64;
    /// Keep the reply.
    Keep() => u64;
    /// Wait for the gate outside the turn, then count up and reply.
    Io(Arc<Semaphore>) => u64;
    /// Panic outside the turn.
    PanicOutside() => String;
    /// Compute on another thread and reply whether it was another.
    Compute() => bool;
    IoDone(Reply<u64>) => ();
    OutsideDone(Result<(), Lost>, Reply<String>) => ();
    ComputeDone(Result<bool, Lost>, Reply<bool>) => ();
}

impl Worker {
    /// A turn's work: reads, lets others try to get in between, writes.
    fn count_up(&mut self) -> u64 {
        assert!(!self.in_turn, "two turns interleave");
        self.in_turn = true;
        let before = self.count;
        std::thread::yield_now();
        self.count = before + 1;
        self.in_turn = false;
        self.count
    }
}

impl Receive<Count> for Worker {
    fn receive(&mut self, _: Count, reply: Reply<u64>, _: &mut Turn<'_, Self>) {
        let count = self.count_up();
        reply.send(count);
    }
}

impl Receive<CountNote> for Worker {
    fn receive(&mut self, _: CountNote, reply: Reply<()>, _: &mut Turn<'_, Self>) {
        self.count_up();
        reply.send(());
    }
}

impl Receive<Block> for Worker {
    fn receive(&mut self, Block(begun, release): Block, reply: Reply<()>, _: &mut Turn<'_, Self>) {
        begun.send(()).expect("the test waits for the turn");
        // An error means that the test let go by dropping its end.
        let _ = release.recv();
        reply.send(());
    }
}

impl Receive<Panic> for Worker {
    fn receive(&mut self, _: Panic, _: Reply<u64>, _: &mut Turn<'_, Self>) {
        panic!("the worker trips");
    }
}

impl Receive<Fail> for Worker {
    fn receive(&mut self, _: Fail, _: Reply<u64>, turn: &mut Turn<'_, Self>) {
        turn.fail("the worker gives up");
    }
}

impl Receive<Keep> for Worker {
    fn receive(&mut self, _: Keep, reply: Reply<u64>, _: &mut Turn<'_, Self>) {
        self.kept.push(reply);
    }
}

impl Receive<Io> for Worker {
    fn receive(&mut self, Io(gate): Io, reply: Reply<u64>, turn: &mut Turn<'_, Self>) {
        let io = async move { gate.acquire().await.expect("the test never closes the gate").forget() };
        turn.detach(io, |_| IoDone(reply));
    }
}

impl Receive<IoDone> for Worker {
    fn receive(&mut self, IoDone(owed): IoDone, reply: Reply<()>, _: &mut Turn<'_, Self>) {
        let count = self.count_up();
        owed.send(count);
        reply.send(());
    }
}

impl Receive<PanicOutside> for Worker {
    fn receive(&mut self, _: PanicOutside, reply: Reply<String>, turn: &mut Turn<'_, Self>) {
        turn.detach(async { panic!("the I/O trips") }, |outcome| OutsideDone(outcome, reply));
    }
}

impl Receive<OutsideDone> for Worker {
    fn receive(&mut self, OutsideDone(outcome, owed): OutsideDone, reply: Reply<()>, _: &mut Turn<'_, Self>) {
        owed.send(outcome.map_or_else(|lost| lost.to_string(), |()| "no panic".to_owned()));
        reply.send(());
    }
}

impl Receive<Compute> for Worker {
    fn receive(&mut self, _: Compute, reply: Reply<bool>, turn: &mut Turn<'_, Self>) {
        let arbiter = std::thread::current().id();
        turn.offload(
            move || std::thread::current().id() != arbiter,
            |elsewhere| ComputeDone(elsewhere, reply),
        );
    }
}

impl Receive<ComputeDone> for Worker {
    fn receive(&mut self, ComputeDone(elsewhere, owed): ComputeDone, reply: Reply<()>, _: &mut Turn<'_, Self>) {
        owed.send(elsewhere.unwrap_or(false));
        reply.send(());
    }
}
