//! Messages of the director.

use std::sync::Arc;

use trireme_actors::{Message, Reply};
use trireme_machinery::GroupResource;

use super::handle::{DirectorError, Installed, ResourceToServe};
use crate::{definition::ResourceDefinition, proxied::ProxiedVersion};

/// A change of what is served.
pub(super) enum ServingChange {
    /// Serve these resources as well.
    Install(Vec<ResourceToServe>),
    /// Serve the resource of this name by this definition.
    Replace(Arc<ResourceDefinition>),
    /// Serve the resource no longer.
    Remove(GroupResource),
    /// Let other servers answer for these, and for no others.
    Proxy(Vec<ProxiedVersion>),
}

impl Message for ServingChange {
    type Reply = Result<(), DirectorError>;
}

/// A change that is ready to take effect.
pub(super) enum Prepared {
    /// These resources come, or take the place of those of the same names. What served one of them before ends.
    Serve {
        resources: Vec<Arc<Installed>>,
        ended: Option<Arc<Installed>>,
    },
    /// The resource goes.
    Remove(GroupResource),
    /// Other servers answer for these.
    Proxy(Vec<ProxiedVersion>),
}

/// A change has been prepared, or cannot be made.
pub(super) struct ChangePrepared {
    pub(super) outcome: Result<Prepared, DirectorError>,
    pub(super) reply: Reply<Result<(), DirectorError>>,
}

impl Message for ChangePrepared {
    type Reply = ();
}

/// The change is done, with all that ends by it.
pub(super) struct ChangeDone;

impl Message for ChangeDone {
    type Reply = ();
}
