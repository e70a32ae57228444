//! The server's own groups as APIServices (`kube-aggregator/pkg/controllers/autoregister`).

use serde_json::{Value, json};
use trireme_machinery::ApiError;
use trireme_registry::{OwnObjects, RegistryHandle};

/// The author of the registrations, as in kube-apiserver.
const FIELD_MANAGER: &str = "kube-apiserver";

/// The label of what the server itself registers.
pub(crate) const MANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";
/// The value of what is registered at the start, and left alone then.
const ON_START: &str = "onstart";

/// A group and version that this server serves itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalService {
    /// The group, `""` for core.
    pub group: String,
    /// The version.
    pub version: String,
    /// The group's priority in discovery: more comes first.
    pub group_priority_minimum: i32,
    /// The version's priority in its group.
    pub version_priority: i32,
}

impl LocalService {
    /// The name of the APIService.
    pub fn name(&self) -> String {
        format!("{}.{}", self.version, self.group)
    }

    /// The APIService, with the label that says how it is kept.
    pub(crate) fn object(&self, managed: &str) -> Value {
        let mut spec = json!({
            "version": self.version,
            "groupPriorityMinimum": self.group_priority_minimum,
            "versionPriority": self.version_priority,
        });
        if !self.group.is_empty() {
            spec["group"] = self.group.as_str().into();
        }
        json!({
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": { "name": self.name(), "labels": { MANAGED: managed } },
            "spec": spec,
        })
    }
}

/// Keeps the local services registered. Level-triggered: it looks at what is there and makes what is missing.
pub struct LocalServices {
    objects: OwnObjects,
    services: Vec<LocalService>,
}

impl LocalServices {
    /// Registers these with the registry of APIServices.
    pub fn new(registry: RegistryHandle, services: Vec<LocalService>) -> Self {
        Self {
            objects: OwnObjects::new(registry, FIELD_MANAGER),
            services,
        }
    }

    /// Makes the services that are missing.
    pub async fn run(&self) -> Result<(), ApiError> {
        for service in &self.services {
            self.keep(service).await?;
        }
        Ok(())
    }

    async fn keep(&self, service: &LocalService) -> Result<(), ApiError> {
        if self.objects.find("", &service.name()).await?.is_none() {
            self.objects.create("", &service.object(ON_START)).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_core_group_has_a_nameless_service() {
        let core = LocalService {
            group: String::new(),
            version: "v1".into(),
            group_priority_minimum: 18000,
            version_priority: 1,
        };
        assert_eq!(
            core.object(ON_START),
            json!({
                "apiVersion": "apiregistration.k8s.io/v1",
                "kind": "APIService",
                "metadata": { "name": "v1.", "labels": { "kube-aggregator.kubernetes.io/automanaged": "onstart" } },
                "spec": { "version": "v1", "groupPriorityMinimum": 18000, "versionPriority": 1 },
            })
        );
    }
}
