//! A busy actor starves neither its timers nor its neighbours.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::testkit::{NoteProbe, PROBE, TestKit, assert_topology_happened, entry, eventually, run};
use crate::topology::{Timer, Topology, TopologyRow};
use crate::{Actor, ActorKind, Caller, Handle, Message, Owned, Receive, Reply, Turn};

const MILL: ActorKind = ActorKind::named("Mill");
static TABLE: &[TopologyRow] = &[
    TopologyRow {
        timers: &[Timer {
            name: "mill-timer",
            period: Duration::from_secs(10),
            reason: "a test",
        }],
        ..entry(MILL)
    },
    entry(PROBE),
];

/// An actor whose mailbox is never empty: each grain asks for another before its turn ends.
struct Mill {
    me: Option<Handle<Mill>>,
    ticks: Arc<AtomicU64>,
}

struct Learn(Handle<Mill>);
struct Grain;
struct Tick;
struct Ping;

impl Message for Learn {
    type Reply = ();
}
impl Message for Grain {
    type Reply = ();
}
impl Message for Tick {
    type Reply = ();
}
impl Message for Ping {
    type Reply = ();
}

impl Actor for Mill {
    const KIND: ActorKind = MILL;
}

impl Receive<Learn> for Mill {
    fn receive(&mut self, Learn(me): Learn, reply: Reply<()>, _: &mut Turn<'_, Self>) {
        self.me = Some(me);
        reply.send(());
    }
}

impl Receive<Grain> for Mill {
    fn receive(&mut self, _: Grain, reply: Reply<()>, _: &mut Turn<'_, Self>) {
        if let Some(me) = &self.me {
            while me.tell(Grain).is_ok() {}
        }
        reply.send(());
    }
}

impl Receive<Tick> for Mill {
    fn receive(&mut self, _: Tick, reply: Reply<()>, _: &mut Turn<'_, Self>) {
        self.ticks.fetch_add(1, Ordering::Relaxed);
        reply.send(());
    }
}

/// A mill that grinds for ever, and whether it still does.
async fn busy_mill(kit: &TestKit) -> (Owned<Mill>, Handle<Mill>, Arc<AtomicU64>) {
    let ticks = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&ticks);
    let owned = kit
        .system
        .spawn("", move || Mill {
            me: None,
            ticks: Arc::clone(&counted),
        })
        .expect("in the table");
    let mill = owned.for_caller(Caller::Outside).expect("outside may ask");
    mill.ask(Learn(mill.clone())).await.expect("it is idle");
    mill.tell(Grain).expect("it is idle");
    eventually("the mill grinds", || mill.snapshot().turns > 1000).await;
    (owned, mill, ticks)
}

#[test]
fn timers_fire_although_the_mailbox_is_never_empty() {
    run(Topology::new(TABLE).expect("sound"), |kit| async move {
        let (owned, mill, ticks) = busy_mill(&kit).await;
        let refused = owned.start_timer(kit.system.tasks(), "another", || Tick).err();
        assert_eq!(
            refused.map(|error| error.to_string()).as_deref(),
            Some("Mill declares no timer another")
        );
        let timer = owned
            .start_timer(kit.system.tasks(), "mill-timer", || Tick)
            .expect("it is declared");
        for round in 1..=3 {
            kit.clock.elapse(Duration::from_secs(10)).await;
            eventually("the tick is handled", || ticks.load(Ordering::Relaxed) == round).await;
        }
        let snapshot = mill.snapshot();
        assert!(
            snapshot.permits_in_use >= snapshot.permits - 1,
            "the mill was flooded all the time"
        );
        timer.cancel();
        timer.done().await;
    });
}

#[test]
fn a_busy_actor_lets_its_neighbours_on_the_thread_serve() {
    run(Topology::new(TABLE).expect("sound"), |kit| async move {
        let (_, mill, _) = busy_mill(&kit).await;
        let (probe, mut notes) = NoteProbe::spawn(&kit.system).expect("in the table");
        let probe = probe.for_caller(Caller::Outside).expect("outside may ask");
        let turns = mill.snapshot().turns;
        for _ in 0..10 {
            probe.ask(Ping).await.expect("the probe serves");
            assert!(notes.recv().await.is_some());
        }
        eventually("the mill goes on", || mill.snapshot().turns > turns).await;
    });
}

#[test]
fn a_handle_that_is_used_in_anothers_name_is_found_out() {
    run(Topology::new(TABLE).expect("sound"), |kit| async move {
        let (_owned, _mill, _) = busy_mill(&kit).await;
        let held = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            assert_topology_happened(&kit.system, "actors");
        }));
        let panic = held.expect_err("the mill notes itself with a handle for callers from outside");
        let message = panic.downcast_ref::<String>().cloned().unwrap_or_default();
        assert!(message.starts_with("used with a handle of another's"), "{message}");
    });
}
