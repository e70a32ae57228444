//! Levels come and go with the configuration.

use super::*;

#[test]
fn a_level_that_is_gone_serves_those_who_are_in_it_and_nobody_else() {
    run(Topology::trireme(), |kit| async move {
        let fairness = started(&kit, one_level(&queue_of(5))).await;
        let seat = ask(&fairness, "alice", Duration::ZERO, kit.system.clock().now()).await;
        fairness.configure(FlowConfig::of([], []));
        eventually("the schema is gone", || {
            fairness.classify(&request("alice", &[], LIST_PODS)).schema() == "catch-all"
        })
        .await;
        let shown = dumped(&fairness).await;
        assert!(shown.contains("\none, 0, false, true, 0, 1, 1, 0, 0, 0\n"), "{shown}");
        drop(seat);
        let names = || {
            kit.system
                .snapshot()
                .into_iter()
                .map(|actor| actor.instance)
                .collect::<Vec<_>>()
        };
        kit.clock.elapse(Duration::from_secs(10)).await;
        eventually("its actor has stopped", || names() == ["catch-all", "exempt"]).await;
    });
}

#[test]
fn a_level_that_comes_back_at_once_is_served_again() {
    run(Topology::trireme(), |kit| async move {
        let fairness = started(&kit, one_level(&queue_of(5))).await;
        let schema = || fairness.classify(&request("alice", &[], LIST_PODS)).schema().to_owned();
        for _ in 0..20 {
            fairness.configure(FlowConfig::of([], []));
            eventually("the schema is gone", || schema() == "catch-all").await;
            fairness.configure(one_level(&queue_of(5)));
            eventually("the schema is back", || schema() == "one").await;
        }
    });
}

/// A level `one` with one share of all, whose queues are others than before.
async fn change_queues(fairness: &PriorityAndFairness, limit_response: &Value) {
    let limited = json!({ "nominalConcurrencyShares": 1, "borrowingLimitPercent": 0, "limitResponse": limit_response });
    fairness.configure(level_one("changed", &limited));
    eventually("the change counts", || {
        fairness.classify(&request("alice", &[], LIST_PODS)).level_uid() == "changed"
    })
    .await;
}

#[test]
fn who_waits_in_a_level_that_loses_its_queues_is_served_in_turn() {
    run(Topology::trireme(), |kit| async move {
        let fairness = started(&kit, one_level(&queue_of(5))).await;
        let now = kit.system.clock().now();
        let ask = || Box::pin(ask(&fairness, "alice", Duration::from_secs(15), now));
        let seat = ask().await;
        let mut waits = ask();
        assert!(waits.as_mut().now_or_never().is_none(), "the seat is taken");
        while !dumped(&fairness).await.contains("\none, 1, false, false, 1, 1, ") {}
        change_queues(&fairness, &json!({ "type": "Reject" })).await;
        assert_eq!(ask().await.err(), Some(Full), "nobody else waits");
        drop(seat);
        assert!(waits.await.is_ok());
        assert!(ask().await.is_ok(), "a free seat is taken");
    });
}

#[test]
fn queues_change_and_are_shown_while_as_many_wait_as_may() {
    run(Topology::trireme(), |kit| async move {
        let fairness = started(&kit, one_level(&queue_of(10_000))).await;
        let now = kit.system.clock().now();
        let ask = || Box::pin(ask(&fairness, "alice", Duration::from_secs(15), now));
        let flow = fairness.classify(&request("alice", &[], LIST_PODS));
        let seats = &flow.route().expect("it is classified").level.seats;
        let seat = ask().await;
        let mut waiting = Vec::new();
        for _ in 0..9_000 {
            let mut asked = ask();
            if asked.as_mut().now_or_never().is_none() {
                waiting.push(asked);
            }
        }
        assert!((8_000..8_192).contains(&waiting.len()), "{}", waiting.len());
        let all_wait = || usize::try_from(seats.take_peak()) == Ok(waiting.len() + 1);
        eventually("all are in their queue", all_wait).await;
        let queuing = json!({ "queues": 3, "handSize": 1, "queueLengthLimit": 1 });
        change_queues(&fairness, &json!({ "type": "Queue", "queuing": queuing })).await;
        let rows = fairness.dump(FlowDump::Queues).await;
        let pending = rows.lines().skip(1).filter_map(|row| row.split(',').nth(2));
        let pending: usize = pending.filter_map(|cell| cell.trim().parse::<usize>().ok()).sum();
        assert_eq!(pending, waiting.len(), "{rows}");
        drop((seat, waiting));
        let shown = || async { fairness.dump(FlowDump::Queues).await.lines().count() };
        while shown().await != 4 {}
    });
}

/// Lets the time pass until the seats have been divided anew.
async fn next_division(kit: &TestKit) {
    let period = Duration::from_secs(10);
    kit.clock.elapse(period).await;
    kit.clock.wait_for_sleep(period).await;
}

#[test]
fn a_level_without_queues_that_has_no_seats_serves_one_request_at_a_time() {
    run(Topology::trireme(), |kit| async move {
        let reject = json!({ "type": "Reject" });
        let idle = json!({ "nominalConcurrencyShares": 10, "lendablePercent": 100, "limitResponse": reject });
        let nothing = json!({ "nominalConcurrencyShares": 0, "limitResponse": reject });
        let fairness = started(&kit, level_one("idle", &idle)).await;
        let ask = || async { ask(&fairness, "alice", Duration::ZERO, kit.system.clock().now()).await };
        let seats = || {
            let flow = fairness.classify(&request("alice", &[], LIST_PODS));
            flow.route().map(|route| route.level.seats.limit())
        };
        next_division(&kit).await;
        eventually("the level has lent all its seats", || seats() == Some(0)).await;
        let seat = ask().await;
        assert!(seat.is_ok(), "it is alone");
        assert_eq!(ask().await.err(), Some(Full));
        drop(seat);
        next_division(&kit).await;
        eventually("that one was demand", || seats() > Some(0)).await;
        fairness.configure(level_one("nothing", &nothing));
        eventually("the level has no share", || seats() == Some(0)).await;
        let seat = ask().await;
        assert!(seat.is_ok(), "it is alone");
        assert_eq!(ask().await.err(), Some(Full));
    });
}
