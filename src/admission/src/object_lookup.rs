//! The objects that plugins look up: accounts, classes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use trireme_machinery::{ApiError, Reason};
use trireme_registry::{
    Item, ResourceLookup, item,
    request::{Freshness, GetRequest, ListOptions, ListRequest, Selection, Target},
};

/// The longest list that is kept decoded: classes and limits are few, the pods of a namespace need not be.
const MOST_KEPT: usize = 32;

/// Looks objects of one resource up. Cheap to clone; clones share what is kept.
#[derive(Clone)]
pub(crate) struct ObjectLookup {
    resource: ResourceLookup,
    last: Arc<Mutex<DecodedList>>,
}

/// A list and its objects at rest. An object that changes becomes another item.
#[derive(Default)]
struct DecodedList {
    items: Vec<Arc<Item>>,
    objects: Arc<[Value]>,
}

impl DecodedList {
    /// The objects, if these are their items.
    fn of(&self, items: &[Arc<Item>]) -> Option<Arc<[Value]>> {
        let mut pairs = self.items.iter().zip(items);
        let is_same = self.items.len() == items.len() && pairs.all(|(kept, item)| Arc::ptr_eq(kept, item));
        is_same.then(|| Arc::clone(&self.objects))
    }
}

impl ObjectLookup {
    /// Looks objects up where `resource` is served.
    pub(crate) fn new(resource: ResourceLookup) -> Self {
        Self {
            resource,
            last: Arc::default(),
        }
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
        let registry = self.resource.registry()?;
        match registry.get(GetRequest { target, freshness }).await {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.reason == Reason::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The objects of a namespace, or all of a cluster-scoped resource, as the watch cache has them. A short list that is
    /// the same as the last time is not decoded again.
    ///
    /// # Errors
    /// If they cannot be read.
    pub(crate) async fn list(&self, namespace: &str) -> Result<Arc<[Value]>, ApiError> {
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
        let page = self.resource.registry()?.list(request).await?;
        if let Some(objects) = self.last().of(&page.items) {
            return Ok(objects);
        }
        let objects: Arc<[Value]> = page
            .items
            .iter()
            .map(|found| item::parse(found))
            .collect::<Result<_, _>>()?;
        if page.items.len() <= MOST_KEPT {
            *self.last() = DecodedList {
                items: page.items,
                objects: Arc::clone(&objects),
            };
        }
        Ok(objects)
    }

    fn last(&self) -> MutexGuard<'_, DecodedList> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
