//! A request that waits, as its asker and the actor of its level share it: it counts as one in a queue from when the actor puts it
//! there until its turn comes or its asker leaves, whichever is first.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU32, AtomicUsize, Ordering},
};

use super::{counters::QueuedCount, work::TrackedRequest};

/// The requests of one queue whose askers have left, while they are still in it.
#[derive(Debug, Default)]
pub(crate) struct QueueLeavers {
    requests: AtomicUsize,
    seats: AtomicU32,
}

impl QueueLeavers {
    pub(crate) fn add(&self, seats: u32) {
        self.seats.fetch_add(seats, Ordering::AcqRel);
        self.requests.fetch_add(1, Ordering::AcqRel);
    }

    /// One of them is no longer in the queue.
    pub(crate) fn remove(&self, seats: u32) {
        self.requests.fetch_sub(1, Ordering::AcqRel);
        self.seats.fetch_sub(seats, Ordering::AcqRel);
    }

    pub(crate) fn requests(&self) -> usize {
        self.requests.load(Ordering::Acquire)
    }

    pub(crate) fn seats(&self) -> u32 {
        self.seats.load(Ordering::Acquire)
    }
}

/// A request that found no seat.
pub(crate) struct WaitingRequest {
    pub(crate) request: Arc<TrackedRequest>,
    phase: Mutex<WaitPhase>,
}

enum WaitPhase {
    /// The actor has not decided about it.
    Asked,
    InQueue {
        leavers: Arc<QueueLeavers>,
        _count: QueuedCount,
    },
    /// Its turn has come.
    Dispatched,
    /// Its asker has left; if it was in a queue, it is among the leavers of that.
    Left(Option<Arc<QueueLeavers>>),
}

impl WaitingRequest {
    pub(crate) fn new(request: Arc<TrackedRequest>) -> Self {
        Self {
            request,
            phase: Mutex::new(WaitPhase::Asked),
        }
    }

    fn phase(&self) -> MutexGuard<'_, WaitPhase> {
        // A phase is whole, whoever panicked beside it.
        self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The actor puts it into a queue; false if its asker has left.
    pub(crate) fn enter(&self, leavers: &Arc<QueueLeavers>, count: QueuedCount) -> bool {
        let mut phase = self.phase();
        if matches!(*phase, WaitPhase::Left(_)) {
            return false;
        }
        *phase = WaitPhase::InQueue {
            leavers: Arc::clone(leavers),
            _count: count,
        };
        true
    }

    /// The actor has taken it out of its queue, since its turn has come.
    pub(crate) fn dispatch(&self) {
        let mut phase = self.phase();
        match &*phase {
            WaitPhase::Left(Some(leavers)) => leavers.remove(self.request.work.most_seats()),
            _ => *phase = WaitPhase::Dispatched,
        }
    }

    /// Its asker waits no more.
    pub(crate) fn leave(&self) {
        let mut phase = self.phase();
        let leavers = match &*phase {
            WaitPhase::InQueue { leavers, .. } => Some(Arc::clone(leavers)),
            WaitPhase::Asked => None,
            WaitPhase::Dispatched | WaitPhase::Left(_) => return,
        };
        if let Some(leavers) = &leavers {
            leavers.add(self.request.work.most_seats());
        }
        *phase = WaitPhase::Left(leavers);
    }

    /// Reports whether its asker has left.
    pub(crate) fn has_left(&self) -> bool {
        matches!(*self.phase(), WaitPhase::Left(_))
    }
}
