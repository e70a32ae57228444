//! The way of a replica with an empty directory into its group.
//!
//! The first members found it together, once, and only when *all* of them have answered that they know of no group and
//! name the same first members. One of them, the one with the lowest address, does it. A replica that finds a group joins it.
//! So a first member that lost its disk, comes late or starts again joins; it can never found a second group, because
//! the others that know of the first will say so, and as long as one of them is silent no group is founded.

use std::collections::BTreeMap;

use futures_util::future::join_all;

use super::Group;
use super::renewing::Course;
use crate::raft::{Node, timing};
use crate::rpc::{Envelope, Hello, PeerAnswer, Request};

impl Group {
    /// Returns true if this replica knows of a group that it is or was a member of.
    pub(crate) fn has_group(&self) -> bool {
        let metrics = self.0.raft.metrics();
        let metrics = metrics.borrow();
        metrics.membership_config.membership().voter_ids().next().is_some()
    }

    /// Founds or joins until this replica is in a group.
    pub(crate) async fn find_group(&self) {
        let mut course = Course::default();
        while !self.has_group() {
            self.look_for_group(&mut course).await;
            self.0.clock.sleep(timing::RENEW_PERIOD).await;
        }
    }

    async fn look_for_group(&self, course: &mut Course) {
        let config = &self.0.config;
        let others = config.peers.iter().filter(|peer| **peer != config.advertise);
        let asked = others.map(|peer| async move { (peer, self.hello(peer).await) });
        let answers: BTreeMap<_, _> = join_all(asked).await.into_iter().collect();
        let known = answers.values().flatten();
        if known.clone().any(|hello| hello.has_group) {
            self.join_by(course).await;
            return;
        }
        let is_founder = config.peers.first() == Some(&config.advertise);
        let is_complete =
            answers.values().all(Option::is_some) && known.clone().all(|hello| hello.peers == config.peers);
        if is_founder && is_complete {
            let own = (self.id(), Node::new(config.advertise.clone()));
            let others = answers.iter().filter_map(|(peer, hello)| {
                let hello = hello.as_ref()?;
                Some((hello.replica, Node::new((*peer).clone())))
            });
            let members: BTreeMap<_, _> = others.chain([own]).collect();
            match self.0.raft.initialize(members).await {
                Ok(()) => tracing::info!("founded the replica group"),
                Err(error) => tracing::debug!(%error, "did not found the replica group"),
            }
        }
    }

    pub(crate) async fn hello(&self, peer: &str) -> Option<Hello> {
        let request = Request::Hello;
        let envelope = Envelope { to: None, request };
        match self.0.caller.call(peer, &envelope, timing::RENEW_TIMEOUT).await {
            Ok(PeerAnswer::Hello(hello)) => Some(hello),
            _ => None,
        }
    }

    /// Asks to become a member, or to be found at another address.
    pub(crate) async fn join_by(&self, course: &mut Course) {
        if self.believed_term().is_some() {
            if let Err(error) = self.join(self.id(), &self.0.config.advertise).await {
                tracing::debug!(%error, "cannot change the own address yet");
            }
            return;
        }
        let Some(address) = self.next_address(course) else {
            return;
        };
        let request = Request::Join {
            replica: self.id(),
            address: self.0.config.advertise.clone(),
        };
        let envelope = Envelope { to: None, request };
        match self
            .0
            .caller
            .call(&address, &envelope, timing::MEMBERSHIP_TIMEOUT)
            .await
        {
            Ok(PeerAnswer::Done) => tracing::info!("joined the replica group"),
            Ok(PeerAnswer::NotLeader { leader }) => course.hint = leader,
            Ok(PeerAnswer::Refused(why)) => tracing::debug!(why, "cannot join yet"),
            _ => {}
        }
    }
}
