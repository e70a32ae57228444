//! tokio as openraft sees it, except that random numbers come from the simulation's seed.
//!
//! One thread runs all hosts of a simulation, so the seed is the thread's.

use std::cell::RefCell;
use std::future::Future;
use std::time::Duration;

use openraft::{AsyncRuntime, OptionalSend, TokioInstant, TokioRuntime};
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

/// See the module's header.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct SeededRuntime;

impl AsyncRuntime for SeededRuntime {
    type JoinError = <TokioRuntime as AsyncRuntime>::JoinError;
    type JoinHandle<T: OptionalSend + 'static> = <TokioRuntime as AsyncRuntime>::JoinHandle<T>;
    type Sleep = <TokioRuntime as AsyncRuntime>::Sleep;
    type Instant = TokioInstant;
    type TimeoutError = <TokioRuntime as AsyncRuntime>::TimeoutError;
    type Timeout<R, T: Future<Output = R> + OptionalSend> = <TokioRuntime as AsyncRuntime>::Timeout<R, T>;
    type ThreadLocalRng = SeededRandom;
    type OneshotSender<T: OptionalSend> = <TokioRuntime as AsyncRuntime>::OneshotSender<T>;
    type OneshotReceiverError = <TokioRuntime as AsyncRuntime>::OneshotReceiverError;
    type OneshotReceiver<T: OptionalSend> = <TokioRuntime as AsyncRuntime>::OneshotReceiver<T>;

    fn spawn<T>(future: T) -> Self::JoinHandle<T::Output>
    where
        T: Future + OptionalSend + 'static,
        T::Output: OptionalSend + 'static,
    {
        TokioRuntime::spawn(future)
    }

    fn sleep(duration: Duration) -> Self::Sleep {
        TokioRuntime::sleep(duration)
    }

    fn sleep_until(deadline: Self::Instant) -> Self::Sleep {
        TokioRuntime::sleep_until(deadline)
    }

    fn timeout<R, F: Future<Output = R> + OptionalSend>(duration: Duration, future: F) -> Self::Timeout<R, F> {
        TokioRuntime::timeout(duration, future)
    }

    fn timeout_at<R, F: Future<Output = R> + OptionalSend>(deadline: Self::Instant, future: F) -> Self::Timeout<R, F> {
        TokioRuntime::timeout_at(deadline, future)
    }

    fn is_panic(join_error: &Self::JoinError) -> bool {
        TokioRuntime::is_panic(join_error)
    }

    fn thread_rng() -> Self::ThreadLocalRng {
        SeededRandom
    }

    fn oneshot<T>() -> (Self::OneshotSender<T>, Self::OneshotReceiver<T>)
    where
        T: OptionalSend,
    {
        TokioRuntime::oneshot()
    }
}
