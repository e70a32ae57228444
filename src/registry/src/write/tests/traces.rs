//! Traces of requests that wait.

use std::time::Duration;

use futures_util::FutureExt as _;
use serde_json::json;
use trireme_actors::{
    testkit::{TestKit, run},
    topology::Topology,
};

use super::{
    store::Puts,
    support::{Bench, Rules, creation, patching, thing, things},
};
use crate::{
    fixtures::get,
    request::{Freshness, PatchKind, WriteOptions},
    trace::Trace,
};

fn begin(kit: &TestKit) -> Trace {
    let clock = kit.system.clock();
    Trace::begin(clock, clock.now())
}

/// The steps with the milliseconds since the one before.
fn steps(trace: &Trace) -> Vec<(&'static str, u128)> {
    let mut before = Duration::ZERO;
    let step = |passed: crate::trace::Passed| {
        let took = (passed.at - before).as_millis();
        before = passed.at;
        (passed.step.name(), took)
    };
    trace.steps().into_iter().map(step).collect()
}

#[test]
fn the_time_of_a_create_is_where_the_store_was_slow() {
    run(Topology::trireme(), |kit| async move {
        let (bench, store) = Bench::start_with(&kit, things(Rules::default(), None)).await;
        store.gate.forget_permits(usize::MAX);
        let trace = begin(&kit);
        let mut request = creation(thing("a", json!({}), json!({})), WriteOptions::default());
        request.target.trace = trace.clone();
        let slow = async {
            store.arrived.acquire().await.expect("the store is open").forget();
            kit.clock.advance(Duration::from_millis(700));
            store.gate.add_permits(1);
        };
        let (created, ()) = tokio::join!(bench.registry.create(request), slow);
        created.expect("it is created");
        let expected = [
            ("decoded", 0),
            ("admission changed", 0),
            ("validated and admitted", 0),
            ("stored", 700),
        ];
        assert_eq!(steps(&trace), expected);
    });
}

#[test]
fn a_write_that_waits_for_another_tells_both_waits() {
    run(Topology::trireme(), |kit| async move {
        let (bench, store) = Bench::start_with(&kit, things(Rules::default(), None)).await;
        bench.made("a", json!({}), json!({})).await;
        store.arrived.forget_permits(usize::MAX);
        store.gate.forget_permits(usize::MAX);
        let trace = begin(&kit);
        let mut request = patching("a", PatchKind::Merge, &json!({"data": {"mine": "x"}}));
        request.target.trace = trace.clone();
        let slow = async {
            bench.all_have_asked().await;
            for millis in [300, 200] {
                store.arrived.acquire().await.expect("the store is open").forget();
                kit.clock.advance(Duration::from_millis(millis));
                store.gate.add_permits(1);
            }
        };
        let (first, second, ()) = tokio::join!(
            bench.merge("a", json!({"data": {"other": "x"}})),
            bench.registry.patch(request),
            slow
        );
        first.expect("there is no conflict");
        second.expect("there is no conflict");
        let expected = [
            ("decoded", 0),
            ("key taken", 300),
            ("admission changed", 0),
            ("validated and admitted", 0),
            ("stored", 200),
        ];
        assert_eq!(steps(&trace), expected);
    });
}

#[test]
fn a_write_without_an_outcome_is_not_traced_as_stored() {
    run(Topology::trireme(), |kit| async move {
        let (bench, store) = Bench::start_with(&kit, things(Rules::default(), None)).await;
        store.next_puts(Puts::LostUnheard);
        let trace = begin(&kit);
        let mut request = creation(thing("a", json!({}), json!({})), WriteOptions::default());
        request.target.trace = trace.clone();
        bench
            .registry
            .create(request)
            .await
            .expect_err("its outcome is unknown");
        assert_eq!(steps(&trace).last(), Some(&("store failed", 0)));
    });
}

#[test]
fn a_read_tells_how_long_it_waited_for_the_cache() {
    run(Topology::trireme(), |kit| async move {
        let bench = Bench::start(&kit, Rules::default()).await;
        bench.made("a", json!({}), json!({})).await;
        let trace = begin(&kit);
        let mut request = get("ns/a");
        request.freshness = Freshness::NotOlderThan(bench.revision().await + 1);
        request.target.trace = trace.clone();
        let mut read = Box::pin(bench.registry.get(request));
        assert!(read.as_mut().now_or_never().is_none(), "the revision is to come");
        kit.clock.advance(Duration::from_millis(400));
        bench
            .merge("a", json!({"data": {"new": "x"}}))
            .await
            .expect("there is no conflict");
        read.await.expect("the revision has come");
        assert_eq!(steps(&trace), [("cache caught up", 400)]);
        let trace = begin(&kit);
        let mut request = get("ns/a");
        request.target.trace = trace.clone();
        bench.registry.get(request).await.expect("it is there");
        assert_eq!(steps(&trace).first(), Some(&("revision known", 0)));
    });
}
