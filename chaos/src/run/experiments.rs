//! Which faults are tried, how often, and in which runs.

use std::time::Duration;

use crate::faults::{Cut, Damage, Fault, WebhookFailure, Where, WrongClock};
use crate::traffic::TrafficPace;
use crate::world::WorldTarget;

/// One fault, or several one after the other, thrown at a world of its own under load.
#[derive(Debug, Clone)]
pub struct Experiment {
    /// The name for `--only` and for its folder in the report.
    pub name: &'static str,
    /// The faults, in this order.
    pub faults: Vec<Fault>,
    /// The load.
    pub pace: TrafficPace,
    /// The number of repetitions in a full run: what a promise has a figure for, often enough for a median.
    pub repeats: usize,
    /// True if a short run does it, once.
    pub in_short: bool,
    /// Faults that the world at hand cannot have, each with the reason.
    pub left_out: Vec<String>,
}

impl Experiment {
    /// The faults, in words.
    pub fn what(&self) -> String {
        let faults: Vec<_> = self.faults.iter().map(ToString::to_string).collect();
        faults.join("; then ")
    }

    /// Alone, under the load that figures are given for.
    fn usual(name: &'static str, fault: Fault, repeats: usize) -> Self {
        Self {
            name,
            faults: vec![fault],
            pace: TrafficPace::Usual,
            repeats,
            in_short: false,
            left_out: Vec::new(),
        }
    }

    /// Has no figure: once, and under more load, since much of it has to be seen to be well.
    fn once(name: &'static str, faults: impl Into<Vec<Fault>>) -> Self {
        Self {
            name,
            faults: faults.into(),
            pace: TrafficPace::Brisk,
            repeats: 1,
            in_short: false,
            left_out: Vec::new(),
        }
    }

    fn also_in_short(self) -> Self {
        Self { in_short: true, ..self }
    }

    /// Leaves out what a world of this kind cannot have.
    pub(super) fn for_target(mut self, target: WorldTarget) -> Self {
        let left_out = &mut self.left_out;
        self.faults.retain(|fault| match fault.impossible_in(target) {
            Some(why) => {
                left_out.push(format!("{fault}: {why}"));
                false
            }
            None => true,
        });
        self
    }
}

/// For a median.
const OFTEN: usize = 5;
/// A figure of all kills has those of the leader, too; and what is random is worth more than one look.
const FEWER: usize = 2;

/// All of them, in the order of the fault list. What has a figure comes alone; of the rest, what fits together shares a
/// run, as a run takes half a minute beside its faults.
pub fn all() -> Vec<Experiment> {
    let mut all = measured();
    all.extend(seen_once());
    all
}

/// A row of the figures stands on five runs at least.
fn measured() -> Vec<Experiment> {
    let often = |name, fault| Experiment::usual(name, fault, OFTEN);
    vec![
        Experiment::usual("kill-replica", Fault::KillReplica, FEWER),
        often("kill-leader", Fault::KillLeader).also_in_short(),
        often("pause-leader", Fault::DeposeLeader).also_in_short(),
        often("etcd-leader-kill", Fault::KillEtcdLeader).also_in_short(),
        often("etcd-leader-pause", Fault::PauseEtcdLeader),
        often("etcd-quorum-loss", Fault::PauseEtcdQuorum).also_in_short(),
        often("rolling-restart", Fault::RollingRestart { rounds: 1 }).also_in_short(),
    ]
}

fn seen_once() -> Vec<Experiment> {
    let once = |name, fault| Experiment::once(name, [fault]);
    let around = Duration::from_millis(50);
    let place = Where::Everywhere;
    let delay = Fault::Delay {
        place,
        delay: around,
        jitter: around,
    };
    let loss = Fault::Loss {
        place,
        probability: 0.02,
    };
    let cuts = [Cut::Symmetric, Cut::OneWay, Cut::Bridge];
    vec![
        Experiment::once("kill-many", [Fault::KillAllButOne, Fault::KillAllReplicas]),
        once("pause-leader-briefly", Fault::PauseLeaderBriefly),
        once("etcd-follower-kill", Fault::KillEtcdFollower),
        // Its effect shows at a replica that has little else to do.
        Experiment::usual("cut-from-etcd", Fault::CutFromEtcd, 1).also_in_short(),
        Experiment::once("cut-peers", cuts.map(Fault::CutPeers)),
        Experiment::once("bad-links", [delay, loss, Fault::ResetStorm(place)]),
        Experiment::once("wrong-clocks", WrongClock::JUMPS.map(Fault::WallClock)),
        once(
            "clock-before-certificates",
            Fault::WallClock(WrongClock::BeforeCertificates),
        ),
        once("etcd-full", Fault::NoSpace),
        Experiment::once("raft-damage", Damage::ALL.map(Fault::DamageRaft)),
        Experiment::once("balancer", [Fault::KillBalancer, Fault::ReloadBalancer]),
        Experiment::usual("slow-watchers", Fault::SlowConsumers { slow: 100, idle: 1000 }, 1),
        once("memory-limit", Fault::MemoryLimit),
        once("compact-often", Fault::CompactOften).also_in_short(),
        // The writes beside the webhooks are timed.
        Experiment {
            pace: TrafficPace::Usual,
            ..Experiment::once("failing-webhooks", WebhookFailure::ALL.map(Fault::Webhooks))
        },
        Experiment {
            pace: TrafficPace::Usual,
            ..once("servers-gone", Fault::ServersGone)
        },
        // Another mix each time.
        Experiment {
            repeats: FEWER,
            ..once("mix", Fault::Mix)
        },
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::report::TARGETS;

    #[test]
    fn every_fault_is_in_a_full_run() {
        let done: BTreeSet<u8> = all()
            .iter()
            .filter(|one| one.repeats > 0)
            .flat_map(|one| one.faults.iter().map(Fault::number))
            .collect();
        let known: BTreeSet<u8> = Fault::all().iter().map(Fault::number).collect();
        assert_eq!(done, known);
    }

    #[test]
    fn containers_have_all_faults_but_a_reload_wrong_clocks_and_webhooks() {
        for experiment in all() {
            let name = experiment.name;
            let contained = experiment.clone().for_target(WorldTarget::Compose);
            let left_out = match name {
                "balancer" => 1,
                "wrong-clocks" | "clock-before-certificates" | "failing-webhooks" | "servers-gone" => {
                    experiment.faults.len()
                }
                _ => 0,
            };
            assert_eq!(contained.left_out.len(), left_out, "{name}");
            assert_eq!(contained.faults.len() + left_out, experiment.faults.len(), "{name}");
        }
    }

    #[test]
    fn names_are_unique() {
        let names: BTreeSet<_> = all().iter().map(|one| one.name).collect();
        assert_eq!(names.len(), all().len());
    }

    #[test]
    fn every_figure_stands_on_five_runs_of_one_fault_under_the_usual_load() {
        for target in TARGETS.iter().filter(|target| !target.experiments.is_empty()) {
            let of_it = all().into_iter().filter(|one| target.experiments.contains(&one.name));
            let of_it: Vec<_> = of_it.collect();
            assert!(
                of_it.iter().map(|one| one.repeats).sum::<usize>() >= OFTEN,
                "{}",
                target.fault
            );
            assert!(
                of_it
                    .iter()
                    .all(|one| one.faults.len() == 1 && one.pace == TrafficPace::Usual),
                "{}",
                target.fault
            );
        }
    }
}
