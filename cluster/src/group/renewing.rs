//! Every replica's part in leases: renew with the leader, a few times a ttl, and give up what is asked back.

use std::sync::atomic::{AtomicBool, Ordering};

use super::Group;
use crate::core::ReplicaDescription;
use crate::raft::timing;
use crate::rpc::{Envelope, PeerAnswer, Renewal, Request};
use crate::store::Applied;

impl Group {
    /// Renews for as long as the process lives.
    pub(crate) async fn renew_forever(&self) {
        let mut course = Course::default();
        loop {
            let started = self.0.clock.now();
            let before = self.leases_applied(&self.applied());
            if !self.is_leaving() {
                self.renew(&mut course).await;
            }
            let next = started + timing::RENEW_PERIOD;
            tokio::select! {
                () = self.0.clock.sleep_until(next) => {}
                () = self.0.holdings.news.notified() => {}
                () = self.leases_differ_from(&before) => {}
            }
        }
    }

    /// The leases of this replica as of the applied state.
    fn leases_applied(&self, applied: &Applied) -> Vec<(String, u64, bool)> {
        let held = applied.group.leases.held_by(self.id());
        let held = held.map(|(duty, lease)| (duty.to_owned(), lease.token, lease.revoked));
        held.collect()
    }

    /// Waits until the applied state gives this replica other leases than `before`.
    async fn leases_differ_from(&self, before: &[(String, u64, bool)]) {
        let mut applied = self.0.applied.clone();
        let is_stopped = applied
            .wait_for(|now| self.leases_applied(now) != before)
            .await
            .is_err();
        if is_stopped {
            // Raft has stopped; the period goes on.
            std::future::pending::<()>().await;
        }
    }

    async fn renew(&self, course: &mut Course) {
        self.0.holdings.give_up_outbid();
        let sent = self.0.clock.now();
        let renewal = Renewal {
            replica: self.id(),
            facts: ReplicaDescription {
                incarnation: self.0.identity.incarnation,
                address: self.0.config.advertise.clone(),
                version: self.0.config.version.clone(),
                duties: self.0.holdings.duties(),
            },
            yields: self.0.holdings.yields(),
            floors: self.0.holdings.floors(),
        };
        let answer = if self.believed_term().is_some() {
            Some(self.answer_renewal(renewal).await)
        } else {
            self.ask_leader(course, Request::Renew(renewal)).await
        };
        match answer {
            Some(PeerAnswer::Held(grants)) => {
                self.0.holdings.renewed(sent, &grants);
                if self.has_moved() {
                    // Raft does not know the leader where nothing of it arrives.
                    course.hint = course.asked_last.take();
                    self.join_by(course).await;
                }
            }
            Some(PeerAnswer::NotLeader { leader }) => course.hint = leader,
            Some(PeerAnswer::NotMember) => self.join_by(course).await,
            // A replica that has left gets the answer that its process is over.
            Some(PeerAnswer::Removed | PeerAnswer::Over) if !self.is_leaving() => {
                self.0.holdings.close();
                // It may not have heard that it is no voter any more.
                self.0.raft.runtime_config().elect(false);
                course.tell_removed(self);
            }
            _ => course.hint = None,
        }
    }

    /// Returns true if its peers look for this replica at another address than it has now.
    fn has_moved(&self) -> bool {
        let members = self.0.raft.metrics().borrow().membership_config.clone();
        let known = members.membership().get_node(&self.id());
        known.is_some_and(|known| known.addr != self.0.config.advertise)
    }

    async fn ask_leader(&self, course: &mut Course, request: Request) -> Option<PeerAnswer> {
        let address = self.next_address(course)?;
        let envelope = Envelope { to: None, request };
        let called = self.0.caller.call(&address, &envelope, timing::RENEW_TIMEOUT).await;
        course.asked_last = Some(address);
        called
            .inspect_err(|error| tracing::debug!(%error, "a renewal was not answered"))
            .ok()
    }

    /// The replica to ask: the one that another named, else the leader by Raft, else all members in turn.
    pub(crate) fn next_address(&self, course: &mut Course) -> Option<String> {
        if let Some(hint) = course.hint.take().or_else(|| self.leader_address()) {
            return Some(hint);
        }
        let mut all = self.0.config.peers.clone();
        let metrics = self.0.raft.metrics();
        let members = metrics.borrow().membership_config.clone();
        all.extend(members.membership().nodes().map(|(_, node)| node.addr.clone()));
        all.remove(&self.0.config.advertise);
        course.turn = course.turn.wrapping_add(1);
        let place = course.turn.checked_rem(all.len())?;
        all.into_iter().nth(place)
    }
}

/// The search for the leader.
#[derive(Default)]
pub(crate) struct Course {
    pub(crate) hint: Option<String>,
    /// The replica that was asked last.
    asked_last: Option<String>,
    turn: usize,
    is_reported: AtomicBool,
}

impl Course {
    fn tell_removed(&self, group: &Group) {
        if !self.is_reported.swap(true, Ordering::Relaxed) {
            tracing::error!(
                replica = %group.id(),
                "this replica was removed from the group or replaced; to join again, stop it and move its Raft directory away"
            );
        }
    }
}
