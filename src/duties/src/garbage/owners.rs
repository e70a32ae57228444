//! The state of the owners that an object names.

use std::sync::Arc;

use serde_json::Value;
use trireme_machinery::{
    ApiError, Reason,
    meta::{ObjectMeta as _, OwnerReference},
};
use trireme_registry::{
    ApiSurface, Item, RegistryHandle,
    item::{ItemKey, parse},
    request::Freshness,
};

use super::{FoundObject, GarbageContext, Suspect};

/// An object's owner references, each with what it leads to.
pub(super) struct Owners {
    all: Vec<(Value, OwnerState)>,
}

/// The object behind a reference.
enum OwnerState {
    /// An object that stays, or goes without regard to its dependents.
    Staying,
    /// An object that is going and waits for its dependents.
    Waiting(FoundObject),
    /// Nothing: the owner is gone, or another object has its name.
    Absent,
    /// The owner is of a kind that is not served, or cannot be read. Its existence is unknown.
    Unknown,
    /// An object in a namespace, named by an object in none. Its existence is unknown.
    Misplaced,
}

/// The action for an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OwnerVerdict {
    /// Nothing.
    Keep,
    /// It has an owner; the references to the others are taken out.
    Detach,
    /// No owner stays, and one waits for it to go.
    DeleteForWaiting,
    /// No owner is there.
    Delete,
}

impl Owners {
    /// Looks the owners up.
    pub(super) async fn of(
        found: &FoundObject,
        scene: &GarbageContext<'_>,
        freshness: Freshness,
    ) -> Result<Self, ApiError> {
        let mut all = Vec::new();
        for reference in found.tree.meta().owner_references() {
            let owner = look_up(found.item.namespace(), reference, scene, freshness).await?;
            all.push((Value::Object(reference.fields().clone()), owner));
        }
        Ok(Self { all })
    }

    pub(super) fn verdict(&self) -> OwnerVerdict {
        let any = |wanted: fn(&OwnerState) -> bool| self.all.iter().any(|(_, owner)| wanted(owner));
        if self.all_stay() || any(|owner| matches!(owner, OwnerState::Misplaced | OwnerState::Unknown)) {
            OwnerVerdict::Keep
        } else if any(|owner| matches!(owner, OwnerState::Staying)) {
            OwnerVerdict::Detach
        } else if any(|owner| matches!(owner, OwnerState::Waiting(_))) {
            OwnerVerdict::DeleteForWaiting
        } else {
            OwnerVerdict::Delete
        }
    }

    /// Returns true if an owner is of a kind that is not served or cannot be read, which may change.
    pub(super) fn some_unknown(&self) -> bool {
        self.all.iter().any(|(_, owner)| matches!(owner, OwnerState::Unknown))
    }

    /// Returns true if every owner is there and stays; also if there is none.
    pub(super) fn all_stay(&self) -> bool {
        self.all.iter().all(|(_, owner)| matches!(owner, OwnerState::Staying))
    }

    /// The references to owners that stay, or null.
    pub(super) fn staying(&self) -> Value {
        let staying = self
            .all
            .iter()
            .filter(|(_, owner)| matches!(owner, OwnerState::Staying));
        let references: Vec<Value> = staying.map(|(reference, _)| reference.clone()).collect();
        references.into()
    }

    /// The owners that wait for their dependents.
    pub(super) fn waiting(&self) -> impl Iterator<Item = &FoundObject> {
        self.all.iter().filter_map(|(_, owner)| match owner {
            OwnerState::Waiting(found) => Some(found),
            _ => None,
        })
    }

    /// The references that lead out of the object's namespace, as far as they show it themselves.
    pub(super) fn suspicious(&self) -> impl Iterator<Item = &Value> {
        let suspicious = |owner: &OwnerState| matches!(owner, OwnerState::Misplaced | OwnerState::Absent);
        self.all
            .iter()
            .filter(move |(_, owner)| suspicious(owner))
            .map(|(reference, _)| reference)
    }
}

/// The registry of an owner's kind.
pub(super) fn registry_of<'r>(routes: &'r ApiSurface, reference: OwnerReference<'_>) -> Option<&'r RegistryHandle> {
    routes.of_kind(&reference.group_version()?, reference.kind())
}

async fn look_up(
    namespace: &str,
    reference: OwnerReference<'_>,
    scene: &GarbageContext<'_>,
    freshness: Freshness,
) -> Result<OwnerState, ApiError> {
    let Some(registry) = registry_of(scene.routes, reference) else {
        return Ok(OwnerState::Unknown);
    };
    if registry.info().namespaced && namespace.is_empty() {
        return Ok(OwnerState::Misplaced);
    }
    let found = scene
        .find(registry, &key(registry, namespace, reference), freshness)
        .await;
    let found = match found {
        Ok(Some(found)) => found,
        Ok(None) => return Ok(OwnerState::Absent),
        Err(error) if error.reason == Reason::StorageReadError => return Ok(OwnerState::Unknown),
        Err(error) => return Err(error),
    };
    Ok(if *found.item.uid != *reference.uid() {
        OwnerState::Absent
    } else if found.waits_for_dependents() {
        OwnerState::Waiting(found)
    } else {
        OwnerState::Staying
    })
}

fn key(registry: &RegistryHandle, namespace: &str, reference: OwnerReference<'_>) -> ItemKey {
    if registry.info().namespaced {
        format!("{namespace}/{}", reference.name()).into()
    } else {
        reference.name().into()
    }
}

/// The owners of an object that is gone: their deletion may have waited for it.
pub(super) fn named_by(routes: &ApiSurface, item: &Arc<Item>) -> Vec<Suspect> {
    let Ok(tree) = parse(item) else { return Vec::new() };
    let suspect = |reference: OwnerReference<'_>| {
        let registry = registry_of(routes, reference)?;
        Some(Suspect::Object {
            stored_under: registry.info().storage_prefix.clone(),
            key: key(registry, item.namespace(), reference),
        })
    };
    tree.meta().owner_references().filter_map(suspect).collect()
}
