//! What reaches the director's mailbox.

use std::sync::Arc;

use trireme_actors::Message;

use super::handle::{DirectorError, Installed};
use crate::info::ResourceInfo;

/// Serve these resources.
pub(super) struct Install(pub(super) Vec<Arc<ResourceInfo>>);

impl Message for Install {
    type Reply = Result<(), DirectorError>;
}

/// Serve the resource with this storage prefix no longer.
pub(super) struct Remove(pub(super) Arc<str>);

impl Message for Remove {
    type Reply = ();
}

/// The store watcher knows the caches of new resources, or not.
pub(super) struct Registered {
    pub(super) outcome: Result<Vec<Arc<Installed>>, DirectorError>,
    pub(super) reply: trireme_actors::Reply<Result<(), DirectorError>>,
}

impl Message for Registered {
    type Reply = ();
}

/// A resource that was removed is gone for good.
pub(super) struct Stopped;

impl Message for Stopped {
    type Reply = ();
}
