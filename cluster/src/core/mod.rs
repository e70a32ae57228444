//! The group's rules, as values alone: no I/O, no clock, no Raft. Commands go in, outcomes come out.
//!
//! ```text
//!   leader's time decisions            replicated, in log order             every replica
//!   fence::Renewals ──► Command ──────────► GroupState::apply ──────────► who holds what
//!                                           directory + leases
//! ```
//!
//! Replicated state never depends on a clock: the leader decides that a replica is overdue ([`fence`]) and proposes
//! [`Command::Expire`]; applying it gives the same state everywhere.

pub(crate) mod directory;
pub(crate) mod fence;
pub(crate) mod leases;
mod state;
#[cfg(test)]
mod tests;

pub(crate) use directory::ReplicaDescription;
pub use directory::{Incarnation, ReplicaId};
pub(crate) use state::{Command, CommandOutcome, GroupState};
