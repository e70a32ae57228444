//! Holders of duties, with their tokens.
//!
//! Two rules keep holders apart. A token is given out once and is greater than every earlier one of its duty. And a
//! lease is never taken from a replica that may still act on it: it is *revoked*, which asks the holder to yield, and
//! becomes free when the holder yields, leaves, expires or is known to be dead.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::directory::{Directory, Incarnation, ReplicaId};

/// A greater one is no token of ours, and would leave too few above it.
const GREATEST_FLOOR: u64 = u64::MAX / 2;

/// One process of one replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Holder {
    pub(crate) replica: ReplicaId,
    pub(crate) incarnation: Incarnation,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Lease {
    /// The newest token given out; of the holder, if there is one.
    pub(crate) token: u64,
    pub(crate) holder: Option<Holder>,
    /// The holder is asked to yield.
    pub(crate) revoked: bool,
}

/// All leases by the name of their duty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Leases {
    by_duty: BTreeMap<String, Lease>,
    /// Tokens begin above this, so that a group founded anew after all disks were lost does not give out the tokens
    /// of the former group again.
    floor: u64,
}

impl Leases {
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Lease)> {
        self.by_duty.iter().map(|(duty, lease)| (duty.as_str(), lease))
    }

    pub(crate) fn held_by(&self, replica: ReplicaId) -> impl Iterator<Item = (&str, &Lease)> {
        self.iter()
            .filter(move |(_, lease)| lease.holder.is_some_and(|holder| holder.replica == replica))
    }

    /// Sets where tokens begin, once.
    pub(crate) fn found(&mut self, floor: u64) {
        if self.floor == 0 {
            self.floor = floor.min(GREATEST_FLOOR);
        }
    }

    /// Frees what `replica` holds, in whatever process.
    pub(crate) fn release_all(&mut self, replica: ReplicaId) {
        for lease in self.by_duty.values_mut() {
            if lease.holder.is_some_and(|holder| holder.replica == replica) {
                lease.holder = None;
            }
        }
    }

    /// Frees one lease if `holder` has it under `token`.
    pub(crate) fn release(&mut self, duty: &str, holder: Holder, token: u64) {
        if let Some(lease) = self.by_duty.get_mut(duty)
            && lease.holder == Some(holder)
            && lease.token == token
        {
            lease.holder = None;
        }
    }

    /// Has the next token of a duty be above `floor`. Not while it is held: the token is that of the holder.
    pub(crate) fn raise(&mut self, duty: &str, floor: u64) {
        if let Some(lease) = self.by_duty.get_mut(duty)
            && lease.holder.is_none()
            && floor <= GREATEST_FLOOR
        {
            lease.token = lease.token.max(floor);
        }
    }

    /// Gives out what is free and marks what should move, so that live replicas hold equally many.
    pub(crate) fn settle(&mut self, directory: &Directory) {
        for duty in directory.replicas.values().flat_map(|replica| &replica.facts.duties) {
            if !self.by_duty.contains_key(duty) {
                self.by_duty.insert(duty.clone(), Lease::default());
            }
        }
        let mut loads = self.loads(directory);
        self.grant(directory, &mut loads);
        self.revoke(directory, loads);
    }

    /// The number of leases of each replica that may take some.
    fn loads(&self, directory: &Directory) -> Loads {
        let live = directory.replicas.iter().filter(|(_, replica)| replica.renews());
        live.map(|(id, _)| (*id, self.held_by(*id).count())).collect()
    }

    fn grant(&mut self, directory: &Directory, loads: &mut Loads) {
        for (duty, lease) in &mut self.by_duty {
            if lease.holder.is_some() {
                continue;
            }
            lease.revoked = false;
            let Some((replica, incarnation)) = lightest(duty, directory, loads) else {
                continue;
            };
            // Without a greater token there is no holder any more: better none than two under one token.
            let Some(token) = lease.token.max(self.floor).checked_add(1) else {
                continue;
            };
            lease.token = token;
            lease.holder = Some(Holder { replica, incarnation });
            *loads.entry(replica).or_default() += 1;
        }
    }

    /// Asks holders to yield: all of one that takes no more, and the surplus of one that has two more than another.
    fn revoke(&mut self, directory: &Directory, mut loads: Loads) {
        for (duty, lease) in &mut self.by_duty {
            let Some(holder) = lease.holder else { continue };
            let takes = |replica: ReplicaId| directory.replicas.get(&replica).is_some_and(|found| found.takes(duty));
            let load = |loads: &Loads, replica| loads.get(&replica).copied().unwrap_or_default();
            let lightest = lightest(duty, directory, &loads);
            let surplus = lightest.filter(|(other, _)| load(&loads, holder.replica) >= load(&loads, *other) + 2);
            lease.revoked = surplus.is_some() || !takes(holder.replica);
            if let Some((other, _)) = surplus {
                // As it will be, so that the next duty is judged by what this one's move leaves.
                *loads.entry(holder.replica).or_default() -= 1;
                *loads.entry(other).or_default() += 1;
            }
        }
    }
}

type Loads = BTreeMap<ReplicaId, usize>;

/// The replica with the fewest leases among those that take `duty`; of several, the one with the lowest id.
fn lightest(duty: &str, directory: &Directory, loads: &Loads) -> Option<(ReplicaId, Incarnation)> {
    let takers = directory.replicas.iter().filter(|(_, replica)| replica.takes(duty));
    takers
        .min_by_key(|(id, _)| loads.get(id).copied().unwrap_or_default())
        .map(|(id, replica)| (*id, replica.facts.incarnation))
}
