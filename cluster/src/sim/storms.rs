//! Many faults at once, drawn from a seed; then all is healed and the group must be whole again.

use std::time::Duration;

use rand_08::Rng as _;
use rand_08::seq::SliceRandom as _;

use super::cluster::Cluster;

const SECOND: Duration = Duration::from_secs(1);
/// The time for which faults go on.
const STORM: Duration = Duration::from_secs(20);
/// The time after the last one in which the group must be whole.
const HEALED_WITHIN: Duration = Duration::from_secs(8);
/// Enough for every kind of fault several times over, few enough for each run of the tests.
const SEEDS: std::ops::Range<u64> = 0..10;

/// One change for the worse or the better.
fn strike(cluster: &mut Cluster, hosts: &[String]) {
    let mut pair = hosts.to_vec();
    pair.shuffle(&mut cluster.random);
    let (one, other) = (pair[0].clone(), pair[1].clone());
    match cluster.random.gen_range(0..100) {
        0..16 => cluster.crash(&one),
        // One disk at a time, and only when the others have everything: a group that loses a quorum of its disks is lost.
        16..20 if cluster.is_settled() && cluster.up().len() == hosts.len() => {
            cluster.crash(&one);
            cluster.lose_disk(&one);
            cluster.restart(&one);
        }
        16..20 => cluster.crash(&one),
        20..50 => hosts.iter().for_each(|host| cluster.restart(host)),
        50..60 => cluster.network().partition(one.as_str(), other.as_str()),
        60..70 => cluster.network().partition_oneway(one.as_str(), other.as_str()),
        70..78 => cluster.network().hold(one.as_str(), other.as_str()),
        78..84 => {
            let slow = Duration::from_millis(cluster.random.gen_range(20..120));
            cluster
                .network()
                .set_link_max_message_latency(one.as_str(), other.as_str(), slow);
        }
        84..88 => stop_in_good_order(cluster, &one),
        // One address at a time, as the others have to learn of it.
        88..91 if cluster.is_settled() && cluster.up().len() == hosts.len() => {
            let port = cluster.random.gen_range(7_001..7_004);
            cluster.crash(&one);
            cluster.listen_at(&one, port);
            cluster.restart(&one);
        }
        _ => heal(cluster, hosts),
    }
}

fn stop_in_good_order(cluster: &mut Cluster, host: &str) {
    if cluster.group(host).is_some() {
        cluster.on(host, |group| async move {
            // What others do to it meanwhile decides how far it comes.
            group.hand_over().await;
        });
    }
}

/// A replica that has handed over takes no lease until it is started again.
fn start_leavers_again(cluster: &mut Cluster, hosts: &[String]) {
    for host in hosts {
        if cluster.group(host).is_some_and(|group| group.is_leaving()) {
            cluster.crash(host);
            cluster.restart(host);
        }
    }
}

fn heal(cluster: &mut Cluster, hosts: &[String]) {
    for (place, one) in hosts.iter().enumerate() {
        for other in &hosts[place + 1..] {
            let network = cluster.network();
            network.release(one.as_str(), other.as_str());
            network.repair(one.as_str(), other.as_str());
            network.set_link_max_message_latency(one.as_str(), other.as_str(), Duration::from_millis(20));
        }
    }
}

fn storm(seed: u64) -> Result<Cluster, String> {
    let mut cluster = Cluster::new(seed);
    let hosts = cluster.start_three();
    cluster.run_until("the group forms", 10 * SECOND, Cluster::is_balanced)?;
    let mut left = STORM;
    while left > Duration::ZERO {
        strike(&mut cluster, &hosts);
        let pause = Duration::from_millis(cluster.random.gen_range(50..1_500)).min(left);
        cluster.run(pause)?;
        left -= pause;
    }
    heal(&mut cluster, &hosts);
    start_leavers_again(&mut cluster, &hosts);
    hosts.iter().for_each(|host| cluster.restart(host));
    cluster.run_until("the group is whole again", HEALED_WITHIN, Cluster::is_settled)?;
    cluster.run_until("leases are spread again", HEALED_WITHIN, Cluster::is_balanced)?;
    Ok(cluster)
}

#[test]
fn nothing_is_violated_in_any_storm() {
    let (mut ticks, mut terms, mut grants) = (0, 0, 0);
    for seed in SEEDS {
        let cluster = storm(seed).unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
        ticks += cluster.checker.ticks;
        terms += cluster.checker.terms();
        grants += cluster.checker.grants();
    }
    println!(
        "{} seeds, {ticks} ticks, {terms} terms with a leader, {grants} leases given",
        SEEDS.count()
    );
    assert!(terms > SEEDS.count(), "the storms bite: {terms} terms");
}
