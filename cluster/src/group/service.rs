//! Answers what peers ask.

use super::Group;
use crate::rpc::{Envelope, Hello, PeerAnswer, Request};
use crate::transport::Service;

#[derive(Clone)]
pub(crate) struct PeerService(pub(crate) Group);

impl Service for PeerService {
    type Request = Envelope;
    type Answer = PeerAnswer;

    async fn answer(&self, envelope: Envelope) -> PeerAnswer {
        let group = &self.0;
        if envelope.to.is_some_and(|to| to != group.id()) {
            return PeerAnswer::NotMe;
        }
        let raft = &group.0.raft;
        match envelope.request {
            Request::Hello => PeerAnswer::Hello(Hello {
                replica: group.id(),
                has_group: group.has_group(),
                peers: group.0.config.peers.clone(),
            }),
            Request::Append(request) => PeerAnswer::Append(raft.append_entries(request).await),
            Request::Vote(request) => PeerAnswer::Vote(raft.vote(request).await),
            Request::Snapshot(request) => PeerAnswer::Snapshot(raft.install_snapshot(request).await),
            Request::Renew(renewal) => group.answer_renewal(renewal).await,
            Request::Leave { replica, incarnation } => group.answer_leave(replica, incarnation).await,
            Request::Join { replica, address } => group.answer_change(group.join(replica, &address).await),
            Request::Add { address } => group.answer_change(group.add_here(&address).await),
            Request::Remove { replica } => group.answer_change(group.remove_here(replica).await),
            Request::Campaign => match raft.trigger().elect().await {
                Ok(()) => PeerAnswer::Done,
                Err(error) => PeerAnswer::Refused(error.to_string()),
            },
        }
    }
}
