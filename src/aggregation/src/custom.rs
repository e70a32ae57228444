//! Registers the versions of custom resources as APIServices: the duty `crd-registration`
//! (`pkg/controlplane/controller/crdregistration`, `kube-aggregator/pkg/controllers/autoregister`).
//!
//! An APIService that another client made of a version is left alone; when it goes, the version is registered again.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use trireme_actors::{ActorSystem, Clock};
use trireme_cluster::Duty;
use trireme_duties::{Controller, LeaseTenure, ObjectChange, ReconcileResult};
use trireme_machinery::{ApiError, GroupVersion};
use trireme_registry::{
    Entries, Item, OwnObjects, RegistryHandle, View, compile_entries,
    item::{self, parse},
    request::Freshness,
};

use crate::{
    api_service::ApiServiceView,
    local::{ALWAYS, LocalService, MANAGED},
    remote::RemoteServers,
};

/// The interval at which all versions are looked at.
const PERIOD: Duration = Duration::from_secs(300);
/// The time within which the view of the definitions follows the store.
const CATCHES_UP_WITHIN: Duration = Duration::from_secs(5);
/// The places of custom resources in discovery.
const GROUP_PRIORITY: i32 = 1000;
const VERSION_PRIORITY: i32 = 100;

/// The duty. Its keys are names of APIServices.
pub struct CustomServices {
    objects: OwnObjects,
    definitions: OwnObjects,
    registered: ApiServiceView,
    /// The versions that each definition serves.
    served: View<Entries<Vec<GroupVersion>>>,
    /// The names of what the server itself registers at its start.
    own: BTreeSet<String>,
    clock: Clock,
}

impl CustomServices {
    /// Works on the registries of APIServices and CustomResourceDefinitions; leaves alone what the server itself registers.
    pub fn new(
        system: &ActorSystem,
        api_services: RegistryHandle,
        definitions: RegistryHandle,
        remote: &RemoteServers,
        own: &[LocalService],
    ) -> Self {
        let readers = [definitions.reader().clone()];
        Self {
            objects: OwnObjects::new(api_services, "kube-apiserver"),
            served: View::start(system, "custom-apiservices", readers, || {
                compile_entries(served_versions)
            }),
            definitions: OwnObjects::new(definitions, "kube-apiserver"),
            registered: remote.services().clone(),
            own: own.iter().map(LocalService::name).collect(),
            clock: system.clock().clone(),
        }
    }

    async fn register(&self, name: &Arc<str>, term: &LeaseTenure) -> Result<ReconcileResult<Arc<str>>, ApiError> {
        if self.own.contains(&**name) {
            return Ok(ReconcileResult::done());
        }
        let objects = self.objects.under(term.fence());
        let deadline = self.clock.now() + CATCHES_UP_WITHIN;
        let served = self.served.wait_for_now(deadline).await?;
        let mut versions = served.iter().flat_map(|(_, versions)| versions.iter());
        let wanted = versions.find(|version| name_of(version) == **name);
        let found = objects.find_item("", name, Freshness::Latest).await?;
        let found = found.map(|item| parse(&item)).transpose()?;
        match (wanted, found) {
            (None, None) => {}
            (Some(version), None) => {
                let service = LocalService {
                    group: version.group.to_string(),
                    version: version.version.to_string(),
                    group_priority_minimum: GROUP_PRIORITY,
                    version_priority: VERSION_PRIORITY,
                };
                objects.create("", &service.object(ALWAYS)).await?;
            }
            (_, Some(found)) if found["metadata"]["labels"][MANAGED] != ALWAYS => {}
            (None, Some(_)) => {
                // The view does without definitions that cannot be read; a list of them is an error then, and this is tried again.
                let all = self.definitions.all().await?;
                let mut versions = all.iter().filter_map(versions_in).flatten();
                if !versions.any(|version| name_of(&version) == **name) {
                    objects.delete("", name).await?;
                }
            }
            (Some(version), Some(mut found)) => {
                let spec = spec_of(version);
                if found["spec"] != spec {
                    found["spec"] = spec;
                    objects.replace("", name, &found).await?;
                }
            }
        }
        Ok(ReconcileResult::done())
    }
}

fn spec_of(version: &GroupVersion) -> Value {
    json!({
        "group": &*version.group,
        "version": &*version.version,
        "groupPriorityMinimum": GROUP_PRIORITY,
        "versionPriority": VERSION_PRIORITY,
    })
}

fn name_of(version: &GroupVersion) -> String {
    format!("{}.{}", version.version, version.group)
}

fn served_versions(found: &Item) -> Option<Vec<GroupVersion>> {
    versions_in(&item::parse(found).ok()?)
}

/// The versions that a definition serves.
fn versions_in(definition: &Value) -> Option<Vec<GroupVersion>> {
    let spec = definition.get("spec")?;
    let group = spec.get("group")?.as_str()?;
    let versions = spec.get("versions")?.as_array()?;
    let served = versions.iter().filter(|version| version["served"] == true);
    let names = served.filter_map(|version| version["name"].as_str());
    Some(names.map(|version| GroupVersion::new(group, version)).collect())
}

impl Controller for CustomServices {
    type Key = Arc<str>;

    fn duty(&self) -> Duty {
        Duty::named("crd-registration")
    }

    fn period(&self) -> Duration {
        PERIOD
    }

    fn watched(&self) -> Vec<RegistryHandle> {
        [&self.definitions, &self.objects]
            .map(|objects| objects.registry().clone())
            .into()
    }

    /// Of a definition its versions, and those of its group that are registered: it may have had them.
    fn concerned(&self, change: &ObjectChange) -> Vec<Arc<str>> {
        if *change.info.resource.resource == *"apiservices" {
            return vec![change.item.name().into()];
        }
        let Ok(definition) = parse(&change.item) else {
            return Vec::new();
        };
        let group = definition["spec"]["group"].as_str().unwrap_or_default();
        let versions = definition["spec"]["versions"].as_array();
        let names = versions
            .into_iter()
            .flatten()
            .filter_map(|version| version["name"].as_str());
        let named = names.map(|version| format!("{version}.{group}").into());
        let registered = self.registered.load();
        let of_group = registered
            .iter()
            .filter(|(_, service)| *service.group_version.group == *group);
        named.chain(of_group.map(|(name, _)| Arc::clone(name))).collect()
    }

    fn run<'a>(
        &'a self,
        key: &'a Arc<str>,
        term: &'a LeaseTenure,
    ) -> BoxFuture<'a, Result<ReconcileResult<Arc<str>>, ApiError>> {
        Box::pin(self.register(key, term))
    }
}
