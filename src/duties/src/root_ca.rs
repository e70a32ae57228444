//! Keeps the ConfigMap `kube-root-ca.crt` of every namespace (`root-ca-certificate-publisher-controller`), from which
//! pods learn whom to trust as the API server.

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use trireme_cluster::Duty;
use trireme_machinery::ApiError;
use trireme_registry::{OwnObjects, RegistryHandle};

use crate::{
    LeaseTenure, MANAGER,
    controller::{Controller, ObjectChange, ReconcileResult},
    in_namespaces,
};

const NAME: &str = "kube-root-ca.crt";
const FILE: &str = "ca.crt";
const DESCRIPTION: &str = "kubernetes.io/description";
/// Upstream's words, by which tools know the ConfigMap.
const DESCRIBED: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal \
                         endpoints such as the internal service IP or kubernetes.default.svc. No other usage is \
                         guaranteed across distributions of Kubernetes clusters.";

/// The duty. Its keys are namespaces.
pub struct RootCaPublisher {
    namespaces: OwnObjects,
    configmaps: OwnObjects,
    /// PEM.
    bundle: String,
}

impl RootCaPublisher {
    /// Works on the registries of namespaces and of ConfigMaps, and publishes this bundle (PEM).
    pub fn new(namespaces: RegistryHandle, configmaps: RegistryHandle, bundle: String) -> Self {
        Self {
            namespaces: OwnObjects::new(namespaces, MANAGER),
            configmaps: OwnObjects::new(configmaps, MANAGER),
            bundle,
        }
    }

    async fn keep(&self, namespace: &str, term: &LeaseTenure) -> Result<ReconcileResult<Arc<str>>, ApiError> {
        if !in_namespaces::is_active(&self.namespaces, namespace).await? {
            return Ok(ReconcileResult::done());
        }
        let configmaps = self.configmaps.under(term.fence());
        let written = match configmaps.find(namespace, NAME).await? {
            None => configmaps.create(namespace, &self.object()).await.map(drop),
            Some(found) => match self.updated(found) {
                Some(changed) => configmaps.replace(namespace, NAME, &changed).await,
                None => Ok(()),
            },
        };
        in_namespaces::unless_going(written)?;
        Ok(ReconcileResult::done())
    }

    fn object(&self) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": { "name": NAME, "annotations": { DESCRIPTION: DESCRIBED } },
            "data": { FILE: self.bundle },
        })
    }

    fn updated(&self, found: Value) -> Option<Value> {
        let mut changed = found.clone();
        changed["data"] = json!({ FILE: self.bundle });
        let annotations = &mut changed["metadata"]["annotations"];
        if annotations.is_null() {
            *annotations = json!({});
        }
        annotations[DESCRIPTION] = DESCRIBED.into();
        (changed != found).then_some(changed)
    }
}

impl Controller for RootCaPublisher {
    type Key = Arc<str>;

    fn duty(&self) -> Duty {
        Duty::named("root-ca-certificate-publisher-controller")
    }

    fn period(&self) -> Duration {
        Duration::from_secs(600)
    }

    fn watched(&self) -> Vec<RegistryHandle> {
        [&self.namespaces, &self.configmaps]
            .map(|objects| objects.registry().clone())
            .into()
    }

    fn concerned(&self, change: &ObjectChange) -> Vec<Arc<str>> {
        in_namespaces::concerned(change, NAME)
    }

    fn run<'a>(
        &'a self,
        namespace: &'a Arc<str>,
        term: &'a LeaseTenure,
    ) -> BoxFuture<'a, Result<ReconcileResult<Arc<str>>, ApiError>> {
        Box::pin(self.keep(namespace, term))
    }
}
