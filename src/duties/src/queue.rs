//! The work queue of a duty: which keys have to be looked at, and when.
//!
//! Called by the loop in [`crate::keep()`] alone. Promises, those of client-go's `workqueue`: a key waits once however
//! often it is added; a key is processed by one worker at a time; a key that is added meanwhile is processed
//! again afterwards; a key that failed waits longer each time, until it succeeds. It is bounded: a queue that is full takes no
//! new key and says so, and its owner makes a full pass once there is room. What it is not: durable. Every key can be
//! found again by looking at the objects.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    fmt::Debug,
    hash::Hash,
    time::{Duration, Instant},
};

use metrics::{Counter, Gauge, Histogram};

/// The delay before a key is tried again after it failed; each further failure doubles it.
pub(crate) const FIRST_RETRY: Duration = Duration::from_millis(50);
/// The longest wait after failures, from which on they are logged as warnings.
pub(crate) const LAST_RETRY: Duration = Duration::from_secs(10);
/// Keys that may be known at once: some tens of megabytes at the most.
pub(crate) const CAPACITY: usize = 100_000;

/// A key of a work queue.
pub trait QueueKey: Clone + Eq + Hash + Debug + Send + Sync + 'static {}

impl<K: Clone + Eq + Hash + Debug + Send + Sync + 'static> QueueKey for K {}

/// The result of reconciling a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Again {
    /// All is as it should be.
    No,
    /// To be looked at after this time.
    After(Duration),
    /// It failed: to be tried again, later each time.
    Retry,
}

/// See the module's header.
pub(crate) struct WorkQueue<K> {
    capacity: usize,
    ready: VecDeque<K>,
    entries: HashMap<K, QueueEntry>,
    timers: BTreeMap<(Instant, u64), K>,
    next_timer: u64,
    /// A key was turned away.
    overflowed: bool,
    meters: QueueMeters,
}

struct QueueEntry {
    state: WorkQueueState,
    failures: u32,
}

#[derive(Clone, Copy)]
enum WorkQueueState {
    /// In `timers` under this.
    Waiting((Instant, u64)),
    Ready {
        since: Instant,
    },
    Taken {
        since: Instant,
        dirty: bool,
    },
}

/// The metrics that client-go has for its work queues, under the same names.
struct QueueMeters {
    depth: Gauge,
    adds: Counter,
    retries: Counter,
    waited: Histogram,
    worked: Histogram,
}

impl QueueMeters {
    fn of(name: &'static str) -> Self {
        Self {
            depth: metrics::gauge!("workqueue_depth", "name" => name),
            adds: metrics::counter!("workqueue_adds_total", "name" => name),
            retries: metrics::counter!("workqueue_retries_total", "name" => name),
            waited: metrics::histogram!("workqueue_queue_duration_seconds", "name" => name),
            worked: metrics::histogram!("workqueue_work_duration_seconds", "name" => name),
        }
    }
}

impl<K: QueueKey> WorkQueue<K> {
    /// An empty queue for so many keys; `name` is what its metrics are labelled with.
    pub(crate) fn new(name: &'static str, capacity: usize) -> Self {
        Self {
            capacity,
            ready: VecDeque::new(),
            entries: HashMap::new(),
            timers: BTreeMap::new(),
            next_timer: 0,
            overflowed: false,
            meters: QueueMeters::of(name),
        }
    }

    /// Wants a key to be looked at: as soon as a worker is free, even if it was to wait.
    pub(crate) fn add(&mut self, key: K, now: Instant) {
        let full = self.entries.len() >= self.capacity;
        match self.entries.get_mut(&key) {
            None if full => {
                self.overflowed = true;
                return;
            }
            None => {
                let state = WorkQueueState::Ready { since: now };
                self.entries.insert(key.clone(), QueueEntry { state, failures: 0 });
                self.ready.push_back(key);
            }
            Some(entry) => match &mut entry.state {
                WorkQueueState::Ready { .. } => return,
                WorkQueueState::Taken { dirty: true, .. } => return,
                WorkQueueState::Taken { dirty, .. } => *dirty = true,
                WorkQueueState::Waiting(timer) => {
                    self.timers.remove(timer);
                    entry.state = WorkQueueState::Ready { since: now };
                    self.ready.push_back(key);
                }
            },
        }
        self.meters.adds.increment(1);
        self.show_depth();
    }

    /// The next key to look at. The caller then says [`done`](Self::done).
    pub(crate) fn take(&mut self, now: Instant) -> Option<K> {
        self.ring(now);
        let key = self.ready.pop_front()?;
        if let Some(entry) = self.entries.get_mut(&key) {
            if let WorkQueueState::Ready { since } = entry.state {
                self.meters.waited.record(now.saturating_duration_since(since));
            }
            entry.state = WorkQueueState::Taken {
                since: now,
                dirty: false,
            };
        }
        self.show_depth();
        Some(key)
    }

    /// A key that was taken has been looked at. Gives back how long it waits if it failed.
    pub(crate) fn done(&mut self, key: &K, again: Again, now: Instant) -> Option<Duration> {
        let entry = self.entries.get_mut(key)?;
        let WorkQueueState::Taken { since, dirty } = entry.state else {
            return None;
        };
        self.meters.worked.record(now.saturating_duration_since(since));
        let (wait, failed) = match again {
            Again::Retry => {
                let wait = FIRST_RETRY.saturating_mul(1_u32.checked_shl(entry.failures).unwrap_or(u32::MAX));
                entry.failures = entry.failures.saturating_add(1);
                self.meters.retries.increment(1);
                (wait.min(LAST_RETRY), true)
            }
            _ if dirty => (Duration::ZERO, false),
            Again::After(wait) => (wait, false),
            Again::No => {
                self.entries.remove(key);
                return None;
            }
        };
        if !failed {
            entry.failures = 0;
        }
        let timer = (now + wait, self.next_timer);
        self.next_timer += 1;
        entry.state = WorkQueueState::Waiting(timer);
        self.timers.insert(timer, key.clone());
        failed.then_some(wait)
    }

    /// The time at which a waiting key is due, if none is ready before.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.timers.first_key_value().map(|((at, _), _)| *at)
    }

    /// Returns true if keys were turned away and there is room for them now.
    pub(crate) fn wants_full_pass(&mut self) -> bool {
        let wants = self.overflowed && self.entries.len() <= self.capacity / 2;
        self.overflowed &= !wants;
        wants
    }

    /// Makes ready what has waited long enough.
    fn ring(&mut self, now: Instant) {
        while let Some(first) = self.timers.first_entry().filter(|first| first.key().0 <= now) {
            let (_, key) = first.remove_entry();
            if let Some(entry) = self.entries.get_mut(&key) {
                entry.state = WorkQueueState::Ready { since: now };
                self.ready.push_back(key);
            }
        }
    }

    fn show_depth(&self) {
        self.meters
            .depth
            .set(f64::from(u32::try_from(self.ready.len()).unwrap_or(u32::MAX)));
    }
}

impl<K> Drop for WorkQueue<K> {
    fn drop(&mut self) {
        self.meters.depth.set(0.0);
    }
}

#[cfg(test)]
mod tests {
    use trireme_actors::{Clock, ManualClock};

    use super::*;

    fn queue(capacity: usize) -> (WorkQueue<&'static str>, ManualClock, Clock) {
        let manual = ManualClock::new();
        (WorkQueue::new("test", capacity), manual.clone(), manual.into())
    }

    #[test]
    fn a_key_waits_once_and_is_looked_at_by_one_at_a_time() {
        let (mut queue, _, clock) = queue(10);
        for key in ["a", "b", "a"] {
            queue.add(key, clock.now());
        }
        assert_eq!(queue.take(clock.now()), Some("a"));
        queue.add("a", clock.now());
        assert_eq!(queue.take(clock.now()), Some("b"));
        assert_eq!(queue.take(clock.now()), None, "a is being looked at");
        queue.done(&"a", Again::No, clock.now());
        assert_eq!(queue.take(clock.now()), Some("a"), "it was added meanwhile");
        queue.done(&"a", Again::No, clock.now());
        queue.done(&"b", Again::No, clock.now());
        assert_eq!(queue.take(clock.now()), None);
        assert!(queue.entries.is_empty(), "nothing is remembered of what is done");
    }

    #[test]
    fn failures_wait_longer_each_time_until_there_is_a_success() {
        let (mut queue, manual, clock) = queue(10);
        queue.add("a", clock.now());
        let mut waits = Vec::new();
        for _ in 0..10 {
            assert_eq!(queue.take(clock.now()), Some("a"));
            let wait = queue.done(&"a", Again::Retry, clock.now()).expect("it failed");
            assert_eq!(queue.take(clock.now()), None);
            assert_eq!(queue.next_due(), Some(clock.now() + wait));
            manual.advance(wait);
            waits.push(wait.as_millis());
        }
        assert_eq!(waits, [50, 100, 200, 400, 800, 1_600, 3_200, 6_400, 10_000, 10_000]);
        assert_eq!(queue.take(clock.now()), Some("a"));
        assert_eq!(queue.done(&"a", Again::After(Duration::ZERO), clock.now()), None);
        assert_eq!(queue.take(clock.now()), Some("a"));
        let wait = queue.done(&"a", Again::Retry, clock.now());
        assert_eq!(wait, Some(FIRST_RETRY), "a success starts anew");
    }

    #[test]
    fn a_failure_waits_even_if_the_key_was_added_meanwhile() {
        let (mut queue, _, clock) = queue(10);
        queue.add("a", clock.now());
        queue.take(clock.now());
        queue.add("a", clock.now());
        queue.done(&"a", Again::Retry, clock.now());
        assert_eq!(queue.take(clock.now()), None, "so that nothing spins");
        queue.add("a", clock.now());
        assert_eq!(queue.take(clock.now()), Some("a"), "news make it worth a try at once");
    }

    #[test]
    fn a_full_queue_asks_for_a_full_pass_once_there_is_room() {
        let (mut queue, _, clock) = queue(2);
        for key in ["a", "b", "c"] {
            queue.add(key, clock.now());
        }
        assert!(!queue.wants_full_pass(), "it is still full");
        while let Some(key) = queue.take(clock.now()) {
            queue.done(&key, Again::No, clock.now());
        }
        assert!(queue.wants_full_pass());
        assert!(!queue.wants_full_pass(), "once");
    }
}
