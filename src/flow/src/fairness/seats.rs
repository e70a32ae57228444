//! The seats of one priority level: the lock-free part, shared by the handle and the actor.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use arc_swap::ArcSwapOption;
use tokio::sync::Notify;
use trireme_actors::Clock;

use super::{
    config::QueueShape,
    late::LateReleases,
    queues::Executing,
    work::{ExecutingRequest, ExecutingRequests, TrackedRequest},
};

/// The seats of a level. Outlives the actor's instances.
///
/// A request takes its seats here without the actor as long as nobody waits. As soon as somebody does, only the actor gives seats
/// away, in the order of its queues.
pub(crate) struct LevelSeats {
    /// Seats that are taken (low half) and requests that wait (high half), so that both are seen at one moment.
    state: AtomicU64,
    limit: AtomicU32,
    /// The queues that the level is to have; none if it refuses at once. Kept here, so that no change of it can be lost.
    shape: ArcSwapOption<QueueShape>,
    executing: AtomicU32,
    /// Requests that were let through so far; their numbers.
    dispatched: AtomicU64,
    requests: ExecutingRequests,
    /// Seats that are waited for in all queues.
    wanted: AtomicU32,
    /// The most seats that were taken and waited for at one time since the last look.
    peak: AtomicU32,
    /// Wakes the actor: seats were given back, or there are more.
    pub(crate) freed: Notify,
    clock: Clock,
    late: LateReleases,
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
    /// No seats and no queues.
    pub(crate) fn new(clock: Clock, late: LateReleases) -> Arc<Self> {
        Arc::new(Self {
            state: AtomicU64::new(0),
            limit: AtomicU32::new(0),
            shape: ArcSwapOption::empty(),
            executing: AtomicU32::new(0),
            dispatched: AtomicU64::new(0),
            requests: ExecutingRequests::default(),
            wanted: AtomicU32::new(0),
            peak: AtomicU32::new(0),
            freed: Notify::new(),
            clock,
            late,
        })
    }

    /// Takes a request's seats if they are free and nobody waits. Who still waits in the queues that a level had before is
    /// nobody that a request could queue up behind.
    pub(crate) fn try_take(self: &Arc<Self>, request: &Arc<TrackedRequest>) -> Option<LevelSeat> {
        let may_take = |state| waiting(state) == 0 || !self.has_queues();
        self.take(request.work.most_seats(), may_take)
            .then(|| self.seat(Arc::clone(request), None))
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
    pub(crate) fn dispatched(self: &Arc<Self>, request: Arc<TrackedRequest>, queue: OriginQueue) -> LevelSeat {
        self.seat(request, Some(queue))
    }

    /// Seats beyond the limit, for those who are never held up. They are demand like others.
    pub(crate) fn exempt(self: &Arc<Self>, request: Arc<TrackedRequest>) -> LevelSeat {
        let seats = request.work.most_seats();
        let before = self.state.fetch_add(u64::from(seats), Ordering::AcqRel);
        self.saw_demand(taken(before).saturating_add(seats));
        self.seat(request, None)
    }

    /// A request begins to wait.
    pub(crate) fn wait(&self) {
        self.state.fetch_add(ONE_WAITS, Ordering::AcqRel);
    }

    /// Sets the number of seats that are waited for.
    pub(crate) fn set_wanted(&self, seats: u32) {
        self.wanted.store(seats, Ordering::Release);
        self.saw_demand(self.demand());
    }

    /// Requests wait no more.
    pub(crate) fn leave(&self, count: usize) {
        self.state.fetch_sub(ONE_WAITS * count as u64, Ordering::AcqRel);
    }

    /// Forgets who waits, after the actor has lost them.
    pub(crate) fn forget_waiting(&self) {
        self.state.fetch_and(TAKEN, Ordering::AcqRel);
        self.wanted.store(0, Ordering::Release);
    }

    /// Changes how many seats there are. Those that are taken stay taken, also beyond a lower limit.
    pub(crate) fn set_limit(&self, limit: u32) {
        self.limit.store(limit, Ordering::Release);
        self.freed.notify_one();
    }

    pub(crate) fn limit(&self) -> u32 {
        self.limit.load(Ordering::Acquire)
    }

    /// Reports whether not all seats are taken.
    pub(crate) fn has_free(&self) -> bool {
        self.in_use() < self.limit()
    }

    /// Changes the queues that the level is to have. Its actor takes notice in its next turn.
    pub(crate) fn set_shape(&self, shape: Option<QueueShape>) {
        self.shape.store(shape.map(Arc::new));
        self.freed.notify_one();
    }

    /// The queues that the level is to have; none if it refuses at once.
    pub(crate) fn shape(&self) -> Option<QueueShape> {
        self.shape.load().as_deref().copied()
    }

    /// Reports whether requests may wait in the level.
    pub(crate) fn has_queues(&self) -> bool {
        self.shape.load().is_some()
    }

    /// The time that has passed since a moment.
    pub(crate) fn time_since(&self, moment: Instant) -> Duration {
        self.clock.now().saturating_duration_since(moment)
    }

    /// Requests that are worked on.
    pub(crate) fn executing(&self) -> u32 {
        self.executing.load(Ordering::Acquire)
    }

    /// The requests that are worked on, the oldest first.
    pub(crate) fn requests(&self) -> Vec<ExecutingRequest> {
        self.requests.all()
    }

    /// Requests that were let through so far.
    pub(crate) fn dispatched_so_far(&self) -> u64 {
        self.dispatched.load(Ordering::Relaxed)
    }

    /// Reports whether nobody has seats and nobody waits.
    pub(crate) fn is_idle(&self) -> bool {
        self.executing() == 0 && waiting(self.state.load(Ordering::Acquire)) == 0
    }

    /// The most seats that were taken and waited for at one time since the last call.
    pub(crate) fn take_peak(&self) -> u32 {
        let now = self.demand();
        self.peak.swap(now, Ordering::AcqRel).max(now)
    }

    /// The seats that are taken.
    pub(crate) fn in_use(&self) -> u32 {
        taken(self.state.load(Ordering::Acquire))
    }

    /// The seats that are taken and waited for now.
    pub(crate) fn demand(&self) -> u32 {
        self.in_use().saturating_add(self.wanted.load(Ordering::Acquire))
    }

    fn saw_demand(&self, seats: u32) {
        self.peak.fetch_max(seats, Ordering::AcqRel);
    }

    fn take(&self, seats: u32, may: impl Fn(u64) -> bool) -> bool {
        let limit = self.limit();
        let more = |state: u64| {
            let taken = taken(state);
            // What is wider than the level has its turn when it is alone. Without queues that holds for a level without seats,
            // too: refusals are no demand, and it would never get any.
            let is_alone = || taken == 0 && (limit > 0 || !self.has_queues());
            let fits = taken.saturating_add(seats) <= limit || is_alone();
            (fits && may(state)).then(|| state + u64::from(seats))
        };
        let before = self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
        if let Ok(state) = before {
            self.saw_demand(taken(state).saturating_add(seats));
        }
        before.is_ok()
    }

    fn seat(self: &Arc<Self>, request: Arc<TrackedRequest>, queue: Option<OriginQueue>) -> LevelSeat {
        let since = if queue.is_some() {
            self.clock.now()
        } else {
            request.arrived
        };
        let number = self.dispatched.fetch_add(1, Ordering::Relaxed);
        self.executing.fetch_add(1, Ordering::AcqRel);
        request.meters.begin(request.work.most_seats());
        let executing = ExecutingRequest {
            request: Arc::clone(&request),
            queue: queue.as_ref().map(|queue| queue.index),
            since,
        };
        self.requests.insert(number, executing);
        LevelSeat {
            number,
            since,
            held: Some(HeldSeats {
                level: Arc::clone(self),
                request,
                queue: queue.map(|queue| queue.executing),
            }),
        }
    }
}

/// The queue that a request waited in.
pub(crate) struct OriginQueue {
    pub(crate) index: usize,
    pub(crate) executing: Arc<Executing>,
}

/// Seats that are taken; given back on drop.
pub(crate) struct HeldSeats {
    level: Arc<LevelSeats>,
    request: Arc<TrackedRequest>,
    queue: Option<Arc<Executing>>,
}

impl Drop for HeldSeats {
    fn drop(&mut self) {
        let seats = self.request.work.most_seats();
        self.request.meters.give_back(seats);
        if let Some(queue) = &self.queue {
            queue.give_back(seats);
        }
        let before = self.level.state.fetch_sub(u64::from(seats), Ordering::AcqRel);
        if waiting(before) > 0 {
            self.level.freed.notify_one();
        }
    }
}

/// The right of one request to be worked on, which ends on drop.
#[must_use]
pub(crate) struct LevelSeat {
    /// Its number in the level.
    number: u64,
    since: Instant,
    /// `None` only while it is dropped.
    held: Option<HeldSeats>,
}

impl Drop for LevelSeat {
    fn drop(&mut self) {
        let Some(held) = self.held.take() else { return };
        let (level, request) = (Arc::clone(&held.level), Arc::clone(&held.request));
        let now = level.clock.now();
        let took = now.saturating_duration_since(self.since);
        level.requests.remove(self.number);
        level.executing.fetch_sub(1, Ordering::AcqRel);
        request.meters.end(took, request.is_watch);
        if let Some(queue) = &held.queue {
            queue.end(request.work.initial_seats, took);
        }
        let late = request.work.additional_latency;
        if late > Duration::ZERO {
            level.late.release_at(now + late, held);
        }
    }
}
