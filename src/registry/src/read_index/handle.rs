//! The public face of the read index.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Instant,
};

use futures_util::{FutureExt as _, future::poll_immediate};
use tokio::sync::watch;
use trireme_actors::{ActorSystem, Caller, Clock, Notes, SpawnError};
use trireme_machinery::ApiError;
use trireme_storage::{Revision, Storage, StorageError};

use super::{actor::ReadIndex, logic::Rounds, messages::Look};
use crate::store_error;

/// The outcome of the last round.
#[derive(Debug, Clone)]
pub(super) struct Latest {
    outcome: Result<Revision, StorageError>,
    immediate: bool,
}

impl Latest {
    pub(super) fn new(outcome: Result<Revision, StorageError>, immediate: bool) -> Self {
        Self { outcome, immediate }
    }

    /// Asks the store.
    pub(super) async fn of(store: &dyn Storage) -> Self {
        let mut read = pin!(store.read_index());
        match poll_immediate(&mut read).await {
            Some(outcome) => Self::new(outcome, true),
            None => Self::new(read.await, false),
        }
    }
}

/// State that handle and actor share; outlives the actor's instances.
#[derive(Debug)]
pub(super) struct ReadIndexShared {
    rounds: watch::Sender<(Rounds, Latest)>,
    /// The highest round that a reader waits for.
    wanted: AtomicU64,
    /// The store has shown that it answers without waiting: asking it is cheaper than sharing the answer.
    immediate: AtomicBool,
}

impl ReadIndexShared {
    fn new() -> Self {
        let none_yet = Latest::new(Err(StorageError::Timeout), false);
        Self {
            rounds: watch::Sender::new((Rounds::default(), none_yet)),
            wanted: AtomicU64::new(0),
            immediate: AtomicBool::new(false),
        }
    }

    pub(super) fn begin(&self) -> bool {
        let wanted = self.wanted.load(Ordering::SeqCst);
        let mut begins = false;
        self.rounds.send_if_modified(|(rounds, _)| {
            begins = rounds.begin(wanted);
            // Readers wait for an end, so none is woken.
            false
        });
        begins
    }

    /// Begins a round for one reader alone, unless there is one that others are served by or wait for.
    fn begin_alone(&self) -> bool {
        let mut begins = false;
        self.rounds.send_if_modified(|(rounds, _)| {
            begins = rounds.begin_alone(self.wanted.load(Ordering::SeqCst));
            false
        });
        begins
    }

    pub(super) fn end(&self, latest: Latest) {
        self.immediate.store(latest.immediate, Ordering::Relaxed);
        metrics::counter!("trireme_read_index_rounds_total").increment(1);
        self.rounds.send_modify(|(rounds, last)| {
            rounds.end();
            *last = latest;
        });
    }

    /// Ends the round of a reader that is gone. Those of earlier rounds may still look for their outcome.
    fn give_up(&self) {
        self.rounds.send_modify(|(rounds, _)| rounds.end());
    }

    fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::SeqCst) > self.rounds.borrow().0.begun
    }

    /// Fails the round that an earlier instance of the actor has begun, if it is under way.
    pub(super) fn abandon(&self) {
        self.rounds.send_if_modified(|(rounds, last)| {
            let under_way = rounds.begun != rounds.ended && !rounds.is_alone;
            if under_way {
                rounds.end();
                *last = Latest::new(Err(StorageError::Unavailable("the read was lost".to_owned())), false);
            }
            under_way
        });
    }
}

/// Says how far the store is, linearizably. Cheap to clone.
#[derive(Clone)]
pub struct ReadIndexHandle {
    notes: Notes<ReadIndex>,
    shared: Arc<ReadIndexShared>,
    store: Arc<dyn Storage>,
    clock: Clock,
}

impl ReadIndexHandle {
    /// Starts the actor for a store.
    ///
    /// # Panics
    /// If the topology does not let callers from outside ask it.
    pub fn spawn(system: &ActorSystem, store: Arc<dyn Storage>) -> Result<Self, SpawnError> {
        let shared = Arc::new(ReadIndexShared::new());
        let (asked, shown) = (store.clone(), shared.clone());
        let owned = system.spawn("", move || ReadIndex::new(asked.clone(), shown.clone()))?;
        let notes = owned
            .notes_for(Caller::Outside)
            .expect("the topology lets readers ask the read index");
        Ok(Self {
            notes,
            shared,
            store,
            clock: system.clock().clone(),
        })
    }

    /// A revision that no write acknowledged before the call has exceeded. One read of the store serves all who ask at
    /// the same time. Who asks alone reads by itself, on its own event loop: to have the actor read wakes three threads.
    pub async fn revision(&self, deadline: Instant) -> Result<Revision, ApiError> {
        if self.shared.immediate.load(Ordering::Relaxed)
            && let Some(outcome) = self.store.read_index().now_or_never()
        {
            return outcome.map_err(store_error);
        }
        if self.shared.begin_alone() {
            let round = OwnRound {
                handle: self,
                outcome: None,
            };
            return round.read(deadline).await;
        }
        let mut rounds = self.shared.rounds.subscribe();
        let mine = rounds.borrow().0.next();
        if self.shared.wanted.fetch_max(mine, Ordering::SeqCst) < mine {
            // The reader that raised it to this round has notified the actor, which looks again after each round and at its start.
            // A note can only fail while the actor starts.
            let _ = self.notes.tell(Look);
        }
        let done = rounds.wait_for(|(rounds, _)| rounds.ended >= mine);
        match self.clock.timeout_at(deadline, done).await {
            Some(Ok(latest)) => latest.1.outcome.clone().map_err(store_error),
            Some(Err(_)) | None => Err(store_error(StorageError::Timeout)),
        }
    }

    /// The number of readers that wait for others' reads.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.shared.rounds.receiver_count()
    }
}

/// The round of a reader that has found none under way. Whoever comes meanwhile waits for the next one, which is the actor's.
struct OwnRound<'h> {
    handle: &'h ReadIndexHandle,
    outcome: Option<Latest>,
}

impl OwnRound<'_> {
    async fn read(mut self, deadline: Instant) -> Result<Revision, ApiError> {
        let read = Latest::of(&*self.handle.store);
        let Some(latest) = self.handle.clock.timeout_at(deadline, read).await else {
            return Err(store_error(StorageError::Timeout));
        };
        let outcome = latest.outcome.clone();
        self.outcome = Some(latest);
        outcome.map_err(store_error)
    }
}

impl Drop for OwnRound<'_> {
    fn drop(&mut self) {
        let ReadIndexHandle { shared, notes, .. } = self.handle;
        match self.outcome.take() {
            Some(latest) => shared.end(latest),
            None => shared.give_up(),
        }
        if shared.is_wanted() {
            // It can only fail while the actor starts, which looks by itself.
            let _ = notes.tell(Look);
        }
    }
}
