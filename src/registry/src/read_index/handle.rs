//! The public face of the read index.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Instant,
};

use futures_util::FutureExt as _;
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

    pub(super) fn end(&self, latest: Latest) {
        self.immediate.store(latest.immediate, Ordering::Relaxed);
        metrics::counter!("trireme_read_index_rounds_total").increment(1);
        self.rounds.send_modify(|(rounds, last)| {
            rounds.end();
            *last = latest;
        });
    }

    /// Fails the round under way, if there is one.
    pub(super) fn abandon(&self) {
        self.rounds.send_if_modified(|(rounds, last)| {
            let under_way = rounds.begun != rounds.ended;
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
    /// the same time.
    pub async fn revision(&self, deadline: Instant) -> Result<Revision, ApiError> {
        if self.shared.immediate.load(Ordering::Relaxed)
            && let Some(outcome) = self.store.read_index().now_or_never()
        {
            return outcome.map_err(store_error);
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

    /// The number of waiting readers.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.shared.rounds.receiver_count()
    }
}
