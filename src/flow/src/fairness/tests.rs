//! Priority and fairness in a system of actors, and its parts.

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::FutureExt as _;
use serde_json::{Value, json};
use trireme_actors::{
    Clock,
    testkit::{TestKit, assert_topology_happened, eventually, run},
    topology::Topology,
};

use super::{
    FlowConfig, FlowDump, FlowRequest, FlowSubject, PriorityAndFairness, bootstrap_objects, config::QueueShape,
    queues::FairQueues,
};
use crate::{FlowDemand, FlowSeat, Full, InFlightLimits, MaxInFlight, RequestDetails, RequestKind, WorkEstimate};

mod dumps;
mod leaving;
mod levels;
mod limits;
mod waiting;

const LIST_PODS: FlowSubject<'_> = FlowSubject::Resource {
    group: "",
    resource: "pods",
    subresource: "",
    namespace: "ns",
};

fn request<'r>(user: &'r str, groups: &'r [String], subject: FlowSubject<'r>) -> FlowRequest<'r> {
    FlowRequest {
        user,
        groups,
        verb: "list",
        subject,
    }
}

fn groups(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn defaults() -> FlowConfig {
    let of_kind = |kind: &'static str| {
        let objects = bootstrap_objects().iter().map(|default| &default.object);
        objects.filter(move |object| object["kind"] == kind)
    };
    FlowConfig::of(of_kind("FlowSchema"), of_kind("PriorityLevelConfiguration"))
}

/// A level `one` with one share of all, and a schema that sends alice and bob to it.
fn one_level(limit_response: &Value) -> FlowConfig {
    level_one(
        "level-uid",
        &json!({ "nominalConcurrencyShares": 1, "borrowingLimitPercent": 0, "limitResponse": limit_response }),
    )
}

/// A level `one` with three seats and one queue of this length, and a schema that sends alice and bob to it.
fn three_seats_and_a_queue(length: u32) -> FlowConfig {
    let queuing = json!({ "queues": 1, "handSize": 1, "queueLengthLimit": length });
    let limited = json!({
        "nominalConcurrencyShares": 5, "borrowingLimitPercent": 0,
        "limitResponse": { "type": "Queue", "queuing": queuing },
    });
    level_one("level-uid", &limited)
}

/// The demand of a read that takes so many seats, and waits for 15 s.
fn demand_of(seats: u32, now: Instant) -> FlowDemand {
    FlowDemand {
        work: WorkEstimate::of_seats(seats),
        kind: RequestKind::ReadOnly,
        is_watch: false,
        deadline: now + Duration::from_secs(15),
    }
}

/// A level `one` like this, and a schema that sends alice and bob to it.
fn level_one(uid: &str, limited: &Value) -> FlowConfig {
    let level = json!({
        "metadata": { "name": "one", "uid": uid },
        "spec": { "type": "Limited", "limited": limited },
    });
    let everything = json!([{ "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"] }]);
    let subjects =
        json!([{ "kind": "User", "user": { "name": "alice" } }, { "kind": "User", "user": { "name": "bob" } }]);
    let schema = json!({
        "metadata": { "name": "one", "uid": "schema-uid" },
        "spec": {
            "matchingPrecedence": 5,
            "priorityLevelConfiguration": { "name": "one" },
            "distinguisherMethod": { "type": "ByUser" },
            "rules": [{ "subjects": subjects, "resourceRules": everything }],
        },
    });
    FlowConfig::of([&schema], [&level])
}

fn queue_of(length: usize) -> Value {
    json!({ "type": "Queue", "queuing": { "queues": 8, "handSize": 1, "queueLengthLimit": length } })
}

/// Priority and fairness with six seats in all, one of which is that of the level `one`: catch-all has five shares.
async fn started(kit: &TestKit, config: FlowConfig) -> PriorityAndFairness {
    let fairness = PriorityAndFairness::start(&kit.system, 6).expect("the actors start");
    fairness.configure(config);
    eventually("the configuration counts", || {
        fairness.classify(&request("alice", &[], LIST_PODS)).schema() == "one"
    })
    .await;
    fairness
}

async fn ask(fairness: &PriorityAndFairness, user: &str, within: Duration, now: Instant) -> Result<FlowSeat, Full> {
    let flow = fairness.classify(&request(user, &[], LIST_PODS));
    let demand = FlowDemand {
        work: WorkEstimate::of_seats(1),
        kind: RequestKind::ReadOnly,
        is_watch: false,
        deadline: now + within,
    };
    fairness.acquire(&flow, demand, RequestDetails::default()).await
}

/// The table of levels with one blank after each comma.
async fn dumped(fairness: &PriorityAndFairness) -> String {
    unpadded(&fairness.dump(FlowDump::PriorityLevels).await)
}

fn unpadded(table: &str) -> String {
    let cells = |line: &str| line.split(',').map(str::trim).collect::<Vec<_>>().join(", ");
    table.lines().map(|line| cells(line) + "\n").collect()
}

#[test]
fn requests_are_classified_as_by_the_default_schemas() {
    run(Topology::trireme(), |kit| async move {
        let fairness = PriorityAndFairness::start(&kit.system, 600).expect("the actors start");
        fairness.configure(defaults());
        let all = groups(&["system:authenticated"]);
        let of = |user: &str, groups: &[String], verb: &str, subject: FlowSubject<'_>| {
            let flow = fairness.classify(&FlowRequest {
                user,
                groups,
                verb,
                subject,
            });
            format!("{} {}", flow.schema(), flow.level())
        };
        eventually("the configuration counts", || {
            of("x", &all, "get", LIST_PODS).starts_with("global")
        })
        .await;
        let leases = |namespace| FlowSubject::Resource {
            group: "coordination.k8s.io",
            resource: "leases",
            subresource: "",
            namespace,
        };
        let masters = groups(&["system:masters", "system:authenticated"]);
        let accounts = groups(&["system:serviceaccounts", "system:authenticated"]);
        let scheduler = "system:kube-scheduler";
        let in_system = "system:serviceaccount:kube-system:x";
        assert_eq!(of("admin", &masters, "list", LIST_PODS), "exempt exempt");
        assert_eq!(of("x", &all, "get", FlowSubject::Path("/livez")), "probes exempt");
        assert_eq!(of("x", &all, "get", FlowSubject::Path("/livez/ping")), "probes exempt");
        assert_eq!(
            of("x", &all, "get", FlowSubject::Path("/livez-ping")),
            "global-default global-default"
        );
        assert_eq!(
            of(scheduler, &all, "update", leases("kube-system")),
            "system-leader-election leader-election"
        );
        assert_eq!(
            of(scheduler, &all, "list", leases("kube-system")),
            "kube-scheduler workload-high"
        );
        assert_eq!(
            of(in_system, &accounts, "list", LIST_PODS),
            "kube-system-service-accounts workload-high"
        );
        assert_eq!(
            of("system:serviceaccount:ns:x", &accounts, "list", LIST_PODS),
            "service-accounts workload-low"
        );
        assert_eq!(
            of(
                "system:node:n",
                &groups(&["system:nodes"]),
                "get",
                leases("kube-node-lease")
            ),
            "system-node-high node-high"
        );
        assert_eq!(
            of("system:node:n", &groups(&["system:nodes"]), "get", LIST_PODS),
            "system-nodes system"
        );
        assert_eq!(of("nobody", &[], "get", LIST_PODS), "catch-all catch-all");
    });
}

#[test]
fn a_free_seat_is_taken_without_the_actor() {
    run(Topology::trireme(), |kit| async move {
        let fairness = started(&kit, one_level(&queue_of(10))).await;
        let turns = || kit.system.snapshot().iter().map(|actor| actor.turns).sum::<u64>();
        let before = turns();
        for _ in 0..100 {
            assert!(
                ask(&fairness, "alice", Duration::ZERO, kit.system.clock().now())
                    .await
                    .is_ok()
            );
        }
        assert_eq!(turns(), before);
    });
}

#[test]
fn a_level_without_queues_refuses_at_once() {
    run(Topology::trireme(), |kit| async move {
        let fairness = started(&kit, one_level(&json!({ "type": "Reject" }))).await;
        let now = kit.system.clock().now();
        let seat = ask(&fairness, "alice", Duration::from_secs(15), now).await;
        assert!(seat.is_ok());
        assert_eq!(
            ask(&fairness, "bob", Duration::from_secs(15), now).await.err(),
            Some(Full)
        );
        drop(seat);
        assert!(ask(&fairness, "bob", Duration::from_secs(15), now).await.is_ok());
        let shown = dumped(&fairness).await;
        assert!(shown.contains("\none, 0, true, false, 0, 0, 2, 1, 0, 0\n"), "{shown}");
    });
}

#[test]
fn a_request_waits_for_its_turn_and_gets_the_seat_that_is_given_back() {
    run(Topology::trireme(), |kit| async move {
        let fairness = started(&kit, one_level(&queue_of(1))).await;
        let now = kit.system.clock().now();
        let seat = ask(&fairness, "alice", Duration::from_secs(15), now).await;
        let waits = ask(&fairness, "alice", Duration::from_secs(15), now);
        let give_back = async {
            let waiting = |shown: &str| shown.contains("\none, 1, false, false, 1, 1, 1, 0, 0, 0\n");
            while !waiting(&dumped(&fairness).await) {}
            // The queue is full, and a refusal does not wait.
            assert_eq!(
                ask(&fairness, "alice", Duration::from_secs(15), now).await.err(),
                Some(Full)
            );
            drop(seat);
        };
        let (got, ()) = futures_util::join!(waits, give_back);
        assert!(got.is_ok());
        // The other limiter's actors belong to the same room.
        let classes = MaxInFlight::start(
            &kit.system,
            InFlightLimits {
                read_only: 1,
                mutating: 1,
            },
        )
        .expect("the actors start");
        let _one = classes.acquire(RequestKind::ReadOnly).await;
        assert_eq!(classes.acquire(RequestKind::ReadOnly).await.err(), Some(Full));
        assert_topology_happened(&kit.system, "flow");
    });
}

#[test]
fn seats_of_a_write_stay_taken_while_its_watchers_get_their_events() {
    run(Topology::trireme(), |kit| async move {
        let fairness = started(&kit, one_level(&json!({ "type": "Reject" }))).await;
        let now = || kit.system.clock().now();
        let flow = fairness.classify(&request("alice", &[], LIST_PODS));
        let demand = FlowDemand {
            work: WorkEstimate {
                initial_seats: 1,
                final_seats: 1,
                additional_latency: Duration::from_millis(15),
            },
            kind: RequestKind::Mutating,
            is_watch: false,
            deadline: now(),
        };
        let seat = fairness.acquire(&flow, demand, RequestDetails::default()).await;
        assert!(seat.is_ok());
        drop(seat);
        let shown = dumped(&fairness).await;
        assert!(shown.contains("\none, 0, true, false, 0, 0, 1, 0, 0, 0\n"), "{shown}");
        let refused = ask(&fairness, "bob", Duration::from_secs(15), now()).await;
        assert_eq!(refused.err(), Some(Full));
        kit.clock.elapse(Duration::from_millis(15)).await;
        let is_free = || {
            let asked = ask(&fairness, "bob", Duration::ZERO, now());
            futures_util::FutureExt::now_or_never(asked).is_some_and(|seat| seat.is_ok())
        };
        eventually("the seat is free", is_free).await;
    });
}

#[test]
fn who_waits_too_long_is_refused_and_takes_no_seat_later() {
    run(Topology::trireme(), |kit| async move {
        let fairness = started(&kit, one_level(&queue_of(5))).await;
        let now = kit.system.clock().now();
        let seat = ask(&fairness, "alice", Duration::from_secs(15), now).await;
        let waits = ask(&fairness, "alice", Duration::from_secs(15), now);
        let (refused, ()) = futures_util::join!(waits, kit.clock.elapse(Duration::from_secs(15)));
        assert_eq!(refused.err(), Some(Full));
        drop(seat);
        let later = ask(&fairness, "alice", Duration::from_secs(30), kit.system.clock().now()).await;
        assert!(later.is_ok());
        let shown = dumped(&fairness).await;
        // Its seat came from a queue if the actor had not looked at the one that left before.
        assert!(shown.contains(", false, false, 0, 1, 2, 1, 0, 1\n"), "{shown}");
    });
}

#[test]
fn a_flood_of_one_flow_does_not_hold_up_another() {
    let now = Clock::system().now();
    let shape = QueueShape {
        queues: 64,
        hand_size: 6,
        queue_length_limit: 50,
    };
    let mut queues = FairQueues::new(shape, now);
    let flood = 7_u64;
    for n in 0..200 {
        let place = queues.choose(now, 1, flood);
        if queues.has_room(&place, 0) {
            assert!(queues.enqueue(place, WorkEstimate::of_seats(1), ("flood", n)) > 0);
        }
    }
    // One that was let through a moment ago, so that the flood's queues are behind in virtual time.
    let first = queues.dispatch(now, 1, |_| true).map(|next| next.item.0);
    assert_eq!(first, Some("flood"));
    let place = queues.choose(now, 1, 0);
    assert!(queues.has_room(&place, 0));
    let _length = queues.enqueue(place, WorkEstimate::of_seats(1), ("mouse", 0));
    let order: Vec<&str> = (0..7)
        .filter_map(|_| queues.dispatch(now, 1, |_| true))
        .map(|next| next.item.0)
        .collect();
    assert!(
        order.contains(&"mouse"),
        "behind at most one request of each queue of the flood: {order:?}"
    );
}

#[test]
fn a_hand_has_different_queues_and_reaches_all() {
    let now = Clock::system().now();
    let shape = QueueShape {
        queues: 8,
        hand_size: 8,
        queue_length_limit: 1,
    };
    let mut queues = FairQueues::new(shape, now);
    let mut places = 0;
    loop {
        let place = queues.choose(now, 1, 12_345);
        if !queues.has_room(&place, 0) {
            break;
        }
        queues.enqueue(place, WorkEstimate::of_seats(1), ());
        places += 1;
    }
    assert_eq!(places, 8);
    let used: BTreeSet<usize> = queues
        .states()
        .filter(|(queue, _)| queue.pending > 0)
        .map(|(queue, _)| queue.index)
        .collect();
    assert_eq!(used.len(), 8);
}

#[test]
fn the_default_objects_are_read() {
    let mandatory: Vec<_> = bootstrap_objects()
        .iter()
        .filter(|default| default.is_mandatory)
        .collect();
    assert_eq!((bootstrap_objects().len(), mandatory.len()), (19, 4));
    let config = Arc::new(defaults());
    assert_eq!((config.schemas.len(), config.levels.len()), (11, 8));
}
