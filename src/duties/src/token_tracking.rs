//! Keeps the ConfigMap that says since when uses of service accounts' tokens in Secrets are noted
//! (`legacy_token_tracking_controller`). kube-controller-manager invalidates such tokens only after a while without a use, and
//! not at all without this ConfigMap.

use std::time::{Duration, UNIX_EPOCH};

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use trireme_actors::Clock;
use trireme_cluster::Duty;
use trireme_machinery::{ApiError, time::Time};
use trireme_registry::{OwnObjects, RegistryHandle};

use crate::{LeaseTenure, Reconciler, SERVER};

const NAMESPACE: &str = "kube-system";
const NAME: &str = "kube-apiserver-legacy-service-account-token-tracking";
/// The key of the date, `2006-01-02`.
const SINCE: &str = "since";

/// The duty.
pub struct TokenTracking {
    configmaps: OwnObjects,
    clock: Clock,
}

impl TokenTracking {
    /// Works on the registry of ConfigMaps.
    pub fn new(configmaps: RegistryHandle, clock: Clock) -> Self {
        Self {
            configmaps: OwnObjects::new(configmaps, SERVER),
            clock,
        }
    }

    async fn keep(&self, term: &LeaseTenure) -> Result<(), ApiError> {
        let configmaps = self.configmaps.under(term.fence());
        match configmaps.find(NAMESPACE, NAME).await? {
            None => {
                let object = json!({
                    "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": NAME, "namespace": NAMESPACE },
                    "data": { SINCE: self.today() },
                });
                configmaps.create(NAMESPACE, &object).await.map(drop)
            }
            Some(found) if is_date(&found["data"][SINCE]) => Ok(()),
            Some(_) => {
                let patch = json!({ "data": { SINCE: self.today() } });
                configmaps.merge(NAMESPACE, NAME, &patch).await
            }
        }
    }

    fn today(&self) -> String {
        let now = self.clock.wall().duration_since(UNIX_EPOCH).unwrap_or_default();
        Time::from_unix(i64::try_from(now.as_secs()).unwrap_or_default(), 0).to_date_string()
    }
}

fn is_date(value: &Value) -> bool {
    let midnight = |date: &str| Time::parse(&format!("{date}T00:00:00Z"));
    value
        .as_str()
        .is_some_and(|date| midnight(date).is_ok_and(|time| time.to_date_string() == date))
}

impl Reconciler for TokenTracking {
    fn duty(&self) -> Duty {
        Duty::named("legacy-token-tracking")
    }

    fn period(&self) -> Duration {
        Duration::from_secs(60)
    }

    fn run<'a>(&'a self, term: &'a LeaseTenure) -> BoxFuture<'a, Result<(), ApiError>> {
        Box::pin(self.keep(term))
    }
}
