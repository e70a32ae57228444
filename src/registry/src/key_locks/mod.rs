//! The order of writes per key: the actor of a registry.
//!
//! Writes that start from the object as it is (update, patch, delete) hold their key's guard while they compute and
//! commit: a hot key's writes queue here instead of fighting each other with compare-and-put in the store. No write holds
//! a guard while it waits for admission; what the wait has made stale is found when the key is locked again for the commit.
//! Creates need no guard, since the store decides who was first.
//!
//! The guard is about fairness, not about correctness: the store compares revisions in any case. A key that is free is taken without
//! the actor, which would cost three thread switches a write; those who wait for a key are the actor's.

mod actor;
mod handle;
mod logic;
mod messages;
#[cfg(test)]
mod tests;

pub use handle::RegistryError;
pub(crate) use handle::{HeldKey, KeyLocks, WritePermit};
