//! The proof that a fault bites, and what came of it.

use serde::{Deserialize, Serialize};

use crate::history::GuardedWrites;

/// True if a fault was seen to bite, with what was seen or missed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "result", content = "evidence")]
pub enum Observation {
    /// It bites.
    Seen(String),
    /// There is no sign of it.
    NotSeen(String),
}

impl Observation {
    pub(super) fn of(is_seen: bool, evidence: impl Into<String>) -> Self {
        match is_seen {
            true => Self::Seen(evidence.into()),
            false => Self::NotSeen(evidence.into()),
        }
    }

    /// Returns true if it bites.
    pub fn is_seen(&self) -> bool {
        matches!(self, Self::Seen(_))
    }
}

/// The result of a fault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Healed {
    /// True if it bit.
    pub observed: Observation,
    /// Notes: how often, how much.
    pub notes: Vec<String>,
    /// The outcome of the writes that were made beside failing webhooks or servers, if the fault is about these.
    pub guarded: Option<GuardedWrites>,
}
