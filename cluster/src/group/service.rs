//! Answers what peers ask.

use super::Group;
use crate::rpc::{Answer, Envelope, Hello, Request};
use crate::transport::Service;

#[derive(Clone)]
pub(crate) struct PeerService(pub(crate) Group);

impl Service for PeerService {
    type Request = Envelope;
    type Answer = Answer;

    async fn answer(&self, envelope: Envelope) -> Answer {
        let group = &self.0;
        if envelope.to.is_some_and(|to| to != group.id()) {
            return Answer::NotMe;
        }
        let raft = &group.0.raft;
        match envelope.request {
            Request::Hello => Answer::Hello(Hello {
                replica: group.id(),
                has_group: group.has_group(),
                peers: group.0.config.peers.clone(),
            }),
            Request::Append(request) => Answer::Append(raft.append_entries(request).await),
            Request::Vote(request) => Answer::Vote(raft.vote(request).await),
            Request::Snapshot(request) => Answer::Snapshot(raft.install_snapshot(request).await),
            Request::Renew(renewal) => group.answer_renewal(renewal).await,
            Request::Leave { replica, incarnation } => group.answer_leave(replica, incarnation).await,
            Request::Join { replica, address } => group.answer_change(group.join(replica, &address).await),
            Request::Add { address } => group.answer_change(group.add_here(&address).await),
            Request::Remove { replica } => group.answer_change(group.remove_here(replica).await),
            Request::Campaign => match raft.trigger().elect().await {
                Ok(()) => Answer::Done,
                Err(error) => Answer::Refused(error.to_string()),
            },
        }
    }
}
