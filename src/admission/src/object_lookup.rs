//! The objects that plugins look up: accounts, classes.

use std::sync::Arc;

use serde_json::Value;
use trireme_machinery::{ApiError, Reason};
use trireme_registry::{
    Item, ResourceLookup, item,
    request::{Freshness, GetRequest, ListOptions, ListRequest, Selection, Target},
};

/// Looks objects of one resource up. Cheap to clone.
#[derive(Clone)]
pub(crate) struct ObjectLookup(ResourceLookup);

impl ObjectLookup {
    /// Looks objects up where `resource` is served.
    pub(crate) fn new(resource: ResourceLookup) -> Self {
        Self(resource)
    }

    /// The object as the watch cache has it, or if it is not there yet, as it is now. The namespace of a cluster-scoped
    /// resource is empty.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(crate) async fn find(&self, namespace: &str, name: &str) -> Result<Option<Value>, ApiError> {
        match self.read(namespace, name, Freshness::Any).await? {
            Some(object) => Ok(Some(object)),
            None => self.read(namespace, name, Freshness::Latest).await,
        }
    }

    /// The object at rest as the watch cache has it.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(crate) async fn cached(&self, namespace: &str, name: &str) -> Result<Option<Arc<Item>>, ApiError> {
        self.item(namespace, name, Freshness::Any).await
    }

    async fn read(&self, namespace: &str, name: &str, freshness: Freshness) -> Result<Option<Value>, ApiError> {
        let found = self.item(namespace, name, freshness).await?;
        found.map(|found| item::parse(&found)).transpose()
    }

    async fn item(&self, namespace: &str, name: &str, freshness: Freshness) -> Result<Option<Arc<Item>>, ApiError> {
        let target = Target {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            ..Target::default()
        };
        let registry = self.0.registry()?;
        match registry.get(GetRequest { target, freshness }).await {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.reason == Reason::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The objects of a namespace, or all of a cluster-scoped resource, as the watch cache has them.
    ///
    /// # Errors
    /// If they cannot be read.
    pub(crate) async fn list(&self, namespace: &str) -> Result<Vec<Value>, ApiError> {
        let request = ListRequest {
            target: Target {
                namespace: namespace.to_owned(),
                ..Target::default()
            },
            selection: Selection::default(),
            options: ListOptions {
                freshness: Freshness::Any,
                ..ListOptions::default()
            },
        };
        let page = self.0.registry()?.list(request).await?;
        page.items.iter().map(|found| item::parse(found)).collect()
    }
}
