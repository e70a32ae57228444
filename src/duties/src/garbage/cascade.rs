//! Deletions that are not over with the object itself: foreground and orphan.

use std::{sync::Arc, time::Duration};

use serde_json::Value;
use trireme_machinery::{
    ApiError,
    meta::{ObjectMeta as _, OwnerReference},
};
use trireme_registry::{Item, RegistryHandle};

use super::{FOREGROUND, FoundObject, GarbageCollector, GarbageContext, ORPHAN, Suspect};
use crate::controller::ReconcileResult;

/// The delay before an owner that waits is looked at again. A dependent that goes is heard of at once; this is for
/// those that only stop blocking.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

impl GarbageCollector {
    /// Does what a deletion that is under way says of dependents.
    pub(super) async fn go_on_deleting(
        &self,
        scene: &GarbageContext<'_>,
        owner: &FoundObject,
    ) -> Result<ReconcileResult<Suspect>, ApiError> {
        if owner.waits_for_dependents() {
            return self.wait_for_dependents(scene, owner).await;
        }
        if owner.tree.meta().has_finalizer(ORPHAN) {
            for (registry, item) in self.dependents_of(scene, owner).await? {
                orphan(&scene.found(&registry, item)?, &owner.item.uid).await?;
            }
            remove_finalizer(owner, ORPHAN).await?;
        }
        Ok(ReconcileResult::done())
    }

    async fn wait_for_dependents(
        &self,
        scene: &GarbageContext<'_>,
        owner: &FoundObject,
    ) -> Result<ReconcileResult<Suspect>, ApiError> {
        let dependents = self.dependents_of(scene, owner).await?;
        let mut blocked = false;
        for (registry, item) in &dependents {
            let dependent = scene.found(registry, item.clone())?;
            blocked |= references(&dependent, &owner.item.uid).any(OwnerReference::blocks_owner_deletion);
        }
        if !blocked {
            remove_finalizer(owner, FOREGROUND).await?;
            return Ok(ReconcileResult::done());
        }
        let suspects = dependents
            .iter()
            .map(|(registry, item)| Suspect::object(registry.info(), item));
        Ok(ReconcileResult::again_after(LOOK_AGAIN).and(suspects))
    }

    /// The objects that rightly name this one as an owner: in its namespace, if it has one.
    ///
    /// # Errors
    /// If something there cannot be read: it may be a dependent, too.
    pub(super) async fn dependents_of(
        &self,
        scene: &GarbageContext<'_>,
        owner: &FoundObject,
    ) -> Result<Vec<(RegistryHandle, Arc<Item>)>, ApiError> {
        scene.all_dependents(&owner.item).await
    }

    /// An object that waits for a dependent which itself waits for its dependents may stand in a circle: then it blocks
    /// its owners no longer. Says whether it did.
    pub(super) async fn unblock_circle(
        &self,
        scene: &GarbageContext<'_>,
        found: &FoundObject,
        dependents: &[(RegistryHandle, Arc<Item>)],
    ) -> Result<bool, ApiError> {
        let blocks = |reference: OwnerReference<'_>| reference.blocks_owner_deletion();
        if !found.tree.meta().owner_references().any(blocks) {
            return Ok(false);
        }
        for (registry, item) in dependents {
            if scene.found(registry, item.clone())?.waits_for_dependents() {
                found.change_metadata("ownerReferences", unblocked(&found.tree)).await?;
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// An object's references to an owner.
fn references<'f>(found: &'f FoundObject, uid: &str) -> impl Iterator<Item = OwnerReference<'f>> {
    found
        .tree
        .meta()
        .owner_references()
        .filter(move |reference| reference.uid() == uid)
}

async fn orphan(dependent: &FoundObject, owner_uid: &str) -> Result<(), ApiError> {
    let others: Vec<Value> = dependent
        .tree
        .meta()
        .owner_references()
        .filter(|reference| reference.uid() != owner_uid)
        .map(|reference| Value::Object(reference.fields().clone()))
        .collect();
    dependent.change_metadata("ownerReferences", others.into()).await
}

fn unblocked(object: &Value) -> Value {
    let unblocked = object.meta().owner_references().map(|reference| {
        let mut fields = reference.fields().clone();
        if reference.blocks_owner_deletion() {
            fields.insert("blockOwnerDeletion".to_owned(), false.into());
        }
        Value::Object(fields)
    });
    unblocked.collect()
}

async fn remove_finalizer(found: &FoundObject, finalizer: &str) -> Result<(), ApiError> {
    let others: Vec<&str> = found
        .tree
        .meta()
        .finalizers()
        .filter(|name| *name != finalizer)
        .collect();
    found.change_metadata("finalizers", others.into()).await
}
