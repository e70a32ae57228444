//! The types that the group's Raft works with.

use std::io::Cursor;

use openraft::BasicNode;

use super::runtime::Runtime;
use crate::core::{Command, CommandOutcome, ReplicaId};

openraft::declare_raft_types!(
    /// The group's Raft: commands of [`crate::core`], nodes by their address.
    pub(crate) RaftTypes:
        D = Command,
        R = Response,
        NodeId = ReplicaId,
        Node = BasicNode,
        SnapshotData = Cursor<Vec<u8>>,
        AsyncRuntime = Runtime,
);

/// A member of the Raft group: where it is reached.
pub(crate) type Node = BasicNode;
/// The handle on this replica's Raft.
pub(crate) type Raft = openraft::Raft<RaftTypes>;
/// The result of applying a log entry; entries that carry no command give nothing.
pub(crate) type Response = Option<CommandOutcome>;
