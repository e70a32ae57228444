//! Keeps the priority classes of the system (`scheduling/bootstrap-system-priority-classes`).

use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use trireme_cluster::Duty;
use trireme_machinery::ApiError;
use trireme_registry::{OwnObjects, RegistryHandle};

use crate::{LeaseTenure, Reconciler, SERVER};

/// A class that users can neither make otherwise nor delete; validation knows the same names and values.
struct Class {
    name: &'static str,
    value: i64,
    description: &'static str,
}

const CLASSES: [Class; 2] = [
    Class {
        name: "system-node-critical",
        value: 2_000_001_000,
        description: "Used for system critical pods that must not be moved from their current node.",
    },
    Class {
        name: "system-cluster-critical",
        value: 2_000_000_000,
        description: "Used for system critical pods that must run in the cluster, but can be moved to another node if \
                      necessary.",
    },
];

/// The duty.
pub struct SystemPriorityClasses {
    classes: OwnObjects,
}

impl SystemPriorityClasses {
    /// Works on the priority classes' registry.
    pub fn new(classes: RegistryHandle) -> Self {
        Self {
            classes: OwnObjects::new(classes, SERVER),
        }
    }

    async fn make_missing(&self, term: &LeaseTenure) -> Result<(), ApiError> {
        let classes = self.classes.under(term.fence());
        for class in &CLASSES {
            if classes.find("", class.name).await?.is_none() && classes.create("", &class.object()).await? {
                tracing::info!(priority_class = class.name, "created a system priority class");
            }
        }
        Ok(())
    }
}

impl Class {
    fn object(&self) -> Value {
        json!({
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": { "name": self.name },
            "value": self.value,
            "description": self.description,
        })
    }
}

impl Reconciler for SystemPriorityClasses {
    fn duty(&self) -> Duty {
        Duty::named("system-priority-classes")
    }

    fn period(&self) -> Duration {
        Duration::from_secs(60)
    }

    fn run<'a>(&'a self, term: &'a LeaseTenure) -> BoxFuture<'a, Result<(), ApiError>> {
        Box::pin(self.make_missing(term))
    }
}
