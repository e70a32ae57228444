//! One fault at a time, and what a user waits for after it.

use std::ops::Range;
use std::time::Duration;

use super::cluster::{Cluster, host};
use crate::core::fence::Timing;
use crate::core::leases::Holder;
use crate::raft::timing;

const SECOND: Duration = Duration::from_secs(1);

fn settled(seed: u64) -> Cluster {
    let mut cluster = Cluster::new(seed);
    cluster.start_three();
    cluster
        .run_until("leases are spread", 10 * SECOND, Cluster::is_balanced)
        .expect("the group forms");
    cluster
}

#[test]
fn three_that_start_at_once_form_one_group() {
    for seed in 0..3 {
        settled(seed);
    }
}

#[test]
fn two_of_three_wait_for_the_late_one_and_restarts_change_nothing() {
    let mut cluster = Cluster::new(1);
    let names: Vec<String> = (1..=3).map(host).collect();
    cluster.start(&names[0], &names);
    cluster.start(&names[1], &names);
    cluster.run(5 * SECOND).expect("nothing is violated");
    assert_eq!(cluster.leader(), None, "no group is founded without the third");
    cluster.crash(&names[0]);
    cluster.restart(&names[0]);
    cluster.start(&names[2], &names);
    cluster
        .run_until("leases are spread", 10 * SECOND, Cluster::is_balanced)
        .expect("the group forms");
}

/// The time that leases take to move when the leader crashes after a quiet time: the median over some seeds.
fn moves_after(quiet: Duration, seeds: Range<u64>) -> Duration {
    let moves = seeds.map(|seed| {
        let mut cluster = settled(seed);
        cluster.run(quiet).expect("nothing is violated");
        let leader = cluster.leader().expect("a leader");
        cluster.crash(&leader);
        let took = cluster.run_until("leases have moved", 10 * SECOND, Cluster::is_settled);
        took.expect("leases move")
    });
    let mut moves: Vec<Duration> = moves.collect();
    moves.sort();
    moves[moves.len() / 2]
}

/// Over 60 seeds it took 2.46 s to 3.08 s, half of them 2.59 s at most; a split vote adds about half a second.
#[test]
fn the_leases_of_a_leader_that_crashes_move_within_three_seconds() {
    let median = moves_after(Duration::ZERO, 0..5);
    assert!(median <= 3 * SECOND, "{median:?}");
}

/// Followers have called each other when the group was founded, and not since: those connections are closed by now, and a
/// vote that is asked for on one is lost.
#[test]
fn they_do_so_also_after_a_quiet_time() {
    let median = moves_after(70 * SECOND, 0..3);
    assert!(median <= 3 * SECOND, "{median:?}");
}

/// openraft would give calls up after the time between heartbeats, 150 ms.
#[test]
fn round_trips_longer_than_a_heartbeat_set_off_no_election() {
    let mut cluster = settled(8);
    let (leader, hosts) = (cluster.leader(), cluster.up());
    for (place, one) in hosts.iter().enumerate() {
        for other in &hosts[place + 1..] {
            let latency = Duration::from_millis(90);
            cluster
                .network()
                .set_link_latency(one.as_str(), other.as_str(), latency);
        }
    }
    for _ in 0..20 {
        cluster.run(SECOND).expect("nothing is violated");
        assert_eq!(cluster.leader(), leader);
        assert!(cluster.is_balanced(), "{:?}", cluster.holders());
    }
}

#[test]
fn a_cut_off_leader_holds_nothing_when_others_do_and_comes_back() {
    let mut cluster = settled(5);
    let leader = cluster.leader().expect("a leader");
    let others = cluster.others(&leader);
    for other in &others {
        cluster.network().partition(leader.as_str(), other.as_str());
    }
    let is_moved = |cluster: &Cluster| {
        let holders = cluster.holders();
        holders.len() == 4 && holders.values().all(|holder| *holder != leader)
    };
    cluster
        .run_until("leases have moved", 5 * SECOND, is_moved)
        .expect("leases move");
    for other in &others {
        cluster.network().repair(leader.as_str(), other.as_str());
    }
    cluster
        .run_until("leases are spread", 10 * SECOND, Cluster::is_balanced)
        .expect("the former leader is back");
}

#[test]
fn a_short_silence_of_the_leader_elects_no_other() {
    let mut cluster = settled(6);
    let terms = cluster.checker.terms();
    let leader = cluster.leader().expect("a leader");
    for silence in [100, 300, 500, 700, 900] {
        for other in cluster.others(&leader) {
            cluster.network().hold(leader.as_str(), other.as_str());
        }
        cluster
            .run(Duration::from_millis(silence))
            .expect("nothing is violated");
        for other in cluster.others(&leader) {
            cluster.network().release(leader.as_str(), other.as_str());
        }
        cluster.run(2 * SECOND).expect("nothing is violated");
    }
    assert_eq!(cluster.checker.terms(), terms, "no election");
    assert_eq!(cluster.leader(), Some(leader));
}

#[test]
fn a_replica_that_lost_its_disk_comes_back_under_a_new_id() {
    let mut cluster = settled(7);
    let lost = cluster.others(&cluster.leader().expect("a leader")).remove(0);
    let former = cluster.group(&lost).expect("it runs").id();
    cluster.crash(&lost);
    cluster.lose_disk(&lost);
    cluster.restart(&lost);
    cluster
        .run_until("leases are spread", 15 * SECOND, Cluster::is_balanced)
        .expect("it is in the group again");
    let group = cluster.group(&lost).expect("it runs");
    assert_ne!(group.id(), former);
    let members: Vec<_> = group
        .raft_metrics()
        .membership_config
        .membership()
        .voter_ids()
        .collect();
    assert_eq!(members.len(), 3);
    assert!(
        members.contains(&group.id()) && !members.contains(&former),
        "{members:?}"
    );
}

#[test]
fn a_replica_that_is_far_behind_gets_a_snapshot() {
    let mut cluster = settled(11);
    let leader = cluster.leader().expect("a leader");
    let behind = cluster.others(&leader).remove(0);
    cluster.crash(&behind);
    cluster.lose_disk(&behind);
    cluster.run(3 * SECOND).expect("nothing is violated");
    cluster.on(&leader, |group| async move {
        let raft = group.raft();
        let applied = raft.metrics().borrow().last_applied.expect("something is applied");
        raft.trigger().snapshot().await.expect("raft runs");
        let wait = raft.wait(Some(SECOND));
        wait.snapshot(applied, "a snapshot").await.expect("a snapshot is made");
        raft.trigger().purge_log(applied.index).await.expect("raft runs");
        wait.purged(Some(applied), "purged").await.expect("the log is purged");
    });
    cluster.run(SECOND).expect("nothing is violated");
    cluster.restart(&behind);
    cluster
        .run_until("leases are spread", 15 * SECOND, Cluster::is_balanced)
        .expect("it is in the group again");
    let snapshot = cluster.group(&behind).expect("it runs").raft_metrics().snapshot;
    assert!(snapshot.is_some(), "it was brought up by a snapshot");
    // All start again from what is on the disks.
    for name in cluster.up() {
        cluster.crash(&name);
        cluster.restart(&name);
    }
    cluster
        .run_until("leases are spread", 15 * SECOND, Cluster::is_balanced)
        .expect("the group is back");
}

#[test]
fn a_replica_whose_disk_fails_takes_no_part() {
    let mut cluster = settled(12);
    let leader = cluster.leader().expect("a leader");
    cluster.break_disk(&leader);
    // It can go on only until something must be written: here, that one of the others has crashed and lost its leases.
    let other = cluster.others(&leader).remove(0);
    cluster.crash(&other);
    cluster.run(4 * SECOND).expect("nothing is violated");
    cluster.restart(&other);
    let is_moved = |cluster: &Cluster| {
        let holders = cluster.holders();
        holders.len() == 4 && holders.values().all(|holder| *holder != leader)
    };
    cluster
        .run_until("leases have moved", 10 * SECOND, is_moved)
        .expect("leases move");
    let error = cluster.group(&leader).expect("it runs").status().raft_error;
    assert!(error.expect("it says so").contains("disk does not answer"));
}

#[test]
fn a_fourth_joins_and_is_removed_again() {
    let mut cluster = settled(8);
    let first = vec![host(1)];
    cluster.start(&host(4), &first);
    cluster
        .run_until("the fourth has its share", 10 * SECOND, |cluster| {
            cluster.is_balanced() && cluster.holders().values().any(|holder| *holder == host(4))
        })
        .expect("it joins");
    let fourth = cluster.group(&host(4)).expect("it runs").id();
    let leader = cluster.leader().expect("a leader");
    cluster.on(&leader, move |group| async move {
        group.remove(fourth).await.expect("it is removed")
    });
    let is_out = |cluster: &Cluster| {
        let leader = cluster.leader().and_then(|leader| cluster.group(&leader));
        leader.is_some_and(|group| {
            let members = group.raft_metrics().membership_config.clone();
            members.membership().get_node(&fourth).is_none()
        })
    };
    cluster
        .run_until("the fourth is out", 10 * SECOND, is_out)
        .expect("it is removed");
    cluster.run(3 * SECOND).expect("nothing is violated");
    assert!(is_out(&cluster), "it does not come back by itself");
    assert!(cluster.holders().values().all(|holder| *holder != host(4)));
}

#[test]
fn a_leader_that_stops_in_good_order_leaves_no_duty_of_others_unheld() {
    let mut cluster = settled(9);
    let leader = cluster.leader().expect("a leader");
    let others = cluster.others(&leader);
    let before = cluster.holders();
    cluster.on(&leader, |group| async move {
        let handed = group.hand_over().await;
        assert!(handed.leases && handed.leadership, "{handed:?}");
    });
    let is_moved = |cluster: &Cluster| {
        let holders = cluster.holders();
        holders.len() == 4 && holders.values().all(|holder| *holder != leader)
    };
    let took = cluster
        .run_until("leases have moved", 2 * SECOND, is_moved)
        .expect("leases move");
    assert!(took < Duration::from_millis(500), "{took:?}");
    let is_followed = |cluster: &Cluster| cluster.leader().is_some_and(|now| now != leader);
    for _ in 0..20 {
        cluster.run(Duration::from_millis(100)).expect("nothing is violated");
        let holders = cluster.holders();
        let kept = before.iter().filter(|(_, holder)| others.contains(holder));
        for (duty, holder) in kept {
            assert_eq!(holders.get(duty), Some(holder), "{duty} was never without its holder");
        }
    }
    assert!(is_followed(&cluster), "another leads");
}

#[test]
fn two_that_are_removed_at_once_are_both_out() {
    let mut cluster = settled(13);
    let (first, late) = (vec![host(1)], [host(4), host(5)]);
    late.iter().for_each(|name| cluster.start(name, &first));
    cluster
        .run_until("all five are members", 15 * SECOND, Cluster::is_settled)
        .expect("they join");
    let gone = late.each_ref().map(|name| cluster.group(name).expect("it runs").id());
    for (asked, replica) in [1, 2].map(host).into_iter().zip(gone) {
        cluster.on(&asked, move |group| async move {
            group.remove(replica).await.expect("it is removed")
        });
    }
    let voters = |cluster: &Cluster| {
        let leader = cluster.leader().and_then(|leader| cluster.group(&leader));
        let members = leader.map(|group| group.raft_metrics().membership_config.clone());
        members.map_or(0, |members| members.membership().voter_ids().count())
    };
    cluster
        .run_until("three are left", 15 * SECOND, |cluster| voters(cluster) == 3)
        .expect("both are removed");
    cluster.run(3 * SECOND).expect("nothing is violated");
    assert_eq!(voters(&cluster), 3, "no member comes back");
    assert_eq!(cluster.holders().len(), 4, "every duty is done");
}

#[test]
fn a_replica_that_comes_back_at_another_address_is_found_there() {
    let mut cluster = settled(14);
    let leader = cluster.leader().expect("a leader");
    let [moved, other] = <[String; 2]>::try_from(cluster.others(&leader)).expect("three hosts");
    let id = cluster.group(&moved).expect("it runs").id();
    cluster.crash(&moved);
    cluster.listen_at(&moved, 7_001);
    cluster.restart(&moved);
    cluster.run(3 * SECOND).expect("nothing is violated");
    assert!(cluster.is_balanced(), "{:?}", cluster.holders());
    assert_eq!(
        cluster.group(&moved).expect("it runs").id(),
        id,
        "it is the same member"
    );
    // Without its vote there would be no quorum now.
    cluster.crash(&other);
    cluster
        .run_until("leases have moved", 5 * SECOND, |cluster| cluster.holders().len() == 4)
        .expect("leases move");
}

/// A leader that has lost its quorum tries for a second to expire one holder before it comes to the next. By then it may
/// lead again, in another term, and have acknowledged a renewal of the next one.
#[test]
fn who_was_overdue_in_one_term_is_not_expired_in_another() {
    let mut cluster = settled(15);
    let leader = cluster.leader().expect("a leader");
    let follower = cluster.others(&leader).remove(0);
    let status = cluster.group(&follower).expect("it runs").status();
    let holder = Holder {
        replica: status.replica,
        incarnation: status.incarnation,
    };
    let before = cluster.holders();
    cluster.on(&leader, move |group| async move {
        group.expire(status.term - 1, holder).await
    });
    cluster.run(SECOND).expect("nothing is violated");
    assert_eq!(cluster.holders(), before);
}

/// The checker sees a real bug, too: a leader that counts less time than holders do.
#[test]
fn a_leader_that_expires_holders_too_early_is_caught() {
    let hasty = Timing {
        ttl: Duration::from_millis(300),
        margin: Duration::ZERO,
    };
    let mut cluster = Cluster::with_timing(10, timing::LEASES, hasty);
    cluster.start_three();
    cluster
        .run_until("leases are spread", 10 * SECOND, Cluster::is_balanced)
        .expect("the group forms");
    let leader = cluster.leader().expect("a leader");
    let holder = cluster.others(&leader).remove(0);
    for other in cluster.others(&holder) {
        cluster.network().partition(holder.as_str(), other.as_str());
    }
    let violation = cluster.run(2 * SECOND).expect_err("two hold the same duty");
    assert!(violation.contains("both believe to hold"), "{violation}");
}
