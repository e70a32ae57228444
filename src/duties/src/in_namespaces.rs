//! Duties that keep one object of a certain name in every namespace.

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use serde_json::Value;
use trireme_cluster::Duty;
use trireme_machinery::{ApiError, Reason};
use trireme_registry::{EventKind, OwnObjects, RegistryHandle};

use crate::{
    LeaseTenure, MANAGER,
    controller::{Controller, ObjectChange, ReconcileResult},
};

/// An object that every active namespace has.
pub trait PerNamespace: Send + Sync + 'static {
    /// The duty's name, that of the controller in kube-controller-manager.
    const DUTY: &'static str;
    /// The object's name.
    const NAME: &'static str;

    /// The object to create where there is none.
    fn object(&self) -> Value;

    /// The object with the changes that it needs, if it needs any.
    fn updated(&self, found: Value) -> Option<Value>;
}

/// The duty. Its keys are namespaces.
pub struct InEveryNamespace<O> {
    namespaces: OwnObjects,
    objects: OwnObjects,
    desired: O,
}

impl<O: PerNamespace> InEveryNamespace<O> {
    /// Works on the registries of namespaces and of the objects.
    pub fn new(namespaces: RegistryHandle, objects: RegistryHandle, desired: O) -> Self {
        Self {
            namespaces: OwnObjects::new(namespaces, MANAGER),
            objects: OwnObjects::new(objects, MANAGER),
            desired,
        }
    }

    async fn keep(&self, namespace: &str, term: &LeaseTenure) -> Result<ReconcileResult<Arc<str>>, ApiError> {
        if !self.is_active(namespace).await? {
            return Ok(ReconcileResult::done());
        }
        let objects = self.objects.under(term.fence());
        let written = match objects.find(namespace, O::NAME).await? {
            None => objects.create(namespace, &self.desired.object()).await.map(drop),
            Some(found) => match self.desired.updated(found) {
                Some(changed) => objects.replace(namespace, O::NAME, &changed).await,
                None => Ok(()),
            },
        };
        match written {
            Err(error) if !is_of_deleted_namespace(&error) => Err(error),
            _ => Ok(ReconcileResult::done()),
        }
    }

    async fn is_active(&self, namespace: &str) -> Result<bool, ApiError> {
        let found = self.namespaces.find("", namespace).await?;
        Ok(found.is_some_and(|namespace| namespace["status"]["phase"] == "Active"))
    }
}

/// The deletion of the namespace has begun since it was read: it needs nothing any more.
fn is_of_deleted_namespace(error: &ApiError) -> bool {
    let causes = error.details.iter().flat_map(|details| &details.causes);
    error.reason == Reason::NotFound || causes.into_iter().any(|cause| cause.reason == "NamespaceTerminating")
}

impl<O: PerNamespace> Controller for InEveryNamespace<O> {
    type Key = Arc<str>;

    fn duty(&self) -> Duty {
        Duty::named(O::DUTY)
    }

    fn period(&self) -> Duration {
        Duration::from_secs(600)
    }

    fn watched(&self) -> Vec<RegistryHandle> {
        [&self.namespaces, &self.objects]
            .map(|objects| objects.registry().clone())
            .into()
    }

    fn concerned(&self, change: &ObjectChange) -> Vec<Arc<str>> {
        let item = &change.item;
        let namespace = if !change.info.namespaced {
            (change.kind != EventKind::Deleted && !item.is_terminating).then(|| item.name())
        } else {
            (item.name() == O::NAME).then(|| item.namespace())
        };
        namespace.map(Arc::from).into_iter().collect()
    }

    fn run<'a>(
        &'a self,
        namespace: &'a Arc<str>,
        term: &'a LeaseTenure,
    ) -> BoxFuture<'a, Result<ReconcileResult<Arc<str>>, ApiError>> {
        Box::pin(self.keep(namespace, term))
    }
}
