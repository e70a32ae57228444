//! Real replicas: files, TLS and the machine's clock.

use std::collections::BTreeSet;
use std::time::Duration;

use trireme_actors::{Clock, Tasks};
use trireme_ports::free_address;

use super::status::Status;
use super::{Group, GroupConfig};
use crate::lease::Duty;
use crate::transport::PeerCertificates;
use crate::transport::tests::Authority;

const DUTY: Duty = Duty::named("real-duty");
const LIMIT: Duration = Duration::from_secs(20);

struct Replica {
    group: Group,
    tasks: Tasks,
}

async fn start(dir: &std::path::Path, address: &str, peers: &[String], certificates: PeerCertificates) -> Replica {
    let clock = Clock::system();
    let tasks = Tasks::new(tokio::runtime::Handle::current(), clock.clone());
    let config = GroupConfig {
        name: "real".to_owned(),
        directory: dir.join(address.replace(':', "-")),
        listen: address.to_owned(),
        advertise: address.to_owned(),
        peers: peers.iter().cloned().collect(),
        version: "1.0".to_owned(),
        certificates,
    };
    let group = Group::start(config, &tasks, clock).await.expect("the replica starts");
    Replica { group, tasks }
}

/// Waits until one of the replicas holds the duty; gives its place.
async fn holder(replicas: &[Replica]) -> usize {
    let watches = replicas.iter().map(|replica| {
        let mut watch = replica.group.acquire(DUTY);
        Box::pin(async move { watch.held().await })
    });
    let won = tokio::time::timeout(LIMIT, futures_util::future::select_all(watches)).await;
    let (tenure, place, _) = won.expect("a replica wins the lease in time");
    assert!(tenure.expect("the group runs").still_mine());
    place
}

/// Waits until a replica's status is so: a follower learns of its lease by the leader's answer before it has applied the entry.
async fn until(replica: &Replica, is_so: impl Fn(&Status) -> bool) -> Status {
    let group = &replica.group.0;
    let (mut applied, mut metrics) = (group.applied.clone(), group.raft.metrics());
    let seen = async {
        loop {
            let status = replica.group.status();
            if is_so(&status) {
                return status;
            }
            tokio::select! {
                changed = applied.changed() => changed.expect("the group runs"),
                changed = metrics.changed() => changed.expect("Raft runs"),
            }
        }
    };
    tokio::time::timeout(LIMIT, seen).await.expect("it does so in time")
}

#[tokio::test]
async fn three_replicas_over_tls_hand_a_duty_over() {
    let dir = tempfile::tempdir().expect("a directory");
    let authority = Authority::new();
    let peers: Vec<String> = (0..3).map(|_| free_address().to_string()).collect();
    let mut replicas = Vec::new();
    for address in &peers {
        replicas.push(start(dir.path(), address, &peers, authority.replica("real")).await);
    }
    let first = holder(&replicas).await;
    let before = replicas[first].group.acquire(DUTY).current().expect("it is held");
    let handed = replicas[first].group.hand_over().await;
    assert!(handed.leases && handed.leadership, "{handed:?}");
    assert!(!before.still_mine());
    let leaver = replicas.remove(first);
    let second = holder(&replicas).await;
    let after = replicas[second].group.acquire(DUTY).current().expect("it is held");
    assert!(after.lease().token > before.lease().token);
    let id = replicas[second].group.id();
    let holds_it = |status: &Status| status.duties.first().is_some_and(|duty| duty.holder == Some(id));
    let status = until(&replicas[second], holds_it).await;
    let ids: BTreeSet<_> = status.members.iter().map(|member| member.replica).collect();
    assert_eq!(ids.len(), 3);
    assert!(status.raft_error.is_none());
    leaver.tasks.shutdown(Duration::from_secs(1)).await;
}
