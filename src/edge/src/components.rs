//! The other components of a control plane, as `kubectl get componentstatuses` asks for them. The composition root knows
//! where they are; this room knows how they look to a client.

use std::sync::Arc;

use trireme_auth::BoxFuture;
use trireme_registry::ResourceInfo;

/// Looks at the other components.
pub trait Components: Send + Sync {
    /// What there is, in order.
    fn names(&self) -> &[&'static str];

    /// Looks at one of them now; it takes seconds at most.
    fn look<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Health>;
}

/// How a component is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Health {
    /// Whether it is well.
    pub is_healthy: bool,
    /// What it says, or what came of asking it.
    pub message: String,
    /// Why it could not be asked.
    pub error: String,
}

/// What component statuses are made from.
pub(crate) struct ComponentStatuses {
    /// The components.
    pub(crate) components: Arc<dyn Components>,
    /// Their columns and fields.
    pub(crate) info: ResourceInfo,
}
