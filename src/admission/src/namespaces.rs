//! The namespaces that plugins look at.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use trireme_actors::Clock;
use trireme_machinery::ApiError;
use trireme_registry::{
    Item, ResourceLookup, item,
    request::{Freshness, GetRequest, Target},
};

use crate::doubts::Doubts;

/// Looks namespaces up. Cheap to clone: all clones look at the same ones.
#[derive(Clone)]
pub struct Namespaces {
    resource: ResourceLookup,
    doubts: Arc<Mutex<Doubts>>,
    clock: Clock,
}

impl Namespaces {
    /// Looks namespaces up where `resource` is served.
    pub fn new(resource: ResourceLookup, clock: Clock) -> Self {
        Self {
            resource,
            doubts: Arc::default(),
            clock,
        }
    }

    /// A namespace is about to be deleted: for some time the watch cache is not believed that it is still active, so
    /// that nothing gets into it after the answer that it is going.
    pub(crate) fn doubt(&self, name: &str) {
        let mut doubts = self.doubts.lock().unwrap_or_else(PoisonError::into_inner);
        doubts.add(name, self.clock.now());
    }

    /// The namespace itself, found as by [`find`](Self::find).
    ///
    /// # Errors
    /// If there is none, or it cannot be read.
    pub(crate) async fn object(&self, name: &str) -> Result<Value, ApiError> {
        item::parse(&self.find(name).await?.item)
    }

    /// The namespace as the watch cache has it, or if it is not there yet or [in doubt](Self::doubt), as it is now.
    ///
    /// # Errors
    /// If there is none, or it cannot be read.
    pub(crate) async fn find(&self, name: &str) -> Result<Namespace, ApiError> {
        match self.read(name, Freshness::Any).await {
            Ok(namespace) if namespace.is_terminating || !self.is_in_doubt(name) => Ok(namespace),
            _ => self.read(name, Freshness::Latest).await,
        }
    }

    fn is_in_doubt(&self, name: &str) -> bool {
        let doubts = self.doubts.lock().unwrap_or_else(PoisonError::into_inner);
        doubts.include(name, self.clock.now())
    }

    async fn read(&self, name: &str, freshness: Freshness) -> Result<Namespace, ApiError> {
        let target = Target {
            name: name.to_owned(),
            ..Target::default()
        };
        let registry = self.resource.registry()?;
        let item = registry.get(GetRequest { target, freshness }).await?;
        let phase = registry.info().selectable.value_of(&item, "status.phase");
        let is_terminating = phase == Some("Terminating");
        Ok(Namespace { item, is_terminating })
    }
}

/// Facts about a namespace for plugins, known without decoding it.
pub(crate) struct Namespace {
    item: Arc<Item>,
    /// True if it is being deleted.
    pub(crate) is_terminating: bool,
}

impl Namespace {
    /// The whole object.
    ///
    /// # Errors
    /// If it is no JSON.
    pub(crate) fn object(&self) -> Result<Value, ApiError> {
        item::parse(&self.item)
    }

    /// The value of a label.
    pub(crate) fn label(&self, key: &str) -> Option<&str> {
        self.item.label(key)
    }
}
