//! A living actor seen from outside: state, load and figures, shown at `/debug/actors` and in metrics.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use metrics::{Counter, Gauge, Histogram};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::edges::Edges;
use crate::topology::TopologyRow;

/// The state of an actor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActorState {
    /// It takes messages.
    Running,
    /// It died and is being rebuilt.
    Restarting,
    /// It was stopped for good.
    Stopped,
}

impl ActorState {
    /// The state's name in lower case, as shown to users.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Restarting => "restarting",
            Self::Stopped => "stopped",
        }
    }

    fn from_u8(value: u8) -> Self {
        match value {
            RUNNING => Self::Running,
            RESTARTING => Self::Restarting,
            _ => Self::Stopped,
        }
    }
}

const RUNNING: u8 = 0;
const RESTARTING: u8 = 1;
const STOPPED: u8 = 2;

/// One actor at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct ActorSnapshot {
    /// The kind of the topology table.
    pub kind: &'static str,
    /// Which of its kind, for example the resource it serves; empty if there is but one.
    pub instance: String,
    /// The room that owns the kind.
    pub room: &'static str,
    /// The rank of the kind.
    pub rank: u8,
    /// Its state.
    pub state: ActorState,
    /// Messages that wait for their turn.
    pub mailbox_depth: u64,
    /// Permits taken by messages that wait or whose reply is owed.
    pub permits_in_use: u64,
    /// All permits.
    pub permits: u64,
    /// The number of times that it was rebuilt.
    pub restarts: u64,
    /// The number of turns that it has finished, over all its lives.
    pub turns: u64,
    /// Seconds since its last finished turn; `None` before the first.
    pub last_handled_seconds_ago: Option<f64>,
    /// Seconds that the turn under way lasts; `None` between turns. A large value is a stuck actor.
    pub busy_seconds: Option<f64>,
    /// The cause of the last instance's death.
    pub last_failure: Option<String>,
}

/// The live figures behind an [`ActorSnapshot`], shared by handle, shell and supervisor.
pub(crate) struct Vitals {
    pub(crate) entry: &'static TopologyRow,
    /// The uses of handles of this kind of actor so far.
    pub(crate) edges: Arc<Edges>,
    pub(crate) instance: String,
    pub(crate) clock: Clock,
    pub(crate) permits: Arc<Semaphore>,
    /// Cancelled when the actor is to stop for good.
    pub(crate) stopping: CancellationToken,
    /// Cancelled when it has.
    pub(crate) gone: CancellationToken,
    born: Instant,
    state: AtomicU8,
    depth: AtomicI64,
    restarts: AtomicU64,
    turns: AtomicU64,
    /// Nanoseconds since `born`, 0 for never.
    last_handled: AtomicU64,
    /// Nanoseconds since `born`, 0 for between turns.
    busy_since: AtomicU64,
    last_failure: arc_swap::ArcSwapOption<String>,
    meters: ActorMeters,
}

struct ActorMeters {
    depth: Gauge,
    wait: Histogram,
    handling: Histogram,
    restarts: Counter,
    overloaded: Counter,
}

impl ActorMeters {
    fn new(kind: &'static str, instance: &str) -> Self {
        let labels = [("kind", kind.to_owned()), ("instance", instance.to_owned())];
        Self {
            depth: metrics::gauge!("trireme_actor_mailbox_depth", &labels),
            wait: metrics::histogram!("trireme_actor_mailbox_wait_seconds", &labels),
            handling: metrics::histogram!("trireme_actor_handling_seconds", &labels),
            restarts: metrics::counter!("trireme_actor_restarts_total", &labels),
            overloaded: metrics::counter!("trireme_actor_overloaded_total", &labels),
        }
    }
}

impl Vitals {
    pub(crate) fn new(entry: &'static TopologyRow, edges: Arc<Edges>, instance: String, clock: Clock) -> Self {
        Self {
            meters: ActorMeters::new(entry.kind.name(), &instance),
            born: clock.now(),
            permits: Arc::new(Semaphore::new(entry.permits)),
            stopping: CancellationToken::new(),
            gone: CancellationToken::new(),
            state: AtomicU8::new(RESTARTING),
            depth: AtomicI64::new(0),
            restarts: AtomicU64::new(0),
            turns: AtomicU64::new(0),
            last_handled: AtomicU64::new(0),
            busy_since: AtomicU64::new(0),
            last_failure: arc_swap::ArcSwapOption::empty(),
            entry,
            edges,
            instance,
            clock,
        }
    }

    /// `kind` or `kind/instance`, for logs and names of tasks.
    pub(crate) fn name(&self) -> String {
        match self.instance.as_str() {
            "" => self.entry.kind.name().to_owned(),
            instance => format!("{}/{instance}", self.entry.kind),
        }
    }

    /// The name of the task of a timer.
    pub(crate) fn timer_task(&self, timer: &'static str) -> String {
        match self.instance.as_str() {
            "" => timer.to_owned(),
            instance => format!("{timer}/{instance}"),
        }
    }

    pub(crate) fn state(&self) -> ActorState {
        ActorState::from_u8(self.state.load(Ordering::Acquire))
    }

    /// Reports whether it is, or is about to be, no more.
    pub(crate) fn is_ending(&self) -> bool {
        self.stopping.is_cancelled() || self.state() == ActorState::Stopped
    }

    pub(crate) fn running(&self) {
        self.state.store(RUNNING, Ordering::Release);
    }

    pub(crate) fn died(&self, cause: &str) {
        self.state.store(RESTARTING, Ordering::Release);
        if !self.stopping.is_cancelled() {
            self.last_failure.store(Some(Arc::new(cause.to_owned())));
        }
    }

    pub(crate) fn restarted(&self) {
        self.restarts.fetch_add(1, Ordering::Relaxed);
        self.meters.restarts.increment(1);
    }

    /// Ends it: callers that wait for a permit get an error.
    pub(crate) fn stopped(&self) {
        self.state.store(STOPPED, Ordering::Release);
        self.permits.close();
        self.gone.cancel();
    }

    pub(crate) fn restarts(&self) -> u64 {
        self.restarts.load(Ordering::Relaxed)
    }

    pub(crate) fn refused(&self) {
        self.meters.overloaded.increment(1);
    }

    /// Counts a message as waiting until the returned guard is dropped.
    pub(crate) fn enqueue(self: &Arc<Self>) -> Queued {
        self.depth.fetch_add(1, Ordering::Relaxed);
        self.meters.depth.increment(1.0);
        Queued {
            since: self.clock.now(),
            vitals: Arc::clone(self),
        }
    }

    /// Marks the actor as busy until the returned guard is dropped, also by a panic.
    pub(crate) fn turn(self: &Arc<Self>, queued: Queued) -> TurnTimer {
        let begun = self.clock.now();
        self.meters.wait.record(begun.saturating_duration_since(queued.since));
        drop(queued);
        self.busy_since.store(self.offset(begun), Ordering::Relaxed);
        TurnTimer {
            begun,
            vitals: Arc::clone(self),
        }
    }

    pub(crate) fn snapshot(&self) -> ActorSnapshot {
        let now = self.clock.now();
        let permits = u64::try_from(self.entry.permits).unwrap_or(u64::MAX);
        let free = u64::try_from(self.permits.available_permits()).unwrap_or(u64::MAX);
        ActorSnapshot {
            kind: self.entry.kind.name(),
            instance: self.instance.clone(),
            room: self.entry.owner,
            rank: self.entry.rank,
            state: self.state(),
            mailbox_depth: u64::try_from(self.depth.load(Ordering::Relaxed)).unwrap_or(0),
            permits_in_use: permits.saturating_sub(free),
            permits,
            restarts: self.restarts(),
            turns: self.turns.load(Ordering::Relaxed),
            last_handled_seconds_ago: self.seconds_since(&self.last_handled, now),
            busy_seconds: self.seconds_since(&self.busy_since, now),
            last_failure: self.last_failure.load().as_deref().cloned(),
        }
    }

    /// Nanoseconds of `at` since birth, at least 1 because 0 means "never".
    fn offset(&self, at: Instant) -> u64 {
        let nanos = at.saturating_duration_since(self.born).as_nanos();
        u64::try_from(nanos).unwrap_or(u64::MAX).max(1)
    }

    fn seconds_since(&self, moment: &AtomicU64, now: Instant) -> Option<f64> {
        match moment.load(Ordering::Relaxed) {
            0 => None,
            nanos => {
                let age = Duration::from_nanos(self.offset(now).saturating_sub(nanos));
                Some(age.as_secs_f64())
            }
        }
    }
}

/// A message that waits for its turn, or is lost.
pub(crate) struct Queued {
    since: Instant,
    vitals: Arc<Vitals>,
}

impl Drop for Queued {
    fn drop(&mut self) {
        self.vitals.depth.fetch_sub(1, Ordering::Relaxed);
        self.vitals.meters.depth.decrement(1.0);
    }
}

/// A turn under way.
pub(crate) struct TurnTimer {
    begun: Instant,
    vitals: Arc<Vitals>,
}

impl Drop for TurnTimer {
    fn drop(&mut self) {
        let vitals = &self.vitals;
        let now = vitals.clock.now();
        vitals.busy_since.store(0, Ordering::Relaxed);
        vitals.last_handled.store(vitals.offset(now), Ordering::Relaxed);
        vitals.turns.fetch_add(1, Ordering::Relaxed);
        vitals.meters.handling.record(now.saturating_duration_since(self.begun));
    }
}
