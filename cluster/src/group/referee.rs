//! The leader's part in leases: takes renewals, finds who is overdue, proposes what follows.
//!
//! Never by belief: a renewal is acknowledged only after a quorum has confirmed, *after* it came in, that this replica
//! leads. A deposed leader that does not know it yet can so not keep a holder in a lease that its successor will
//! count as over (see [`crate::core::fence`]).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use super::{Group, ProposeError};
use crate::core::directory::Replica;
use crate::core::fence::{Renewals, Timing};
use crate::core::leases::Holder;
use crate::core::{Command, CommandOutcome, Incarnation, ReplicaId};
use crate::raft::timing;
use crate::rpc::{Grant, PeerAnswer, Renewal};

pub(crate) struct Referee {
    timing: Timing,
    state: Mutex<RefereeState>,
}

#[derive(Default)]
struct RefereeState {
    /// The term that this replica leads in by its own belief, and what it has heard in it.
    term: Option<(u64, Renewals)>,
    confirmed: Option<Instant>,
}

impl RefereeState {
    /// The renewals of `term`; empty ones, from `now` on, if it is a new term.
    fn renewals(&mut self, term: u64, timing: Timing, now: Instant) -> &mut Renewals {
        let is_same = self.term.as_ref().is_some_and(|(known, _)| *known == term);
        if !is_same {
            self.term = None;
        }
        &mut self.term.get_or_insert_with(|| (term, Renewals::new(timing, now))).1
    }
}

impl Referee {
    pub(crate) fn new(timing: Timing) -> Self {
        let state = Mutex::default();
        Self { timing, state }
    }

    fn state(&self) -> MutexGuard<'_, RefereeState> {
        // The state is whole at any time; a panic of another holder does not change that.
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// A quorum has confirmed this replica's leadership.
    pub(crate) fn confirmed(&self, now: Instant) {
        self.state().confirmed = Some(now);
    }

    /// The age of that state.
    pub(crate) fn last_quorum_ack(&self, now: Instant) -> Option<Duration> {
        self.state().confirmed.map(|at| now.saturating_duration_since(at))
    }

    fn receive(&self, term: u64, holder: Holder, now: Instant) -> bool {
        self.state().renewals(term, self.timing, now).receive(holder, now)
    }

    fn overdue(&self, term: u64, holders: &BTreeSet<Holder>, now: Instant) -> Vec<Holder> {
        self.state().renewals(term, self.timing, now).overdue(holders, now)
    }
}

impl Group {
    /// Answers a replica that renews.
    pub(crate) async fn answer_renewal(&self, renewal: Renewal) -> PeerAnswer {
        match self.take_renewal(renewal).await {
            Ok(answer) => answer,
            Err(ProposeError::NotLeader) => PeerAnswer::NotLeader {
                leader: self.leader_address().filter(|_| self.believed_term().is_none()),
            },
            Err(error @ ProposeError::Unknown) => PeerAnswer::Refused(error.to_string()),
        }
    }

    async fn take_renewal(&self, renewal: Renewal) -> Result<PeerAnswer, ProposeError> {
        let term = self.believed_term().ok_or(ProposeError::NotLeader)?;
        let holder = Holder {
            replica: renewal.replica,
            incarnation: renewal.facts.incarnation,
        };
        let is_taken = self.0.referee.receive(term, holder, self.0.clock.now());
        self.confirm_leadership().await?;
        if !is_taken {
            return Ok(PeerAnswer::Refused("its expiry is under way".to_owned()));
        }
        let applied = self.applied();
        if applied.group.directory.removed.contains(&holder.replica) {
            return Ok(PeerAnswer::Removed);
        }
        if applied.membership.membership().get_node(&holder.replica).is_none() {
            return Ok(PeerAnswer::NotMember);
        }
        if let Some(refusal) = self.enter(&renewal).await? {
            return Ok(refusal);
        }
        self.take_yields(holder, renewal.yields, renewal.floors).await?;
        Ok(PeerAnswer::Held(self.grants(holder)))
    }

    /// Brings the replica's facts into the directory if they are not there.
    async fn enter(&self, renewal: &Renewal) -> Result<Option<PeerAnswer>, ProposeError> {
        let known = |replica: &Replica| replica.renews() && replica.facts == renewal.facts;
        if self
            .applied()
            .group
            .directory
            .replicas
            .get(&renewal.replica)
            .is_some_and(known)
        {
            return Ok(None);
        }
        let wall = self.0.clock.wall().duration_since(std::time::UNIX_EPOCH);
        let token_floor = wall.map_or(1, |since| u64::try_from(since.as_millis()).unwrap_or(1));
        let command = Command::Enter {
            replica: renewal.replica,
            facts: renewal.facts.clone(),
            token_floor,
        };
        Ok(match self.propose(command).await? {
            CommandOutcome::Done | CommandOutcome::Holding => None,
            CommandOutcome::Removed => Some(PeerAnswer::Removed),
            CommandOutcome::Over => Some(PeerAnswer::Over),
        })
    }

    async fn take_yields(
        &self,
        holder: Holder,
        yields: BTreeMap<String, u64>,
        floors: BTreeMap<String, u64>,
    ) -> Result<(), ProposeError> {
        let applied = self.applied();
        let is_held = applied
            .group
            .leases
            .held_by(holder.replica)
            .any(|(duty, lease)| yields.get(duty) == Some(&lease.token));
        if is_held {
            let (replica, incarnation) = (holder.replica, holder.incarnation);
            let command = Command::Yield {
                replica,
                incarnation,
                duties: yields,
                floors,
            };
            self.propose(command).await?;
        }
        Ok(())
    }

    fn grants(&self, holder: Holder) -> Vec<Grant> {
        let applied = self.applied();
        let held = applied.group.leases.held_by(holder.replica);
        let held = held.filter(|(_, lease)| lease.holder == Some(holder));
        held.map(|(duty, lease)| Grant {
            duty: duty.to_owned(),
            token: lease.token,
            revoked: lease.revoked,
        })
        .collect()
    }

    /// Answers a replica that stops.
    pub(crate) async fn answer_leave(&self, replica: ReplicaId, incarnation: Incarnation) -> PeerAnswer {
        match self.propose(Command::Leave { replica, incarnation }).await {
            Ok(_) => PeerAnswer::Done,
            Err(ProposeError::NotLeader) => PeerAnswer::NotLeader {
                leader: self.leader_address(),
            },
            Err(error) => PeerAnswer::Refused(error.to_string()),
        }
    }

    /// The leader's rounds.
    pub(crate) async fn sweep_forever(&self) {
        loop {
            self.0.clock.sleep(timing::SWEEP_PERIOD).await;
            if self.is_silent() {
                continue;
            }
            if let Some(term) = self.believed_term() {
                self.expire_overdue(term).await;
                self.tidy_members().await;
            }
        }
    }

    async fn expire_overdue(&self, term: u64) {
        let applied = self.applied();
        let holders = applied.group.directory.replicas.iter();
        let holders = holders.filter(|(_, found)| found.renews()).map(|(id, found)| Holder {
            replica: *id,
            incarnation: found.facts.incarnation,
        });
        let holders: BTreeSet<Holder> = holders.collect();
        for holder in self.0.referee.overdue(term, &holders, self.0.clock.now()) {
            self.expire(term, holder).await;
        }
    }

    /// Proposes to expire a replica that was overdue in this term, and in no other: there it may have been acknowledged
    /// since. A proposal without a quorum takes a second, in which this leader may have been deposed and elected again.
    pub(crate) async fn expire(&self, term: u64, holder: Holder) {
        // Nothing is awaited between this look and the proposal.
        if self.believed_term() != Some(term) {
            return;
        }
        let (replica, incarnation) = (holder.replica, holder.incarnation);
        tracing::info!(%replica, "a replica has not renewed; its leases go to others");
        // If this fails or seems to, the next round looks at what has been applied and tries again.
        let _ = self.propose(Command::Expire { replica, incarnation }).await;
    }
}
