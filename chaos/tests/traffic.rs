//! The traffic over a real world without faults: what it records is what the checkers need, and it breaks no promise.

mod common;

use std::sync::Arc;

use common::{PATIENCE, turn, until};
use serde_json::Value;
use tokio::sync::watch;
use trireme_chaos::checks::{Validity, check};
use trireme_chaos::history::{History, Nanos, PromisedLimits, Recorder, Run, TruthEntry, TruthRecord};
use trireme_chaos::traffic::{
    Addresses, Desk, INTERNAL, Phase, Traffic, TrafficPace, read_logs, record_audit, record_caches, record_the_end,
};
use trireme_chaos::truth::Truth;
use trireme_chaos::world::{ClientRoute, World, WorldSettings};

const SEED: u64 = 7;
/// One minute.
const UNHURRIED: Nanos = 60_000_000_000;
const ELECTION: &str = "/apis/coordination.k8s.io/v1/namespaces/chaos-a/leases/election";

/// The transitions that the traffic's election has come to.
async fn transitions(world: &World) -> Option<u64> {
    let address = world.replica_address(0, ClientRoute::Direct).ok()?;
    let (_, body) = world.probe().get(address, ELECTION, PATIENCE).await.ok()?;
    let lease: Value = serde_json::from_slice(&body).ok()?;
    lease["spec"]["leaseTransitions"].as_u64()
}

/// A run without a fault, until the election's lease has changed hands and each credential was revoked.
async fn record(world: &Arc<World>, desk: &Desk, phase: &watch::Sender<Phase>) -> Run {
    let addresses = Addresses::of(world).expect("the world has addresses");
    let truth = Truth::begin(desk, &world.etcd_addresses());
    Traffic::prepare(desk, &addresses)
        .await
        .expect("namespaces and counters are made");
    let mut traffic = Traffic::start(desk, world, &addresses, TrafficPace::Usual, SEED);
    let warm = desk.now();
    until("the lease has changed hands", async || {
        transitions(world).await.is_some_and(|transitions| transitions >= 2)
    })
    .await;
    until("each credential was revoked, and shown after that", async || {
        traffic.has_revoked_all()
    })
    .await;
    let ended = desk.now();
    phase.send_replace(Phase::Settle);
    traffic.settled().await.expect("no client panics");
    record_the_end(desk, &addresses, SEED).await;
    let written = truth.newest().await.expect("etcd reports its revision");
    record_caches(desk, &addresses).await;
    phase.send_replace(Phase::Stop(written));
    traffic.ended().await.expect("no client panics");
    let newest = truth.newest().await.expect("etcd reports its revision");
    truth.end(desk, newest).await.expect("etcd has reported all changes");
    record_audit(desk, world, &addresses).expect("the audit logs are read");
    Run {
        replicas: addresses.replica_names(),
        internal: INTERNAL.iter().map(ToString::to_string).collect(),
        // The machine may be busy: this is not about how quick a server is.
        limits: PromisedLimits {
            ready_lag: UNHURRIED,
            ready_probe: UNHURRIED,
            ..PromisedLimits::default()
        },
        warm,
        ended,
        logs: Some(read_logs(world).expect("the logs are read")),
        ..Run::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn duties_and_elections_leave_what_their_checkers_judge() {
    let _turn = turn().await;
    let settings = WorldSettings::new(trireme_tests::server::binary().expect("the server is built"));
    let world = World::start(settings).await.unwrap_or_else(|error| panic!("{error}"));
    let world = Arc::new(world);
    let dir = tempfile::tempdir().expect("a directory");
    let recorder = Arc::new(Recorder::create(dir.path()).expect("a recorder"));
    let (phase, heard) = watch::channel(Phase::Load);
    let desk = Desk::new(recorder.clone(), heard);
    let run = record(&world, &desk, &phase).await;
    recorder.run(&run).expect("it is written");
    drop(desk);
    drop(world);
    let recorder = Arc::into_inner(recorder).expect("no task records any more");
    recorder.finish().expect("it is written");

    let mut history = History::read(dir.path()).expect("it is read");
    let entries: Vec<&TruthEntry> = history
        .truth
        .iter()
        .filter_map(|record| match record {
            TruthRecord::Entry(entry) => Some(entry),
            _ => None,
        })
        .collect();
    let stamped = entries.iter().filter_map(|entry| entry.fence.as_ref());
    let made: Vec<_> = stamped.filter(|stamp| stamp.write.is_some()).collect();
    assert!(!made.is_empty(), "duties have written");
    assert!(
        made.iter().all(|stamp| stamp.token > 0 && !stamp.duty.is_empty()),
        "{made:?}"
    );
    let changed = entries.iter().filter_map(|entry| entry.lease.as_ref());
    let most = changed.map(|lease| lease.transitions).max();
    assert!(most >= Some(2), "the lease changed hands, etcd says: {most:?}");

    let validity = check(&history).validity;
    // This is not about how quick a server is. With this limit there is nothing to judge, so validity was looked at before.
    history.run.limits.revocation = UNHURRIED;
    let violations: Vec<_> = check(&history).violations.iter().map(ToString::to_string).collect();
    assert_eq!(violations, Vec::<String>::new());
    // Without a fault there is nothing to recover from; all else that is promised has something to be judged by.
    let mut reasons = match validity {
        Validity::Invalid(reasons) => reasons,
        Validity::Valid => Vec::new(),
    };
    reasons.retain(|reason| reason.contains("nothing was recorded"));
    assert_eq!(reasons, Vec::<String>::new());
}
