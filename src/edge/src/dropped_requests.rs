//! The `Retry-After` of requests that got no seat in a priority level: the more of them there are, the later
//! (`apiserver/pkg/util/flowcontrol/dropped_requests_tracker.go`).

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, PoisonError},
};

/// The longest time, in seconds.
const MOST_SECONDS: u64 = 32;
/// Requests that are dropped in a second, for as many seconds as the time is, for that to double.
const MANY_A_SECOND: u64 = 3;

/// The requests that were dropped lately, by priority level.
#[derive(Debug, Default)]
pub(crate) struct DroppedRequests(Mutex<HashMap<String, DroppedOfLevel>>);

#[derive(Debug)]
struct DroppedOfLevel {
    /// Seconds since 1970 with the requests that were dropped in them, without the current one.
    history: VecDeque<(u64, u64)>,
    second: u64,
    count: u64,
    retry_after: u64,
    raised_at: u64,
}

impl DroppedRequests {
    /// Counts a request that is dropped in a second since 1970. Gives back the seconds after which its client may ask again.
    pub(crate) fn record(&self, level: &str, second: u64) -> u64 {
        // The counts are whole at any time.
        let mut levels = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(dropped) = levels.get_mut(level) {
            return dropped.record(second);
        }
        levels.entry(level.to_owned()).or_default().record(second)
    }
}

impl Default for DroppedOfLevel {
    fn default() -> Self {
        Self {
            history: VecDeque::new(),
            second: 0,
            count: 0,
            retry_after: 1,
            raised_at: 0,
        }
    }
}

impl DroppedOfLevel {
    fn record(&mut self, second: u64) -> u64 {
        if second == self.second {
            self.count = self.count.saturating_add(1);
            return self.retry_after;
        }
        self.history.push_back((self.second, self.count));
        let kept = self.retry_after.saturating_mul(2).min(MOST_SECONDS);
        let is_old = |(past, _): &(u64, u64)| self.second.saturating_sub(*past) > kept;
        while self.history.front().is_some_and(is_old) {
            self.history.pop_front();
        }
        (self.second, self.count) = (second, 1);
        self.adjust();
        self.retry_after
    }

    /// Doubles the time, at most once in as long as it was, or shortens it by a second, as TCP does with its window.
    fn adjust(&mut self) {
        let (now, retry_after) = (self.second, self.retry_after);
        let lately = |past: u64| past < now && now - past <= retry_after;
        let recent = self.history.iter().filter(|(past, _)| lately(*past));
        let dropped: u64 = recent.map(|(_, count)| *count).sum();
        let may_rise = now.saturating_sub(self.raised_at) >= retry_after;
        if may_rise && dropped >= MANY_A_SECOND.saturating_mul(retry_after) {
            self.retry_after = retry_after.saturating_mul(2).min(MOST_SECONDS);
            self.raised_at = now;
        } else if dropped < retry_after && retry_after > 1 {
            self.retry_after = retry_after - 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: u64 = 1_700_000_000;

    fn record(dropped: &DroppedRequests, level: &str, second: u64, times: u64) -> u64 {
        (0..times).fold(0, |_, _| dropped.record(level, START + second))
    }

    #[test]
    fn the_time_doubles_while_many_are_dropped_and_shrinks_after_that() {
        let dropped = DroppedRequests::default();
        // The second, the requests that are dropped in it, and the time that the last of them gets.
        for (second, times, expected) in [
            (0, 4, 1),
            (1, 9, 2),
            (2, 2, 2),
            (3, 12, 4),
            (4, 1, 4),
            (7, 1, 8),
            (11, 1, 8),
            (15, 1, 7),
            (17, 1, 6),
            (21, 15, 5),
            (22, 1, 10),
        ] {
            assert_eq!(record(&dropped, "level", second, times), expected, "second {second}");
        }
    }

    #[test]
    fn the_time_has_a_bound() {
        let dropped = DroppedRequests::default();
        let longest = (0..300).map(|second| record(&dropped, "level", second, 200)).max();
        assert_eq!(longest, Some(MOST_SECONDS));
    }

    #[test]
    fn levels_do_not_affect_each_other() {
        let dropped = DroppedRequests::default();
        for level in ["one", "two"] {
            assert_eq!(record(&dropped, level, 0, 1), 1);
        }
        record(&dropped, "one", 1, 5);
        assert_eq!(record(&dropped, "one", 2, 1), 2);
        assert_eq!(record(&dropped, "two", 2, 1), 1);
    }
}
