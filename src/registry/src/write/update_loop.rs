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

use super::{Writer, commit::Put, object};
use crate::{
    item::{Item, ItemKey},
    request::Target,
    store_error,
    strategy::Reservation,
};

/// After so many lost races the client is asked to come back.
const MAX_ROUNDS: usize = 64;

/// The object that a change starts from, in the stored version with its `resourceVersion`.
pub(super) struct Current {
    pub(super) item: Arc<Item>,
    pub(super) object: Value,
}

/// What a step makes of the current object.
pub(super) enum Change {
    /// Store this instead.
    Put(Value),
    /// Store this, then delete it.
    PutAndRemove(Value),
    /// Delete the object as it is.
    Remove,
    /// Leave it as it is.
    Nothing,
    /// Do not store, but answer as if this had been.
    Pretend(Value),
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
    /// A dry run: it would be this, in the stored version.
    WouldBe(Value),
}

enum Round {
    Done(Outcome),
    /// Removal follows.
    Remove(Arc<Item>),
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
        let key = self.storage_key(&target.namespace, &target.name);
        let mut fresh = false;
        let mut item = match self.at_hand(target, latest) {
            Some(item) => item,
            None => {
                fresh = true;
                self.load(&key, &target.name).await?
            }
        };
        for _ in 0..MAX_ROUNDS {
            let current = Current { object: object::parse(&item)?, item: item.clone() };
            let change = step.change(&current).await;
            let is_final = fresh || matches!(change, Ok(Change::Put(_) | Change::PutAndRemove(_) | Change::Remove));
            if !is_final {
                let newest = self.load(&key, &target.name).await?;
                fresh = true;
                if newest.revision != item.revision {
                    item = newest;
                    continue;
                }
            }
            let found = match self.carry_out(&key, &current, change?).await? {
                Round::Done(outcome) => return Ok(outcome),
                Round::Remove(marked) => match self.remove_object(&key, &marked).await? {
                    Round::Done(outcome) => return Ok(outcome),
                    Round::Remove(_) => None,
                    Round::Again(found) => found,
                },
                Round::Again(found) => found,
            };
            let found = found.ok_or_else(|| ApiError::not_found(&self.info.resource, &target.name))?;
            item = self.item_of(&key, found)?;
            fresh = true;
        }
        Err(ApiError::new(Reason::ServerTimeout, "the object is being changed too often, try again").with_retry_after(1))
    }

    fn at_hand(&self, target: &Target, latest: Option<Arc<Item>>) -> Option<Arc<Item>> {
        let cached = self.reader.cached(&self.item_key(target));
        match (cached, latest) {
            (Some(cached), Some(latest)) => Some(if latest.revision > cached.revision { latest } else { cached }),
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

    async fn load(&self, key: &str, name: &str) -> Result<Arc<Item>, ApiError> {
        let (found, _) = self.store.get(key, None).await.map_err(store_error)?;
        let entry = found.ok_or_else(|| ApiError::not_found(&self.info.resource, name))?;
        self.item_of(key, entry)
    }

    pub(super) fn item_of(&self, key: &str, entry: KeyValue) -> Result<Arc<Item>, ApiError> {
        Item::from_stored(&self.info, key, entry.value, entry.mod_revision).map(Arc::new).map_err(ApiError::internal)
    }

    async fn carry_out(&self, key: &str, current: &Current, change: Change) -> Result<Round, ApiError> {
        match change {
            Change::Nothing => Ok(Round::Done(Outcome::Is(current.item.clone()))),
            Change::Pretend(object) => Ok(Round::Done(Outcome::WouldBe(object))),
            Change::Remove => self.remove_object(key, &current.item).await,
            Change::Put(object) => self.put_object(key, current, object).await,
            Change::PutAndRemove(object) => Ok(match self.put_object(key, current, object).await? {
                Round::Done(Outcome::Is(item)) => Round::Remove(item),
                other => other,
            }),
        }
    }

    async fn put_object(&self, key: &str, current: &Current, mut object: Value) -> Result<Round, ApiError> {
        let reservation = match &self.info.side_effects {
            Some(effects) => effects.reserve(&mut object, Some(&current.object), false).await?,
            None => Reservation::default(),
        };
        let put = self.put(key, &object, Compare::ModRevision(current.item.revision)).await;
        if let Some(effects) = &self.info.side_effects {
            effects.finish(reservation, matches!(put, Ok(Put::Committed(_)))).await;
        }
        Ok(match put? {
            Put::Committed(item) => Round::Done(Outcome::Is(item)),
            Put::Conflict(found) => Round::Again(found),
        })
    }

    async fn remove_object(&self, key: &str, item: &Item) -> Result<Round, ApiError> {
        match self.remove(key, item).await? {
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
