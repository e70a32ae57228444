//! Stopping in good order: leases first, then leadership.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Group;
use super::renewing::Course;
use crate::core::ReplicaId;
use crate::raft::timing;
use crate::rpc::{Envelope, PeerAnswer, Request};

/// Beyond the time for which followers grant no votes, so that the successor's first campaign is heard.
const AFTER_VOTE_LEASE: Duration = Duration::from_millis(30);
/// The number of times that the leader is asked to take the leases back.
const ATTEMPTS: usize = 4;

/// The leases that could be handed over. One that could not is given to others when it expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandOver {
    /// The leader has taken the leases back.
    pub leases: bool,
    /// Another replica leads, or another did anyway.
    pub leadership: bool,
}

impl Group {
    /// Ends every tenure, gives the leases back and, if this replica leads, lets another be elected. Takes about a
    /// second where it leads and is bounded to some seconds if no peer answers. Afterwards this replica goes on voting,
    /// and takes no lease until it is started again.
    pub async fn hand_over(&self) -> HandOver {
        self.0.is_leaving.store(true, Ordering::Relaxed);
        self.0.holdings.close();
        let leases = self.leave().await;
        let leadership = match self.believed_term() {
            None => true,
            Some(_) => self.step_down().await,
        };
        HandOver { leases, leadership }
    }

    async fn leave(&self) -> bool {
        let (replica, incarnation) = (self.id(), self.0.identity.incarnation);
        let mut course = Course::default();
        for _ in 0..ATTEMPTS {
            let answer = if self.believed_term().is_some() {
                Some(self.answer_leave(replica, incarnation).await)
            } else if let Some(address) = self.next_address(&mut course) {
                let request = Request::Leave { replica, incarnation };
                let envelope = Envelope { to: None, request };
                self.0
                    .caller
                    .call(&address, &envelope, timing::RENEW_TIMEOUT)
                    .await
                    .ok()
            } else {
                None
            };
            match answer {
                Some(PeerAnswer::Done) => return true,
                Some(PeerAnswer::NotLeader { leader }) => course.hint = leader,
                _ => self.0.clock.sleep(timing::RENEW_PERIOD).await,
            }
        }
        false
    }

    /// openraft 0.9 has no transfer of leadership. So: all holders renew once more; then no more heartbeats, until
    /// followers grant votes again; then the follower that has most of the log is asked to stand for election. The leases of others
    /// outlast that.
    async fn step_down(&self) -> bool {
        let raft = &self.0.raft;
        self.0.clock.sleep(timing::RENEW_PERIOD).await;
        self.0.is_silent.store(true, Ordering::Relaxed);
        raft.runtime_config().heartbeat(false);
        self.0.clock.sleep(timing::VOTE_LEASE + AFTER_VOTE_LEASE).await;
        if let Some((replica, address)) = self.successor() {
            let envelope = Envelope {
                to: Some(replica),
                request: Request::Campaign,
            };
            let called = self
                .0
                .caller
                .call::<_, PeerAnswer>(&address, &envelope, timing::RENEW_TIMEOUT)
                .await;
            if let Err(error) = called {
                tracing::debug!(%error, "the successor could not be asked to stand for election");
            }
        }
        let mut metrics = raft.metrics();
        let until = self.0.clock.now() + timing::PROPOSE_TIMEOUT * 2;
        let own = self.id();
        let other_leads = metrics.wait_for(|now| now.current_leader.is_some_and(|leader| leader != own));
        let is_done = matches!(self.0.clock.timeout_at(until, other_leads).await, Some(Ok(_)));
        raft.runtime_config().heartbeat(true);
        self.0.is_silent.store(false, Ordering::Relaxed);
        is_done
    }

    /// The voter that has most of this leader's log.
    fn successor(&self) -> Option<(ReplicaId, String)> {
        let metrics = self.0.raft.metrics();
        let metrics = metrics.borrow();
        let members = metrics.membership_config.membership();
        let voters = members.voter_ids().filter(|voter| *voter != self.id());
        let progress = metrics.replication.as_ref()?;
        let best = voters.max_by_key(|voter| progress.get(voter).copied().flatten())?;
        let address = members.get_node(&best)?.addr.clone();
        Some((best, address))
    }
}
