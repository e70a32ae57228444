//! The table keeps its rules, and the docs show it.

use std::collections::BTreeSet;
use std::time::Duration;

use super::worker::{self, Worker};
use crate::testkit::{assert_topology_happened, entry, run};
use crate::topology::{CallKind, TABLE, Timer, Topology, TopologyError, TopologyRow};
use crate::{Actor, ActorKind, Caller, HandleUse, SpawnError};

const LOW: ActorKind = ActorKind::named("Low");
const HIGH: ActorKind = ActorKind::named("High");

const BEGIN: &str = "<!-- topology:begin -->\n";
const END: &str = "<!-- topology:end -->";

#[test]
fn an_ask_upwards_is_refused() {
    static UP: &[TopologyRow] = &[
        TopologyRow {
            rank: 1,
            asked_by: &[Caller::Outside, Caller::Actor(HIGH)],
            ..entry(LOW)
        },
        TopologyRow {
            rank: 2,
            asked_by: &[Caller::Actor(LOW)],
            ..entry(HIGH)
        },
    ];
    let error = Topology::new(UP).expect_err("low asks high");
    assert_eq!(
        error.to_string(),
        "Low (rank 1) may not ask High (rank 2): asks go down in rank only"
    );
}

#[test]
fn a_note_upwards_is_fine() {
    static NOTE: &[TopologyRow] = &[
        TopologyRow {
            rank: 1,
            asked_by: &[Caller::Actor(HIGH)],
            ..entry(LOW)
        },
        TopologyRow {
            rank: 2,
            noted_by: &[Caller::Actor(LOW)],
            ..entry(HIGH)
        },
    ];
    assert!(Topology::new(NOTE).is_ok());
}

#[test]
fn an_actor_may_not_ask_its_own_kind() {
    static SELF: &[TopologyRow] = &[TopologyRow {
        asked_by: &[Caller::Actor(LOW)],
        ..entry(LOW)
    }];
    assert!(matches!(Topology::new(SELF), Err(TopologyError::Upward { .. })));
}

#[test]
fn duplicates_and_strangers_are_refused() {
    static TWICE: &[TopologyRow] = &[entry(LOW), entry(LOW)];
    assert_eq!(Topology::new(TWICE).err(), Some(TopologyError::Duplicate(LOW)));
    static STRANGER: &[TopologyRow] = &[TopologyRow {
        asked_by: &[Caller::Actor(HIGH)],
        ..entry(LOW)
    }];
    assert_eq!(
        Topology::new(STRANGER).err(),
        Some(TopologyError::UnknownCaller {
            caller: HIGH,
            callee: LOW
        })
    );
}

#[test]
fn a_handle_is_given_out_along_declared_edges_only() {
    run(worker::topology(), |kit| async move {
        let (owned, _) = worker::spawn(&kit, "");
        let refused = owned
            .for_caller(ActorKind::REGISTRY)
            .err()
            .map(|error| error.to_string());
        assert_eq!(
            refused.as_deref(),
            Some("Worker does not list Registry among those who may ask it")
        );
        assert!(owned.notes_for(ActorKind::REGISTRY).is_err());
        assert!(owned.notes_for(Caller::Outside).is_ok(), "who may ask may tell");
    });
}

#[test]
fn an_actor_without_a_row_is_not_spawned() {
    run(Topology::trireme(), |kit| async move {
        let error = kit.system.spawn("", Worker::default).err();
        assert_eq!(error, Some(SpawnError::NotInTopology(Worker::KIND)));
    });
}

/// Follows the asks from `kind` downwards, independently of the ranks.
fn assert_no_way_back(kind: ActorKind, path: &mut Vec<ActorKind>, done: &mut BTreeSet<ActorKind>) {
    assert!(!path.contains(&kind), "asks go round: {path:?}, {kind}");
    if done.contains(&kind) {
        return;
    }
    path.push(kind);
    for callee in TABLE
        .iter()
        .filter(|entry| entry.asked_by.contains(&Caller::Actor(kind)))
    {
        assert_no_way_back(callee.kind, path, done);
    }
    path.pop();
    done.insert(kind);
}

#[test]
fn the_table_has_no_cycle_and_ranks_fall_along_asks() {
    Topology::new(TABLE).expect("the table keeps its rules");
    let mut done = BTreeSet::new();
    for entry in TABLE {
        assert_no_way_back(entry.kind, &mut Vec::new(), &mut done);
        assert!(
            entry.permits > 0 && !entry.permits_reason.is_empty(),
            "{} has a bound with a reason",
            entry.kind
        );
    }
}

#[test]
fn the_docs_show_the_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/actors.md");
    let text = std::fs::read_to_string(path).expect("the page is there");
    let (head, rest) = text.split_once(BEGIN).expect("the page has the begin marker");
    let (shown, tail) = rest.split_once(END).expect("the page has the end marker");
    let table = Topology::trireme().markdown();
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(path, format!("{head}{BEGIN}{table}{END}{tail}")).expect("the page can be written");
        return;
    }
    assert_eq!(
        shown, table,
        "docs/actors.md is stale; run this test with UPDATE_EXPECT=1"
    );
}

/// The message of the panic that a table which is not true ends in.
fn untruth(table: &'static [TopologyRow]) -> Option<String> {
    let topology = Topology::new(table).expect("it keeps the rules");
    run(topology, |kit| async move {
        let (_owned, worker) = worker::spawn(&kit, "");
        worker.ask(worker::Count()).await.expect("it serves");
        let held = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            assert_topology_happened(&kit.system, "actors");
        }));
        held.err().and_then(|panic| panic.downcast_ref::<String>().cloned())
    })
}

#[test]
fn a_table_that_declares_more_than_happens_is_found_out() {
    static TRUE: &[TopologyRow] = &[entry(Worker::KIND)];
    assert_eq!(untruth(TRUE), None);
    static IDLE: &[TopologyRow] = &[
        TopologyRow {
            noted_by: &[Caller::Actor(HIGH)],
            ..entry(Worker::KIND)
        },
        TopologyRow {
            asked_by: &[],
            ..entry(HIGH)
        },
    ];
    let idle = untruth(IDLE).expect("High never notes");
    assert!(idle.starts_with("declared, but never used"), "{idle}");
    static STOPPED: &[TopologyRow] = &[TopologyRow {
        timers: &[Timer {
            name: "work",
            period: Duration::from_secs(1),
            reason: "a test",
        }],
        ..entry(Worker::KIND)
    }];
    let stopped = untruth(STOPPED).expect("the timer does not run");
    assert_eq!(stopped, "the timer work is declared and does not run");
}

#[test]
fn an_edge_that_was_used_is_remembered() {
    static ASKS: &[TopologyRow] = &[entry(Worker::KIND)];
    let topology = Topology::new(ASKS).expect("it keeps the rules");
    run(topology, |kit| async move {
        let (_owned, worker) = worker::spawn(&kit, "");
        worker.ask(worker::Count()).await.expect("it serves");
        let edges: Vec<HandleUse> = kit.system.edges_into("actors").flat_map(|edges| edges.used()).collect();
        let ask = HandleUse {
            caller: Caller::Outside,
            callee: Worker::KIND,
            verb: CallKind::Ask,
        };
        assert_eq!(edges, [ask]);
    });
}
