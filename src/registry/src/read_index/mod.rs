//! The read index: how fresh a linearizable read has to be.
//!
//! All readers that wait share one read of the store's revision, as Raft's read index does: a reader joins the next
//! round, never the one under way, whose answer may be older than a write the reader knows of. Every reader of a
//! resource asks here, and nothing else does.
//!
//! ```text
//!  nobody reads ──── a reader comes ──► it reads itself, on its own event loop
//!                                          │ others come meanwhile: they wait for the next round
//!                                          ▼
//!                                       the actor reads for all of them, and again while more have come
//! ```

mod actor;
mod handle;
mod logic;
mod messages;
#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test awaits what it spawns")]
mod tests;

pub use handle::ReadIndexHandle;
