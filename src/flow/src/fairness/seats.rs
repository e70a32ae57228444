//! The seats of one priority level: the lock-free part, shared by the handle and the actor.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use metrics::{Gauge, Histogram, gauge, histogram};
use tokio::sync::Notify;
use trireme_actors::Clock;

use super::queues::Executing;

/// The seats of a level. Outlives the actor's instances.
///
/// A request takes its seats here without the actor as long as nobody waits. As soon as somebody does, only the actor gives seats
/// away, in the order of its queues.
pub(crate) struct LevelSeats {
    /// Seats that are taken (low half) and requests that wait (high half), so that both are seen at one moment.
    state: AtomicU64,
    limit: AtomicU32,
    executing: AtomicU32,
    dispatched: AtomicU64,
    /// The most seats that were taken or waited for since the last look.
    peak: AtomicU32,
    /// Wakes the actor: seats were given back, or there are more.
    pub(crate) freed: Notify,
    clock: Clock,
    shown: LevelGauges,
}

struct LevelGauges {
    requests: Gauge,
    seats: Gauge,
    took: Histogram,
}

const TAKEN: u64 = u32::MAX as u64;
const ONE_WAITS: u64 = 1 << 32;

fn taken(state: u64) -> u32 {
    u32::try_from(state & TAKEN).unwrap_or(u32::MAX)
}

fn waiting(state: u64) -> u64 {
    state / ONE_WAITS
}

impl LevelSeats {
    /// All seats free.
    pub(crate) fn new(level: &str, limit: u32, clock: Clock) -> Arc<Self> {
        let level = level.to_owned();
        Arc::new(Self {
            state: AtomicU64::new(0),
            limit: AtomicU32::new(limit),
            executing: AtomicU32::new(0),
            dispatched: AtomicU64::new(0),
            peak: AtomicU32::new(0),
            freed: Notify::new(),
            clock,
            shown: LevelGauges {
                requests: gauge!("apiserver_flowcontrol_current_executing_requests", "priority_level" => level.clone()),
                seats: gauge!("apiserver_flowcontrol_current_executing_seats", "priority_level" => level.clone()),
                took: histogram!("apiserver_flowcontrol_request_execution_seconds", "priority_level" => level),
            },
        })
    }

    /// Takes seats if they are free and nobody waits.
    pub(crate) fn try_take(self: &Arc<Self>, seats: u32) -> Option<LevelSeat> {
        self.take(seats, |state| waiting(state) == 0)
            .then(|| self.seat(seats, true, None))
    }

    /// Takes seats for a request whose turn it is, and which waits no more.
    pub(crate) fn try_take_in_turn(self: &Arc<Self>, seats: u32) -> bool {
        let has_taken = self.take(seats, |_| true);
        if has_taken {
            self.leave(1);
        }
        has_taken
    }

    /// The seats of a request whose turn it was.
    pub(crate) fn dispatched(self: &Arc<Self>, seats: u32, executing: Arc<Executing>) -> LevelSeat {
        self.seat(seats, true, Some(executing))
    }

    /// Seats beyond the limit, for those who are never held up.
    pub(crate) fn exempt(self: &Arc<Self>, seats: u32) -> LevelSeat {
        self.seat(seats, false, None)
    }

    /// A request begins to wait.
    pub(crate) fn wait(&self, seats: u32) {
        let state = self.state.fetch_add(ONE_WAITS, Ordering::AcqRel);
        self.saw_demand(taken(state).saturating_add(seats));
    }

    /// Requests wait no more.
    pub(crate) fn leave(&self, count: usize) {
        self.state.fetch_sub(ONE_WAITS * count as u64, Ordering::AcqRel);
    }

    /// Forgets who waits, after the actor has lost them.
    pub(crate) fn forget_waiting(&self) {
        self.state.fetch_and(TAKEN, Ordering::AcqRel);
    }

    /// Changes how many seats there are. Those that are taken stay taken, also beyond a lower limit.
    pub(crate) fn set_limit(&self, limit: u32) {
        self.limit.store(limit, Ordering::Release);
        self.freed.notify_one();
    }

    pub(crate) fn limit(&self) -> u32 {
        self.limit.load(Ordering::Acquire)
    }

    /// Requests that are worked on.
    pub(crate) fn executing(&self) -> u32 {
        self.executing.load(Ordering::Acquire)
    }

    /// Requests that were let through so far.
    pub(crate) fn dispatched_so_far(&self) -> u64 {
        self.dispatched.load(Ordering::Relaxed)
    }

    /// Reports whether nobody has seats and nobody waits.
    pub(crate) fn is_idle(&self) -> bool {
        self.executing() == 0 && waiting(self.state.load(Ordering::Acquire)) == 0
    }

    /// The most seats that were wanted at one time since the last call.
    pub(crate) fn take_peak(&self) -> u32 {
        let now = taken(self.state.load(Ordering::Acquire));
        self.peak.swap(now, Ordering::AcqRel).max(now)
    }

    fn saw_demand(&self, seats: u32) {
        self.peak.fetch_max(seats, Ordering::AcqRel);
    }

    fn take(&self, seats: u32, may: impl Fn(u64) -> bool) -> bool {
        let limit = self.limit();
        let more = |state: u64| {
            let taken = taken(state);
            // What is wider than the level has its turn when it is alone.
            let fits = taken.saturating_add(seats) <= limit || (taken == 0 && limit > 0);
            (fits && may(state)).then(|| state + u64::from(seats))
        };
        let before = self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
        if let Ok(state) = before {
            self.saw_demand(taken(state).saturating_add(seats));
        }
        before.is_ok()
    }

    fn seat(self: &Arc<Self>, seats: u32, is_counted: bool, executing: Option<Arc<Executing>>) -> LevelSeat {
        self.executing.fetch_add(1, Ordering::AcqRel);
        self.dispatched.fetch_add(1, Ordering::Relaxed);
        self.shown.requests.increment(1.0);
        self.shown.seats.increment(f64::from(seats));
        LevelSeat {
            level: Arc::clone(self),
            seats,
            is_counted,
            executing,
            since: self.clock.now(),
        }
    }
}

/// The right of one request to be worked on; given back on drop.
#[must_use]
pub(crate) struct LevelSeat {
    level: Arc<LevelSeats>,
    seats: u32,
    is_counted: bool,
    /// The queue that it waited in.
    executing: Option<Arc<Executing>>,
    since: Instant,
}

impl LevelSeat {
    fn took(&self) -> Duration {
        self.level.clock.now().saturating_duration_since(self.since)
    }
}

impl Drop for LevelSeat {
    fn drop(&mut self) {
        let (level, took) = (&self.level, self.took());
        if let Some(executing) = &self.executing {
            executing.end(self.seats, took);
        }
        if self.is_counted {
            let before = level.state.fetch_sub(u64::from(self.seats), Ordering::AcqRel);
            if waiting(before) > 0 {
                level.freed.notify_one();
            }
        }
        level.executing.fetch_sub(1, Ordering::AcqRel);
        level.shown.requests.decrement(1.0);
        level.shown.seats.decrement(f64::from(self.seats));
        level.shown.took.record(took.as_secs_f64());
    }
}
