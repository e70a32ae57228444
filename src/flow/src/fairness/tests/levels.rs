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
