//! Errors of the limiter.

use trireme_actors::{SpawnError, topology::TopologyError};

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
