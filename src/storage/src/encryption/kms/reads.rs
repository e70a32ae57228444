//! Reads that failed because of the plugin, and the word that they may succeed now.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{sync::watch, time::Instant};

use super::envelope::{CacheKey, DekSource};
use crate::encryption::transform::EncryptionError;

/// More encrypted seeds are not kept to be tried again: a store has as many as servers were started over it.
const KEPT: usize = 1_000;
/// The number of times that failed reads are tried again soon; later they are with the plugin's status, if their pause is over.
const SOON: u32 = 6;
/// The pause after so many rounds in which the plugin has answered for every seed. It doubles with each further round, up to the
/// longest one: the values of these seeds may be gone.
const FIRST_PAUSE: Duration = Duration::from_secs(60);
const LONGEST_PAUSE: Duration = Duration::from_secs(30 * 60);

/// Announces that values which could not be decrypted may be readable now.
#[derive(Debug, Clone, Default)]
pub struct ReadableSignal(Arc<watch::Sender<u64>>);

impl ReadableSignal {
    /// Announces it.
    pub(in crate::encryption) fn raise(&self) {
        self.0.send_modify(|times| *times = times.wrapping_add(1));
    }

    /// Hears of it from now on.
    pub(in crate::encryption) fn subscribe(&self) -> watch::Receiver<u64> {
        self.0.subscribe()
    }
}

/// The seeds that could not be decrypted.
#[derive(Default)]
pub(super) struct FailedReads(Mutex<FailedDeks>);

#[derive(Default)]
struct FailedDeks {
    by_key: HashMap<CacheKey, (DekSource, EncryptionError)>,
    /// True if some are not in the map.
    more: bool,
    /// Since when the plugin does not answer: its last error. Other seeds are not tried then.
    unreachable: Option<EncryptionError>,
    rounds: u32,
    /// The rounds among them that went to their end.
    whole_rounds: u32,
    /// No round begins before.
    next_round: Option<Instant>,
}

/// Reads to be tried again.
pub(super) struct ReadRound {
    pub(super) seeds: Vec<(CacheKey, DekSource)>,
    /// True if there are seeds beside these, which are tried when their values are read.
    pub(super) more: bool,
}

impl FailedDeks {
    fn begin_anew(&mut self) {
        (self.rounds, self.whole_rounds, self.next_round) = (0, 0, None);
    }
}

impl FailedReads {
    fn locked<T>(&self, look: impl FnOnce(&mut FailedDeks) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The error of a seed that need not be tried.
    pub(super) fn known(&self, key: &CacheKey) -> Option<EncryptionError> {
        self.locked(|failed| {
            let of_it = failed.by_key.get(key).map(|(_, error)| error.clone());
            of_it.or_else(|| failed.unreachable.clone())
        })
    }

    /// Notes a failure; true if it is the first of this seed.
    pub(super) fn note(&self, key: CacheKey, source: DekSource, error: &EncryptionError) -> bool {
        self.locked(|failed| {
            if error.is_unreachable() {
                failed.unreachable = Some(error.clone());
            }
            if failed.by_key.len() >= KEPT && !failed.by_key.contains_key(&key) {
                failed.more = true;
                return false;
            }
            let is_new = failed.by_key.insert(key, (source, error.clone())).is_none();
            if is_new {
                failed.begin_anew();
            }
            is_new
        })
    }

    /// The reads to be tried again now that the plugin answers; `None` if it is too early for that.
    pub(super) fn begin_round(&self) -> Option<ReadRound> {
        self.locked(|failed| {
            failed.unreachable = None;
            if failed.next_round.is_some_and(|next| Instant::now() < next) {
                return None;
            }
            failed.rounds = failed.rounds.saturating_add(1);
            let seeds = failed.by_key.iter();
            Some(ReadRound {
                seeds: seeds.map(|(key, (source, _))| (*key, source.clone())).collect(),
                more: std::mem::take(&mut failed.more),
            })
        })
    }

    /// Ends a round in which the plugin has answered for every seed.
    pub(super) fn end_round(&self) {
        self.locked(|failed| {
            failed.whole_rounds = failed.whole_rounds.saturating_add(1);
            let doublings = failed.whole_rounds.checked_sub(SOON);
            failed.next_round = doublings.map(|doublings| {
                let pause = FIRST_PAUSE.saturating_mul(2_u32.saturating_pow(doublings));
                Instant::now() + pause.min(LONGEST_PAUSE)
            });
        });
    }

    /// Tries all again soon: the plugin is well after it was not, or has another key.
    pub(super) fn begin_anew(&self) {
        self.locked(FailedDeks::begin_anew);
    }

    /// Forgets a seed: it is known now.
    pub(super) fn forget(&self, key: &CacheKey) {
        self.locked(|failed| failed.by_key.remove(key));
    }

    /// Reports whether they are to be tried again before the plugin's status is due.
    pub(super) fn are_due(&self) -> bool {
        self.locked(|failed| (!failed.by_key.is_empty() || failed.more) && failed.rounds < SOON)
    }
}
