//! Deletes what is in namespaces that are being deleted, and then lets go of them (`namespace-controller`).
//!
//! A namespace stays `Terminating` for as long as its `spec.finalizers` name `kubernetes`, and for as long as something
//! in it cannot be read. What holds it up stands in the
//! conditions of its status.

mod conditions;
mod content;

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use trireme_cluster::Duty;
use trireme_machinery::{ApiError, Reason, meta::ObjectMeta as _};
use trireme_registry::{DirectorHandle, OwnObjects, RegistryHandle, request::Subresource};

use self::{conditions::Findings, content::NamespaceContent};
use crate::{
    LeaseTenure, MANAGER,
    controller::{Controller, ObjectChange, ReconcileResult},
};

/// The finalizer in `spec.finalizers` that stands for this duty.
const FINALIZER: &str = "kubernetes";
/// The delay before objects that are still there are looked at again: others are working on it.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The definitions of custom resources, as the room knows them that serves them.
pub trait ServedDefinitions: Send + Sync + 'static {
    /// Waits until everything that is defined in the store now is served here.
    ///
    /// # Errors
    /// If that takes too long, or cannot be found out.
    fn all_served(&self) -> BoxFuture<'_, Result<(), ApiError>>;
}

/// The duty. Its keys are namespaces.
pub struct NamespaceDeletion {
    definitions: Arc<dyn ServedDefinitions>,
    namespaces: OwnObjects,
    director: DirectorHandle,
}

impl NamespaceDeletion {
    /// Works on the namespaces' registry, and deletes from all that the director knows.
    pub fn new(namespaces: RegistryHandle, director: DirectorHandle, definitions: Arc<dyn ServedDefinitions>) -> Self {
        Self {
            definitions,
            namespaces: OwnObjects::new(namespaces, MANAGER),
            director,
        }
    }

    async fn delete(&self, name: &str, term: &LeaseTenure) -> Result<ReconcileResult<Arc<str>>, ApiError> {
        let namespaces = self.namespaces.under(term.fence());
        let Some(namespace) = namespaces.find("", name).await? else {
            return Ok(ReconcileResult::done());
        };
        let deleted_at = namespace.meta().deletion_timestamp().and_then(|at| at.parse().ok());
        let (Some(deleted_at), false) = (deleted_at, finalizers(&namespace).is_empty()) else {
            return Ok(ReconcileResult::done());
        };
        let content = NamespaceContent {
            namespace: name,
            deleted_at,
        };
        // Objects of a resource that is not served would be left behind. In this order: a definition that can be read again while
        // this goes on is served before the content is looked at, or counts as one that cannot be read.
        let unreadable = self.unreadable_definitions();
        let all_served = self.definitions.all_served().await;
        let mut findings = content.delete(self.namespaced(term)).await;
        findings.failures.extend(unreadable);
        findings.failures.extend(all_served.err().map(|error| error.message));
        update_conditions(&namespaces, &namespace, &findings).await;
        if let Some(failure) = findings.failures.first() {
            return Err(ApiError::new(Reason::InternalError, failure.clone()));
        }
        if !findings.remaining.is_empty() {
            return Ok(ReconcileResult::again_after(LOOK_AGAIN));
        }
        finalize(&namespaces, name).await
    }

    /// The failure that a CustomResourceDefinition cannot be read: objects of its resource may be left.
    fn unreadable_definitions(&self) -> Option<String> {
        let surface = self.director.surface();
        let definitions = surface.registries().find(|registry| {
            let resource = &registry.info().resource;
            (&*resource.group, &*resource.resource) == ("apiextensions.k8s.io", "customresourcedefinitions")
        })?;
        let unreadable = definitions.reader().unreadable();
        let first = unreadable.first()?;
        Some(format!("the CustomResourceDefinition {} cannot be read", first.key))
    }

    /// All resources whose objects live in namespaces.
    fn namespaced(&self, term: &LeaseTenure) -> Vec<OwnObjects> {
        let routes = self.director.surface();
        let namespaced = routes.registries().filter(|registry| registry.info().namespaced);
        namespaced
            .map(|registry| OwnObjects::new(registry.clone(), MANAGER).under(term.fence()))
            .collect()
    }
}

/// Says in the namespace's status what was found. If that fails it is said the next time.
async fn update_conditions(namespaces: &OwnObjects, namespace: &Value, findings: &Findings) {
    let now = namespaces.registry().now();
    let Some(conditions) = findings.outdated(&namespace["status"], now) else {
        return;
    };
    let mut updated = namespace.clone();
    updated["status"]["conditions"] = conditions.into();
    let name = namespace.meta().name();
    if let Err(error) = namespaces.replace_part(Subresource::Status, "", name, &updated).await {
        tracing::debug!(namespace = name, %error, "the conditions of a namespace could not be set");
    }
}

/// Nothing is left: takes our finalizer away, and with the last one the namespace goes.
async fn finalize(namespaces: &OwnObjects, name: &str) -> Result<ReconcileResult<Arc<str>>, ApiError> {
    let Some(mut namespace) = namespaces.find("", name).await? else {
        return Ok(ReconcileResult::done());
    };
    let others: Vec<&str> = finalizers(&namespace)
        .into_iter()
        .filter(|finalizer| *finalizer != FINALIZER)
        .collect();
    namespace["spec"]["finalizers"] = json!(others);
    let done = namespaces
        .replace_part(Subresource::Finalize, "", name, &namespace)
        .await;
    match done {
        Err(error) if error.reason != Reason::NotFound => Err(error),
        _ => {
            tracing::info!(namespace = name, "deleted the content of a namespace");
            Ok(ReconcileResult::done())
        }
    }
}

fn finalizers(namespace: &Value) -> Vec<&str> {
    let list = namespace.pointer("/spec/finalizers").and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str).collect()
}

impl Controller for NamespaceDeletion {
    type Key = Arc<str>;

    fn duty(&self) -> Duty {
        Duty::named("namespace-controller")
    }

    fn period(&self) -> Duration {
        Duration::from_secs(300)
    }

    fn at_once(&self) -> usize {
        10
    }

    fn watched(&self) -> Vec<RegistryHandle> {
        vec![self.namespaces.registry().clone()]
    }

    fn concerned(&self, change: &ObjectChange) -> Vec<Arc<str>> {
        change.terminating()
    }

    fn run<'a>(
        &'a self,
        name: &'a Arc<str>,
        term: &'a LeaseTenure,
    ) -> BoxFuture<'a, Result<ReconcileResult<Arc<str>>, ApiError>> {
        Box::pin(self.delete(name, term))
    }
}
