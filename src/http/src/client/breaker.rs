//! A circuit breaker: stops calls to an endpoint that mostly fails, and finds out when it is well again.
//!
//! ```text
//!            too many of the last calls failed or were slow
//!   closed ────────────────────────────────────────────────► open ◄──────────┐
//!      ▲                                                       │ cooldown     │ the probe failed;
//!      │                 the probe went well                   ▼              │ the cooldown doubles
//!      └─────────────────────────────────────────────────── half-open ────────┘
//! ```
//!
//! Pure: time is an argument. Promise: while half-open one call at a time is admitted; results of calls that were admitted
//! before the state last changed count for nothing.

use std::time::{Duration, Instant};

/// The parts of the window; a call is forgotten between 9/10 of the window and the whole window after its end.
const BUCKETS: usize = 10;

/// The condition on which a breaker opens, and the time that it stays open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BreakerSettings {
    /// The time that results are counted for.
    pub window: Duration,
    /// Fewer calls than this within the window prove nothing.
    pub minimum_calls: u32,
    /// The share of failed calls that opens the breaker.
    pub failed_percent: u32,
    /// A call that takes this long or longer is slow.
    pub slow_call: Duration,
    /// The share of slow calls that opens the breaker.
    pub slow_percent: u32,
    /// The time before the first probe.
    pub cooldown: Duration,
    /// The longest time before a probe, however many have failed.
    pub max_cooldown: Duration,
}

impl Default for BreakerSettings {
    fn default() -> Self {
        Self {
            window: Duration::from_secs(30),
            // An endpoint that is called seldom must be found out, too.
            minimum_calls: 5,
            failed_percent: 50,
            slow_call: Duration::from_secs(10),
            slow_percent: 80,
            cooldown: Duration::from_secs(2),
            max_cooldown: Duration::from_secs(60),
        }
    }
}

/// The states of a breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakerState {
    /// Calls are admitted.
    Closed,
    /// Calls are refused.
    Open,
    /// One call finds out whether the endpoint is well.
    HalfOpen,
}

impl BreakerState {
    /// The name of the state in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::HalfOpen => "half-open",
        }
    }
}

/// The calls of the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WindowCounts {
    pub(super) calls: u32,
    pub(super) failed: u32,
    pub(super) slow: u32,
}

/// A call that was admitted. Its result is recorded, or it is cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AdmittedCall {
    generation: u64,
    is_probe: bool,
}

/// The result of a call as the breaker counts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CallResult {
    pub(super) failed: bool,
    pub(super) took: Duration,
}

/// The breaker of one endpoint.
#[derive(Debug)]
pub(super) struct Breaker {
    settings: BreakerSettings,
    origin: Instant,
    buckets: [WindowSlot; BUCKETS],
    /// The number of the newest bucket since `origin`.
    newest: u64,
    state: BreakerState,
    /// The time at which the next probe is admitted, while open.
    open_until: Instant,
    cooldown: Duration,
    /// Counts changes of state.
    generation: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct WindowSlot {
    calls: u32,
    failed: u32,
    slow: u32,
}

impl Breaker {
    /// A closed breaker.
    pub(super) fn new(settings: BreakerSettings, now: Instant) -> Self {
        Self {
            cooldown: settings.cooldown,
            settings,
            origin: now,
            buckets: [WindowSlot::default(); BUCKETS],
            newest: 0,
            state: BreakerState::Closed,
            open_until: now,
            generation: 0,
        }
    }

    pub(super) fn state(&self) -> BreakerState {
        self.state
    }

    /// The calls within the window.
    pub(super) fn counts(&mut self, now: Instant) -> WindowCounts {
        self.advance(now);
        let WindowSlot { calls, failed, slow } = self.total();
        WindowCounts { calls, failed, slow }
    }

    /// The time until the next probe; none unless calls are refused.
    pub(super) fn retry_after(&self, now: Instant) -> Option<Duration> {
        let is_open = self.state == BreakerState::Open;
        is_open.then(|| self.open_until.saturating_duration_since(now))
    }

    /// Reports whether it knows nothing that a new breaker would not: no calls, or none for so long that a probe would be long
    /// due.
    pub(super) fn is_forgettable(&mut self, now: Instant) -> bool {
        match self.state {
            BreakerState::Closed => self.counts(now).calls == 0,
            BreakerState::Open => now >= self.open_until + self.settings.max_cooldown,
            BreakerState::HalfOpen => false,
        }
    }

    /// Admits a call.
    ///
    /// # Errors
    /// The time after which to ask again, if the endpoint is to be left alone.
    pub(super) fn admit(&mut self, now: Instant) -> Result<AdmittedCall, Duration> {
        match self.state {
            BreakerState::Closed => {}
            BreakerState::Open if now < self.open_until => return Err(self.open_until.duration_since(now)),
            BreakerState::Open => self.change(BreakerState::HalfOpen),
            BreakerState::HalfOpen => return Err(self.settings.cooldown),
        }
        Ok(AdmittedCall {
            generation: self.generation,
            is_probe: self.state == BreakerState::HalfOpen,
        })
    }

    /// Counts a result. Returns the state if this changed it.
    pub(super) fn record(&mut self, now: Instant, admission: AdmittedCall, result: CallResult) -> Option<BreakerState> {
        if admission.generation != self.generation {
            return None;
        }
        let is_slow = result.took >= self.settings.slow_call;
        if admission.is_probe {
            return Some(match result.failed || is_slow {
                true => self.open_again(now),
                false => self.close(),
            });
        }
        self.advance(now);
        let bucket = &mut self.buckets[index(self.newest)];
        bucket.calls += 1;
        bucket.failed += u32::from(result.failed);
        bucket.slow += u32::from(is_slow);
        self.must_open().then(|| self.open(now))
    }

    /// Forgets a call that was dropped before its result. After a probe the next call is one.
    pub(super) fn cancel(&mut self, now: Instant, admission: AdmittedCall) {
        if admission.is_probe && admission.generation == self.generation {
            self.change(BreakerState::Open);
            self.open_until = now;
        }
    }

    fn must_open(&self) -> bool {
        let total = self.total();
        let reaches = |count: u32, percent: u32| count > 0 && count * 100 >= percent * total.calls;
        total.calls >= self.settings.minimum_calls
            && (reaches(total.failed, self.settings.failed_percent) || reaches(total.slow, self.settings.slow_percent))
    }

    fn open(&mut self, now: Instant) -> BreakerState {
        self.change(BreakerState::Open);
        self.open_until = now + self.cooldown;
        self.state
    }

    fn open_again(&mut self, now: Instant) -> BreakerState {
        self.cooldown = (self.cooldown * 2).min(self.settings.max_cooldown);
        self.open(now)
    }

    fn close(&mut self) -> BreakerState {
        self.change(BreakerState::Closed);
        self.cooldown = self.settings.cooldown;
        self.buckets = [WindowSlot::default(); BUCKETS];
        self.state
    }

    fn change(&mut self, state: BreakerState) {
        self.state = state;
        self.generation += 1;
    }

    /// Empties the buckets that lie between the newest one and now.
    fn advance(&mut self, now: Instant) {
        let bucket_nanos = (self.settings.window.as_nanos() / BUCKETS as u128).max(1);
        let current = now.saturating_duration_since(self.origin).as_nanos() / bucket_nanos;
        let current = u64::try_from(current).unwrap_or(u64::MAX);
        let passed = current.saturating_sub(self.newest);
        for number in 0..passed.min(BUCKETS as u64) {
            self.buckets[index(self.newest + 1 + number)] = WindowSlot::default();
        }
        self.newest = self.newest.max(current);
    }

    fn total(&self) -> WindowSlot {
        self.buckets
            .iter()
            .fold(WindowSlot::default(), |sum, bucket| WindowSlot {
                calls: sum.calls + bucket.calls,
                failed: sum.failed + bucket.failed,
                slow: sum.slow + bucket.slow,
            })
    }
}

fn index(number: u64) -> usize {
    usize::try_from(number % BUCKETS as u64).expect("a remainder is small")
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "some moment to count from")]

    use super::*;

    /// Runs a script on a breaker: `ok`, `fail` and `slow` are calls, `lost` a call whose result is never learned, `N` lets
    /// that many seconds pass. Returns the state after each step: `c`losed, `o`pen, `h`alf-open; `-` for a refused call.
    fn run(script: &str) -> String {
        let settings = BreakerSettings {
            window: Duration::from_secs(10),
            minimum_calls: 4,
            failed_percent: 50,
            slow_call: Duration::from_secs(1),
            slow_percent: 75,
            cooldown: Duration::from_secs(2),
            max_cooldown: Duration::from_secs(5),
        };
        let mut now = Instant::now();
        let mut breaker = Breaker::new(settings, now);
        let step = |step: &str| {
            if let Ok(seconds) = step.parse() {
                now += Duration::from_secs(seconds);
            } else {
                let Ok(admission) = breaker.admit(now) else { return '-' };
                let took = Duration::from_secs(u64::from(step == "slow"));
                let failed = step == "fail";
                match step {
                    "lost" => breaker.cancel(now, admission),
                    _ => drop(breaker.record(now, admission, CallResult { failed, took })),
                }
            }
            breaker.state().as_str().chars().next().unwrap_or_default()
        };
        script.split_whitespace().map(step).collect()
    }

    #[test]
    fn it_opens_when_enough_of_enough_calls_fail() {
        assert_eq!(run("fail fail fail"), "ccc");
        assert_eq!(run("fail fail fail fail ok"), "ccco-");
        assert_eq!(run("ok ok ok fail fail fail ok"), "ccccco-");
        assert_eq!(run("ok ok ok ok ok ok fail fail"), "cccccccc");
    }

    #[test]
    fn it_opens_when_most_calls_are_slow() {
        assert_eq!(run("slow slow slow ok"), "ccco");
        assert_eq!(run("slow slow ok ok slow"), "ccccc");
    }

    #[test]
    fn what_was_long_ago_is_forgotten() {
        assert_eq!(run("fail fail fail 11 fail"), "ccccc");
        assert_eq!(run("fail 4 fail 4 fail 1 fail"), "cccccco");
    }

    #[test]
    fn a_probe_that_goes_well_closes_it() {
        assert_eq!(run("fail fail fail fail 1 ok 1 ok fail fail fail"), "cccoo-occcc");
    }

    #[test]
    fn a_probe_that_fails_opens_it_for_twice_as_long_up_to_a_bound() {
        assert_eq!(
            run("fail fail fail fail 2 fail 3 ok 1 slow 4 ok 1 ok"),
            "cccooo".to_owned() + "o-ooo-oc"
        );
    }

    #[test]
    fn a_probe_that_is_given_up_makes_room_for_the_next() {
        assert_eq!(run("fail fail fail fail 2 lost ok"), "cccoooc");
    }

    #[test]
    fn one_probe_at_a_time_and_late_results_do_not_count() {
        let now = Instant::now();
        let settings = BreakerSettings {
            minimum_calls: 1,
            ..BreakerSettings::default()
        };
        let (cooldown, failure) = (
            settings.cooldown,
            CallResult {
                failed: true,
                took: Duration::ZERO,
            },
        );
        let mut breaker = Breaker::new(settings, now);
        let late = breaker.admit(now).expect("it is closed");
        let first = breaker.admit(now).expect("it is closed");
        assert_eq!(breaker.record(now, first, failure), Some(BreakerState::Open));
        assert_eq!(
            breaker.record(
                now,
                late,
                CallResult {
                    failed: false,
                    ..failure
                }
            ),
            None
        );
        assert_eq!(breaker.admit(now), Err(cooldown));
        let later = now + cooldown;
        let probe = breaker.admit(later).expect("it is time for a probe");
        assert!(breaker.admit(later).is_err(), "a second probe");
        let well = CallResult {
            failed: false,
            took: Duration::ZERO,
        };
        assert_eq!(breaker.record(later, probe, well), Some(BreakerState::Closed));
        assert_eq!(breaker.counts(later).calls, 0);
    }
    #[test]
    fn an_open_breaker_is_forgotten_when_no_call_has_come_for_long() {
        let now = Instant::now();
        let settings = BreakerSettings {
            minimum_calls: 1,
            ..BreakerSettings::default()
        };
        let (cooldown, max) = (settings.cooldown, settings.max_cooldown);
        let mut breaker = Breaker::new(settings, now);
        assert!(breaker.is_forgettable(now));
        let admission = breaker.admit(now).expect("it is closed");
        let failure = CallResult {
            failed: true,
            took: Duration::ZERO,
        };
        breaker.record(now, admission, failure);
        assert_eq!(breaker.retry_after(now), Some(cooldown));
        assert!(!breaker.is_forgettable(now + cooldown));
        assert!(breaker.is_forgettable(now + cooldown + max));
    }
}
