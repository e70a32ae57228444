//! The only place that reads the time.
//!
//! Everything that waits or measures takes a [`Clock`]; tests hand in a [`ManualClock`] and move it themselves, so that
//! no test sleeps. Promise: `now` never goes backwards; a sleep ends no earlier than asked.

#![expect(clippy::disallowed_methods, reason = "this is the clock that all other code takes")]

use std::collections::BTreeMap;
use std::future::Future;
use std::ops::Bound;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::watch;

/// A manual clock starts at 2026-01-01T00:00:00Z.
const MANUAL_EPOCH_SECONDS: u64 = 1_767_225_600;

/// A source of monotonic and wall time, and of sleeps. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Clock(TimeSource);

#[derive(Clone, Debug, Default)]
enum TimeSource {
    #[default]
    System,
    Manual(ManualClock),
}

impl Clock {
    /// The clock of the machine; in a test that has paused tokio's time, or simulates it, that time.
    pub fn system() -> Self {
        Self(TimeSource::System)
    }

    /// Monotonic time.
    pub fn now(&self) -> Instant {
        match &self.0 {
            // The machine's, through tokio: its sleeps and this must be of one time also where a test has paused it.
            TimeSource::System => tokio::time::Instant::now().into_std(),
            TimeSource::Manual(manual) => manual.now(),
        }
    }

    /// Wall time, for what is shown to users or written into objects.
    pub fn wall(&self) -> SystemTime {
        match &self.0 {
            TimeSource::System => SystemTime::now(),
            TimeSource::Manual(manual) => manual.wall(),
        }
    }

    /// Waits until the monotonic time is at least `at`.
    pub async fn sleep_until(&self, at: Instant) {
        match &self.0 {
            TimeSource::System => tokio::time::sleep_until(at.into()).await,
            TimeSource::Manual(manual) => manual.sleep_until(at).await,
        }
    }

    /// Waits for `duration` of this clock's time.
    pub async fn sleep(&self, duration: Duration) {
        self.sleep_until(self.now() + duration).await;
    }

    /// Runs `future` until `at`; `None` if it was not done by then.
    pub async fn timeout_at<F: Future>(&self, at: Instant, future: F) -> Option<F::Output> {
        tokio::select! {
            biased;
            output = future => Some(output),
            () = self.sleep_until(at) => None,
        }
    }
}

impl From<ManualClock> for Clock {
    fn from(manual: ManualClock) -> Self {
        Self(TimeSource::Manual(manual))
    }
}

/// A clock that stands still until it is advanced. Clones share the same time.
#[derive(Clone, Debug)]
pub struct ManualClock(Arc<Manual>);

#[derive(Debug)]
struct Manual {
    origin: Instant,
    elapsed: watch::Sender<Duration>,
    /// The wall time, and the time elapsed when it was set to that.
    wall: RwLock<(SystemTime, Duration)>,
    /// The number of sleeps under way by the moment at which they end.
    sleeps: watch::Sender<BTreeMap<Instant, usize>>,
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl ManualClock {
    /// A clock that shows 2026-01-01T00:00:00Z.
    pub fn new() -> Self {
        Self(Arc::new(Manual {
            origin: Instant::now(),
            elapsed: watch::Sender::new(Duration::ZERO),
            wall: RwLock::new((
                SystemTime::UNIX_EPOCH + Duration::from_secs(MANUAL_EPOCH_SECONDS),
                Duration::ZERO,
            )),
            sleeps: watch::Sender::default(),
        }))
    }

    /// Moves the time on and wakes the sleepers whose time has come.
    pub fn advance(&self, by: Duration) {
        self.0.elapsed.send_modify(|elapsed| *elapsed += by);
    }

    /// Sets the wall clock, ahead or back, as an administrator or NTP may; the monotonic time stays.
    pub fn set_wall(&self, to: SystemTime) {
        let elapsed = *self.0.elapsed.borrow();
        *self.0.wall.write().unwrap_or_else(PoisonError::into_inner) = (to, elapsed);
    }

    /// Waits until a sleep is under way that ends in exactly `remaining`.
    ///
    /// A test names the sleep that it waits for, never a number of sleeps: the timers of the server and the deadlines of
    /// asks that are about to be answered sleep, too, and would be taken for it.
    pub async fn wait_for_sleep(&self, remaining: Duration) {
        let at = self.now() + remaining;
        let mut sleeps = self.0.sleeps.subscribe();
        // The sender lives in `self`, so waiting cannot fail before the sleep begins.
        let _ = sleeps.wait_for(|sleeps| sleeps.contains_key(&at)).await;
    }

    /// Waits until a sleep is under way that ends in exactly `duration`, then moves the time to its end.
    pub async fn elapse(&self, duration: Duration) {
        self.wait_for_sleep(duration).await;
        self.advance(duration);
    }

    /// Waits until a sleep is under way that ends within `limit`, then moves the time to its end: for pauses whose length
    /// chance decides.
    pub async fn elapse_within(&self, limit: Duration) {
        let now = self.now();
        let first = |sleeps: &BTreeMap<Instant, usize>| {
            let ends = sleeps.range((Bound::Excluded(now), Bound::Included(now + limit)));
            ends.map(|(at, _)| *at).next()
        };
        let mut sleeps = self.0.sleeps.subscribe();
        let waited = sleeps.wait_for(|sleeps| first(sleeps).is_some()).await;
        // The sender lives in `self`, so waiting cannot fail before the sleep begins.
        if let Some(at) = waited.ok().and_then(|sleeps| first(&sleeps)) {
            self.advance(at - now);
        }
    }

    fn now(&self) -> Instant {
        self.0.origin + *self.0.elapsed.borrow()
    }

    fn wall(&self) -> SystemTime {
        let (set, then) = *self.0.wall.read().unwrap_or_else(PoisonError::into_inner);
        set + self.0.elapsed.borrow().saturating_sub(then)
    }

    async fn sleep_until(&self, at: Instant) {
        let mut elapsed = self.0.elapsed.subscribe();
        let _sleep = Sleep::begin(&self.0.sleeps, at);
        // The sender lives in `self`, so waiting cannot fail before the time has come.
        let _ = elapsed.wait_for(|elapsed| self.0.origin + *elapsed >= at).await;
    }
}

/// A sleep under way, among those that tests wait for.
struct Sleep<'a> {
    sleeps: &'a watch::Sender<BTreeMap<Instant, usize>>,
    until: Instant,
}

impl<'a> Sleep<'a> {
    fn begin(sleeps: &'a watch::Sender<BTreeMap<Instant, usize>>, until: Instant) -> Self {
        sleeps.send_modify(|sleeps| *sleeps.entry(until).or_default() += 1);
        Self { sleeps, until }
    }
}

impl Drop for Sleep<'_> {
    fn drop(&mut self) {
        self.sleeps.send_modify(|sleeps| {
            if let Some(count) = sleeps.get_mut(&self.until) {
                *count -= 1;
                if *count == 0 {
                    sleeps.remove(&self.until);
                }
            }
        });
    }
}
