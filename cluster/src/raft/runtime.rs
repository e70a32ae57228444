//! tokio as openraft sees it, with ticks that do not keep step.
//!
//! openraft looks at its election timers at each tick, 1.5 heartbeats apart, so that all timeouts between two ticks come
//! to the same, and however it draws them, two replicas whose ticks fall together campaign together: they split the
//! votes, wait equally long, and split them again, without end (the simulation found it with two of three replicas
//! left). So each tick comes earlier by a random time. Ticks are the only thing that sleeps until an instant.
//!
//! And calls to peers may take longer than openraft would let them: see [`timing::CALL_TIMEOUT`].

use std::future::Future;
use std::time::Duration;

use openraft::{AsyncRuntime, OptionalSend, TokioInstant, TokioRuntime};

use super::timing;

type Tokio<T> = <TokioRuntime as AsyncRuntime>::JoinHandle<T>;

/// See the module's header.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Runtime;

impl AsyncRuntime for Runtime {
    type JoinError = <TokioRuntime as AsyncRuntime>::JoinError;
    type JoinHandle<T: OptionalSend + 'static> = Tokio<T>;
    type Sleep = <TokioRuntime as AsyncRuntime>::Sleep;
    type Instant = TokioInstant;
    type TimeoutError = <TokioRuntime as AsyncRuntime>::TimeoutError;
    type Timeout<R, T: Future<Output = R> + OptionalSend> = <TokioRuntime as AsyncRuntime>::Timeout<R, T>;
    #[cfg(not(test))]
    type ThreadLocalRng = <TokioRuntime as AsyncRuntime>::ThreadLocalRng;
    #[cfg(test)]
    type ThreadLocalRng = super::random::SeededRandom;
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
        let early = Duration::from_millis(timing::TICK_JITTER.new_rand_election_timeout::<Self>());
        TokioRuntime::sleep_until(deadline - early)
    }

    fn timeout<R, F: Future<Output = R> + OptionalSend>(duration: Duration, future: F) -> Self::Timeout<R, F> {
        TokioRuntime::timeout(timing::call_timeout(duration), future)
    }

    fn timeout_at<R, F: Future<Output = R> + OptionalSend>(deadline: Self::Instant, future: F) -> Self::Timeout<R, F> {
        TokioRuntime::timeout_at(deadline, future)
    }

    fn is_panic(join_error: &Self::JoinError) -> bool {
        TokioRuntime::is_panic(join_error)
    }

    #[cfg(not(test))]
    fn thread_rng() -> Self::ThreadLocalRng {
        TokioRuntime::thread_rng()
    }

    #[cfg(test)]
    fn thread_rng() -> Self::ThreadLocalRng {
        super::random::SeededRandom
    }

    fn oneshot<T>() -> (Self::OneshotSender<T>, Self::OneshotReceiver<T>)
    where
        T: OptionalSend,
    {
        TokioRuntime::oneshot()
    }
}
