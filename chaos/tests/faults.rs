//! Faults in a real world: each is installed, proved and healed. What traffic makes of them is what experiments are for.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{PATIENCE, comes_in_time, turn, until};
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use trireme_chaos::faults::{
    Active, Cut, Damage, Fault, Healed, InstallVerdict, Jump, Observation, WebhookFailure, Where, WrongClock,
};
use trireme_chaos::world::{Part, World, WorldSettings};

/// An answer from memory takes no longer.
const SHORT: Duration = Duration::from_secs(2);

fn settings() -> WorldSettings {
    WorldSettings::new(trireme_tests::server::binary().expect("the server is built"))
}

async fn start(settings: WorldSettings) -> Arc<World> {
    Arc::new(World::start(settings).await.unwrap_or_else(|error| panic!("{error}")))
}

async fn install(fault: &Fault, world: &Arc<World>) -> Active {
    match fault.install(world, &mut StdRng::seed_from_u64(1)).await {
        InstallVerdict::Installed(active) => active,
        other => panic!("{fault}: {other:?}"),
    }
}

/// Installs a fault, waits until it bites, and heals it.
async fn go_through(fault: Fault, world: &Arc<World>) -> Healed {
    let (healed, bites) = try_once(&fault, world).await;
    assert!(bites, "{fault}: not within {PATIENCE:?}: {:?}", healed.observed);
    healed
}

/// Does the same again where chance decides whether there is something to bite: a leader may hold no duty that writes.
async fn go_through_in_the_end(fault: Fault, world: &Arc<World>) -> Healed {
    const ATTEMPTS: usize = 3;
    let mut seen = Vec::new();
    while seen.len() < ATTEMPTS {
        match try_once(&fault, world).await {
            (healed, true) => return healed,
            (healed, false) => seen.push(healed.observed),
        }
    }
    panic!("{fault}: not in {ATTEMPTS} attempts: {seen:?}");
}

/// Installs a fault and heals it; says whether it bit before.
async fn try_once(fault: &Fault, world: &Arc<World>) -> (Healed, bool) {
    let mut active = install(fault, world).await;
    active.done().await;
    let bites = comes_in_time(async || active.observe(world).await.is_seen()).await;
    let healed = active.heal(world).await;
    (healed.unwrap_or_else(|error| panic!("{fault}: {error}")), bites)
}

/// A replica that is dead is brought back while another one is cut off, whatever chance decides.
async fn kill_and_cut_off(world: &Arc<World>) {
    let killed = install(&Fault::KillAllButOne, world).await;
    let alive = (0..world.replicas())
        .map(Part::Replica)
        .find(|part| world.is_running(*part));
    let alive = alive.expect("one is left").to_string();
    let mut cuts = Vec::new();
    for seed in 0..6 {
        let cut = Fault::CutFromEtcd
            .install(world, &mut StdRng::seed_from_u64(seed))
            .await;
        let InstallVerdict::Installed(cut) = cut else {
            panic!("{cut:?}");
        };
        let links = cut.targets();
        assert!(
            links.iter().all(|link| link.starts_with(&alive)),
            "{alive} lives: {links:?}"
        );
        cuts.push(cut);
    }
    killed.heal(world).await.unwrap_or_else(|error| panic!("{error}"));
    for cut in cuts {
        cut.heal(world).await.unwrap_or_else(|error| panic!("{error}"));
    }
}

async fn all_is_well(world: &World) {
    for part in world.parts() {
        world.wait_ready(part).await.unwrap_or_else(|error| panic!("{error}"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_of_replicas_and_their_links_bite_and_heal() {
    let _turn = turn().await;
    let mut settings = settings();
    let of_links = [Fault::CutPeers(Cut::OneWay), Fault::ResetStorm(Where::ToEtcd)];
    for fault in of_links.into_iter().chain([Fault::DeposeLeader]) {
        fault.prepare(&mut settings);
    }
    let world = start(settings).await;

    go_through_in_the_end(Fault::DeposeLeader, &world).await;
    let before = world.settled_raft_leader().await.expect("the group has a leader");
    go_through(Fault::KillLeader, &world).await;
    assert_ne!(world.raft_leader().await, Some(before), "another one leads");
    go_through(Fault::CutPeers(Cut::OneWay), &world).await;
    go_through(Fault::ResetStorm(Where::ToEtcd), &world).await;
    go_through(Fault::ReloadBalancer, &world).await;
    kill_and_cut_off(&world).await;
    let healed = go_through(Fault::DamageRaft(Damage::BitFlip), &world).await;
    let Observation::Seen(evidence) = healed.observed else {
        panic!("{healed:?}");
    };
    assert!(
        evidence.contains("refused to start") && evidence.contains("is damaged"),
        "{evidence}"
    );
    all_is_well(&world).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn webhooks_that_fail_let_nothing_through() {
    let _turn = turn().await;
    let world = start(settings()).await;
    for failure in WebhookFailure::ALL {
        let healed = go_through(Fault::Webhooks(failure), &world).await;
        let writes = healed.guarded.expect("writes were made beside them");
        assert!(writes.attempts > 0, "{failure}");
        let broken = [writes.let_through, writes.held_up, writes.lost].concat();
        assert_eq!(broken, Vec::<String>::new(), "{failure}");
    }
    let healed = go_through(Fault::ServersGone, &world).await;
    let writes = healed.guarded.expect("requests were made beside them");
    let broken = [writes.let_through, writes.held_up, writes.lost].concat();
    assert_eq!(broken, Vec::<String>::new(), "servers are gone");
    all_is_well(&world).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_of_etcd_bite_and_heal() {
    let _turn = turn().await;
    let mut settings = settings();
    (settings.group, settings.replicas) = (false, 1);
    Fault::NoSpace.prepare(&mut settings);
    let world = start(settings).await;
    for fault in [Fault::KillEtcdLeader, Fault::NoSpace] {
        go_through(fault, &world).await;
    }

    let active = install(&Fault::PauseEtcdQuorum, &world).await;
    // HAProxy leaves them the connections that they have.
    let none_is_ready = async || {
        let statuses = world.balancer_statuses().await.expect("HAProxy answers");
        statuses.iter().all(|status| status == "NOLB")
    };
    let path = "/api/v1/namespaces/default?resourceVersion=0";
    let reads = async || matches!(world.probe().get(world.address(), path, SHORT).await, Ok((200, _)));
    let outage = async {
        until("no replica is ready", none_is_ready).await;
        until("what replicas have in memory is served all the same", reads).await;
        active.heal(&world).await.expect("it comes back")
    };
    let object = serde_json::json!({ "metadata": { "name": "begun-before" } });
    let configmaps = "/api/v1/namespaces/default/configmaps";
    let write = world
        .probe()
        .send(world.address(), "POST", configmaps, Some(&object), PATIENCE);
    let (written, healed) = tokio::join!(write, outage);
    // Which it is depends on how soon etcd elects a leader.
    let is_answered = matches!(written, Ok((201 | 504, _)));
    assert!(is_answered, "its connection stays: {written:?}");
    assert!(healed.observed.is_seen(), "{healed:?}");
    all_is_well(&world).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wall_clocks_jump_while_a_replica_runs_and_are_set_right() {
    let _turn = turn().await;
    let mut settings = settings();
    (settings.group, settings.replicas, settings.etcd_members) = (false, 1, 1);
    let faults = [Jump::DayAhead, Jump::HourBack, Jump::Fast].map(|jump| Fault::WallClock(WrongClock::OfReplica(jump)));
    faults.iter().for_each(|fault| fault.prepare(&mut settings));
    let world = start(settings).await;
    let process = world.id(Part::Replica(0)).expect("it runs");
    for fault in faults {
        go_through(fault, &world).await;
        let lead = world.wall_clock_lead(0).await.expect("it answers");
        assert!(lead.as_secs().abs() < 2, "it is right again: {lead:?}");
    }
    all_is_well(&world).await;
    assert_eq!(world.id(Part::Replica(0)), Some(process), "it has run all the time");
    drop(world);
    let shared = std::fs::read_dir("/dev/shm").expect("it is there");
    let left = shared.filter(|file| {
        let file = file.as_ref().expect("it can be read");
        file.file_name().to_string_lossy().ends_with(&format!("_{process}"))
    });
    assert_eq!(left.count(), 0, "the library leaves nothing behind");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_installed_is_skipped_and_touches_nothing() {
    let _turn = turn().await;
    let mut settings = settings();
    (settings.group, settings.replicas, settings.etcd_members) = (false, 1, 1);
    let world = start(settings).await;
    let processes: Vec<Option<u32>> = world.parts().into_iter().map(|part| world.id(part)).collect();
    for fault in [
        Fault::KillLeader,
        Fault::PauseLeader,
        Fault::DeposeLeader,
        Fault::CutFromEtcd,
        Fault::CutPeers(Cut::Symmetric),
        Fault::ResetStorm(Where::Everywhere),
        Fault::WallClock(WrongClock::OfReplica(Jump::DayBack)),
        Fault::NoSpace,
        Fault::KillEtcdFollower,
        Fault::DamageRaft(Damage::Gone),
    ] {
        let verdict = fault.install(&world, &mut StdRng::seed_from_u64(1)).await;
        assert!(matches!(verdict, InstallVerdict::Skipped(_)), "{fault}: {verdict:?}");
    }
    // One that fails on its way counts for nothing.
    world.kill(Part::Balancer).await.expect("it runs");
    let verdict = Fault::ReloadBalancer
        .install(&world, &mut StdRng::seed_from_u64(1))
        .await;
    assert!(matches!(verdict, InstallVerdict::Indeterminate(_)), "{verdict:?}");
    world.restore().await.expect("it comes back");
    let after: Vec<Option<u32>> = world.parts().into_iter().map(|part| world.id(part)).collect();
    assert_eq!(processes[..2], after[..2], "nothing else was started anew");
}

#[test]
fn a_full_run_has_every_number() {
    let mut numbers: Vec<u8> = Fault::all().iter().map(Fault::number).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let expected: Vec<u8> = (1..=16).chain(18..=23).chain(25..=27).collect();
    assert_eq!(numbers, expected);
}
