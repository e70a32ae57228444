//! Answers that are remembered for a while.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Mutex, PoisonError},
    time::Instant,
};

/// A bounded map whose entries end at their time.
pub struct ExpiringCache<K, V> {
    entries: Mutex<HashMap<K, (Instant, V)>>,
    capacity: usize,
}

impl<K: Eq + Hash, V: Clone> ExpiringCache<K, V> {
    /// An empty cache of at most `capacity` entries.
    pub fn new(capacity: usize) -> Self {
        Self {
            entries: Mutex::default(),
            capacity,
        }
    }

    /// The value of a key that has not ended by `now`.
    pub fn find(&self, key: &K, now: Instant) -> Option<V> {
        self.with(|entries| match entries.get(key) {
            Some((end, value)) if *end > now => Some(value.clone()),
            Some(_) => {
                entries.remove(key);
                None
            }
            None => None,
        })
    }

    /// Remembers a value until `end`. A full cache forgets what has ended, or else everything: what it holds can be asked
    /// again.
    pub fn insert(&self, key: K, value: V, now: Instant, end: Instant) {
        self.with(|entries| {
            if entries.len() >= self.capacity {
                entries.retain(|_, (end, _)| *end > now);
            }
            if entries.len() >= self.capacity {
                entries.clear();
            }
            entries.insert(key, (end, value));
        });
    }

    fn with<T>(&self, act: impl FnOnce(&mut HashMap<K, (Instant, V)>) -> T) -> T {
        // The map is whole at any time.
        act(&mut self.entries.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a moment to count from; nothing waits")]
    fn entries_end_and_a_full_cache_makes_room() {
        let now = Instant::now();
        let after = |seconds| now + Duration::from_secs(seconds);
        let cache = ExpiringCache::new(2);
        cache.insert("a", 1, now, after(1));
        cache.insert("b", 2, now, after(3));
        assert_eq!((cache.find(&"a", now), cache.find(&"a", after(1))), (Some(1), None));
        cache.insert("c", 3, after(2), after(9));
        assert_eq!(
            (cache.find(&"b", after(2)), cache.find(&"c", after(2))),
            (Some(2), Some(3))
        );
        cache.insert("d", 4, after(2), after(9));
        let found = ["b", "c", "d"].map(|key| cache.find(&key, after(2)));
        assert_eq!(found, [None, None, Some(4)]);
    }
}
