//! The server's own groups as APIServices (`kube-aggregator/pkg/controllers/autoregister`).

use std::collections::BTreeMap;

use serde_json::{Value, json};
use trireme_machinery::ApiError;
use trireme_registry::{OwnObjects, RegistryHandle, request::DeleteOptions};

use crate::remote::RemoteServers;

/// The author of the registrations, as in kube-apiserver.
const FIELD_MANAGER: &str = "kube-apiserver";

/// The label of what the server itself registers.
pub(crate) const MANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";
/// The value of what is registered at the start, and left alone from then on.
const ON_START: &str = "onstart";
/// The value of what is kept registered all the time.
pub(crate) const ALWAYS: &str = "true";

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

    /// `spec` of the APIService.
    pub(crate) fn spec(&self) -> Value {
        let mut spec = json!({
            "version": self.version,
            "groupPriorityMinimum": self.group_priority_minimum,
            "versionPriority": self.version_priority,
        });
        if !self.group.is_empty() {
            spec["group"] = self.group.as_str().into();
        }
        spec
    }

    /// The APIService, with the label that says how it is kept.
    pub(crate) fn object(&self, managed: &str) -> Value {
        json!({
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": { "name": self.name(), "labels": { MANAGED: managed } },
            "spec": self.spec(),
        })
    }
}

/// The change that an APIService needs at the start.
#[derive(Debug, PartialEq, Eq)]
enum SyncAction {
    Create,
    Update,
    Delete,
}

/// The table of `checkAPIService` for what is there at the start. Services that are kept all the time belong to the duty
/// `crd-registration` unless this server serves them itself.
fn sync_action(desired: Option<&LocalService>, current: Option<&Value>) -> Option<SyncAction> {
    let managed = current.map(|current| current["metadata"]["labels"][MANAGED].as_str().unwrap_or_default());
    match (desired, managed) {
        (Some(_), None) => Some(SyncAction::Create),
        (Some(desired), Some(ON_START | ALWAYS)) => {
            let is_same = current.is_some_and(|current| current["spec"] == desired.spec());
            (!is_same).then_some(SyncAction::Update)
        }
        (None, Some(ON_START)) => Some(SyncAction::Delete),
        (_, _) => None,
    }
}

/// Registers the local services at the start: makes those that are missing, restores what has been changed of others, and
/// removes those that are no longer served. An APIService that a client has made in place of one is left alone, and so is one that
/// cannot be read: its name is taken.
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

    /// Reports whether all are available. One that cannot be read is waited for by nobody.
    pub fn are_available(&self, remote: &RemoteServers) -> bool {
        let unreadable = self.objects.registry().reader().unreadable();
        let is_unreadable = |name: &str| unreadable.iter().any(|value| *value.key == *name);
        let mut names = self.services.iter().map(LocalService::name);
        names.all(|name| remote.is_available(&name) || is_unreadable(&name))
    }

    /// Brings the registrations about.
    ///
    /// # Errors
    /// If the store cannot be read or written, or another client has written meanwhile.
    pub async fn run(&self) -> Result<(), ApiError> {
        let mut found: BTreeMap<String, Value> = BTreeMap::new();
        for object in self.objects.all_readable().await? {
            found.insert(
                object["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
                object,
            );
        }
        for service in &self.services {
            let current = found.remove(&service.name());
            self.sync(Some(service), current).await?;
        }
        for current in found.into_values() {
            self.sync(None, Some(current)).await?;
        }
        Ok(())
    }

    async fn sync(&self, desired: Option<&LocalService>, current: Option<Value>) -> Result<(), ApiError> {
        match (sync_action(desired, current.as_ref()), desired, current) {
            (Some(SyncAction::Create), Some(desired), _) => {
                self.objects.create("", &desired.object(ON_START)).await.map(drop)
            }
            (Some(SyncAction::Update), Some(desired), Some(mut current)) => {
                current["spec"] = desired.spec();
                self.objects.replace("", &desired.name(), &current).await
            }
            (Some(SyncAction::Delete), _, Some(current)) => self.delete(&current["metadata"]).await,
            _ => Ok(()),
        }
    }

    /// Deletes an object, unless there is another one of its name by now.
    async fn delete(&self, metadata: &Value) -> Result<(), ApiError> {
        let options = DeleteOptions {
            uid: metadata["uid"].as_str().map(str::to_owned),
            ..DeleteOptions::default()
        };
        let name = metadata["name"].as_str().unwrap_or_default();
        self.objects.delete_with("", name, options).await
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

    /// The rows of upstream's table for what is there at the start.
    #[test]
    fn registrations_are_restored_at_the_start() {
        let service = LocalService {
            group: "apps".to_owned(),
            version: "v1".to_owned(),
            group_priority_minimum: 17800,
            version_priority: 15,
        };
        let of = |managed: &str| {
            let mut object = service.object(managed);
            object["metadata"]["uid"] = "u".into();
            object
        };
        let changed = |managed: &str| {
            let mut object = of(managed);
            object["spec"]["service"] = json!({ "namespace": "x", "name": "y" });
            object
        };
        let mut foreign = changed("");
        for (current, with, without) in [
            (None, Some(SyncAction::Create), None),
            (Some(of(ON_START)), None, Some(SyncAction::Delete)),
            (
                Some(changed(ON_START)),
                Some(SyncAction::Update),
                Some(SyncAction::Delete),
            ),
            (Some(of(ALWAYS)), None, None),
            (Some(changed(ALWAYS)), Some(SyncAction::Update), None),
            (Some(changed("other")), None, None),
            (Some(foreign.clone()), None, None),
        ] {
            assert_eq!(sync_action(Some(&service), current.as_ref()), with, "{current:?}");
            assert_eq!(sync_action(None, current.as_ref()), without, "{current:?}");
        }
        foreign["metadata"] = json!({});
        assert_eq!(sync_action(Some(&service), Some(&foreign)), None);
    }
}
