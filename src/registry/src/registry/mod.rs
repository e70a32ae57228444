//! The registry of one resource: its strategy, the order of writes per key, and the face that callers see.
//!
//! Writes that start from the object as it is (update, patch, delete) take a turn per key: a hot key's writes queue in
//! the actor instead of fighting each other with compare-and-put in the store. Creates need no turn, since the store
//! decides who was first. Reads never come here: the handle answers them from the watch cache's snapshot.

mod actor;
mod handle;
mod logic;
mod messages;
#[cfg(test)]
mod tests;

pub use handle::RegistryHandle;
