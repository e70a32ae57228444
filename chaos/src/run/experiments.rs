//! Which faults are tried, how often, and in which runs.

use std::time::Duration;

use crate::faults::{Cut, Damage, Fault, Where};

/// One fault, thrown at a world of its own under load.
#[derive(Debug, Clone)]
pub struct Experiment {
    /// What `--only` takes, and what its folder in the report is called.
    pub name: &'static str,
    /// What goes wrong.
    pub fault: Fault,
    /// How often a full run does it: what a promise has a figure for, often enough for a median.
    pub repeats: usize,
    /// Whether a short run does it, once.
    pub in_short: bool,
}

/// For a median.
const OFTEN: usize = 5;

/// All of them, in the order of the fault list.
pub fn all() -> Vec<Experiment> {
    let once = |name, fault| Experiment {
        name,
        fault,
        repeats: 1,
        in_short: false,
    };
    let measured = |name, fault| Experiment {
        repeats: OFTEN,
        in_short: true,
        ..once(name, fault)
    };
    let short = |name, fault| Experiment {
        in_short: true,
        ..once(name, fault)
    };
    let measured_in_full = |name, fault| Experiment {
        in_short: false,
        ..measured(name, fault)
    };
    let around = Duration::from_millis(50);
    let delay = Fault::Delay {
        place: Where::Everywhere,
        delay: around,
        jitter: around,
    };
    let loss = Fault::Loss {
        place: Where::Everywhere,
        probability: 0.02,
    };
    vec![
        measured_in_full("kill-replica", Fault::KillReplica),
        measured("kill-leader", Fault::KillLeader),
        once("kill-all-but-one", Fault::KillAllButOne),
        once("kill-all-replicas", Fault::KillAllReplicas),
        measured("pause-leader", Fault::PauseLeader),
        once("pause-leader-briefly", Fault::PauseLeaderBriefly),
        once("etcd-follower-kill", Fault::KillEtcdFollower),
        measured("etcd-leader-kill", Fault::KillEtcdLeader),
        measured_in_full("etcd-leader-pause", Fault::PauseEtcdLeader),
        measured("etcd-quorum-loss", Fault::PauseEtcdQuorum),
        short("cut-from-etcd", Fault::CutFromEtcd),
        once("cut-peers", Fault::CutPeers(Cut::Symmetric)),
        once("cut-peers-one-way", Fault::CutPeers(Cut::OneWay)),
        once("cut-peers-bridge", Fault::CutPeers(Cut::Bridge)),
        once("delay", delay),
        once("loss", loss),
        once("reset-storm", Fault::ResetStorm(Where::Everywhere)),
        once("etcd-full", Fault::NoSpace),
        once("raft-disk-full", Fault::DamageRaft(Damage::Full)),
        once("raft-read-only", Fault::DamageRaft(Damage::ReadOnly)),
        once("raft-torn-tail", Fault::DamageRaft(Damage::TornTail)),
        once("raft-bit-flip", Fault::DamageRaft(Damage::BitFlip)),
        once("raft-gone", Fault::DamageRaft(Damage::Gone)),
        once("kill-balancer", Fault::KillBalancer),
        once("reload-balancer", Fault::ReloadBalancer),
        once("slow-watchers", Fault::SlowConsumers { slow: 100, idle: 1000 }),
        once("memory-limit", Fault::MemoryLimit),
        once("rolling-restart", Fault::RollingRestart { rounds: 5 }),
        short("compact-often", Fault::CompactOften),
        once("mix", Fault::Mix),
        Experiment {
            repeats: 0,
            in_short: true,
            ..once("rolling-restart-once", Fault::RollingRestart { rounds: 1 })
        },
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_fault_is_in_a_full_run() {
        let done: BTreeSet<u8> = all()
            .iter()
            .filter(|one| one.repeats > 0)
            .map(|one| one.fault.number())
            .collect();
        let known: BTreeSet<u8> = Fault::all().iter().map(Fault::number).collect();
        assert_eq!(done, known);
    }

    #[test]
    fn names_are_unique() {
        let names: BTreeSet<_> = all().iter().map(|one| one.name).collect();
        assert_eq!(names.len(), all().len());
    }
}
