//! Reservations without a service, with the time since they were first seen.

use std::{
    collections::{HashMap, HashSet},
    time::{Duration, Instant},
};

use trireme_cluster::FencingToken;

/// A reservation.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Reserved {
    /// An `IPAddress`, by name and uid.
    Address(String, String),
    /// A node port.
    Port(u16),
}

/// The reservations without a service, as the holder of one lease has seen them.
///
/// A service that is being made has its reservations before it is stored, so one look proves nothing. It takes looks for
/// as long as no request lasts, without one in between that found the service.
#[derive(Debug, Default)]
pub(super) struct Suspects {
    seen_under: Option<FencingToken>,
    since: HashMap<Reserved, Instant>,
}

impl Suspects {
    /// Takes in what a look has found; returns what has been found for `patience`. What the holder of another lease has
    /// seen does not count: there was a gap in between.
    pub(super) fn found(
        &mut self,
        token: FencingToken,
        orphans: HashSet<Reserved>,
        now: Instant,
        patience: Duration,
    ) -> Vec<Reserved> {
        if self.seen_under.replace(token) != Some(token) {
            self.since.clear();
        }
        self.since.retain(|reserved, _| orphans.contains(reserved));
        for orphan in orphans {
            self.since.entry(orphan).or_insert(now);
        }
        let is_due = |since: &Instant| now.saturating_duration_since(*since) >= patience;
        let due = self.since.iter().filter(|(_, since)| is_due(since));
        due.map(|(reserved, _)| reserved.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use trireme_actors::Clock;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(300);

    fn port(port: u16) -> HashSet<Reserved> {
        HashSet::from([Reserved::Port(port)])
    }

    #[test]
    fn what_stays_without_a_service_for_long_enough_is_left_over() {
        let (mut suspects, start, token) = (Suspects::default(), Clock::system().now(), FencingToken(1));
        let mut after =
            |seconds, orphans| suspects.found(token, orphans, start + Duration::from_secs(seconds), PATIENCE);
        assert_eq!(after(0, port(1)), []);
        assert_eq!(after(299, port(1)), []);
        assert_eq!(after(300, port(1)), [Reserved::Port(1)]);
        assert_eq!(after(360, port(1)), [Reserved::Port(1)], "until it is gone");
    }

    #[test]
    fn what_has_had_a_service_in_between_begins_anew() {
        let (mut suspects, start, token) = (Suspects::default(), Clock::system().now(), FencingToken(1));
        let mut after =
            |seconds, orphans| suspects.found(token, orphans, start + Duration::from_secs(seconds), PATIENCE);
        assert_eq!(after(0, port(1)), []);
        assert_eq!(after(200, port(2)), []);
        assert_eq!(after(400, port(1)), []);
        assert_eq!(after(700, port(1)), [Reserved::Port(1)]);
    }

    #[test]
    fn another_term_begins_anew() {
        let (mut suspects, start) = (Suspects::default(), Clock::system().now());
        let mut after = |seconds, token| {
            let now = start + Duration::from_secs(seconds);
            suspects.found(FencingToken(token), port(1), now, PATIENCE)
        };
        assert_eq!(after(0, 1), []);
        assert_eq!(after(1000, 2), []);
        assert_eq!(after(1300, 2), [Reserved::Port(1)]);
    }
}
