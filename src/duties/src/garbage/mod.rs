//! Deletes what belongs to owners that are gone, and carries out what a deletion says of dependents
//! (`garbage-collector-controller`).
//!
//! ```text
//!  an object has owners ──► is any of them there and staying?  yes: drop the references to the others
//!                                                              no:  delete it (in the foreground if an owner waits)
//!  an object is going, with the finalizer
//!      foregroundDeletion ──► do dependents block it?          yes: look at all of them, and again
//!                                                              no:  take the finalizer away
//!      orphan             ──► take the references to it out of all dependents, then the finalizer
//!  an object is gone      ──► look at all that named it as an owner, and at the owners that it named
//! ```
//! There is no graph beside the watch caches: who belongs to an owner is looked up there by the owner's uid, at a
//! revision as new as the store's when something is to be changed. So nothing is lost with a restart, and an object is
//! never deleted because of what a cache had not heard yet, nor because its owner's value cannot be read. Every change names the uid and the resource version of what
//! it was decided on.

mod cascade;
mod events;
mod owners;

use std::{sync::Arc, time::Duration};

use futures_util::future::{BoxFuture, try_join_all};
use serde_json::Value;
use tokio::sync::watch;
use trireme_cluster::Duty;
use trireme_machinery::{ApiError, Reason, meta::ObjectMeta as _};
use trireme_registry::{
    ApiSurface, DirectorHandle, EventKind, Item, OwnObjects, RegistryHandle, ResourceDefinition, WriteFence,
    item::{ItemKey, parse},
    request::{DeleteOptions, Freshness, Propagation},
};

use self::owners::{OwnerVerdict, Owners};
use crate::{
    LeaseTenure, MANAGER,
    controller::{Controller, ObjectChange, ReconcileResult},
};

/// The finalizer of an object that goes after its dependents.
const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer of an object whose dependents are to stay.
const ORPHAN: &str = "orphan";

/// The delay before an owner's kind is looked up again.
const LOOK_FOR_KINDS: Duration = Duration::from_secs(30);

/// The duty.
pub struct GarbageCollector {
    director: DirectorHandle,
    events: OwnObjects,
}

/// The object that is looked at.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Suspect {
    /// An object: has it still an owner, or does its deletion wait for dependents?
    Object {
        /// The key prefix of its resource.
        stored_under: Arc<str>,
        /// Its key there.
        key: ItemKey,
    },
    /// All that named an object as an owner which is gone.
    Dependents {
        /// The uid of the owner.
        uid: Arc<str>,
        /// The revision of its deletion.
        revision: i64,
    },
}

impl Suspect {
    fn object(info: &ResourceDefinition, item: &Item) -> Self {
        Self::Object {
            stored_under: info.storage_prefix.clone(),
            key: item.key.clone(),
        }
    }
}

/// The served resources, and the fence under which their objects are changed.
struct GarbageContext<'a> {
    routes: &'a ApiSurface,
    fence: &'a WriteFence,
}

impl GarbageContext<'_> {
    fn objects(&self, registry: &RegistryHandle) -> OwnObjects {
        OwnObjects::new(registry.clone(), MANAGER).under(self.fence)
    }

    /// The object as it is, if it is there.
    async fn find(
        &self,
        registry: &RegistryHandle,
        key: &ItemKey,
        freshness: Freshness,
    ) -> Result<Option<FoundObject>, ApiError> {
        let (namespace, name) = key.split_once('/').unwrap_or(("", key));
        let found = self.objects(registry).find_item(namespace, name, freshness).await?;
        found.map(|item| self.found(registry, item)).transpose()
    }

    fn found(&self, registry: &RegistryHandle, item: Arc<Item>) -> Result<FoundObject, ApiError> {
        Ok(FoundObject {
            objects: self.objects(registry),
            tree: parse(&item)?,
            item,
        })
    }

    /// All objects of any resource that name an object as an owner, as of now: in its namespace, if it has one.
    async fn all_dependents(&self, owner: &Item) -> Result<Vec<(RegistryHandle, Arc<Item>)>, ApiError> {
        let namespace = owner.namespace();
        let registries = self.routes.registries();
        let lookups = registries
            .filter(|registry| namespace.is_empty() || registry.info().namespaced)
            .map(|registry| async move {
                let items = registry.all_owned_by(&owner.uid, namespace, Freshness::Latest).await?;
                let found = items.into_iter().map(|item| (registry.clone(), item));
                Ok::<Vec<_>, ApiError>(found.collect())
            });
        Ok(try_join_all(lookups).await?.into_iter().flatten().collect())
    }

    /// The objects of any resource that name this uid as an owner, among those that can be read: what cannot be is looked
    /// at when it can.
    async fn dependents(&self, uid: &str, freshness: Freshness) -> Result<Vec<(RegistryHandle, Arc<Item>)>, ApiError> {
        let lookups = self.routes.registries().map(|registry| async move {
            let items = registry.owned_by(uid, freshness).await?;
            let found = items.into_iter().map(|item| (registry.clone(), item));
            Ok::<Vec<_>, ApiError>(found.collect())
        });
        Ok(try_join_all(lookups).await?.into_iter().flatten().collect())
    }
}

/// An object that was found, and where.
struct FoundObject {
    objects: OwnObjects,
    item: Arc<Item>,
    tree: Value,
}

impl FoundObject {
    fn info(&self) -> &ResourceDefinition {
        self.objects.registry().info()
    }

    /// Returns true if it is going and waits for its dependents.
    fn waits_for_dependents(&self) -> bool {
        self.item.is_terminating && self.tree.meta().has_finalizer(FOREGROUND)
    }

    /// The propagation policy of a deletion that names none: that which an earlier one said.
    fn propagation(&self) -> Propagation {
        let meta = self.tree.meta();
        if meta.has_finalizer(ORPHAN) {
            Propagation::Orphan
        } else if meta.has_finalizer(FOREGROUND) {
            Propagation::Foreground
        } else {
            Propagation::Background
        }
    }

    /// Changes its metadata, if it is still what was looked at.
    async fn change_metadata(&self, field: &str, value: Value) -> Result<(), ApiError> {
        let mut metadata = serde_json::json!({
            "uid": &*self.item.uid,
            "resourceVersion": self.item.revision.to_string(),
        });
        metadata[field] = value;
        let patch = serde_json::json!({ "metadata": metadata });
        let done = self
            .objects
            .merge(self.item.namespace(), self.item.name(), &patch)
            .await;
        unless_gone(done)
    }

    /// Deletes it, if it is still what was looked at.
    async fn delete(&self, propagation: Propagation) -> Result<(), ApiError> {
        let options = DeleteOptions {
            propagation: Some(propagation),
            uid: Some(self.item.uid.to_string()),
            resource_version: Some(self.item.revision.to_string()),
            ..DeleteOptions::default()
        };
        let (namespace, name) = (self.item.namespace(), self.item.name());
        tracing::debug!(resource = %self.info().resource, namespace, name, ?propagation, "collecting garbage");
        self.objects.delete_with(namespace, name, options).await
    }
}

/// Takes an object that is gone for changed.
fn unless_gone(done: Result<(), ApiError>) -> Result<(), ApiError> {
    match done {
        Err(error) if error.reason == Reason::NotFound => Ok(()),
        other => other,
    }
}

impl GarbageCollector {
    /// Works on all resources that the director knows; records bad references in `events`.
    pub fn new(director: DirectorHandle, events: RegistryHandle) -> Self {
        Self {
            director,
            events: OwnObjects::new(events, MANAGER),
        }
    }

    async fn look(&self, suspect: &Suspect, term: &LeaseTenure) -> Result<ReconcileResult<Suspect>, ApiError> {
        let routes = self.director.surface();
        let scene = GarbageContext {
            routes: &routes,
            fence: term.fence(),
        };
        match suspect {
            Suspect::Object { stored_under, key } => match routes.stored_under(stored_under) {
                Some(registry) => self.look_at_object(&scene, registry, key).await,
                None => Ok(ReconcileResult::done()),
            },
            Suspect::Dependents { uid, revision } => {
                let dependents = scene.dependents(uid, Freshness::NotOlderThan(*revision)).await?;
                Ok(ReconcileResult::done().and(
                    dependents
                        .iter()
                        .map(|(registry, item)| Suspect::object(registry.info(), item)),
                ))
            }
        }
    }

    async fn look_at_object(
        &self,
        scene: &GarbageContext<'_>,
        registry: &RegistryHandle,
        key: &ItemKey,
    ) -> Result<ReconcileResult<Suspect>, ApiError> {
        // Most objects have an owner that is there: no question to the store for those.
        if let Some(found) = scene.find(registry, key, Freshness::Any).await?
            && !found.item.is_terminating
            && Owners::of(&found, scene, Freshness::Any)
                .await
                .is_ok_and(|owners| owners.all_stay())
        {
            return Ok(ReconcileResult::done());
        }
        let Some(found) = scene.find(registry, key, Freshness::Latest).await? else {
            return Ok(ReconcileResult::done());
        };
        if found.item.is_terminating {
            return self.go_on_deleting(scene, &found).await;
        }
        let owners = Owners::of(&found, scene, Freshness::Latest).await?;
        self.tell_misplaced(scene, &found, &owners).await;
        self.carry_out(scene, &found, &owners).await?;
        let looked = if owners.some_unknown() {
            ReconcileResult::again_after(LOOK_FOR_KINDS)
        } else {
            ReconcileResult::done()
        };
        Ok(looked.and(owners.waiting().map(|owner| Suspect::object(owner.info(), &owner.item))))
    }

    async fn carry_out(
        &self,
        scene: &GarbageContext<'_>,
        found: &FoundObject,
        owners: &Owners,
    ) -> Result<(), ApiError> {
        match owners.verdict() {
            OwnerVerdict::Keep => Ok(()),
            OwnerVerdict::Detach => {
                let staying = owners.staying();
                found.change_metadata("ownerReferences", staying).await
            }
            OwnerVerdict::DeleteForWaiting => match self.dependents_of(scene, found).await?.as_slice() {
                [] => found.delete(found.propagation()).await,
                // A change of the object makes it come up again.
                dependents if self.unblock_circle(scene, found, dependents).await? => Ok(()),
                _ => found.delete(Propagation::Foreground).await,
            },
            OwnerVerdict::Delete => found.delete(found.propagation()).await,
        }
    }
}

impl Controller for GarbageCollector {
    type Key = Suspect;

    fn duty(&self) -> Duty {
        Duty::named("garbage-collector-controller")
    }

    fn period(&self) -> Duration {
        Duration::from_secs(600)
    }

    fn at_once(&self) -> usize {
        20
    }

    /// Everything but events, which come and go by themselves.
    fn watched(&self) -> Vec<RegistryHandle> {
        let surface = self.director.published().load();
        let served = surface.iter().flat_map(|surface| surface.registries());
        let owned = served.filter(|registry| &*registry.info().resource.resource != "events");
        owned.cloned().collect()
    }

    fn watched_changes(&self) -> Option<watch::Receiver<u64>> {
        Some(self.director.published().changes())
    }

    fn concerned(&self, change: &ObjectChange) -> Vec<Suspect> {
        let item = &change.item;
        if change.kind != EventKind::Deleted {
            let concerns = item.is_terminating || !item.owners.is_empty();
            return concerns
                .then(|| Suspect::object(&change.info, item))
                .into_iter()
                .collect();
        }
        let mut suspects = vec![Suspect::Dependents {
            uid: (*item.uid).into(),
            revision: item.revision,
        }];
        if !item.owners.is_empty() {
            suspects.extend(owners::named_by(&self.director.surface(), item));
        }
        suspects
    }

    fn run<'a>(
        &'a self,
        suspect: &'a Suspect,
        term: &'a LeaseTenure,
    ) -> BoxFuture<'a, Result<ReconcileResult<Suspect>, ApiError>> {
        Box::pin(self.look(suspect, term))
    }
}
