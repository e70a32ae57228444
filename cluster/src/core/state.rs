//! The replicated state and the commands that change it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::directory::{Directory, DirectoryEntry, Incarnation, ReplicaDescription, ReplicaId, Standing};
use super::leases::{Holder, Leases};

/// A change that the leader proposes. Its names and fields are kept in logs and read by the next version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Command {
    /// A replica is there, or its facts have changed.
    Enter {
        replica: ReplicaId,
        facts: ReplicaDescription,
        /// The first token if this is the first command of the group: the leader's wall time in milliseconds.
        token_floor: u64,
    },
    /// The leader has not heard of this process for longer than it can believe itself a holder.
    Expire {
        replica: ReplicaId,
        incarnation: Incarnation,
    },
    /// A holder gives up leases, each under the token that it has.
    Yield {
        replica: ReplicaId,
        incarnation: Incarnation,
        duties: BTreeMap<String, u64>,
        /// Floors of the next tokens of these duties.
        #[serde(default)]
        floors: BTreeMap<String, u64>,
    },
    /// A replica stops in good order.
    Leave {
        replica: ReplicaId,
        incarnation: Incarnation,
    },
    /// A replica is about to be removed and is to yield what it holds.
    Retire { replica: ReplicaId },
    /// A replica is out of the group for good. Refused while it holds a lease.
    Remove { replica: ReplicaId },
}

/// The result of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum CommandOutcome {
    /// It was done, or there was nothing to do.
    Done,
    /// The replica was removed from the group.
    Removed,
    /// The process has been replaced or has left.
    Over,
    /// The replica still holds leases.
    Holding,
}

/// Everything that the group agrees on beside its membership.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct GroupState {
    pub(crate) directory: Directory,
    pub(crate) leases: Leases,
}

impl GroupState {
    /// Applies one command. The same commands in the same order give the same state on every replica.
    pub(crate) fn apply(&mut self, command: &Command) -> CommandOutcome {
        let outcome = self.change(command);
        self.leases.settle(&self.directory);
        outcome
    }

    fn change(&mut self, command: &Command) -> CommandOutcome {
        match command {
            Command::Enter {
                replica,
                facts,
                token_floor,
            } => {
                self.leases.found(*token_floor);
                self.enter(*replica, facts.clone())
            }
            Command::Expire { replica, incarnation } => self.part(*replica, *incarnation, Standing::Expired),
            Command::Leave { replica, incarnation } => self.part(*replica, *incarnation, Standing::Left),
            Command::Yield {
                replica,
                incarnation,
                duties,
                floors,
            } => {
                let (replica, incarnation) = (*replica, *incarnation);
                for (duty, token) in duties {
                    self.leases.release(duty, Holder { replica, incarnation }, *token);
                }
                for (duty, floor) in floors {
                    self.leases.raise(duty, *floor);
                }
                CommandOutcome::Done
            }
            Command::Retire { replica } => self.retire(*replica),
            Command::Remove { replica } => self.remove(*replica),
        }
    }

    fn enter(&mut self, replica: ReplicaId, facts: ReplicaDescription) -> CommandOutcome {
        match self.directory.enter(replica, facts) {
            // The lock on the Raft directory is held by one process, so the former one is dead.
            DirectoryEntry::Anew => self.leases.release_all(replica),
            DirectoryEntry::Again => {}
            DirectoryEntry::Removed => return CommandOutcome::Removed,
            DirectoryEntry::Over => return CommandOutcome::Over,
        }
        CommandOutcome::Done
    }

    fn part(&mut self, replica: ReplicaId, incarnation: Incarnation, standing: Standing) -> CommandOutcome {
        if self.directory.set_standing(replica, incarnation, standing) {
            self.leases.release_all(replica);
            CommandOutcome::Done
        } else {
            CommandOutcome::Over
        }
    }

    fn retire(&mut self, replica: ReplicaId) -> CommandOutcome {
        let Some(known) = self.directory.replicas.get(&replica) else {
            return CommandOutcome::Over;
        };
        let incarnation = known.facts.incarnation;
        self.directory.set_standing(replica, incarnation, Standing::Retiring);
        CommandOutcome::Done
    }

    fn remove(&mut self, replica: ReplicaId) -> CommandOutcome {
        if self.leases.held_by(replica).next().is_some() {
            return CommandOutcome::Holding;
        }
        self.directory.remove(replica);
        CommandOutcome::Done
    }
}
