//! Keeps the namespaces that every cluster has (`start-system-namespaces-controller`).

use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::json;
use trireme_cluster::Duty;
use trireme_machinery::ApiError;
use trireme_registry::{OwnObjects, RegistryHandle};

use crate::{LeaseTenure, Reconciler, SERVER};

const NAMES: [&str; 4] = ["kube-system", "kube-public", "kube-node-lease", "default"];

/// The duty.
pub struct SystemNamespaces {
    namespaces: OwnObjects,
}

impl SystemNamespaces {
    /// Works on the namespaces' registry.
    pub fn new(namespaces: RegistryHandle) -> Self {
        Self {
            namespaces: OwnObjects::new(namespaces, SERVER),
        }
    }

    async fn make_missing(&self, term: &LeaseTenure) -> Result<(), ApiError> {
        let namespaces = self.namespaces.under(term.fence());
        for name in NAMES {
            if namespaces.find("", name).await?.is_some() {
                continue;
            }
            let object = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
            if namespaces.create("", &object).await? {
                tracing::info!(namespace = name, "created a system namespace");
            }
        }
        Ok(())
    }
}

impl Reconciler for SystemNamespaces {
    fn duty(&self) -> Duty {
        Duty::named("system-namespaces")
    }

    fn period(&self) -> Duration {
        Duration::from_secs(60)
    }

    fn run<'a>(&'a self, term: &'a LeaseTenure) -> BoxFuture<'a, Result<(), ApiError>> {
        Box::pin(self.make_missing(term))
    }
}
