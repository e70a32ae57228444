//! The public face of the limiter: priority and fairness, or else two classes of requests.

use crate::{
    fairness::{FlowSeat, PriorityAndFairness},
    max_in_flight::{ClassSeat, MaxInFlight},
};

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
    Flow { _seat: FlowSeat },
    Class { _seat: ClassSeat },
}

impl From<FlowSeat> for Seat {
    fn from(seat: FlowSeat) -> Self {
        Self {
            _held: HeldSeat::Flow { _seat: seat },
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
