//! The server's own groups as APIServices (`kube-aggregator/pkg/controllers/autoregister`).

use serde_json::{Value, json};
use trireme_machinery::{ApiError, Reason};
use trireme_registry::{
    RegistryHandle,
    request::{
        Body, BodyFormat, CreateRequest, Freshness, GetRequest, PatchKind, PatchRequest, Subresource, Target, UserInfo,
        WriteOptions,
    },
};

/// A group and version that this server serves itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalService {
    /// The group, `""` for core.
    pub group: String,
    /// The version.
    pub version: String,
    /// Where the group stands in discovery: more comes first.
    pub group_priority_minimum: i32,
    /// Where the version stands in its group.
    pub version_priority: i32,
}

impl LocalService {
    fn name(&self) -> String {
        format!("{}.{}", self.version, self.group)
    }

    fn object(&self) -> Value {
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
            "metadata": { "name": self.name(), "labels": { "kube-aggregator.kubernetes.io/automanaged": "onstart" } },
            "spec": spec,
        })
    }
}

/// Keeps the local services registered. Level-triggered: it looks at what is there and makes what is missing.
pub struct LocalServices {
    registry: RegistryHandle,
    services: Vec<LocalService>,
}

impl LocalServices {
    /// Registers these with the registry of APIServices.
    pub fn new(registry: RegistryHandle, services: Vec<LocalService>) -> Self {
        Self { registry, services }
    }

    /// Makes the services that are missing and says of each that it is available.
    pub async fn run(&self) -> Result<(), ApiError> {
        for service in &self.services {
            self.keep(service).await?;
        }
        Ok(())
    }

    async fn keep(&self, service: &LocalService) -> Result<(), ApiError> {
        let target = target(&service.name());
        match self
            .registry
            .get(GetRequest {
                target: target.clone(),
                freshness: Freshness::Latest,
            })
            .await
        {
            Ok(_) => return Ok(()),
            Err(error) if error.reason != Reason::NotFound => return Err(error),
            Err(_) => {}
        }
        let body = Body {
            bytes: service.object().to_string().into(),
            format: BodyFormat::Json,
        };
        let request = CreateRequest {
            target: target_of_collection(),
            body,
            options: WriteOptions::default(),
        };
        match self.registry.create(request).await {
            Err(error) if error.reason == Reason::AlreadyExists => return Ok(()),
            other => other?,
        };
        self.say_available(target).await
    }

    async fn say_available(&self, target: Target) -> Result<(), ApiError> {
        let now = self.registry.now();
        let status = json!({ "status": { "conditions": [{
            "type": "Available",
            "status": "True",
            "reason": "Local",
            "message": "Local APIServices are always available",
            "lastTransitionTime": now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        }] } });
        let request = PatchRequest {
            target,
            subresource: Subresource::Status,
            kind: PatchKind::Merge,
            patch: status.to_string().into(),
            options: WriteOptions::default(),
        };
        self.registry.patch(request).await.map(|_| ())
    }
}

fn target(name: &str) -> Target {
    Target {
        name: name.to_owned(),
        ..target_of_collection()
    }
}

/// The server's own writes are by `system:apiserver`.
fn target_of_collection() -> Target {
    let groups = vec!["system:masters".to_owned()];
    Target {
        user: UserInfo {
            name: "system:apiserver".into(),
            groups,
            ..UserInfo::default()
        },
        ..Target::default()
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
            core.object(),
            json!({
                "apiVersion": "apiregistration.k8s.io/v1",
                "kind": "APIService",
                "metadata": { "name": "v1.", "labels": { "kube-aggregator.kubernetes.io/automanaged": "onstart" } },
                "spec": { "version": "v1", "groupPriorityMinimum": 18000, "versionPriority": 1 },
            })
        );
    }
}
