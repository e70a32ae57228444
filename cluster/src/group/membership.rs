//! Members of the group: joining, adding, removing. The leader's work, one change at a time.

use std::collections::{BTreeMap, BTreeSet};

use openraft::ChangeMembers;

use super::{Group, ProposeError};
use crate::core::{Command, CommandOutcome, ReplicaId};
use crate::raft::{Node, timing};
use crate::rpc::{Envelope, PeerAnswer, Request};
use crate::transport::CallError;

/// The reason that the members of the group were not changed.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// Another replica leads.
    #[error("this replica does not lead the group")]
    NotLeader {
        /// The leader's address, if it is known.
        leader: Option<String>,
    },
    /// The replica was removed before.
    #[error("the replica was removed from the group; with an empty Raft directory it can join anew")]
    Removed,
    /// It cannot be done now, or not at all.
    #[error("{0}")]
    Refused(String),
    /// It may have been done.
    #[error("{0}; it may have been done all the same")]
    Unknown(String),
}

impl From<ProposeError> for ChangeError {
    fn from(error: ProposeError) -> Self {
        match error {
            ProposeError::NotLeader => Self::NotLeader { leader: None },
            ProposeError::Unknown => Self::Unknown(error.to_string()),
        }
    }
}

fn refused(why: impl Into<String>) -> ChangeError {
    ChangeError::Refused(why.into())
}

impl Group {
    /// Makes the replica at `address` a member. It must run, with an empty Raft directory.
    ///
    /// # Errors
    /// If it cannot be reached, is or was a member of another group, or no quorum agrees.
    pub async fn add(&self, address: &str) -> Result<(), ChangeError> {
        let request = Request::Add {
            address: address.to_owned(),
        };
        self.ask_for_change(request).await
    }

    /// Takes a replica out of the group for good, after it has yielded its leases or has been silent for long enough.
    ///
    /// # Errors
    /// If it is the last voter, goes on holding a lease, or no quorum agrees.
    pub async fn remove(&self, replica: ReplicaId) -> Result<(), ChangeError> {
        self.ask_for_change(Request::Remove { replica }).await
    }

    /// Does it here, or has the leader do it.
    async fn ask_for_change(&self, request: Request) -> Result<(), ChangeError> {
        if self.believed_term().is_some() {
            return match request {
                Request::Add { address } => self.add_here(&address).await,
                Request::Remove { replica } => self.remove_here(replica).await,
                _ => Err(refused("not a change of members")),
            };
        }
        let leader = self.leader_address().ok_or(ChangeError::NotLeader { leader: None })?;
        let envelope = Envelope { to: None, request };
        // Yielding comes before the change, so twice its time.
        let patience = timing::MEMBERSHIP_TIMEOUT * 2;
        match self.0.caller.call(&leader, &envelope, patience).await {
            Ok(PeerAnswer::Done) => Ok(()),
            Ok(PeerAnswer::NotLeader { leader }) => Err(ChangeError::NotLeader { leader }),
            Ok(PeerAnswer::Removed) => Err(ChangeError::Removed),
            Ok(PeerAnswer::Refused(why)) => Err(refused(why)),
            Ok(PeerAnswer::Unknown(why)) => Err(ChangeError::Unknown(why)),
            Ok(_) => Err(refused("the leader gave an answer that does not fit")),
            Err(error @ CallError::Unreachable { .. }) => Err(refused(error.to_string())),
            Err(error) => Err(ChangeError::Unknown(error.to_string())),
        }
    }

    pub(crate) fn answer_change(&self, changed: Result<(), ChangeError>) -> PeerAnswer {
        match changed {
            Ok(()) => PeerAnswer::Done,
            Err(ChangeError::Removed) => PeerAnswer::Removed,
            Err(ChangeError::NotLeader { .. }) => PeerAnswer::NotLeader {
                leader: self.leader_address(),
            },
            Err(ChangeError::Refused(why)) => PeerAnswer::Refused(why),
            Err(ChangeError::Unknown(why)) => PeerAnswer::Unknown(why),
        }
    }

    pub(crate) async fn add_here(&self, address: &str) -> Result<(), ChangeError> {
        let hello = self.hello(address).await;
        let hello = hello.ok_or_else(|| refused(format!("no replica of this group answers at {address}")))?;
        let is_member = self
            .applied()
            .membership
            .membership()
            .get_node(&hello.replica)
            .is_some();
        if hello.has_group && !is_member {
            return Err(refused(
                "the replica has been in another group; it needs an empty Raft directory",
            ));
        }
        self.join(hello.replica, address).await
    }

    /// Makes a replica a voter, by way of a learner that has caught up. The replica at its address before is taken for
    /// dead: it is the same replica, which has lost its disk. A member that has another address now is found there.
    pub(crate) async fn join(&self, replica: ReplicaId, address: &str) -> Result<(), ChangeError> {
        self.confirm_leadership().await?;
        let _one = self
            .0
            .membership
            .try_lock()
            .map_err(|_| refused("another change is under way"))?;
        if self.applied().group.directory.removed.contains(&replica) {
            return Err(ChangeError::Removed);
        }
        let members = self.applied().membership.membership().clone();
        let is_voter = members.voter_ids().any(|voter| voter == replica);
        let moves = members.get_node(&replica).map(|node| node.addr != address);
        if is_voter && moves == Some(false) {
            return Ok(());
        }
        if moves == Some(true) {
            self.move_member(replica, address).await?;
        }
        self.within(self.0.raft.add_learner(replica, Node::new(address), true))
            .await?;
        let former = members
            .nodes()
            .filter(|(id, node)| **id != replica && node.addr == address);
        let former: BTreeSet<ReplicaId> = former.map(|(id, _)| *id).collect();
        let mut voters: BTreeSet<ReplicaId> = members.voter_ids().filter(|voter| !former.contains(voter)).collect();
        voters.insert(replica);
        self.change_members(ChangeMembers::ReplaceAllVoters(voters)).await?;
        if !former.is_empty() {
            self.change_members(ChangeMembers::RemoveNodes(former)).await?;
        }
        tracing::info!(%replica, address, "a replica is a member of the group");
        Ok(())
    }

    /// Has a member found at another address. Safe only if it is there with its votes, so it is asked who it is.
    async fn move_member(&self, replica: ReplicaId, address: &str) -> Result<(), ChangeError> {
        let is_there = replica == self.id() || self.hello(address).await.is_some_and(|hello| hello.replica == replica);
        if !is_there {
            return Err(refused(format!("replica {replica} does not answer at {address}")));
        }
        let moved = BTreeMap::from([(replica, Node::new(address))]);
        self.change_members(ChangeMembers::SetNodes(moved)).await
    }

    pub(crate) async fn remove_here(&self, replica: ReplicaId) -> Result<(), ChangeError> {
        self.confirm_leadership().await?;
        // From the first look at the members to their last change: else this would undo what others do in between.
        let until = self.0.clock.now() + timing::MEMBERSHIP_TIMEOUT;
        let one = self.0.clock.timeout_at(until, self.0.membership.lock()).await;
        let _one = one.ok_or_else(|| refused("another change is under way"))?;
        let members = self.applied().membership.membership().clone();
        let mut voters: BTreeSet<ReplicaId> = members.voter_ids().collect();
        if voters.remove(&replica) && voters.is_empty() {
            return Err(refused("the last member of the group cannot be removed"));
        }
        self.propose(Command::Retire { replica }).await?;
        let mut applied = self.0.applied.clone();
        let until = self.0.clock.now() + timing::MEMBERSHIP_TIMEOUT;
        let free = applied.wait_for(|now| now.group.leases.held_by(replica).next().is_none());
        if self.0.clock.timeout_at(until, free).await.is_none() {
            return Err(refused("the replica goes on holding leases"));
        }
        if self.propose(Command::Remove { replica }).await? != CommandOutcome::Done {
            return Err(refused("the replica has taken a lease again"));
        }
        self.change_members(ChangeMembers::ReplaceAllVoters(voters)).await?;
        let is_learner = self.applied().membership.membership().get_node(&replica).is_some();
        if is_learner {
            self.change_members(ChangeMembers::RemoveNodes(BTreeSet::from([replica])))
                .await?;
        }
        tracing::info!(%replica, "a replica was removed from the group");
        Ok(())
    }

    async fn change_members(&self, change: ChangeMembers<ReplicaId, Node>) -> Result<(), ChangeError> {
        self.within(self.0.raft.change_membership(change, false)).await
    }

    async fn within<T, E: std::fmt::Display>(
        &self,
        change: impl Future<Output = Result<T, E>>,
    ) -> Result<(), ChangeError> {
        let until = self.0.clock.now() + timing::MEMBERSHIP_TIMEOUT;
        match self.0.clock.timeout_at(until, change).await {
            Some(Ok(_)) => Ok(()),
            Some(Err(error)) => Err(refused(error.to_string())),
            None => Err(ChangeError::Unknown(ProposeError::Unknown.to_string())),
        }
    }

    /// Finishes what a former leader left undone: a change of members that stands half-way, and replicas in the
    /// directory that are no members any more.
    pub(crate) async fn tidy_members(&self) {
        let applied = self.applied();
        let membership = applied.membership.membership();
        let configs = membership.get_joint_config();
        if let (2.., Some(last)) = (configs.len(), configs.last())
            && let Ok(_one) = self.0.membership.try_lock()
        {
            let _ = self.change_members(ChangeMembers::ReplaceAllVoters(last.clone())).await;
        }
        for (id, found) in &applied.group.directory.replicas {
            let is_gone = membership.get_node(id).is_none() && !found.renews();
            if is_gone && self.propose(Command::Remove { replica: *id }).await.is_err() {
                return;
            }
        }
    }
}
