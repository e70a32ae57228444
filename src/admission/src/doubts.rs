//! Names about which a watch cache may be behind. Asked by [`Namespaces`](crate::Namespaces).

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// So long after a deletion was asked for, as in kube-apiserver: far longer than a cache takes to hear of it.
const LASTS: Duration = Duration::from_secs(30);
/// So many are kept, as in kube-apiserver. By the time that so many others have come, the cache knows of the oldest.
const AT_MOST: usize = 100;

/// The latest names, each with the time until which it is in doubt, oldest first.
#[derive(Default)]
pub(crate) struct Doubts(VecDeque<(String, Instant)>);

impl Doubts {
    pub(crate) fn add(&mut self, name: &str, now: Instant) {
        self.0.retain(|(known, until)| known != name && *until > now);
        if self.0.len() == AT_MOST {
            self.0.pop_front();
        }
        self.0.push_back((name.to_owned(), now + LASTS));
    }

    pub(crate) fn include(&self, name: &str, now: Instant) -> bool {
        self.0.iter().any(|(known, until)| known == name && *until > now)
    }
}

#[cfg(test)]
mod tests {
    use trireme_actors::Clock;

    use super::*;

    #[test]
    fn a_name_is_in_doubt_for_half_a_minute() {
        let start = Clock::system().now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut doubts = Doubts::default();
        doubts.add("a", start);
        assert!(doubts.include("a", after(29)) && !doubts.include("b", start));
        assert!(!doubts.include("a", after(30)));
        doubts.add("a", after(20));
        assert!(doubts.include("a", after(49)));
    }

    #[test]
    fn the_oldest_name_makes_room() {
        let now = Clock::system().now();
        let mut doubts = Doubts::default();
        for number in 0..=AT_MOST {
            doubts.add(&number.to_string(), now);
            doubts.add("again", now);
        }
        assert!(!doubts.include("0", now) && !doubts.include("1", now) && doubts.include("2", now));
        assert_eq!(doubts.0.len(), AT_MOST);
    }
}
