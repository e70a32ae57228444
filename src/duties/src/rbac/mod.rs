//! Keeps the roles and bindings that a cluster starts with (`rbac/bootstrap-roles`).
//!
//! kube-apiserver looks once, at its start; this duty looks again when one of the objects has changed. It adds what is
//! missing and takes nothing away, and leaves alone what is annotated `rbac.authorization.kubernetes.io/autoupdate: "false"`.

mod merge;
mod policy;

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use futures_util::future::BoxFuture;
use trireme_actors::ActorSystem;
use trireme_cluster::Duty;
use trireme_machinery::{ApiError, Features, Reason};
use trireme_registry::{Fold, Item, ItemKey, OwnObjects, RegistryHandle, View, request::DeleteOptions};

use self::{
    merge::Repair,
    policy::{PolicyKind, PolicyObject},
};
use crate::{
    LeaseTenure, SERVER,
    controller::{Controller, ObjectChange, ReconcileResult},
};

/// Writes under way at a time: a fresh store gets all objects at once, and the store commits them together.
const AT_ONCE: usize = 16;
/// The namespaces of the policy are made at the same time as its objects.
const AWAITING_NAMESPACE: Duration = Duration::from_millis(20);

/// The registries of the four kinds.
#[derive(Clone)]
pub struct RbacRegistries {
    /// ClusterRoles
    pub cluster_roles: RegistryHandle,
    /// ClusterRoleBindings
    pub cluster_role_bindings: RegistryHandle,
    /// Roles
    pub roles: RegistryHandle,
    /// RoleBindings
    pub role_bindings: RegistryHandle,
}

impl RbacRegistries {
    fn in_order(&self) -> [&RegistryHandle; 4] {
        PolicyKind::ALL.map(|kind| self.of(kind))
    }

    fn of(&self, kind: PolicyKind) -> &RegistryHandle {
        match kind {
            PolicyKind::ClusterRole => &self.cluster_roles,
            PolicyKind::ClusterRoleBinding => &self.cluster_role_bindings,
            PolicyKind::Role => &self.roles,
            PolicyKind::RoleBinding => &self.role_bindings,
        }
    }
}

/// The objects of the policy by kind and key.
type PolicyCatalogue = HashMap<(PolicyKind, ItemKey), PolicyObject>;

fn catalogue(features: Features) -> PolicyCatalogue {
    let objects = policy::objects(features).into_iter();
    objects
        .map(|object| ((object.kind, object.key().into()), object))
        .collect()
}

/// An object of the policy, as a key of the duty.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct BootstrapRole {
    kind: PolicyKind,
    key: ItemKey,
}

/// The duty.
pub struct BootstrapRoles {
    catalogue: PolicyCatalogue,
    registries: RbacRegistries,
}

impl BootstrapRoles {
    /// Works on these registries, and keeps what these features bring, too.
    pub fn new(registries: RbacRegistries, features: Features) -> Self {
        Self {
            catalogue: catalogue(features),
            registries,
        }
    }

    async fn keep(&self, role: &BootstrapRole, term: &LeaseTenure) -> Result<ReconcileResult<BootstrapRole>, ApiError> {
        let Some(wanted) = self.catalogue.get(&(role.kind, role.key.clone())) else {
            return Ok(ReconcileResult::done());
        };
        let objects = OwnObjects::new(self.registries.of(role.kind).clone(), SERVER).under(term.fence());
        match repair(&objects, wanted).await {
            Err(error) if error.reason == Reason::NotFound && !wanted.namespace.is_empty() => {
                Ok(ReconcileResult::again_after(AWAITING_NAMESPACE))
            }
            Err(error) if error.reason == Reason::Conflict => Ok(ReconcileResult::again_after(AWAITING_NAMESPACE)),
            done => done.map(|()| ReconcileResult::done()),
        }
    }
}

async fn repair(objects: &OwnObjects, wanted: &PolicyObject) -> Result<(), ApiError> {
    let (namespace, name) = (wanted.namespace.as_str(), wanted.name.as_str());
    let Some(existing) = objects.find(namespace, name).await? else {
        return objects.create(namespace, &wanted.object).await.map(drop);
    };
    match merge::repair(&existing, wanted) {
        Repair::None => Ok(()),
        Repair::Replace(merged) => {
            tracing::info!(kind = ?wanted.kind, namespace, name, "restoring what the bootstrap policy wants");
            objects.replace(namespace, name, &merged).await
        }
        Repair::Recreate => {
            tracing::info!(kind = ?wanted.kind, namespace, name, "making anew a binding of the bootstrap policy");
            let same = DeleteOptions {
                uid: existing["metadata"]["uid"].as_str().map(str::to_owned),
                ..DeleteOptions::default()
            };
            objects.delete_with(namespace, name, same).await?;
            objects.create(namespace, &wanted.object).await.map(drop)
        }
    }
}

impl Controller for BootstrapRoles {
    type Key = BootstrapRole;

    fn duty(&self) -> Duty {
        Duty::named("rbac-bootstrap-roles")
    }

    fn period(&self) -> Duration {
        Duration::from_secs(60)
    }

    fn at_once(&self) -> usize {
        AT_ONCE
    }

    fn watched(&self) -> Vec<RegistryHandle> {
        self.registries.in_order().map(Clone::clone).to_vec()
    }

    fn always(&self) -> Vec<BootstrapRole> {
        let keys = self.catalogue.keys();
        keys.map(|(kind, key)| BootstrapRole {
            kind: *kind,
            key: key.clone(),
        })
        .collect()
    }

    fn concerned(&self, change: &ObjectChange) -> Vec<BootstrapRole> {
        let plural = &*change.info.resource.resource;
        let kind = PolicyKind::ALL.into_iter().find(|kind| kind.plural() == plural);
        let key = kind.map(|kind| (kind, change.item.key.clone()));
        let known = key.filter(|key| self.catalogue.contains_key(key));
        known
            .map(|(kind, key)| BootstrapRole { kind, key })
            .into_iter()
            .collect()
    }

    fn run<'a>(
        &'a self,
        key: &'a BootstrapRole,
        term: &'a LeaseTenure,
    ) -> BoxFuture<'a, Result<ReconcileResult<BootstrapRole>, ApiError>> {
        Box::pin(self.keep(key, term))
    }
}

/// The progress of writing the policy into a fresh store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BootstrapProgress {
    /// Objects that are there.
    pub present: usize,
    /// All of them.
    pub all: usize,
}

impl BootstrapProgress {
    /// Starts to count.
    pub fn follow(system: &ActorSystem, registries: &RbacRegistries, features: Features) -> View<Self> {
        let sources = registries.in_order().map(|registry| registry.reader().clone());
        let catalogue: Arc<PolicyCatalogue> = Arc::new(catalogue(features));
        View::start(system, "bootstrap-roles", sources, move || Counted {
            catalogue: Arc::clone(&catalogue),
            there: HashSet::new(),
        })
    }

    /// Reports whether all is there.
    pub fn is_complete(self) -> bool {
        self.present >= self.all
    }
}

struct Counted {
    catalogue: Arc<PolicyCatalogue>,
    there: HashSet<(PolicyKind, ItemKey)>,
}

impl Counted {
    fn known(&self, source: usize, key: &ItemKey) -> Option<(PolicyKind, ItemKey)> {
        let key = (*PolicyKind::ALL.get(source)?, key.clone());
        self.catalogue.contains_key(&key).then_some(key)
    }
}

impl Fold for Counted {
    type Value = BootstrapProgress;

    fn put(&mut self, source: usize, item: &Arc<Item>) {
        if let Some(key) = self.known(source, &item.key) {
            self.there.insert(key);
        }
    }

    fn remove(&mut self, source: usize, key: &ItemKey) {
        if let Some(key) = self.known(source, key) {
            self.there.remove(&key);
        }
    }

    fn value(&self) -> BootstrapProgress {
        BootstrapProgress {
            present: self.there.len(),
            all: self.catalogue.len(),
        }
    }
}
