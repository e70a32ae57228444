//! Messages of the limiter.

use trireme_actors::Message;

use super::seats::ClassSeat;

/// Asks for a seat where none was free a moment ago; nothing is the refusal.
pub(crate) struct Acquire;

impl Message for Acquire {
    type Reply = Option<ClassSeat>;
}

/// Changes the number of seats; 0 means any number.
pub(crate) struct ResizeSeats(pub(crate) usize);

impl Message for ResizeSeats {
    type Reply = ();
}
