//! Messages of the director.

use std::sync::Arc;

use trireme_actors::Message;
use trireme_machinery::GroupResource;

use super::handle::{DirectorError, ResourceToServe};
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

/// The change is done, with all that ends by it.
pub(super) struct ChangeDone;

impl Message for ChangeDone {
    type Reply = ();
}
