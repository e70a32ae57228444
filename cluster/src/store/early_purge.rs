//! The purge of the log that comes before the snapshot that covers it. openraft sends a snapshot to the task of the state
//! machine and has the log purged by it at once, and may append to the purged log while the snapshot is still being
//! installed:
//!
//! ```text
//! openraft's core    purge 9 (seems to be made) ──▶ append 10 … waits ·················▶ written
//! state machine      install the snapshot of 9 ────────────▶ in one commit: snapshot, purge
//! ```
//!
//! If an append did not wait, a crash in between would leave entries from 10 on with neither log nor snapshot before them.

use openraft::LogId;
use tokio::sync::watch;

use super::file::StoreFileError;
use crate::core::ReplicaId;

/// See the module's header.
#[derive(Debug, Default)]
pub(super) struct EarlyPurge {
    upto: watch::Sender<Option<LogId<ReplicaId>>>,
    /// Has a receiver for each state machine that may install a snapshot.
    machines: watch::Sender<()>,
}

impl EarlyPurge {
    /// The end of the purge that waits for its snapshot.
    pub(super) fn upto(&self) -> Option<LogId<ReplicaId>> {
        *self.upto.borrow()
    }

    /// Has a purge wait for its snapshot. To be called in a transaction that writes: none may keep the snapshot meanwhile.
    pub(super) fn begin(&self, upto: LogId<ReplicaId>) {
        self.upto.send_replace(Some(upto));
    }

    /// Notes that a snapshot up to `covered` is on disk, and the purge that it covers with it.
    pub(super) fn end(&self, covered: Option<LogId<ReplicaId>>) {
        self.upto
            .send_if_modified(|upto| upto.take_if(|upto| Some(*upto) <= covered).is_some());
    }

    /// A sign of life of a state machine, for as long as it is held.
    pub(super) fn machine(&self) -> watch::Receiver<()> {
        self.machines.subscribe()
    }

    /// Waits until the log can be continued with an entry: until no purge is left to be made of the one before it.
    ///
    /// # Errors
    /// If no state machine is left that could install the snapshot: openraft ends that of a failed installation.
    pub(super) async fn passed(&self, next: u64) -> Result<(), StoreFileError> {
        let mut changes = self.upto.subscribe();
        tokio::select! {
            biased;
            _ = changes.wait_for(|upto| upto.is_none_or(|upto| upto.index + 1 < next)) => Ok(()),
            () = self.machines.closed() => Err(StoreFileError::NoSnapshot),
        }
    }
}
