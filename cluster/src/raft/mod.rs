//! The openraft configuration of this group: its types, its network and its timing. Nothing outside the crate sees it.

pub(crate) mod network;
mod runtime;
pub(crate) mod timing;
mod types;

pub(crate) use types::{Node, Raft, RaftTypes, Response};
