//! The public face of the actor: permits for writes, and the keys that they hold.

use std::{
    pin::{Pin, pin},
    sync::Arc,
    time::Instant,
};

use futures_util::future::poll_immediate;
use trireme_actors::{ActorSystem, AskError, Caller, Handle, Owned, Permit, SpawnError, topology::TopologyError};
use trireme_machinery::{ApiError, Reason};

use super::{
    actor::KeyLocker,
    messages::{KeyGuard, LockKey, SharedKeys},
};
use crate::{
    item::{Item, ItemKey},
    request::timed_out,
    trace::{Trace, TraceStep},
};

/// The right to have a write under way in one resource. Clones are the same permit.
#[derive(Clone)]
pub(crate) struct WritePermit(Arc<Permit<KeyLocker>>);

/// The keys of one resource. Cheap to clone. The actor stops when the last clone is dropped: a write that began before its
/// resource was replaced or removed goes on to its end.
#[derive(Clone)]
pub(crate) struct KeyLocks {
    keys: SharedKeys,
    actor: Handle<KeyLocker>,
    _running: Arc<StoppedOnDrop>,
}

struct StoppedOnDrop(Owned<KeyLocker>);

impl Drop for StoppedOnDrop {
    fn drop(&mut self) {
        self.0.begin_stop();
    }
}

impl KeyLocks {
    /// Spawns the actor of a resource. The actor of one that was served under the same name before may still be there, as long as a
    /// write is under way that began then: the new one gets a number behind its name.
    pub(crate) fn spawn(system: &ActorSystem, resource: &str) -> Result<Self, RegistryError> {
        let keys = SharedKeys::default();
        let spawn = |name: String| {
            let keys = keys.clone();
            system.spawn(name, move || KeyLocker::new(keys.clone()))
        };
        let mut spawned = spawn(resource.to_owned());
        for number in 2.. {
            let Err(SpawnError::Duplicate(_)) = spawned else { break };
            spawned = spawn(format!("{resource}#{number}"));
        }
        let owned = spawned?;
        Ok(Self {
            keys,
            actor: owned.for_caller(Caller::Outside)?,
            _running: Arc::new(StoppedOnDrop(owned)),
        })
    }

    /// The number of keys that are not free.
    #[cfg(test)]
    pub(super) fn busy(&self) -> usize {
        self.keys.table().busy()
    }

    /// Lets a write begin.
    ///
    /// # Errors
    /// 429 if as many are under way as the resource takes.
    pub(crate) fn permit(&self) -> Result<WritePermit, ApiError> {
        let permit = self.actor.permit().map_err(ask_error)?;
        Ok(WritePermit(Arc::new(permit)))
    }

    /// Prepares to hold a key for a write that has a permit.
    pub(crate) fn key(&self, permit: WritePermit, key: ItemKey, deadline: Option<Instant>, trace: Trace) -> HeldKey {
        HeldKey {
            locks: self.clone(),
            permit,
            key,
            deadline,
            trace,
            guard: None,
        }
    }
}

/// The reason that the actor of a resource could not be started.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// It could not be spawned.
    #[error("an actor could not be started")]
    Spawn(#[from] SpawnError),
    /// The topology forbids one of its edges.
    #[error("the topology is wrong")]
    Topology(#[from] TopologyError),
}

/// A key that a write holds, lets go of and holds again.
pub(crate) struct HeldKey {
    locks: KeyLocks,
    permit: WritePermit,
    key: ItemKey,
    deadline: Option<Instant>,
    trace: Trace,
    guard: Option<KeyGuard>,
}

impl HeldKey {
    /// The key within its resource.
    pub(crate) fn key(&self) -> &ItemKey {
        &self.key
    }

    /// Waits for the key, unless it is held already; says whether it had to be locked.
    ///
    /// # Errors
    /// 504 if the write's deadline comes first; nothing has been written then.
    pub(crate) async fn lock(&mut self) -> Result<bool, ApiError> {
        if self.guard.is_some() {
            return Ok(false);
        }
        let guard = match self.locks.keys.take(&self.key) {
            Some(guard) => guard,
            None => {
                let asked = LockKey(Arc::clone(&self.key));
                let asked = self.locks.actor.ask_within(&self.permit.0, asked, self.deadline);
                asked.await.map_err(ask_error)?
            }
        };
        self.guard = Some(guard);
        self.trace.pass(TraceStep::KeyTaken);
        Ok(true)
    }

    /// Releases the key: another writer may lock it now.
    pub(crate) fn release(&mut self) {
        self.guard = None;
    }

    /// The object as the last holder left it, if the key was waited for.
    pub(crate) fn latest(&self) -> Option<Arc<Item>> {
        self.guard.as_ref().and_then(KeyGuard::latest)
    }

    /// Notes the object as the next holder finds it; none, if it is gone.
    pub(crate) fn leave(&mut self, latest: Option<Arc<Item>>) {
        if let Some(guard) = &mut self.guard {
            guard.leave(latest);
        }
    }

    /// Runs a computation that may have to wait for others: it keeps the key only if it does not.
    pub(crate) async fn hold_over<F: Future>(&mut self, computation: F) -> F::Output {
        let mut computation = pin!(computation);
        match poll_immediate(Pin::as_mut(&mut computation)).await {
            Some(output) => output,
            None => {
                self.release();
                computation.await
            }
        }
    }
}

/// The client's error for an actor's refusal. Nothing has been written yet when a key or a permit is refused.
fn ask_error(error: AskError) -> ApiError {
    let reason = match error {
        AskError::Overloaded => Reason::TooManyRequests,
        AskError::Restarting { .. } | AskError::Stopped { .. } => Reason::ServiceUnavailable,
        AskError::Deadline { .. } => return timed_out(),
    };
    ApiError::new(reason, format!("{error}, please try again later")).with_retry_after(1)
}
