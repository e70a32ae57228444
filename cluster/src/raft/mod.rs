//! The openraft configuration of this group: its types and its timing. Nothing outside the crate sees it.

#[cfg(test)]
pub(crate) mod random;
mod runtime;
pub(crate) mod timing;
mod types;

pub(crate) use types::{Node, Raft, RaftTypes, Response};
