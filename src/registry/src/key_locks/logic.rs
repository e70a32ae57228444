//! Bookkeeping of the keys that are being written, without I/O.

use std::collections::{HashMap, VecDeque};

use crate::item::ItemKey;

/// The keys that are being written, each with those who wait for it, first come first served.
#[derive(Debug)]
pub(super) struct KeyQueues<W> {
    busy: HashMap<ItemKey, VecDeque<W>>,
}

impl<W> Default for KeyQueues<W> {
    fn default() -> Self {
        Self { busy: HashMap::new() }
    }
}

impl<W> KeyQueues<W> {
    /// `waiter` wants the key: gives it back if it may go on now.
    pub(super) fn request(&mut self, key: &ItemKey, waiter: W) -> Option<W> {
        match self.busy.get_mut(key) {
            Some(queue) => {
                queue.push_back(waiter);
                None
            }
            None => {
                self.busy.insert(key.clone(), VecDeque::new());
                Some(waiter)
            }
        }
    }

    /// The holder of the key is done: gives back who is next, passing over those who are `gone`.
    pub(super) fn release(&mut self, key: &ItemKey, gone: impl Fn(&W) -> bool) -> Option<W> {
        let queue = self.busy.get_mut(key)?;
        while let Some(waiter) = queue.pop_front() {
            if !gone(&waiter) {
                return Some(waiter);
            }
        }
        self.busy.remove(key);
        None
    }

    /// The number of keys that are being written.
    #[cfg(test)]
    pub(super) fn busy(&self) -> usize {
        self.busy.len()
    }
}
