//! Messages of the read index.

use trireme_actors::Message;

use super::handle::Latest;

/// A reader waits for a round that has not begun. Carries nothing: what is wanted stands in the shared counter.
pub(super) struct Look;

impl Message for Look {
    type Reply = ();
}

/// The store has answered.
pub(super) struct RoundAnswered(pub(super) Latest);

impl Message for RoundAnswered {
    type Reply = ();
}
