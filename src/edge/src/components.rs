//! The other components of a control plane, as `kubectl get componentstatuses` asks for them. The composition root knows
//! where they are; this room knows how they look to a client.

use std::sync::Arc;

use futures_util::future::join_all;
use serde_json::{Value, json};
use trireme_auth::BoxFuture;
use trireme_machinery::{ApiError, GroupResource};
use trireme_registry::{
    VirtualCall, VirtualResource,
    request::{Selection, Target},
};

/// Looks at the other components.
pub trait Components: Send + Sync {
    /// The names of the components, in order.
    fn names(&self) -> &[&'static str];

    /// Looks at one of them now; it takes seconds at most.
    fn look<'a>(&'a self, name: &'a str) -> BoxFuture<'a, ComponentHealth>;
}

/// The health of a component.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ComponentHealth {
    /// True if it is well.
    pub is_healthy: bool,
    /// Its answer, or the error of asking it.
    pub message: String,
    /// The error of the request to it.
    pub error: String,
}

/// Component statuses: every request looks at the components anew, and nothing is kept.
pub struct ComponentStatuses {
    components: Arc<dyn Components>,
}

impl ComponentStatuses {
    /// The statuses of these components.
    pub fn new(components: Arc<dyn Components>) -> Self {
        Self { components }
    }

    async fn look(&self, name: &str) -> Value {
        let health = self.components.look(name).await;
        let mut condition = json!({"type": "Healthy", "status": if health.is_healthy { "True" } else { "False" }});
        for (field, text) in [("message", health.message), ("error", health.error)] {
            if !text.is_empty() {
                condition[field] = json!(text);
            }
        }
        json!({
            "kind": "ComponentStatus",
            "apiVersion": "v1",
            "metadata": {"name": name},
            "conditions": [condition],
        })
    }
}

impl VirtualResource for ComponentStatuses {
    fn get<'a>(&'a self, _: VirtualCall, target: Target) -> BoxFuture<'a, Result<Value, ApiError>> {
        Box::pin(async move {
            if !self.components.names().contains(&target.name.as_str()) {
                // kube-apiserver calls it so in this error alone.
                let resource = GroupResource {
                    group: "".into(),
                    resource: "componentstatus".into(),
                };
                return Err(ApiError::not_found(&resource, &target.name));
            }
            Ok(self.look(&target.name).await)
        })
    }

    fn list<'a>(
        &'a self,
        _: VirtualCall,
        _: Target,
        selection: Selection,
    ) -> BoxFuture<'a, Result<Vec<Value>, ApiError>> {
        Box::pin(async move {
            let names = self.components.names().iter();
            let selected = names.filter(|name| is_selected(&selection, name));
            Ok(join_all(selected.map(|name| self.look(name))).await)
        })
    }
}

/// They have a name and nothing else to be selected by.
fn is_selected(selection: &Selection, name: &str) -> bool {
    selection.labels.matches(None)
        && selection
            .fields
            .matches_with(|field| (field == "metadata.name").then_some(name))
}
