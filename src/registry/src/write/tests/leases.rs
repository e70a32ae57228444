//! Leases of objects that expire.

use std::{sync::atomic::Ordering, time::Duration};

use metrics_exporter_prometheus::PrometheusBuilder;
use serde_json::json;
use trireme_actors::{testkit::run, topology::Topology};
use trireme_storage::StorageError;

use super::{
    super::leases::LeasePool,
    store::Puts,
    support::{Bench, Rules, things},
};
use crate::{
    definition::ResourceDefinition,
    fixtures::{epoch, open_store},
    time_to_live::TimeToLive,
};

fn expiring(ttl_s: u64, reuse_s: u64) -> ResourceDefinition {
    ResourceDefinition {
        ttl: Some(TimeToLive {
            ttl: Duration::from_secs(ttl_s),
            lease_reuse: Duration::from_secs(reuse_s),
        }),
        ..things(Rules::default(), None)
    }
}

#[test]
fn objects_that_are_written_shortly_after_each_other_share_a_lease() {
    run(Topology::trireme(), |kit| async move {
        let (bench, store) = Bench::start_with(&kit, expiring(3600, 60)).await;
        let granted = || store.granted.lock().expect("no test panics here").clone();
        for name in ["a", "b", "c"] {
            bench.made(name, json!({}), json!({})).await;
        }
        assert_eq!(granted(), [Duration::from_secs(3660)]);
        kit.clock.advance(Duration::from_secs(59));
        bench.made("d", json!({}), json!({})).await;
        assert_eq!(granted().len(), 1);
        kit.clock.advance(Duration::from_secs(2));
        bench.made("e", json!({}), json!({})).await;
        assert_eq!(granted().len(), 2, "it would end too early");
    });
}

#[test]
fn the_objects_of_a_lease_are_recorded_when_another_follows() {
    run(Topology::trireme(), |_| async move {
        let recorder = PrometheusBuilder::new().build_recorder();
        let _guard = metrics::set_default_local_recorder(&recorder);
        let recorded = || {
            let page = recorder.handle().render();
            let lines = page
                .lines()
                .filter_map(|line| line.strip_prefix("etcd_lease_object_counts_"));
            lines
                .filter(|line| !line.contains('{'))
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        let (_dir, store) = open_store();
        let (pool, life) = (
            LeasePool::default(),
            expiring(3600, 60).ttl.expect("its objects expire"),
        );
        for _ in 0..3 {
            pool.take(&*store, life, epoch()).await.expect("it is granted");
        }
        assert_eq!(recorded(), [""; 0]);
        let later = epoch() + Duration::from_secs(61);
        let second = pool.take(&*store, life, later).await.expect("it is granted");
        assert_eq!(recorded(), ["sum 3", "count 1"]);
        pool.settle(&*store, second, &Err(StorageError::LeaseNotFound)).await;
        assert_eq!(recorded(), ["sum 4", "count 2"]);
    });
}

#[test]
fn the_window_is_a_twentieth_of_the_time_to_live_at_most_and_a_thousand_objects() {
    run(Topology::trireme(), |kit| async move {
        let (bench, store) = Bench::start_with(&kit, expiring(200, 60)).await;
        let granted = || store.granted.lock().expect("no test panics here").clone();
        store.gate.add_permits(2000);
        for number in 0..1001 {
            bench.made(&format!("o{number}"), json!({}), json!({})).await;
        }
        assert_eq!(granted(), [Duration::from_secs(210); 2]);
    });
}

#[test]
fn a_lease_that_nothing_hangs_on_is_given_back() {
    run(Topology::trireme(), |kit| async move {
        let (bench, store) = Bench::start_with(&kit, expiring(3600, 60)).await;
        let create = |name: &str| {
            bench.create(json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": name}}))
        };
        let revoked = || store.revoked.load(Ordering::SeqCst);
        store.next_puts(Puts::Refused);
        create("a").await.expect_err("the store is away");
        assert_eq!(revoked(), 1);
        store.next_puts(Puts::Taken);
        create("a").await.expect_err("the name is taken");
        assert_eq!(revoked(), 2);
        store.next_puts(Puts::LostUnheard);
        create("b").await.expect_err("there is no answer");
        assert_eq!(revoked(), 2, "it may be in use");
        for puts in [Puts::Refused, Puts::Taken] {
            store.next_puts(puts);
            create("c").await.expect_err("it is not written");
            assert_eq!(revoked(), 2, "another object may have it");
        }
    });
}

#[test]
fn a_lease_that_the_store_has_ended_is_not_used_again() {
    run(Topology::trireme(), |kit| async move {
        let (bench, store) = Bench::start_with(&kit, expiring(3600, 60)).await;
        bench.made("a", json!({}), json!({})).await;
        store.end_leases().await;
        bench.made("b", json!({}), json!({})).await;
        assert_eq!(store.granted.lock().expect("no test panics here").len(), 2);
    });
}
