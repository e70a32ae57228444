//! The public face of the limiter: priority and fairness, or else two classes of requests.

use trireme_actors::{SpawnError, topology::TopologyError};

use crate::{
    fairness::{LevelSeat, PriorityAndFairness},
    max_in_flight::{ClassSeat, MaxInFlight},
};

/// There is no seat, or none in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many requests in flight")]
pub struct Full;

/// Why the limiter could not be started.
#[derive(Debug, thiserror::Error)]
pub enum LimiterError {
    /// An actor could not be spawned.
    #[error("an actor could not be started")]
    Spawn(#[from] SpawnError),
    /// The topology forbids to ask it.
    #[error("the topology is wrong")]
    Topology(#[from] TopologyError),
}

/// The number of requests that may be in flight; 0 means any number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// `--max-requests-inflight`
    pub read_only: usize,
    /// `--max-mutating-requests-inflight`
    pub mutating: usize,
}

impl Default for Limits {
    /// The defaults of kube-apiserver.
    fn default() -> Self {
        Self {
            read_only: 400,
            mutating: 200,
        }
    }
}

/// Hands out seats. Cheap to clone; clones share the seats.
#[derive(Clone)]
pub enum Limiter {
    /// By levels and queues (`--enable-priority-and-fairness`).
    PriorityAndFairness(PriorityAndFairness),
    /// By two classes, without queues.
    MaxInFlight(MaxInFlight),
}

/// The right to be worked on; given back on drop.
#[must_use]
pub struct Seat {
    _held: HeldSeat,
}

enum HeldSeat {
    Level { _seat: LevelSeat },
    Class { _seat: ClassSeat },
}

impl From<LevelSeat> for Seat {
    fn from(seat: LevelSeat) -> Self {
        Self {
            _held: HeldSeat::Level { _seat: seat },
        }
    }
}

impl From<ClassSeat> for Seat {
    fn from(seat: ClassSeat) -> Self {
        Self {
            _held: HeldSeat::Class { _seat: seat },
        }
    }
}
