//! The published route table, as those hold it who have to look resources up while they serve.

use std::sync::Arc;

use arc_swap::ArcSwap;
use trireme_machinery::{ApiError, Reason};

use super::logic::RouteTable;
use crate::registry::RegistryHandle;

/// The newest route table. Made before the director that fills it, so that admission and kinds, which registries are
/// started with, can look other resources up; empty until then. Cheap to clone.
#[derive(Clone, Default)]
pub struct PublishedRoutes(Arc<ArcSwap<RouteTable>>);

impl PublishedRoutes {
    /// The newest route table.
    pub fn load(&self) -> Arc<RouteTable> {
        self.0.load_full()
    }

    /// A resource that is looked up here each time that it is needed.
    pub fn resource(&self, group: &'static str, version: &'static str, plural: &'static str) -> ServedResource {
        ServedResource {
            routes: self.clone(),
            group,
            version,
            plural,
        }
    }

    pub(super) fn store(&self, table: RouteTable) {
        self.0.store(Arc::new(table));
    }
}

/// One resource by its name, whatever serves it now. Cheap to clone.
#[derive(Clone)]
pub struct ServedResource {
    routes: PublishedRoutes,
    group: &'static str,
    version: &'static str,
    plural: &'static str,
}

impl ServedResource {
    /// The registry that serves it now.
    ///
    /// # Errors
    /// 503 if there is none, which is so until the server has started.
    pub fn registry(&self) -> Result<RegistryHandle, ApiError> {
        let table = self.routes.0.load();
        let route = table.find(self.group, self.version, self.plural);
        route.map(|route| route.registry).ok_or_else(|| {
            let message = format!("{} are not served yet", self.plural);
            ApiError::new(Reason::ServiceUnavailable, message).with_retry_after(1)
        })
    }
}
