//! The durable state of this replica: its vote, its log, its snapshot, its id. One redb file in its Raft directory.
//!
//! Promises: what is acknowledged is on disk before. A file that is torn or damaged is refused at the start, because
//! a replica that forgot a vote could vote twice. Hence two-phase commits: with one phase, redb takes a damaged newest
//! commit for one that a crash cut short, and quietly goes back to the commit before it.
//!
//! ```text
//! <dir>/raft.redb   meta: format, id, incarnation, vote, purged, snapshot     log: index → entry
//! ```

mod check;
mod creation;
mod early_purge;
mod file;
mod log;
mod machine;
#[cfg(test)]
pub(crate) mod tests;

#[cfg(test)]
pub(crate) use file::Work;
pub(crate) use file::{RaftFile, StoreIdentity};
pub(crate) use log::LogStore;
#[cfg(feature = "testing")]
pub(crate) use machine::reread_stored_snapshot;
pub(crate) use machine::{Applied, StateMachine};

/// The reason that the Raft directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The operating system said no.
    #[error("cannot open {path}: {why}")]
    Io {
        /// The file or directory.
        path: String,
        /// The error of the operating system.
        why: String,
    },
    /// Another process has it.
    #[error("{path} is in use by another process")]
    InUse {
        /// The file.
        path: String,
    },
    /// It is not what was written.
    #[error(
        "{path} is damaged ({why}); a replica must not vote by damaged state: move its directory away and start again, \
         and it joins the group under a new id"
    )]
    Damaged {
        /// The file.
        path: String,
        /// The mismatch.
        why: String,
    },
}
