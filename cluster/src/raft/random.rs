//! The random numbers that openraft draws, from the simulation's seed.
//!
//! One thread runs all hosts of a simulation, so the seed is the thread's.

use std::cell::RefCell;

use rand_08::rngs::StdRng;
use rand_08::{RngCore, SeedableRng as _};

thread_local! {
    static RANDOM: RefCell<StdRng> = RefCell::new(StdRng::from_entropy());
}

/// From now on this thread's elections are those of `seed`.
pub(crate) fn seed(seed: u64) {
    RANDOM.with_borrow_mut(|random| *random = StdRng::seed_from_u64(seed));
}

/// Draws from the thread's seed.
#[derive(Debug)]
pub(crate) struct SeededRandom;

impl RngCore for SeededRandom {
    fn next_u32(&mut self) -> u32 {
        RANDOM.with_borrow_mut(RngCore::next_u32)
    }

    fn next_u64(&mut self) -> u64 {
        RANDOM.with_borrow_mut(RngCore::next_u64)
    }

    fn fill_bytes(&mut self, dest: &mut [u8]) {
        RANDOM.with_borrow_mut(|random| random.fill_bytes(dest));
    }

    fn try_fill_bytes(&mut self, dest: &mut [u8]) -> Result<(), rand_08::Error> {
        RANDOM.with_borrow_mut(|random| random.try_fill_bytes(dest))
    }
}
