//! Deletes the objects of definitions that are being deleted, and then lets go of them: the duty `crd-finalizer`.

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use trireme_cluster::Duty;
use trireme_duties::{Controller, LeaseTenure, ObjectChange, ReconcileResult};
use trireme_machinery::{ApiError, GroupResource, meta::ObjectMeta as _};
use trireme_registry::{DirectorHandle, OwnObjects, RegistryHandle, request::Subresource};

use crate::definition::{
    CLEANUP_FINALIZER,
    conditions::{Condition, is_true, set_condition},
};

/// The delay before objects that are still there are looked at again: others are working on it.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Definitions whose objects would be stored where the server stores its own.
const OVERLAPPING: [&str; 2] = [
    "apiservices.apiregistration.k8s.io",
    "customresourcedefinitions.apiextensions.k8s.io",
];

/// The duty. Its keys are names of definitions.
pub struct DefinitionCleanup {
    definitions: OwnObjects,
    director: DirectorHandle,
}

impl DefinitionCleanup {
    pub(crate) fn new(definitions: OwnObjects, director: DirectorHandle) -> Self {
        Self { definitions, director }
    }

    async fn clean(&self, name: &str, term: &LeaseTenure) -> Result<ReconcileResult<Arc<str>>, ApiError> {
        let definitions = self.definitions.under(term.fence());
        let Some(mut definition) = definitions.find("", name).await? else {
            return Ok(ReconcileResult::done());
        };
        if !definition.meta().is_terminating() || !definition.meta().has_finalizer(CLEANUP_FINALIZER) {
            return Ok(ReconcileResult::done());
        }
        let in_progress = Condition {
            kind: "Terminating",
            is_true: true,
            reason: "InstanceDeletionInProgress",
            message: "CustomResource deletion is in progress",
        };
        let now = definitions.registry().now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        if set_condition(&mut definition, &in_progress, &now) {
            definitions
                .replace_part(Subresource::Status, "", name, &definition)
                .await?;
            // The change brings this definition back here.
            return Ok(ReconcileResult::done());
        }
        if let Some(objects) = self.objects_of(&definition) {
            let objects = objects.under(term.fence());
            if !objects.in_namespace("").await?.is_empty() {
                objects.delete_all("").await?;
            }
            if !objects.in_namespace("").await?.is_empty() {
                return Ok(ReconcileResult::again_after(LOOK_AGAIN));
            }
        }
        let left: Vec<String> = definition
            .meta()
            .finalizers()
            .filter(|finalizer| *finalizer != CLEANUP_FINALIZER)
            .map(str::to_owned)
            .collect();
        definition["metadata"]["finalizers"] = json!(left);
        let completed = completed(&definition);
        set_condition(&mut definition, &completed, &now);
        definitions
            .replace_part(Subresource::Status, "", name, &definition)
            .await?;
        tracing::info!(definition = name, "the objects of a definition have been deleted");
        Ok(ReconcileResult::done())
    }

    /// The objects of a definition, if it is served: never those of a resource of the server itself.
    fn objects_of(&self, definition: &Value) -> Option<OwnObjects> {
        let text = |pointer: &str| definition.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let resource = GroupResource {
            group: text("/spec/group").into(),
            resource: text("/spec/names/plural").into(),
        };
        let surface = self.director.surface();
        let registry = surface
            .registries()
            .find(|registry| registry.info().is_custom && registry.info().resource == resource);
        registry.map(|registry| OwnObjects::new(registry.clone(), "kube-apiserver"))
    }
}

/// The condition of a definition whose objects are gone.
fn completed(definition: &Value) -> Condition<'static> {
    let name = definition.meta().name();
    let (reason, message) = if OVERLAPPING.contains(&name) {
        (
            "OverlappingBuiltInResource",
            "instances overlap with built-in resources in storage",
        )
    } else if is_true(definition, "Established") {
        ("InstanceDeletionCompleted", "removed all instances")
    } else {
        ("NeverEstablished", "resource was never established")
    };
    Condition {
        kind: "Terminating",
        is_true: false,
        reason,
        message,
    }
}

impl Controller for DefinitionCleanup {
    type Key = Arc<str>;

    fn duty(&self) -> Duty {
        Duty::named("crd-finalizer")
    }

    fn period(&self) -> Duration {
        Duration::from_secs(300)
    }

    fn at_once(&self) -> usize {
        5
    }

    fn watched(&self) -> Vec<RegistryHandle> {
        vec![self.definitions.registry().clone()]
    }

    fn concerned(&self, change: &ObjectChange) -> Vec<Arc<str>> {
        change.terminating()
    }

    fn run<'a>(
        &'a self,
        name: &'a Arc<str>,
        term: &'a LeaseTenure,
    ) -> BoxFuture<'a, Result<ReconcileResult<Arc<str>>, ApiError>> {
        Box::pin(self.clean(name, term))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_condition_tells_why_there_are_no_objects() {
        let reason = |name: &str, established: &str| {
            let conditions = json!([{"type": "Established", "status": established}]);
            completed(&json!({"metadata": {"name": name}, "status": {"conditions": conditions}})).reason
        };
        assert_eq!(reason("ships.example.com", "True"), "InstanceDeletionCompleted");
        assert_eq!(reason("ships.example.com", "False"), "NeverEstablished");
        let own = "customresourcedefinitions.apiextensions.k8s.io";
        assert_eq!(reason(own, "True"), "OverlappingBuiltInResource");
    }
}
