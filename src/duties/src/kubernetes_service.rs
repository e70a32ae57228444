//! Keeps the Service `default/kubernetes`, by which pods reach the API (`bootstrap-controller`).
//!
//! Its endpoints are kept by [`KubernetesEndpoints`](crate::KubernetesEndpoints). A Service of that name that is there is left as it is.

use std::{net::IpAddr, time::Duration};

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use trireme_cluster::Duty;
use trireme_machinery::ApiError;
use trireme_registry::{OwnObjects, RegistryHandle};

use crate::{LeaseTenure, Reconciler, SERVER};

const NAMESPACE: &str = "default";
const NAME: &str = "kubernetes";
/// The port that pods connect to.
const PORT: u16 = 443;

/// The duty.
pub struct KubernetesService {
    services: OwnObjects,
    address: IpAddr,
    target_port: u16,
}

impl KubernetesService {
    /// Works on the Services' registry. `address` is the first of the service range, `target_port` the one that this
    /// server listens on.
    pub fn new(services: RegistryHandle, address: IpAddr, target_port: u16) -> Self {
        Self {
            services: OwnObjects::new(services, SERVER),
            address,
            target_port,
        }
    }

    async fn make_missing(&self, term: &LeaseTenure) -> Result<(), ApiError> {
        let services = self.services.under(term.fence());
        if services.find(NAMESPACE, NAME).await?.is_none() && services.create(NAMESPACE, &self.object()).await? {
            tracing::info!(address = %self.address, "created the Service kubernetes");
        }
        Ok(())
    }

    fn object(&self) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {
                "name": NAME,
                "namespace": NAMESPACE,
                "labels": { "component": "apiserver", "provider": "kubernetes" },
            },
            "spec": {
                "type": "ClusterIP",
                "clusterIP": self.address.to_string(),
                "ipFamilyPolicy": "SingleStack",
                "sessionAffinity": "None",
                "ports": [{ "name": "https", "protocol": "TCP", "port": PORT, "targetPort": self.target_port }],
            },
        })
    }
}

impl Reconciler for KubernetesService {
    fn duty(&self) -> Duty {
        Duty::named("kubernetes-service")
    }

    fn period(&self) -> Duration {
        Duration::from_secs(10)
    }

    fn run<'a>(&'a self, term: &'a LeaseTenure) -> BoxFuture<'a, Result<(), ApiError>> {
        Box::pin(self.make_missing(term))
    }
}
