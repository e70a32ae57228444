//! The TLS handshakes that are under way, which are bounded: each costs time of a core, and too many at once would all be late.
//!
//! A client that does not go on with its handshake must not keep others out for that. When there is no room for a newcomer, the
//! handshake whose client has been silent for longest is evicted, once that has been for some time: to keep newcomers waiting for
//! longer, clients have to open, or to send something over, more connections a second than there may be handshakes.
//!
//! A busy server is slow itself, and to evict those who wait for it would waste what it has done for them: after a
//! failover thousands connect at once, and would all have to begin again. So the time does not run while it is the server's
//! turn, and the worker that has the handshake keeps it if its client has sent something by then.

use std::{
    collections::HashMap,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{Notify, OwnedSemaphorePermit, Semaphore},
    time::{Instant, sleep_until},
};

/// The handshakes of all workers.
#[derive(Debug)]
pub(super) struct Handshakes {
    room: Arc<Semaphore>,
    /// The time that a client has to go on.
    min_time: Duration,
    pending: Mutex<PendingHandshakes>,
    /// One that was to be evicted goes on.
    kept: Notify,
}

#[derive(Debug, Default)]
struct PendingHandshakes {
    next: u64,
    handshakes: HashMap<u64, ClientTurn>,
}

/// The part of a handshake that the acceptor sees.
#[derive(Debug)]
struct ClientTurn {
    /// The time since which the server waits for the client; `None` while it does not.
    since: Option<Instant>,
    evicted: Arc<Notify>,
}

/// A handshake, until this is dropped.
#[derive(Debug)]
pub(super) struct PendingHandshake {
    all: Arc<Handshakes>,
    id: u64,
    evicted: Arc<Notify>,
    _room: OwnedSemaphorePermit,
}

impl Handshakes {
    /// At most so many at a time, each of whose clients has `min_time` in any case.
    pub(super) fn new(most: usize, min_time: Duration) -> Arc<Self> {
        Arc::new(Self {
            room: Arc::new(Semaphore::new(most)),
            min_time,
            pending: Mutex::default(),
            kept: Notify::new(),
        })
    }

    /// Begins one as soon as there is room; `None` if there will never be.
    pub(super) async fn begin(all: &Arc<Self>) -> Option<PendingHandshake> {
        let mut room = pin!(Arc::clone(&all.room).acquire_owned());
        let room = loop {
            tokio::select! {
                biased;
                room = room.as_mut() => break room,
                () = all.evict_oldest() => {}
            }
        };
        let room = room.ok()?;
        let evicted = Arc::<Notify>::default();
        let mut pending = all.pending();
        let id = pending.next;
        pending.next += 1;
        let turn = ClientTurn {
            since: None,
            evicted: Arc::clone(&evicted),
        };
        pending.handshakes.insert(id, turn);
        drop(pending);
        Some(PendingHandshake {
            all: Arc::clone(all),
            id,
            evicted,
            _room: room,
        })
    }

    /// Waits until a client has had its time, and evicts its handshake. Comes to an end only if that one is kept.
    async fn evict_oldest(&self) {
        loop {
            // Before anybody is evicted, so that no answer is missed.
            let kept = self.kept.notified();
            match self.evict_silent() {
                Ok(()) => return kept.await,
                Err(soonest) => sleep_until(soonest).await,
            }
        }
    }

    /// Evicts the handshake whose client has been silent for longest.
    ///
    /// # Errors
    /// The time at which to look again, if none has been so for long enough.
    fn evict_silent(&self) -> Result<(), Instant> {
        let now = Instant::now();
        let mut pending = self.pending();
        let waiting = pending.handshakes.values_mut().filter(|turn| turn.since.is_some());
        let Some(oldest) = waiting.min_by_key(|turn| turn.since) else {
            return Err(now + self.min_time);
        };
        let over = oldest.since.unwrap_or(now) + self.min_time;
        if over > now {
            return Err(over);
        }
        oldest.since = None;
        oldest.evicted.notify_one();
        Ok(())
    }

    fn pending(&self) -> MutexGuard<'_, PendingHandshakes> {
        // The map is whole at any time.
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PendingHandshake {
    /// The outcome of the handshake that `handshake` makes, `None` if it was evicted. `has_sent` reports whether its client has sent
    /// something that was not looked at yet.
    pub(super) async fn run<F: Future + Unpin>(
        &self,
        mut handshake: F,
        has_sent: impl Fn(&F) -> bool,
    ) -> Option<F::Output> {
        loop {
            let in_turns = std::future::poll_fn(|cx| {
                let done = pin!(&mut handshake).poll(cx);
                if done.is_pending() {
                    self.wait_for_client();
                }
                done
            });
            tokio::select! {
                biased;
                outcome = in_turns => return Some(outcome),
                () = self.evicted.notified() => {}
            }
            if !has_sent(&handshake) {
                return None;
            }
            self.all.kept.notify_waiters();
        }
    }

    /// It is the client's turn from now on.
    fn wait_for_client(&self) {
        if let Some(turn) = self.all.pending().handshakes.get_mut(&self.id) {
            turn.since = Some(Instant::now());
        }
    }
}

impl Drop for PendingHandshake {
    fn drop(&mut self) {
        self.all.pending().handshakes.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt as _, future::pending};

    use super::*;

    async fn begin(all: &Arc<Handshakes>) -> PendingHandshake {
        Handshakes::begin(all).await.expect("there will be room")
    }

    /// Runs a handshake for as long as it can go on now. Reports whether it is evicted.
    fn is_evicted(handshake: &PendingHandshake, client_has_sent: bool) -> bool {
        let outcome = handshake.run(pending::<()>(), |_| client_has_sent).now_or_never();
        matches!(outcome, Some(None))
    }

    #[tokio::test]
    async fn the_handshake_whose_client_is_silent_for_longest_makes_room() {
        let all = Handshakes::new(2, Duration::ZERO);
        let (first, second) = (begin(&all).await, begin(&all).await);
        first.wait_for_client();
        second.wait_for_client();
        // Its client has gone on, and it waits for the next flight.
        first.wait_for_client();
        assert!(begin(&all).now_or_never().is_none(), "there is no room yet");
        assert!(!is_evicted(&first, false), "one is enough");
        assert!(is_evicted(&second, false));
        drop(second);
        let third = begin(&all).now_or_never();
        assert!(third.is_some(), "whoever is done makes room at once");
        drop((first, third));
        assert!(all.pending().handshakes.is_empty());
    }

    #[tokio::test]
    async fn a_client_has_its_time() {
        let min_time = Duration::from_millis(20);
        let all = Handshakes::new(1, min_time);
        let began = Instant::now();
        let first = begin(&all).await;
        let makes_room = async {
            let outcome = first.run(pending::<()>(), |_| false).await;
            assert_eq!(outcome, None);
            drop(first);
        };
        tokio::join!(makes_room, begin(&all));
        assert!(began.elapsed() >= min_time);
    }

    #[tokio::test]
    async fn no_handshake_is_evicted_while_it_is_the_servers_turn() {
        let all = Handshakes::new(2, Duration::ZERO);
        let (_in_an_inbox, begun) = (begin(&all).await, begin(&all).await);
        assert!(all.evict_silent().is_err(), "no worker has looked at them yet");
        begun.wait_for_client();
        let mut newcomer = pin!(begin(&all));
        assert!(newcomer.as_mut().now_or_never().is_none());
        assert!(!is_evicted(&begun, true), "its client has gone on");
        assert!(newcomer.as_mut().now_or_never().is_none(), "looks for another one");
        assert!(is_evicted(&begun, false), "it is silent now");
        drop(begun);
        assert!(newcomer.now_or_never().is_some());
    }
}
