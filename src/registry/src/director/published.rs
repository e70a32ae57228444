//! The published surface, as those hold it who have to look resources up while they serve.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use tokio::sync::watch;
use trireme_machinery::{ApiError, GroupVersion, Reason};

use super::logic::ApiSurface;
use crate::registry::RegistryHandle;

/// The newest surface. Made before the director that fills it, so that admission and kinds, which registries are
/// started with, can look other resources up; empty until then. Cheap to clone.
#[derive(Clone, Default)]
pub struct PublishedSurface(Arc<Newest>);

#[derive(Default)]
struct Newest {
    surface: ArcSwapOption<ApiSurface>,
    /// Counts the surfaces.
    changes: watch::Sender<u64>,
}

impl PublishedSurface {
    /// A resource that is looked up here each time that it is needed.
    pub fn resource(&self, group: &'static str, version: &'static str, plural: &'static str) -> ResourceLookup {
        ResourceLookup {
            surface: self.clone(),
            group,
            version,
            plural,
        }
    }

    /// The newest surface; none until the server has started.
    pub fn load(&self) -> Option<Arc<ApiSurface>> {
        self.0.surface.load_full()
    }

    /// Changes with every surface; the value counts them.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }

    /// The plural of a kind that is served in a version, and whether its objects live in namespaces.
    pub fn resource_of_kind(&self, version: &GroupVersion, kind: &str) -> Option<(Arc<str>, bool)> {
        let surface = self.0.surface.load_full()?;
        let mut definitions = surface.definitions();
        let found = definitions.find(|definition| {
            let mut versions = definition.versions.iter();
            &*definition.kind == kind && versions.any(|served| served.group_version == *version)
        });
        found.map(|definition| (definition.resource.resource.clone(), definition.namespaced))
    }

    pub(super) fn store(&self, surface: Arc<ApiSurface>) {
        self.0.surface.store(Some(surface));
        self.0.changes.send_modify(|count| *count += 1);
    }
}

/// One resource by its name, whatever serves it now. Cheap to clone.
#[derive(Clone)]
pub struct ResourceLookup {
    surface: PublishedSurface,
    group: &'static str,
    version: &'static str,
    plural: &'static str,
}

impl ResourceLookup {
    /// The registry that serves it now.
    ///
    /// # Errors
    /// 503 if there is none, which is so until the server has started.
    pub fn registry(&self) -> Result<RegistryHandle, ApiError> {
        let surface = self.surface.0.surface.load();
        let route = surface
            .as_ref()
            .and_then(|surface| surface.find(self.group, self.version, self.plural));
        route.map(|route| route.registry).ok_or_else(|| {
            let message = format!("{} are not served yet", self.plural);
            ApiError::new(Reason::ServiceUnavailable, message).with_retry_after(1)
        })
    }

    /// Waits until there is one.
    pub(crate) async fn served(&self) -> RegistryHandle {
        let mut changes = self.surface.changes();
        loop {
            changes.borrow_and_update();
            if let Ok(registry) = self.registry() {
                return registry;
            }
            // The sender lives in `self`.
            let _ = changes.changed().await;
        }
    }
}
