//! The actor runtime of Trireme: what every room that owns changing state is built on.
//!
//! It wraps actix so that the traps of a bare actix actor cannot be stepped into:
//!
//! | trap | here |
//! | --- | --- |
//! | a mailbox capacity does not bound the mailbox | [`Handle`] takes a permit in front; none is [`AskError::Overloaded`] |
//! | a supervisor does not survive a panic | [`ActorSystem::spawn`] takes a factory; a panic ends in a fresh instance |
//! | `run_interval` starves behind a busy mailbox | [`Owned::start_timer`]: a task of its own, and a place of its own in front of the mailbox |
//! | a busy actor starves its neighbours on the arbiter | an actor yields after a bounded number of turns |
//! | handlers that await interleave | [`Receive::receive`] is synchronous; I/O goes through [`Turn::detach`] |
//! | cycles of asks hang | [`topology`]: asks go down in rank only, checked when a handle is given out |
//!
//! Callers: every room that has an actor. Promise: nothing outside an actor's folder sees its mailbox, and no message
//! is ever queued without a bound.

mod actor;
mod arbiters;
mod clock;
mod edges;
mod handle;
mod message;
mod restart;
mod shared;
mod supervise;
mod system;
mod tasks;
pub mod testkit;
pub mod topology;
mod vitals;

#[cfg(test)]
mod tests;

pub use actor::{Actor, Gone, Lost, Myself, Receive, Turn};
pub use arbiters::run_system;
pub use clock::{Clock, ManualClock};
pub use edges::HandleUse;
pub use handle::{Handle, Notes, Owned, Permit};
pub use message::{AskError, Message, NoteError, Reply};
pub use restart::{Fatal, RestartPolicy};
pub use system::{ActorSystem, ActorSystemBuilder, Leaked, SpawnError};
pub use tasks::{TaskHandle, Tasks};
pub use topology::{ActorKind, Caller};
pub use vitals::{ActorSnapshot, ActorState};

/// Compiles and runs the example of the page on the actor model.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/actors.md")]
mod page {}
