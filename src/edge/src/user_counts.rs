//! Counts of open watches, streams or connections, in all and by user, and their bounds.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use metrics::{Gauge, counter, gauge};

/// The most of something that may be open at a time; `None` for any number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OpenBounds {
    /// Of all users together.
    pub all: Option<usize>,
    /// Of one user.
    pub per_user: Option<usize>,
}

/// The bound that has been reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReachedBound {
    /// That of all users together.
    All(usize),
    /// That of one user.
    User(usize),
}

impl ReachedBound {
    /// The value of the metric's label.
    fn label(self) -> &'static str {
        match self {
            Self::All(_) => "all",
            Self::User(_) => "user",
        }
    }
}

/// The names of the metrics.
pub(crate) struct OpenMetrics {
    /// The gauge of what is open.
    pub(crate) open: Option<&'static str>,
    /// The counter of what was refused, by bound.
    pub(crate) refused: &'static str,
}

/// Counts by user. Cheap to clone; clones share the counts.
#[derive(Clone)]
pub(crate) struct UserCounts(Arc<BoundedCounts>);

struct BoundedCounts {
    bounds: OpenBounds,
    open: Option<Gauge>,
    refused: &'static str,
    counts: Mutex<OpenTally>,
}

#[derive(Default)]
struct OpenTally {
    all: OpenNumber,
    of_user: HashMap<Arc<str>, OpenNumber>,
}

#[derive(Default)]
struct OpenNumber {
    open: usize,
    /// True once one more was refused: that is logged once until one ends.
    has_refused: bool,
}

impl OpenNumber {
    fn end_one(&mut self) {
        self.open = self.open.saturating_sub(1);
        self.has_refused = false;
    }
}

/// A place among what is open, given back on drop.
#[must_use]
pub(crate) struct UserPlace {
    shared: Arc<BoundedCounts>,
    user: Arc<str>,
}

impl UserCounts {
    /// Nothing is open. The recorder of metrics must be installed before.
    pub(crate) fn new(bounds: OpenBounds, metrics: OpenMetrics) -> Self {
        for bound in [ReachedBound::All(0), ReachedBound::User(0)] {
            counter!(metrics.refused, "bound" => bound.label()).increment(0);
        }
        Self(Arc::new(BoundedCounts {
            bounds,
            open: metrics.open.map(|name| gauge!(name)),
            refused: metrics.refused,
            counts: Mutex::default(),
        }))
    }

    /// Takes a place for a user. One who is exempt gets it beyond the bounds.
    ///
    /// # Errors
    /// The bound that has been reached.
    pub(crate) fn take(&self, user: &str, is_exempt: bool) -> Result<UserPlace, ReachedBound> {
        let shared = &self.0;
        let mut counts = shared.counts();
        let reached = shared.reached(&counts, user).filter(|_| !is_exempt);
        if let Some(bound) = reached {
            let is_news = counts.note_refusal(bound, user);
            drop(counts);
            if is_news {
                tracing::warn!(user, metric = shared.refused, ?bound, "the limit is reached");
            }
            return Err(self.refuse(bound));
        }
        let user: Arc<str> = match counts.of_user.get_key_value(user) {
            Some((known, _)) => Arc::clone(known),
            None => user.into(),
        };
        counts.all.open += 1;
        counts.of_user.entry(Arc::clone(&user)).or_default().open += 1;
        drop(counts);
        if let Some(open) = &shared.open {
            open.increment(1.0);
        }
        Ok(UserPlace {
            shared: Arc::clone(shared),
            user,
        })
    }

    /// Counts a refusal.
    pub(crate) fn refuse(&self, bound: ReachedBound) -> ReachedBound {
        counter!(self.0.refused, "bound" => bound.label()).increment(1);
        bound
    }
}

impl BoundedCounts {
    fn counts(&self) -> MutexGuard<'_, OpenTally> {
        // The counts are whole after every call, whichever thread panicked in between.
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The bound that one more would pass. The user's own comes first: it says more.
    fn reached(&self, counts: &OpenTally, user: &str) -> Option<ReachedBound> {
        let own = counts.of_user.get(user).map_or(0, |count| count.open);
        let of_user = self.bounds.per_user.filter(|bound| own >= *bound);
        let of_all = self.bounds.all.filter(|bound| counts.all.open >= *bound);
        of_user.map(ReachedBound::User).or(of_all.map(ReachedBound::All))
    }
}

impl OpenTally {
    /// Returns true for the first refusal since something ended.
    fn note_refusal(&mut self, bound: ReachedBound, user: &str) -> bool {
        let count = match bound {
            ReachedBound::All(_) => Some(&mut self.all),
            ReachedBound::User(_) => self.of_user.get_mut(user),
        };
        count.is_some_and(|count| !std::mem::replace(&mut count.has_refused, true))
    }
}

impl Drop for UserPlace {
    fn drop(&mut self) {
        let mut counts = self.shared.counts();
        counts.all.end_one();
        if let Some(count) = counts.of_user.get_mut(&self.user) {
            count.end_one();
            if count.open == 0 {
                counts.of_user.remove(&self.user);
            }
        }
        drop(counts);
        if let Some(open) = &self.shared.open {
            open.decrement(1.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const METRICS: OpenMetrics = OpenMetrics {
        open: None,
        refused: "refused",
    };

    fn counts(all: Option<usize>, per_user: Option<usize>) -> UserCounts {
        UserCounts::new(OpenBounds { all, per_user }, METRICS)
    }

    fn refusal(counts: &UserCounts, user: &str) -> Option<ReachedBound> {
        counts.take(user, false).err()
    }

    #[test]
    fn a_user_has_so_many_places_and_gets_one_again_that_is_given_back() {
        let counts = counts(Some(5), Some(2));
        let mut alice: Vec<UserPlace> = (0..2).filter_map(|_| counts.take("alice", false).ok()).collect();
        assert_eq!(alice.len(), 2);
        assert_eq!(refusal(&counts, "alice"), Some(ReachedBound::User(2)));
        assert_eq!(refusal(&counts, "bob"), None, "a bound of another user");
        drop(alice.pop());
        assert_eq!(refusal(&counts, "alice"), None);
    }

    #[test]
    fn all_users_together_have_so_many_places() {
        let counts = counts(Some(3), None);
        let open: Vec<UserPlace> = ["alice", "alice", "bob"]
            .into_iter()
            .filter_map(|user| counts.take(user, false).ok())
            .collect();
        assert_eq!(refusal(&counts, "carol"), Some(ReachedBound::All(3)));
        drop(open);
        assert_eq!(refusal(&counts, "carol"), None);
        let left = counts.0.counts();
        assert_eq!(
            (left.all.open, left.of_user.len()),
            (0, 0),
            "nothing is kept of who has gone"
        );
    }

    #[test]
    fn who_is_exempt_is_counted_and_not_refused() {
        let counts = counts(Some(1), Some(1));
        let exempt: Vec<UserPlace> = (0..3).filter_map(|_| counts.take("admin", true).ok()).collect();
        assert_eq!(exempt.len(), 3);
        assert_eq!(refusal(&counts, "alice"), Some(ReachedBound::All(1)));
        assert_eq!(refusal(&counts, "admin"), Some(ReachedBound::User(1)));
    }

    #[test]
    fn without_bounds_any_number_is_open() {
        let counts = counts(None, None);
        let open: Vec<UserPlace> = (0..1000).filter_map(|_| counts.take("alice", false).ok()).collect();
        assert_eq!(open.len(), 1000);
    }
}
