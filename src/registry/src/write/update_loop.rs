//! Read, compute, compare-and-put, and again.
//!
//! The state to start from is the newest that is at hand: what the last holder of the key wrote, or what the watch
//! cache has. If that turns out to be stale, by the store's refusal or because nothing would change or the step fails,
//! the loop goes on with what the store has now.
//!
//! ```text
//!  lock ──► compute and admit ──────────────────────────────► commit ──► release
//!               │ admission waits                               ▲  │
//!               └─► release ──► … ──► lock ──► still newest? ───┘  │ changed by another replica
//!                                                │ no              │
//!           compute again ◄──────────────────────┴─────────────────┘
//! ```
//! A computation that does not have to wait runs with the key held, so that writers of a hot key take turns
//! and none computes in vain. One that waits lets go of the key first, so no other write waits for its sake, not even
//! one of the plugin that it waits for.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::Value;
use trireme_machinery::{ApiError, Reason};
use trireme_storage::{Compare, KeyValue};

use super::{Writer, commit::PutResult};
use crate::{
    admission::WriteRequest,
    item::{self, Item},
    key_locks::HeldKey,
    request::timed_out,
    store_error, stored,
    trace::TraceStep,
    unreadable::UnreadableValue,
    versions,
};

/// After so many lost races the client is asked to come back.
const MAX_ROUNDS: usize = 64;

/// The object that a change starts from, in the version that it is written in, with its `resourceVersion`.
pub(super) struct CurrentObject {
    pub(super) item: Arc<Item>,
    pub(super) object: Arc<Value>,
}

/// The change that a step makes of the current object.
pub(super) enum StoreChange {
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

impl StoreChange {
    /// True if the change is right also if it starts from an old object: because the store refuses it then, or because
    /// it is itself a refusal that a newer object would not change.
    fn may_start_from_old(&self) -> bool {
        match self {
            Self::Put(_) | Self::PutAndRemove(_) | Self::Remove | Self::RemoveAs(_) | Self::Refuse(_) => true,
            Self::Nothing | Self::Pretend(_) => false,
        }
    }

    /// True if the change is one of the store.
    fn writes(&self) -> bool {
        match self {
            Self::Put(_) | Self::PutAndRemove(_) | Self::Remove | Self::RemoveAs(_) => true,
            Self::Nothing | Self::Pretend(_) | Self::Refuse(_) => false,
        }
    }
}

/// Computes a change; called once a round, so it starts from nothing each time.
pub(super) trait UpdateStep: Send {
    /// The change that follows from the object as it is.
    fn change<'a>(
        &'a mut self,
        writer: &'a Writer,
        current: &'a CurrentObject,
    ) -> BoxFuture<'a, Result<StoreChange, ApiError>>;
}

/// The end of a loop.
pub(super) enum UpdateOutcome {
    /// The object is now this (or was not changed).
    Stored(Arc<Item>),
    /// The object is gone; this was its last state.
    Deleted(Arc<Item>),
    /// This is nowhere stored, but is what the object would be (a dry run) or became as it went; in the version
    /// that it is written in.
    Synthesized(Value),
}

enum RoundResult {
    Done(UpdateOutcome),
    Again(Option<KeyValue>),
}

impl Writer {
    /// Runs `step` on the object until its change is committed, and holds the key where it can.
    pub(super) async fn update_loop(
        &self,
        request: &WriteRequest,
        key: &mut HeldKey,
        step: &mut dyn UpdateStep,
    ) -> Result<UpdateOutcome, ApiError> {
        let (name, version) = (&request.target.name, self.version(&request.target)?);
        let storage_key = self.storage_key(&request.target.namespace, name);
        key.lock().await?;
        let mut fresh = false;
        let mut item = match self.newest_at_hand(key) {
            Some(item) => item,
            None => {
                fresh = true;
                self.load(request, &storage_key).await?
            }
        };
        for _ in 0..MAX_ROUNDS {
            let current = CurrentObject {
                object: Arc::new(versions::written_value(&self.info, &item, version).await?),
                item: item.clone(),
            };
            let change = key.hold_over(step.change(self, &current)).await;
            if !fresh && !change.as_ref().is_ok_and(StoreChange::may_start_from_old) {
                fresh = true;
                let newest = self.load(request, &storage_key).await?;
                if newest.revision != item.revision {
                    item = newest;
                    key.lock().await?;
                    continue;
                }
            }
            let change = change?;
            if change.writes() && key.lock().await? {
                // Others have had the key meanwhile. What they left is newer than what this change starts from, if they
                // wrote; the store would refuse it.
                if let Some(newer) = self
                    .newest_at_hand(key)
                    .filter(|newest| newest.revision > item.revision)
                {
                    item = newer;
                    fresh = false;
                    continue;
                }
                if request
                    .target
                    .deadline
                    .is_some_and(|deadline| self.clock.now() >= deadline)
                {
                    return Err(timed_out());
                }
            }
            let round = self.carry_out(request, &storage_key, &current, change).await?;
            match round {
                RoundResult::Done(outcome) => {
                    key.leave(match &outcome {
                        UpdateOutcome::Stored(item) => Some(Arc::clone(item)),
                        UpdateOutcome::Deleted(_) | UpdateOutcome::Synthesized(_) => None,
                    });
                    return Ok(outcome);
                }
                RoundResult::Again(None) => {
                    key.leave(None);
                    return Err(ApiError::not_found(
                        &self.info.resource_in(request.target.version),
                        name,
                    ));
                }
                RoundResult::Again(Some(found)) => item = self.item_of(&storage_key, found)?,
            }
            fresh = true;
        }
        Err(too_busy())
    }

    /// The newest state that is known here, however old that is.
    fn newest_at_hand(&self, key: &HeldKey) -> Option<Arc<Item>> {
        match (self.reader.cached(key.key()), key.latest()) {
            (Some(cached), Some(latest)) => Some(if latest.revision > cached.revision {
                latest
            } else {
                cached
            }),
            (cached, latest) => cached.or(latest),
        }
    }

    async fn load(&self, request: &WriteRequest, storage_key: &str) -> Result<Arc<Item>, ApiError> {
        let target = &request.target;
        let loaded = self.store.get(storage_key, None).await;
        target.trace.pass_or(&loaded, TraceStep::Loaded, TraceStep::StoreFailed);
        let (found, _) = loaded.map_err(store_error)?;
        let entry = found.ok_or_else(|| ApiError::not_found(&self.info.resource_in(target.version), &target.name))?;
        self.item_of(storage_key, entry)
    }

    pub(super) fn item_of(&self, key: &str, entry: KeyValue) -> Result<Arc<Item>, ApiError> {
        let revision = entry.mod_revision;
        let item = Item::from_stored(&self.info, key, entry.value, revision);
        item.map(Arc::new)
            .map_err(|error| match stored::item_key(&self.info, key) {
                Ok((key, _)) => UnreadableValue::new(key, revision, &error).error(&self.info),
                Err(error) => ApiError::internal(error),
            })
    }

    async fn carry_out(
        &self,
        request: &WriteRequest,
        storage_key: &str,
        current: &CurrentObject,
        change: StoreChange,
    ) -> Result<RoundResult, ApiError> {
        match change {
            StoreChange::Nothing => self.leave_object(request, storage_key, current).await,
            StoreChange::Pretend(object) => Ok(RoundResult::Done(UpdateOutcome::Synthesized(object))),
            StoreChange::Refuse(error) => Err(error),
            StoreChange::Remove => self.remove_object(request, storage_key, &current.item).await,
            StoreChange::RemoveAs(object) => {
                Ok(match self.remove_object(request, storage_key, &current.item).await? {
                    RoundResult::Done(_) => RoundResult::Done(UpdateOutcome::Synthesized(object)),
                    again => again,
                })
            }
            StoreChange::Put(object) => self.put_object(request, storage_key, current, object).await,
            StoreChange::PutAndRemove(object) => match self.put_object(request, storage_key, current, object).await? {
                RoundResult::Done(UpdateOutcome::Stored(marked)) => self
                    .finish_removal(request, storage_key, marked)
                    .await
                    .map(RoundResult::Done),
                other => Ok(other),
            },
        }
    }

    /// Writes nothing, unless the object would be stored otherwise than it is: that is how people rotate keys and leave old
    /// versions behind.
    async fn leave_object(
        &self,
        request: &WriteRequest,
        storage_key: &str,
        current: &CurrentObject,
    ) -> Result<RoundResult, ApiError> {
        let is_stale = versions::is_stale(&self.info, &current.item)
            || self.store.is_stale(storage_key).await.map_err(store_error)?;
        if request.context.dry_run || !is_stale {
            return Ok(RoundResult::Done(UpdateOutcome::Stored(current.item.clone())));
        }
        self.put_object(request, storage_key, current, Value::clone(&current.object))
            .await
    }

    async fn put_object(
        &self,
        request: &WriteRequest,
        storage_key: &str,
        current: &CurrentObject,
        mut object: Value,
    ) -> Result<RoundResult, ApiError> {
        let compare = Compare::ModRevision(current.item.revision);
        let put = self.put(request, storage_key, &mut object, Some(&current.object), compare);
        Ok(match put.await? {
            PutResult::Committed(item) => RoundResult::Done(UpdateOutcome::Stored(item)),
            PutResult::Conflict(found) => RoundResult::Again(found),
        })
    }

    /// Deletes an object that has been marked for the last time. Others may still change it, but not call it back.
    async fn finish_removal(
        &self,
        request: &WriteRequest,
        storage_key: &str,
        marked: Arc<Item>,
    ) -> Result<UpdateOutcome, ApiError> {
        let mut item = marked;
        for _ in 0..MAX_ROUNDS {
            let newer = match self.remove_object(request, storage_key, &item).await? {
                RoundResult::Done(outcome) => return Ok(outcome),
                RoundResult::Again(found) => found.map(|found| self.item_of(storage_key, found)).transpose()?,
            };
            match newer {
                Some(newer) if newer.uid == item.uid => item = newer,
                _ => return Ok(UpdateOutcome::Deleted(item)),
            }
        }
        Err(too_busy())
    }

    async fn remove_object(
        &self,
        request: &WriteRequest,
        storage_key: &str,
        item: &Item,
    ) -> Result<RoundResult, ApiError> {
        match self.remove(request, storage_key, item).await? {
            PutResult::Committed(last) => {
                if let Some(effects) = &self.info.side_effects {
                    effects.release(&item::parse(&last)?).await;
                }
                Ok(RoundResult::Done(UpdateOutcome::Deleted(last)))
            }
            PutResult::Conflict(found) => Ok(RoundResult::Again(found)),
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
