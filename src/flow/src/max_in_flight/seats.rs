//! The seats of one class: the lock-free part, shared by the handle and the actor.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use crate::watermark::{Watermark, WatermarkCount};

/// The seats: those there are and those taken. Outlives the actor's instances.
pub(crate) struct ClassSeats {
    limit: AtomicUsize,
    taken: AtomicUsize,
    in_flight: Arc<Watermark>,
}

impl ClassSeats {
    /// All seats free; a limit of 0 means any number.
    pub(crate) fn new(class: &'static str, limit: usize) -> Arc<Self> {
        Arc::new(Self {
            limit: AtomicUsize::new(effective(limit)),
            taken: AtomicUsize::new(0),
            in_flight: Watermark::new("apiserver_current_inflight_requests", class),
        })
    }

    /// Takes a seat if one is free.
    pub(crate) fn try_take(self: &Arc<Self>) -> Option<ClassSeat> {
        let limit = self.limit.load(Ordering::Relaxed);
        let more = |taken: usize| (taken < limit).then_some(taken + 1);
        self.taken
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, more)
            .ok()?;
        Some(self.seat(true))
    }

    /// A seat outside the limit.
    pub(crate) fn exempt(self: &Arc<Self>) -> ClassSeat {
        self.seat(false)
    }

    /// The requests that have seats.
    pub(crate) fn in_flight(&self) -> Arc<Watermark> {
        Arc::clone(&self.in_flight)
    }

    /// Changes how many seats there are. Those that are taken stay taken, also beyond a lower limit.
    pub(crate) fn resize(&self, limit: usize) {
        self.limit.store(effective(limit), Ordering::Relaxed);
    }

    fn seat(self: &Arc<Self>, is_counted: bool) -> ClassSeat {
        ClassSeat {
            seats: Arc::clone(self),
            is_counted,
            _in_flight: self.in_flight.count(),
        }
    }
}

fn effective(limit: usize) -> usize {
    if limit == 0 { usize::MAX } else { limit }
}

/// The right to be worked on; given back on drop.
#[must_use]
pub struct ClassSeat {
    seats: Arc<ClassSeats>,
    is_counted: bool,
    _in_flight: WatermarkCount,
}

impl Drop for ClassSeat {
    fn drop(&mut self) {
        if self.is_counted {
            self.seats.taken.fetch_sub(1, Ordering::AcqRel);
        }
    }
}
