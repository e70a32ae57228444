//! For fuzzing: what reads frames, snapshots and commands, without a group around it.

use std::io;

use futures_util::FutureExt as _;
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    core::{Command, GroupState},
    rpc::{Envelope, PeerAnswer},
    store::reread_stored_snapshot,
    transport::frame,
};

/// Reads a frame as the request of a peer and writes it again; `None` at the end of the stream.
///
/// # Errors
/// If it is no such frame.
pub fn reread_request(bytes: &[u8]) -> io::Result<Option<Vec<u8>>> {
    reread::<Envelope>(bytes)
}

/// Reads a frame as the answer of a peer and writes it again; `None` at the end of the stream.
///
/// # Errors
/// If it is no such frame.
pub fn reread_answer(bytes: &[u8]) -> io::Result<Option<Vec<u8>>> {
    reread::<PeerAnswer>(bytes)
}

fn reread<T: Serialize + DeserializeOwned>(mut bytes: &[u8]) -> io::Result<Option<Vec<u8>>> {
    let read = frame::read::<T>(&mut bytes).now_or_never();
    let Some(message) = read.expect("what is in memory is there at once")? else {
        return Ok(None);
    };
    let mut written = Vec::new();
    let done = frame::write(&mut written, &message).now_or_never();
    done.expect("memory takes all at once")?;
    Ok(Some(written))
}

/// Reads a snapshot as it stands in the file of a replica, and writes it again with the state that is in it.
///
/// # Errors
/// If it is none.
pub fn reread_snapshot(stored: &[u8]) -> Result<(Vec<u8>, ReplayedGroup), String> {
    let (written, state) = reread_stored_snapshot(stored).map_err(|error| error.to_string())?;
    Ok((written, ReplayedGroup(state)))
}

/// The state of a group that commands are applied to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReplayedGroup(GroupState);

/// A lease: the duty, the newest token, and the replica and incarnation of its holder.
pub type ReplayedLease = (String, u64, Option<(u64, u64)>);

impl ReplayedGroup {
    /// Applies a command in JSON, as entries of the log hold them. Returns false if it is none.
    pub fn apply(&mut self, command: &[u8]) -> bool {
        let command = serde_json::from_slice::<Command>(command);
        let Ok(command) = command else { return false };
        self.0.apply(&command);
        true
    }

    /// The state as a snapshot holds it, read again.
    pub fn reread(&self) -> Self {
        let written = serde_json::to_vec(&self.0).expect("a state can be written");
        Self(serde_json::from_slice(&written).expect("what was written can be read"))
    }

    /// All leases.
    pub fn leases(&self) -> Vec<ReplayedLease> {
        let leases = self.0.leases.iter();
        leases
            .map(|(duty, lease)| {
                let holder = lease.holder.map(|holder| (holder.replica.0, holder.incarnation.0));
                (duty.to_owned(), lease.token, holder)
            })
            .collect()
    }
}
