//! Changes that the system of a generated history makes of its own accord, and what it says of itself.

use rand::Rng;

use super::{ENDED, FAULT, GeneratedWorld, MS, Pending, REPLICAS, VICTIM, key, path};
use crate::history::{DutySample, FenceStamp, Key, LeaseState, Nanos, ReplicaSample, SampleRecord, TruthEntry};

impl GeneratedWorld {
    /// A duty that writes now and then, and an election's lease: both change hands when the victim goes.
    pub(super) fn duty(&mut self, pending: &Pending) -> Nanos {
        let fence = key("", "", "");
        let token = if pending.effect < FAULT.0 { 1 } else { 2 };
        let stamp = |raised, write| FenceStamp {
            duty: "sweep".to_owned(),
            token,
            raised,
            write,
        };
        let entry = |world: &mut Self, path: &str, key: &Key, fence, lease| {
            world.revision += 1;
            world.log.push(TruthEntry {
                revision: world.revision,
                path: path.to_owned(),
                key: key.clone(),
                at: pending.effect,
                fence,
                lease,
                ..TruthEntry::default()
            });
        };
        let raised = |entry: &TruthEntry| {
            entry
                .fence
                .as_ref()
                .is_some_and(|fence| fence.raised && fence.token == token)
        };
        if !self.log.iter().any(raised) {
            entry(
                self,
                "/trireme/fence/registry/sweep",
                &fence,
                Some(stamp(true, None)),
                None,
            );
        }
        let write = Some(format!("/trireme/writes/1/1 after {}", self.revision));
        entry(self, "/trireme/writes/1/1", &fence, Some(stamp(false, write)), None);
        let lease = key("leases.coordination.k8s.io", "kube-system", "sweep");
        let state = LeaseState {
            holder: format!("holder-{token}"),
            transitions: token - 1,
        };
        entry(self, &path(&lease), &lease, None, Some(state));
        pending.returned
    }

    pub(super) fn samples(&mut self) {
        for tick in 0..ENDED / (250 * MS) {
            let at = tick * 250 * MS;
            let deposed = at > FAULT.0 + 500 * MS;
            for (place, replica) in (1..).zip(REPLICAS) {
                let restarted = at >= FAULT.1;
                let down = replica == VICTIM && at >= FAULT.0 && !restarted;
                let pid = if replica == VICTIM && restarted { 20 } else { 10 };
                let pid = if down { 0 } else { pid + place };
                let between = at >= FAULT.0 && !deposed;
                self.history.samples.push(SampleRecord::Replica(ReplicaSample {
                    replica: replica.to_owned(),
                    pid,
                    rss: if down {
                        0
                    } else {
                        (100 + self.rng.random_range(0..20)) << 20
                    },
                    fds: if down { 0 } else { 40 + self.rng.random_range(0..5) },
                    ready: (!down).then_some(true),
                    id: (!down).then_some(place.into()),
                    leader: (!down && !between).then_some(if deposed { 3 } else { 2 }),
                    term: if deposed { 2 } else { 1 },
                    fenced: u64::from(replica == VICTIM && restarted),
                    called: at,
                    at: at + 2 * MS,
                }));
                if !down && !between {
                    self.history.samples.push(SampleRecord::Duty(DutySample {
                        replica: replica.to_owned(),
                        pid,
                        duty: "sweep".to_owned(),
                        holder: Some(if deposed { 3 } else { 2 }),
                        token: if deposed { 2 } else { 1 },
                        at: at + 2 * MS,
                    }));
                }
            }
        }
    }
}
