//! Bookkeeping of the keys that are being written, without I/O.
//!
//! Writers on all event loops look at one table: who finds a key free takes it at once, which is nearly always so. Who finds it held
//! asks the actor, which keeps those who wait and has the key handed on.
//!
//! ```text
//!            take                          await                        release
//!  free ───────────► held ───────────────────────────► awaited ─────────────────────► passing ─┐
//!   ▲                 │ release                           ▲   somebody waits: pass on          │
//!   ├─────────────────┘                                   └────────────────────────────────────┤
//!   └──────────────────────────────────────────────────────────────────────────────────────────┘
//!                                                             nobody waits any more
//! ```

use std::collections::{HashMap, VecDeque, hash_map::Entry};

use crate::item::ItemKey;

/// Distinguishes the holders of one key.
pub(super) type HolderId = u64;

/// The state of a key that is not free. `N` notifies the actor of the release.
#[derive(Debug)]
enum KeyState<N> {
    Held(HolderId),
    Awaited(HolderId, N),
    /// Released, and not passed on yet.
    Passing,
}

/// The keys that are not free.
#[derive(Debug)]
pub(super) struct KeyTable<N> {
    states: HashMap<ItemKey, KeyState<N>>,
    last_holder: HolderId,
}

/// The result of a release.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Released<N> {
    /// The key is free, or somebody else's.
    Free,
    /// The actor is to be notified; if it is gone, [`KeyTable::forget`] frees the key.
    Notify(N),
}

impl<N> Default for KeyTable<N> {
    fn default() -> Self {
        Self {
            states: HashMap::new(),
            last_holder: 0,
        }
    }
}

impl<N> KeyTable<N> {
    /// Takes a key if it is free.
    pub(super) fn take(&mut self, key: &ItemKey) -> Option<HolderId> {
        match self.states.entry(key.clone()) {
            Entry::Vacant(free) => {
                self.last_holder += 1;
                free.insert(KeyState::Held(self.last_holder));
                Some(self.last_holder)
            }
            Entry::Occupied(_) => None,
        }
    }

    /// Has the actor notified of the release of a key that was not free; takes it if it is free by now.
    pub(super) fn take_or_await(&mut self, key: &ItemKey, notice: impl FnOnce() -> N) -> Option<HolderId> {
        if let Some(state) = self.states.get_mut(key) {
            if let KeyState::Held(holder) = *state {
                *state = KeyState::Awaited(holder, notice());
            }
            return None;
        }
        self.take(key)
    }

    /// The holder of a key is done with it.
    pub(super) fn release(&mut self, key: &ItemKey, holder: HolderId) -> Released<N> {
        let Entry::Occupied(mut entry) = self.states.entry(key.clone()) else {
            return Released::Free;
        };
        match entry.get() {
            KeyState::Held(held) if *held == holder => {
                entry.remove();
                Released::Free
            }
            KeyState::Awaited(held, _) if *held == holder => match entry.insert(KeyState::Passing) {
                KeyState::Awaited(_, notice) => Released::Notify(notice),
                KeyState::Held(_) | KeyState::Passing => Released::Free,
            },
            // The actor was rebuilt, and the key has another holder since.
            KeyState::Held(_) | KeyState::Awaited(..) | KeyState::Passing => Released::Free,
        }
    }

    /// Passes a released key on to a new holder. `notice` is there if more wait for it.
    pub(super) fn pass_on(&mut self, key: &ItemKey, notice: Option<N>) -> HolderId {
        self.last_holder += 1;
        let holder = self.last_holder;
        let state = match notice {
            Some(notice) => KeyState::Awaited(holder, notice),
            None => KeyState::Held(holder),
        };
        self.states.insert(key.clone(), state);
        holder
    }

    /// Frees a released key that nobody waits for.
    pub(super) fn forget(&mut self, key: &ItemKey) {
        if let Some(KeyState::Passing) = self.states.get(key) {
            self.states.remove(key);
        }
    }

    /// Forgets what an earlier instance of the actor was to be notified of. Those who waited are gone with it.
    pub(super) fn begin_anew(&mut self) {
        self.states.retain(|_, state| match state {
            KeyState::Held(_) => true,
            KeyState::Awaited(holder, _) => {
                *state = KeyState::Held(*holder);
                true
            }
            KeyState::Passing => false,
        });
    }

    /// The number of keys that are not free.
    #[cfg(test)]
    pub(super) fn busy(&self) -> usize {
        self.states.len()
    }
}

/// Those who wait for keys, first come first served.
#[derive(Debug)]
pub(super) struct KeyQueues<W>(HashMap<ItemKey, VecDeque<W>>);

impl<W> Default for KeyQueues<W> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<W> KeyQueues<W> {
    /// Adds one who waits.
    pub(super) fn push(&mut self, key: &ItemKey, waiter: W) {
        self.0.entry(key.clone()).or_default().push_back(waiter);
    }

    /// Takes the next waiter for a key, passing over those who are `gone`; the flag is true if others wait behind it.
    pub(super) fn next(&mut self, key: &ItemKey, gone: impl Fn(&W) -> bool) -> Option<(W, bool)> {
        let queue = self.0.get_mut(key)?;
        while let Some(waiter) = queue.pop_front() {
            if !gone(&waiter) {
                let has_more = !queue.is_empty();
                if !has_more {
                    self.0.remove(key);
                }
                return Some((waiter, has_more));
            }
        }
        self.0.remove(key);
        None
    }
}
