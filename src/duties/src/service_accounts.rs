//! Keeps the ServiceAccount `default` of every namespace (`serviceaccount-controller`).

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use serde_json::json;
use trireme_cluster::Duty;
use trireme_machinery::ApiError;
use trireme_registry::{OwnObjects, RegistryHandle};

use crate::{
    LeaseTenure, MANAGER,
    controller::{Controller, ObjectChange, ReconcileResult},
    in_namespaces,
};

const NAME: &str = "default";

/// The duty. Its keys are namespaces.
pub struct DefaultServiceAccounts {
    namespaces: OwnObjects,
    accounts: OwnObjects,
}

impl DefaultServiceAccounts {
    /// Works on the registries of namespaces and of service accounts.
    pub fn new(namespaces: RegistryHandle, accounts: RegistryHandle) -> Self {
        Self {
            namespaces: OwnObjects::new(namespaces, MANAGER),
            accounts: OwnObjects::new(accounts, MANAGER),
        }
    }

    async fn keep(&self, namespace: &str, term: &LeaseTenure) -> Result<ReconcileResult<Arc<str>>, ApiError> {
        let accounts = self.accounts.under(term.fence());
        if in_namespaces::is_active(&self.namespaces, namespace).await?
            && accounts.find(namespace, NAME).await?.is_none()
        {
            let account = json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": NAME } });
            in_namespaces::unless_going(accounts.create(namespace, &account).await.map(drop))?;
        }
        Ok(ReconcileResult::done())
    }
}

impl Controller for DefaultServiceAccounts {
    type Key = Arc<str>;

    fn duty(&self) -> Duty {
        Duty::named("serviceaccount-controller")
    }

    fn period(&self) -> Duration {
        Duration::from_secs(600)
    }

    fn watched(&self) -> Vec<RegistryHandle> {
        [&self.namespaces, &self.accounts]
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
