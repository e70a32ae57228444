use std::sync::Arc;

use futures_util::{FutureExt as _, future::join_all};
use serde_json::json;
use trireme_actors::{
    testkit::{TestKit, run},
    topology::Topology,
};

use super::{
    store::Moody,
    support::{Bench, Rules, things},
};

/// A bench over a store whose gate is closed once the thing `a` is there.
async fn held_back(kit: &TestKit) -> (Bench, Arc<Moody>) {
    let (bench, store) = Bench::start_with(kit, things(Rules::default(), None)).await;
    bench.made("a", json!({}), json!({})).await;
    store.arrived.forget_permits(usize::MAX);
    store.gate.forget_permits(usize::MAX);
    (bench, store)
}

#[test]
fn writers_of_one_key_are_served_in_order_and_those_who_left_are_passed_over() {
    run(Topology::trireme(), |kit| async move {
        let (bench, store) = held_back(&kit).await;
        let write = |n: usize| Box::pin(bench.merge("a", json!({"data": {n.to_string(): "x"}})));
        let mut writers: Vec<_> = (0..8).map(write).collect();
        for writer in &mut writers {
            assert!(
                writer.now_or_never().is_none(),
                "the first waits for the store, the others for the first"
            );
        }
        drop(writers.remove(3));
        drop(writers.remove(5));
        // Who asks only after the key was released starts from the watch cache, which may be behind.
        bench.all_have_asked().await;
        store.gate.add_permits(100);
        let revisions: Vec<i64> = join_all(writers)
            .await
            .into_iter()
            .map(|written| {
                written
                    .expect("there is no conflict")
                    .object
                    .stored()
                    .expect("it is stored")
                    .revision
            })
            .collect();
        assert!(revisions.is_sorted(), "{revisions:?}");
        let object = bench.now("a").await.expect("it is there");
        let keys: Vec<&str> = object["data"]
            .as_object()
            .expect("it has data")
            .keys()
            .map(String::as_str)
            .collect();
        assert_eq!(keys, ["0", "1", "2", "4", "5", "7"]);
        assert_eq!(
            store.arrived.available_permits(),
            6,
            "each write goes to the store once: none lost a race"
        );
    });
}

#[test]
fn a_write_that_has_begun_goes_on_without_its_caller() {
    run(Topology::trireme(), |kit| async move {
        let (bench, store) = held_back(&kit).await;
        let mut first = Box::pin(bench.merge("a", json!({"data": {"first": "x"}})));
        tokio::select! {
            _ = &mut first => panic!("the gate is closed"),
            arrived = store.arrived.acquire() => drop(arrived.expect("the store lives")),
        }
        drop(first);
        let mut second = Box::pin(bench.merge("a", json!({"data": {"second": "x"}})));
        assert!((&mut second).now_or_never().is_none(), "the key is still being written");
        let other = bench.now("a").await;
        assert_eq!(other.expect("reads do not wait").get("data"), None);
        store.gate.add_permits(100);
        second.await.expect("there is no conflict");
        let object = bench.now("a").await.expect("it is there");
        assert_eq!(object["data"], json!({"first": "x", "second": "x"}));
    });
}
