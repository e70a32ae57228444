//! `NamespaceLifecycle`: nothing is created in a namespace that is missing or being deleted, and the system's own
//! namespaces stay (`k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle`).

use std::sync::{Arc, OnceLock};

use futures_util::{FutureExt as _, future::BoxFuture};
use serde_json::Value;
use trireme_machinery::{ApiError, GroupResource, Reason};
use trireme_registry::{
    Admission, Attributes, Operation, RegistryHandle,
    request::{Freshness, GetRequest, Target},
    subresource,
};

const PROTECTED: [&str; 3] = ["default", "kube-system", "kube-public"];

/// The plugin. Cheap to clone: all clones look at the same namespaces.
///
/// The registries are made with the chain that this is part of, so the registry of namespaces is handed in afterwards.
#[derive(Clone, Default)]
pub struct NamespaceLifecycle {
    namespaces: Arc<OnceLock<RegistryHandle>>,
}

impl NamespaceLifecycle {
    /// From now on, looks namespaces up here: in the watch cache, and if they are not there yet, as of now. To be called
    /// once, before the first request.
    pub fn watch(&self, namespaces: RegistryHandle) {
        if self.namespaces.set(namespaces).is_err() {
            tracing::warn!("namespaces were handed in twice");
        }
    }

    async fn check(&self, attributes: &Attributes) -> Result<(), ApiError> {
        let is_namespace = &*attributes.resource.resource == "namespaces" && attributes.resource.group.is_empty();
        if is_namespace {
            return protect(attributes);
        }
        if attributes.namespace.is_empty() || attributes.operation == Operation::Delete {
            return Ok(());
        }
        let is_terminating = match self.phase(&attributes.namespace, Freshness::Any).await {
            Ok(is_terminating) => is_terminating,
            Err(_) => self.phase(&attributes.namespace, Freshness::Latest).await?,
        };
        if is_terminating && attributes.operation == Operation::Create {
            return Err(terminating(attributes));
        }
        Ok(())
    }

    async fn phase(&self, name: &str, freshness: Freshness) -> Result<bool, ApiError> {
        let target = Target {
            name: name.to_owned(),
            ..Target::default()
        };
        let namespaces = self.namespaces.get().ok_or_else(not_ready)?;
        let item = namespaces.get(GetRequest { target, freshness }).await?;
        let object = subresource::parse(&item)?;
        Ok(object.pointer("/status/phase").and_then(Value::as_str) == Some("Terminating"))
    }
}

fn not_ready() -> ApiError {
    ApiError::new(Reason::ServiceUnavailable, "namespaces are not loaded yet").with_retry_after(1)
}

fn protect(attributes: &Attributes) -> Result<(), ApiError> {
    if attributes.operation == Operation::Delete && PROTECTED.contains(&attributes.name.as_str()) {
        let resource = attributes.resource.group_resource();
        return Err(ApiError::forbidden(
            &resource,
            &attributes.name,
            "this namespace may not be deleted",
        ));
    }
    Ok(())
}

fn terminating(attributes: &Attributes) -> ApiError {
    let namespace = &attributes.namespace;
    let resource: GroupResource = attributes.resource.group_resource();
    let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
    ApiError::forbidden(&resource, &attributes.name, why).with_cause(
        "NamespaceTerminating",
        format!("namespace {namespace} is being terminated"),
        "metadata.namespace",
    )
}

impl Admission for NamespaceLifecycle {
    fn mutate<'a>(&'a self, attributes: &'a mut Attributes) -> BoxFuture<'a, Result<(), ApiError>> {
        self.check(attributes).boxed()
    }

    fn validate<'a>(&'a self, _attributes: &'a Attributes) -> BoxFuture<'a, Result<(), ApiError>> {
        async { Ok(()) }.boxed()
    }
}
