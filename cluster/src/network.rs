//! openraft's calls to peers, over the group's transport.

use std::time::Duration;

use openraft::error::{InstallSnapshotError, NetworkError, RPCError, RaftError, RemoteError, Timeout, Unreachable};
use openraft::network::{Backoff, RPCOption};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, InstallSnapshotResponse, VoteRequest,
    VoteResponse,
};
use openraft::{AnyError, RPCTypes, RaftNetwork, RaftNetworkFactory};

use crate::core::ReplicaId;
use crate::raft::{Node, RaftTypes, timing};
use crate::rpc::{Envelope, PeerAnswer, Request};
use crate::transport::{CallError, PeerCaller};

/// The delay before replication tries a peer again that it could not reach.
const BACKOFF: Duration = Duration::from_millis(100);

/// Makes clients for peers.
#[derive(Clone)]
pub(crate) struct Network {
    pub(crate) own: ReplicaId,
    pub(crate) caller: PeerCaller,
}

/// Calls one peer, and only the process with this id at its address: a replica that came back with an empty disk has
/// another id and must not answer for the one that had voted.
pub(crate) struct RaftPeer {
    own: ReplicaId,
    target: ReplicaId,
    address: String,
    caller: PeerCaller,
}

impl RaftNetworkFactory<RaftTypes> for Network {
    type Network = RaftPeer;

    async fn new_client(&mut self, target: ReplicaId, node: &Node) -> RaftPeer {
        RaftPeer {
            own: self.own,
            target,
            address: node.addr.clone(),
            caller: self.caller.clone(),
        }
    }
}

type CallFailure<E> = RPCError<ReplicaId, Node, RaftError<ReplicaId, E>>;

impl RaftPeer {
    async fn call<E: std::error::Error>(
        &self,
        action: RPCTypes,
        request: Request,
        option: &RPCOption,
    ) -> Result<PeerAnswer, CallFailure<E>> {
        let to = Some(self.target);
        let patience = timing::call_timeout(option.hard_ttl());
        let envelope = Envelope { to, request };
        let called = self.caller.call(&self.address, &envelope, patience).await;
        called.map_err(|error| match error {
            CallError::Timeout { .. } => RPCError::Timeout(Timeout {
                action,
                id: self.own,
                target: self.target,
                timeout: patience,
            }),
            // Also a lost connection: an immediate retry against a peer that hangs up would be a storm.
            error => RPCError::Unreachable(Unreachable::new(&error)),
        })
    }

    #[expect(clippy::result_large_err, reason = "the error is openraft's")]
    fn remote<T, E: std::error::Error>(&self, result: Result<T, RaftError<ReplicaId, E>>) -> Result<T, CallFailure<E>> {
        result.map_err(|error| RPCError::RemoteError(RemoteError::new(self.target, error)))
    }
}

/// The peer is not who it should be, or does not speak as it should.
fn unexpected<E: std::error::Error>() -> CallFailure<E> {
    RPCError::Unreachable(Unreachable::new(&NetworkError::from(AnyError::error(
        "the peer has another id or is not ready",
    ))))
}

impl RaftNetwork<RaftTypes> for RaftPeer {
    async fn append_entries(
        &mut self,
        rpc: AppendEntriesRequest<RaftTypes>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<ReplicaId>, CallFailure<openraft::error::Infallible>> {
        match self
            .call(RPCTypes::AppendEntries, Request::Append(rpc), &option)
            .await?
        {
            PeerAnswer::Append(result) => self.remote(result),
            _ => Err(unexpected()),
        }
    }

    async fn install_snapshot(
        &mut self,
        rpc: InstallSnapshotRequest<RaftTypes>,
        option: RPCOption,
    ) -> Result<InstallSnapshotResponse<ReplicaId>, CallFailure<InstallSnapshotError>> {
        match self
            .call(RPCTypes::InstallSnapshot, Request::Snapshot(rpc), &option)
            .await?
        {
            PeerAnswer::Snapshot(result) => self.remote(result),
            _ => Err(unexpected()),
        }
    }

    async fn vote(
        &mut self,
        rpc: VoteRequest<ReplicaId>,
        option: RPCOption,
    ) -> Result<VoteResponse<ReplicaId>, CallFailure<openraft::error::Infallible>> {
        match self.call(RPCTypes::Vote, Request::Vote(rpc), &option).await? {
            PeerAnswer::Vote(result) => self.remote(result),
            _ => Err(unexpected()),
        }
    }

    fn backoff(&self) -> Backoff {
        Backoff::new(std::iter::repeat(BACKOFF))
    }
}
