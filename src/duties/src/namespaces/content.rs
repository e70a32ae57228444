//! Deletes what is in a namespace, and finds out what is left.

use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use jiff::Timestamp;
use serde_json::Value;
use trireme_machinery::{ApiError, meta::ObjectMeta as _};
use trireme_registry::{OwnObjects, RegistryHandle, item::parse};

use super::conditions::Findings;

/// The number of resources that are emptied at the same time.
const AT_ONCE: usize = 16;

/// A namespace that is being deleted.
pub(super) struct NamespaceContent<'a> {
    pub(super) namespace: &'a str,
    /// Since when.
    pub(super) deleted_at: Timestamp,
}

/// The objects of one resource that are left in a namespace.
struct Left {
    resource: String,
    objects: Vec<Value>,
    failure: Option<String>,
}

impl NamespaceContent<'_> {
    /// Deletes everything: pods first, so that nothing is taken away from under them, and the rest when they are gone.
    pub(super) async fn delete(&self, resources: Vec<OwnObjects>) -> Findings {
        let is_pods = |objects: &OwnObjects| {
            let resource = &objects.registry().info().resource;
            resource.group.is_empty() && &*resource.resource == "pods"
        };
        let (pods, others) = resources.into_iter().partition(is_pods);
        let mut findings = Findings::default();
        self.delete_from(pods, &mut findings).await;
        if findings.remaining.is_empty() && findings.failures.is_empty() {
            self.delete_from(others, &mut findings).await;
        }
        findings
    }

    async fn delete_from(&self, resources: Vec<OwnObjects>, findings: &mut Findings) {
        let lefts: Vec<Left> = stream::iter(resources)
            .map(|objects| async move { self.delete_objects(&objects).await })
            .buffer_unordered(AT_ONCE)
            .collect()
            .await;
        for left in lefts {
            findings.failures.extend(left.failure);
            for finalizer in left.objects.iter().flat_map(|object| object.meta().finalizers()) {
                *findings.finalizers.entry(finalizer.to_owned()).or_default() += 1;
            }
            if !left.objects.is_empty() {
                findings.remaining.insert(left.resource, left.objects.len());
            }
        }
    }

    async fn delete_objects(&self, objects: &OwnObjects) -> Left {
        let resource = &objects.registry().info().resource;
        let mut left = Left {
            resource: format!("{}.{}", resource.resource, resource.group),
            objects: Vec::new(),
            failure: None,
        };
        match self.try_delete(objects).await {
            Ok(remaining) => {
                left.failure = self.unexpected(objects.registry(), &remaining);
                left.objects = remaining;
            }
            Err(error) => left.failure = Some(error.to_string()),
        }
        left
    }

    async fn try_delete(&self, objects: &OwnObjects) -> Result<Vec<Value>, ApiError> {
        if objects.in_namespace(self.namespace).await?.is_empty() {
            return Ok(Vec::new());
        }
        objects.delete_all(self.namespace).await?;
        let remaining = objects.in_namespace(self.namespace).await?;
        remaining.iter().map(|item| parse(item)).collect()
    }

    /// Objects without finalizers should have gone, unless they are pods whose kubelet still has time.
    fn unexpected(&self, registry: &RegistryHandle, remaining: &[Value]) -> Option<String> {
        let has_finalizer = |object: &Value| object.meta().finalizers().next().is_some();
        let waited = registry.now().duration_since(self.deleted_at);
        let waited = Duration::try_from(waited).unwrap_or_default();
        if remaining.is_empty() || remaining.iter().any(has_finalizer) || waited < grace(remaining) {
            return None;
        }
        let info = registry.info();
        let version = &info.stored().group_version;
        Some(format!(
            "unexpected items still remain in namespace: {} for gvr: {}/{}, Resource={}",
            self.namespace, version.group, version.version, info.resource.resource
        ))
    }
}

/// The longest time that pods may take to end.
fn grace(pods: &[Value]) -> Duration {
    let running = pods.iter().filter(|pod| {
        let phase = pod.pointer("/status/phase").and_then(Value::as_str);
        !matches!(phase, Some("Succeeded" | "Failed"))
    });
    let seconds = running.filter_map(|pod| pod.pointer("/spec/terminationGracePeriodSeconds")?.as_u64());
    Duration::from_secs(seconds.max().unwrap_or_default())
}
