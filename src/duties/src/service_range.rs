//! Keeps the ServiceCIDR that the settings name (`start-kubernetes-service-cidr-controller`).

use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use trireme_cluster::Duty;
use trireme_machinery::ApiError;
use trireme_registry::{OwnObjects, RegistryHandle};

use crate::{LeaseTenure, Reconciler, SERVER};

/// The range that is there from the beginning.
const NAME: &str = "kubernetes";
const FIELD_MANAGER: &str = "kubernetes-service-cidr-controller";

/// The duty. A range of that name that is not the one of the settings is left alone: administrators have to decide.
pub struct DefaultServiceRange {
    /// In the name of who makes ranges, and of who says that they are ready.
    ranges: [OwnObjects; 2],
    blocks: Vec<String>,
}

impl DefaultServiceRange {
    /// Works on the ServiceCIDRs' registry; `blocks` are those of the settings, the default family's first.
    pub fn new(ranges: RegistryHandle, blocks: Vec<String>) -> Self {
        Self {
            ranges: [SERVER, FIELD_MANAGER].map(|manager| OwnObjects::new(ranges.clone(), manager)),
            blocks,
        }
    }

    async fn keep(&self, term: &LeaseTenure) -> Result<(), ApiError> {
        let [ranges, statuses] = self.ranges.each_ref().map(|ranges| ranges.under(term.fence()));
        let Some(mut range) = ranges.find("", NAME).await? else {
            if ranges.create("", &self.object()).await? {
                tracing::info!(blocks = ?self.blocks, "created the default ServiceCIDR");
            }
            return say_ready(&statuses).await;
        };
        let blocks = range.pointer("/spec/cidrs").and_then(Value::as_array);
        let first_alone =
            matches!(blocks.map(Vec::as_slice), Some([first]) if self.blocks.first().is_some_and(|own| first == own));
        if first_alone && self.blocks.len() == 2 {
            range["spec"]["cidrs"] = json!(self.blocks);
            return ranges.replace("", NAME, &range).await;
        }
        let is_other = blocks.is_none_or(|blocks| blocks != &self.blocks);
        let is_going = range.pointer("/metadata/deletionTimestamp").is_some();
        if is_other || is_going || !is_undecided(&range) {
            return Ok(());
        }
        say_ready(&statuses).await
    }

    fn object(&self) -> Value {
        json!({
            "apiVersion": "networking.k8s.io/v1",
            "kind": "ServiceCIDR",
            "metadata": { "name": NAME },
            "spec": { "cidrs": self.blocks },
        })
    }
}

async fn say_ready(ranges: &OwnObjects) -> Result<(), ApiError> {
    let now = ranges.registry().now();
    let ready = json!({
        "type": "Ready",
        "status": "True",
        "message": "Kubernetes default Service CIDR is ready",
        "lastTransitionTime": now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
    });
    ranges.apply_status(NAME, &json!({ "conditions": [ready] })).await
}

/// Returns true if no condition says yet whether the range can be used.
fn is_undecided(range: &Value) -> bool {
    let conditions = range.pointer("/status/conditions").and_then(Value::as_array);
    let mut conditions = conditions.into_iter().flatten();
    let ready = conditions.find(|condition| condition["type"] == "Ready");
    ready.is_none_or(|ready| ready["status"] == "Unknown")
}

impl Reconciler for DefaultServiceRange {
    fn duty(&self) -> Duty {
        Duty::named("default-service-range")
    }

    fn period(&self) -> Duration {
        Duration::from_secs(10)
    }

    fn run<'a>(&'a self, term: &'a LeaseTenure) -> BoxFuture<'a, Result<(), ApiError>> {
        Box::pin(self.keep(term))
    }
}
