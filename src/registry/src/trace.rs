//! The time that one request takes, by steps.
//!
//! The edge begins a [`Trace`] for a request that may have to be logged, and hands it on in the request's
//! [`Target`](crate::request::Target); each step that is done is noted with [`Trace::pass`].
//! At the end the edge reads the steps, if the request was slow or is exported.
//!
//! A trace is one allocation of fixed size. To pass a step stores one number; on a trace that is off it does nothing at
//! all. The clock is read only for what waits, or may take its time: half a dozen looks at it are a percent of what a GET
//! costs. Promise: steps are in the order in which they were passed, also when a write goes on in a task
//! of its own after the client has been answered.

use std::{
    fmt,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use futures_util::future::poll_immediate;
use trireme_actors::Clock;

/// The number of steps that are kept: a write passes ten, and six more for each race that it loses. Later ones are counted only.
const KEPT: usize = 24;
/// The low bits of a kept number say which step, the others its time in microseconds.
const STEP_BITS: u32 = 8;

macro_rules! steps {
    ($($(#[$doc:meta])* $step:ident $name:literal,)*) => {
        /// A step of a request. Its time is the time since the step before it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u8)]
        pub enum TraceStep {
            $($(#[$doc])* $step,)*
        }

        const STEPS: &[TraceStep] = &[$(TraceStep::$step),*];

        impl TraceStep {
            /// As logs and exported spans name it.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$step => $name,)*
                }
            }
        }
    };
}

steps! {
    /// It is known who asks.
    Authenticated "authenticated",
    /// The request has its share of the server's capacity.
    Seated "seat taken",
    /// It is known that they may.
    Authorized "authorized",
    /// The whole body is here.
    BodyRead "body read",
    /// The body is an object of the resource.
    Decoded "decoded",
    /// The registry has let this write have the key, which others may have been writing.
    KeyTaken "key taken",
    /// The object was read from the store, as what was at hand was not good enough.
    Loaded "object loaded from store",
    /// The store has said what its newest revision is (the read index).
    RevisionKnown "revision known",
    /// The watch cache, which was behind, is as new as the read needs.
    CaughtUp "cache caught up",
    /// The watch cache did not become as new as the read needs.
    StillBehind "cache still behind",
    /// A page of a list was put together.
    PageMade "page made",
    /// Admission has made its changes.
    Mutated "admission changed",
    /// The object is valid, and admission has nothing against it.
    Validated "validated and admitted",
    /// Addresses and ports are reserved for the object.
    Reserved "side effects reserved",
    /// The store has committed the object.
    Stored "stored",
    /// The store has deleted the object.
    Removed "deleted from store",
    /// The store holds something else than this write started from.
    RaceLost "store refused: changed meanwhile",
    /// The store did not do what it was asked, or did not say whether it has.
    StoreFailed "store failed",
    /// The selected part of a collection is deleted, up to a failure.
    CollectionRemoved "collection gone through",
    /// The answer is made; one that is not streamed is as good as sent.
    Answered "answer made",
    /// A streamed answer is over: the client has taken all of it, or has left.
    Streamed "answer streamed",
}

/// The steps of one request. Cheap to clone; clones are the same trace. The default is off.
#[derive(Clone, Default)]
pub struct Trace(Option<Arc<TraceRecord>>);

struct TraceRecord {
    clock: Clock,
    began: Instant,
    passed: AtomicUsize,
    /// Zero where no step has been kept yet.
    kept: [AtomicU64; KEPT],
}

/// A step that was passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Passed {
    /// Which.
    pub step: TraceStep,
    /// The time from the beginning of the request, to the microsecond.
    pub at: Duration,
}

impl Trace {
    /// Begins the trace of a request that came at `began`.
    pub fn begin(clock: &Clock, began: Instant) -> Self {
        Self(Some(Arc::new(TraceRecord {
            clock: clock.clone(),
            began,
            passed: AtomicUsize::new(0),
            kept: [const { AtomicU64::new(0) }; KEPT],
        })))
    }

    /// Notes that a step is done, now.
    pub fn pass(&self, step: TraceStep) {
        if let Some(record) = &self.0 {
            record.keep(step, record.clock.now().saturating_duration_since(record.began));
        }
    }

    /// Notes that a step is done. If it did not wait it gets the time of the one before it, without a look at the clock:
    /// its time counts to the next.
    pub fn pass_if_waited(&self, step: TraceStep, waited: bool) {
        match &self.0 {
            Some(_) if waited => self.pass(step),
            Some(record) => record.keep(step, record.last()),
            None => {}
        }
    }

    /// Notes that a step was done `at`, from the beginning of the request.
    pub fn pass_at(&self, step: TraceStep, at: Duration) {
        if let Some(record) = &self.0 {
            record.keep(step, at);
        }
    }

    /// Notes one of two steps, by how it went.
    pub fn pass_or<T, E>(&self, outcome: &Result<T, E>, done: TraceStep, failed: TraceStep) {
        self.pass(if outcome.is_ok() { done } else { failed });
    }

    /// The steps so far, in order.
    pub fn steps(&self) -> Vec<Passed> {
        let Some(record) = &self.0 else { return Vec::new() };
        let kept = record.kept.iter().map(|kept| kept.load(Ordering::Acquire));
        kept.filter_map(passed).collect()
    }

    /// The number of steps that were passed beyond those that are kept.
    pub fn not_kept(&self) -> usize {
        self.0
            .as_ref()
            .map_or(0, |record| record.passed.load(Ordering::Relaxed).saturating_sub(KEPT))
    }
}

impl TraceRecord {
    /// The time at which the last step was passed.
    fn last(&self) -> Duration {
        let last = self.passed.load(Ordering::Relaxed).min(KEPT).checked_sub(1);
        let kept = last.map_or(0, |last| self.kept[last].load(Ordering::Acquire));
        Duration::from_micros(kept >> STEP_BITS)
    }

    fn keep(&self, step: TraceStep, at: Duration) {
        let micros = u64::try_from(at.as_micros()).unwrap_or(u64::MAX) & (u64::MAX >> STEP_BITS);
        if let Some(kept) = self.kept.get(self.passed.fetch_add(1, Ordering::Relaxed)) {
            // From 1 on, so that a kept step is never zero.
            kept.store(micros << STEP_BITS | (u64::from(step as u8) + 1), Ordering::Release);
        }
    }
}

/// Awaits something that is mostly there at once, and says whether it was not.
pub async fn waited<F: Future>(future: F) -> (F::Output, bool) {
    let mut future = pin!(future);
    match poll_immediate(&mut future).await {
        Some(output) => (output, false),
        None => (future.await, true),
    }
}

fn passed(kept: u64) -> Option<Passed> {
    let [number, ..] = kept.to_le_bytes();
    let step = *STEPS.get(usize::from(number.checked_sub(1)?))?;
    Some(Passed {
        step,
        at: Duration::from_micros(kept >> STEP_BITS),
    })
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.steps()).finish()
    }
}

#[cfg(test)]
mod tests {
    use trireme_actors::ManualClock;

    use super::*;

    fn trace(clock: &ManualClock) -> Trace {
        let clock = Clock::from(clock.clone());
        Trace::begin(&clock, clock.now())
    }

    #[test]
    fn steps_come_back_in_order_with_their_times() {
        let clock = ManualClock::new();
        let trace = trace(&clock);
        for step in STEPS {
            clock.advance(Duration::from_micros(1_500));
            trace.clone().pass(*step);
        }
        let steps = trace.steps();
        assert_eq!(steps.iter().map(|passed| passed.step).collect::<Vec<_>>(), STEPS);
        assert_eq!(steps[1].at, Duration::from_micros(3_000));
        assert_eq!(trace.not_kept(), 0);
    }

    #[test]
    fn more_steps_than_are_kept_are_counted() {
        let trace = trace(&ManualClock::new());
        for _ in 0..KEPT + 3 {
            trace.pass(TraceStep::RaceLost);
        }
        assert_eq!((trace.steps().len(), trace.not_kept()), (KEPT, 3));
    }

    #[test]
    fn what_did_not_wait_has_the_time_of_the_step_before() {
        let clock = ManualClock::new();
        let trace = trace(&clock);
        clock.advance(Duration::from_millis(3));
        trace.pass_if_waited(TraceStep::Authenticated, false);
        trace.pass(TraceStep::Authorized);
        clock.advance(Duration::from_millis(4));
        trace.pass_if_waited(TraceStep::RevisionKnown, false);
        trace.pass_if_waited(TraceStep::CaughtUp, true);
        trace.pass_at(TraceStep::Answered, Duration::from_millis(9));
        let at: Vec<_> = trace.steps().iter().map(|passed| passed.at.as_millis()).collect();
        assert_eq!(at, [0, 3, 3, 7, 9]);
    }

    #[test]
    fn a_trace_that_is_off_keeps_nothing() {
        let trace = Trace::default();
        trace.pass(TraceStep::Stored);
        assert_eq!((trace.steps(), trace.not_kept()), (Vec::new(), 0));
    }
}
