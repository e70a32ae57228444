//! Read, compute, compare-and-put, and again.
//!
//! The state to start from is the newest that is at hand: what the last holder of the key wrote, or what the watch
//! cache has. If that turns out to be stale, by the store's refusal or because nothing would change or the step fails,
//! the loop goes on with what the store has now.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::Value;
use trireme_machinery::{ApiError, Reason};
use trireme_storage::{Compare, KeyValue};

use super::{
    Writer,
    commit::{Place, Put},
    object,
};
use crate::{
    item::{Item, ItemKey},
    request::Target,
    store_error,
    trace::TraceStep,
    versions,
};

/// After so many lost races the client is asked to come back.
const MAX_ROUNDS: usize = 64;

/// The object that a change starts from, in the stored version with its `resourceVersion`.
pub(super) struct Current {
    pub(super) item: Arc<Item>,
    pub(super) object: Arc<Value>,
}

/// What a step makes of the current object.
pub(super) enum Change {
    /// Store this instead.
    Put(Value),
    /// Store this, then delete it.
    PutAndRemove(Value),
    /// Delete the object as it is.
    Remove,
    /// Delete the object as it is, and answer with this last change of it.
    RemoveAs(Value),
    /// Leave it as it is.
    Nothing,
    /// Do not store, but answer as if this had been.
    Pretend(Value),
    /// Refuse: what the client started from is older than the object as it is, so no later state can be it.
    Refuse(ApiError),
}

impl Change {
    /// Whether the change is right also if it starts from an old object: because the store refuses it then, or because
    /// it is itself a refusal that a newer object would not change.
    fn may_start_from_old(&self) -> bool {
        match self {
            Self::Put(_) | Self::PutAndRemove(_) | Self::Remove | Self::RemoveAs(_) | Self::Refuse(_) => true,
            Self::Nothing | Self::Pretend(_) => false,
        }
    }
}

/// Computes a change; called once a round, so it starts from nothing each time.
pub(super) trait Step: Send {
    /// The change that follows from the object as it is.
    fn change<'a>(&'a mut self, current: &'a Current) -> BoxFuture<'a, Result<Change, ApiError>>;
}

/// How a loop ended.
pub(super) enum Outcome {
    /// The object is now this (or was not changed).
    Is(Arc<Item>),
    /// The object is gone; this was its last state.
    Gone(Arc<Item>),
    /// This is nowhere stored, but is what the object would be (a dry run) or became as it went; in the stored version.
    Made(Value),
}

enum Round {
    Done(Outcome),
    Again(Option<KeyValue>),
}

impl Writer {
    /// Runs `step` on the object until its change is committed. `latest` is what the key's last writer left.
    pub(super) async fn update_loop(
        &self,
        target: &Target,
        latest: Option<Arc<Item>>,
        step: &mut dyn Step,
    ) -> Result<Outcome, ApiError> {
        let place = Place {
            key: self.storage_key(&target.namespace, &target.name),
            target,
        };
        let key = place.key.as_str();
        let mut fresh = false;
        let mut item = match self.at_hand(target, latest) {
            Some(item) => item,
            None => {
                fresh = true;
                self.load(key, target).await?
            }
        };
        for _ in 0..MAX_ROUNDS {
            let current = Current {
                object: Arc::new(versions::stored_value(&self.info, &item).await?),
                item: item.clone(),
            };
            let change = step.change(&current).await;
            if !fresh && !change.as_ref().is_ok_and(Change::may_start_from_old) {
                fresh = true;
                let newest = self.load(key, target).await?;
                if newest.revision != item.revision {
                    item = newest;
                    continue;
                }
            }
            match self.carry_out(&place, &current, change?).await? {
                Round::Done(outcome) => return Ok(outcome),
                Round::Again(None) => return Err(ApiError::not_found(&self.info.resource, &target.name)),
                Round::Again(Some(found)) => item = self.item_of(key, found)?,
            }
            fresh = true;
        }
        Err(too_busy())
    }

    fn at_hand(&self, target: &Target, latest: Option<Arc<Item>>) -> Option<Arc<Item>> {
        let cached = self.reader.cached(&self.item_key(target));
        match (cached, latest) {
            (Some(cached), Some(latest)) => Some(if latest.revision > cached.revision {
                latest
            } else {
                cached
            }),
            (cached, latest) => cached.or(latest),
        }
    }

    /// The object's key within its resource.
    pub(crate) fn item_key(&self, target: &Target) -> ItemKey {
        if self.info.namespaced {
            format!("{}/{}", target.namespace, target.name).into()
        } else {
            target.name.as_str().into()
        }
    }

    async fn load(&self, key: &str, target: &Target) -> Result<Arc<Item>, ApiError> {
        let loaded = self.store.get(key, None).await;
        target.trace.pass_or(&loaded, TraceStep::Loaded, TraceStep::StoreFailed);
        let (found, _) = loaded.map_err(store_error)?;
        let entry = found.ok_or_else(|| ApiError::not_found(&self.info.resource, &target.name))?;
        self.item_of(key, entry)
    }

    pub(super) fn item_of(&self, key: &str, entry: KeyValue) -> Result<Arc<Item>, ApiError> {
        Item::from_stored(&self.info, key, entry.value, entry.mod_revision)
            .map(Arc::new)
            .map_err(ApiError::internal)
    }

    async fn carry_out(&self, place: &Place<'_>, current: &Current, change: Change) -> Result<Round, ApiError> {
        match change {
            Change::Nothing => Ok(Round::Done(Outcome::Is(current.item.clone()))),
            Change::Pretend(object) => Ok(Round::Done(Outcome::Made(object))),
            Change::Refuse(error) => Err(error),
            Change::Remove => self.remove_object(place, &current.item).await,
            Change::RemoveAs(object) => Ok(match self.remove_object(place, &current.item).await? {
                Round::Done(_) => Round::Done(Outcome::Made(object)),
                again => again,
            }),
            Change::Put(object) => self.put_object(place, current, object).await,
            Change::PutAndRemove(object) => match self.put_object(place, current, object).await? {
                Round::Done(Outcome::Is(marked)) => self.finish_removal(place, marked).await.map(Round::Done),
                other => Ok(other),
            },
        }
    }

    async fn put_object(&self, place: &Place<'_>, current: &Current, mut object: Value) -> Result<Round, ApiError> {
        let compare = Compare::ModRevision(current.item.revision);
        let put = self.put(place, &mut object, Some(&current.object), compare);
        Ok(match put.await? {
            Put::Committed(item) => Round::Done(Outcome::Is(item)),
            Put::Conflict(found) => Round::Again(found),
        })
    }

    /// Deletes an object that has been marked for the last time. Others may still change it, but not call it back.
    async fn finish_removal(&self, place: &Place<'_>, marked: Arc<Item>) -> Result<Outcome, ApiError> {
        let mut item = marked;
        for _ in 0..MAX_ROUNDS {
            let newer = match self.remove_object(place, &item).await? {
                Round::Done(outcome) => return Ok(outcome),
                Round::Again(found) => found.map(|found| self.item_of(&place.key, found)).transpose()?,
            };
            match newer {
                Some(newer) if newer.uid == item.uid => item = newer,
                _ => return Ok(Outcome::Gone(item)),
            }
        }
        Err(too_busy())
    }

    async fn remove_object(&self, place: &Place<'_>, item: &Item) -> Result<Round, ApiError> {
        match self.remove(place, item).await? {
            Put::Committed(last) => {
                if let Some(effects) = &self.info.side_effects {
                    effects.release(&object::parse(&last)?).await;
                }
                Ok(Round::Done(Outcome::Gone(last)))
            }
            Put::Conflict(found) => Ok(Round::Again(found)),
        }
    }
}

pub(super) fn too_busy() -> ApiError {
    ApiError::new(
        Reason::ServerTimeout,
        "the object is being changed too often, try again",
    )
    .with_retry_after(1)
}
