//! The TLS handshakes that are under way, which are bounded: each costs time of a core, and too many at once would all be late.
//!
//! A client that does not go on with its handshake must not keep others out for that. When there is no room for a newcomer, the
//! oldest handshake is given up, once it has had a fair time: to keep newcomers waiting for longer, a client has to open
//! more connections a second than there may be handshakes.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

/// The handshakes of all workers.
#[derive(Debug)]
pub(super) struct Handshakes {
    room: Arc<Semaphore>,
    fair_time: Duration,
    pending: Mutex<Pending>,
}

#[derive(Debug, Default)]
struct Pending {
    next: u64,
    /// In the order in which they began.
    handshakes: BTreeMap<u64, Begun>,
}

#[derive(Debug)]
struct Begun {
    at: Instant,
    given_up: CancellationToken,
}

/// A handshake, until this is dropped.
#[derive(Debug)]
pub(super) struct Handshake {
    all: Arc<Handshakes>,
    id: u64,
    given_up: CancellationToken,
    _room: OwnedSemaphorePermit,
}

impl Handshakes {
    /// At most so many at a time, each of which has `fair_time` in any case.
    pub(super) fn new(most: usize, fair_time: Duration) -> Arc<Self> {
        Arc::new(Self {
            room: Arc::new(Semaphore::new(most)),
            fair_time,
            pending: Mutex::default(),
        })
    }

    /// Begins one as soon as there is room; `None` if there will never be.
    pub(super) async fn begin(all: &Arc<Self>) -> Option<Handshake> {
        let room = tokio::select! {
            biased;
            room = Arc::clone(&all.room).acquire_owned() => room,
            () = all.give_up_oldest() => Arc::clone(&all.room).acquire_owned().await,
        };
        let room = room.ok()?;
        let given_up = CancellationToken::new();
        let mut pending = all.pending();
        let id = pending.next;
        pending.next += 1;
        let begun = Begun {
            at: Instant::now(),
            given_up: given_up.clone(),
        };
        pending.handshakes.insert(id, begun);
        drop(pending);
        Some(Handshake {
            all: Arc::clone(all),
            id,
            given_up,
            _room: room,
        })
    }

    /// Waits until the oldest has had its time, and gives it up.
    async fn give_up_oldest(&self) {
        let oldest = self.pending().handshakes.values().next().map(|begun| begun.at);
        sleep_until(oldest.unwrap_or_else(Instant::now) + self.fair_time).await;
        if let Some((_, begun)) = self.pending().handshakes.pop_first() {
            begun.given_up.cancel();
        }
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        // The map is whole at any time.
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Handshake {
    /// Fires when it has to make room.
    pub(super) async fn given_up(&self) {
        self.given_up.cancelled().await;
    }
}

impl Drop for Handshake {
    fn drop(&mut self) {
        self.all.pending().handshakes.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn the_oldest_makes_room_once_it_has_had_its_time() {
        let fair_time = Duration::from_millis(20);
        let all = Handshakes::new(2, fair_time);
        let began = Instant::now();
        let first = Handshakes::begin(&all).await.expect("there is room");
        let second = Handshakes::begin(&all).await.expect("there is room");
        assert!(Handshakes::begin(&all).now_or_never().is_none(), "it waits");
        let oldest_goes = async {
            first.given_up().await;
            drop(first);
        };
        let (third, ()) = tokio::join!(Handshakes::begin(&all), oldest_goes);
        assert!(began.elapsed() >= fair_time);
        assert!(second.given_up().now_or_never().is_none(), "one is enough");
        drop(second);
        let fourth = Handshakes::begin(&all).now_or_never();
        assert!(
            fourth.is_some_and(|fourth| fourth.is_some()),
            "whoever is done makes room at once"
        );
        drop(third);
        assert!(all.pending().handshakes.is_empty());
    }
}
