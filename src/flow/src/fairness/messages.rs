//! Messages of the priority levels and of their controller.

use std::sync::Arc;

use trireme_actors::Message;

use super::{counters::LevelCounters, dump::QueuesDump, seats::LevelSeat, waiting::WaitingRequest};
use crate::watermark::Watermark;

/// Waits for seats where none were free a moment ago.
pub(crate) struct Enqueue {
    pub(crate) flow: u64,
    pub(crate) waiting: Arc<WaitingRequest>,
    /// The counters of its level while it is in a queue.
    pub(crate) counters: Arc<LevelCounters>,
    pub(crate) in_queue: Arc<Watermark>,
}

/// What a request that found no seats gets.
pub(crate) enum Turned {
    /// Its turn has come.
    Seated(LevelSeat),
    /// The queue of its flow is full, or the level has none.
    Refused,
}

impl Message for Enqueue {
    type Reply = Turned;
}

/// Seats may be free.
pub(crate) struct Freed;

impl Message for Freed {
    type Reply = ();
}

/// Asks what waits.
pub(crate) struct Dump;

impl Message for Dump {
    type Reply = QueuesDump;
}
