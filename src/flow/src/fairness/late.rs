//! Seats that stay taken for a while after their request has ended, while its watchers get its events.

use std::{cmp::Reverse, collections::BinaryHeap, time::Instant};

use tokio::sync::mpsc;
use trireme_actors::Clock;

use super::seats::HeldSeats;

/// Writes that have ended within the last milliseconds. What finds no place gives its seats back at once.
const PLACES: usize = 8192;

/// Seats and the moment at which they are given back.
pub(crate) struct LateRelease {
    at: Instant,
    /// Given back on drop.
    _held: HeldSeats,
}

impl PartialEq for LateRelease {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl Eq for LateRelease {}

impl PartialOrd for LateRelease {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for LateRelease {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.at.cmp(&other.at)
    }
}

/// The way to [`release`]. Cheap to clone.
#[derive(Clone)]
pub(crate) struct LateReleases(mpsc::Sender<LateRelease>);

impl LateReleases {
    pub(crate) fn channel() -> (Self, mpsc::Receiver<LateRelease>) {
        let (sender, receiver) = mpsc::channel(PLACES);
        (Self(sender), receiver)
    }

    /// Gives the seats back at this moment, or at once if there is no place to wait in.
    pub(crate) fn release_at(&self, at: Instant, held: HeldSeats) {
        // An error brings the seats back, and drops them.
        drop(self.0.try_send(LateRelease { at, _held: held }));
    }
}

/// Gives seats back when their time has come.
pub(crate) async fn release(clock: Clock, mut ended: mpsc::Receiver<LateRelease>) {
    let mut held = BinaryHeap::new();
    loop {
        let next = held.peek().map(|Reverse(next): &Reverse<LateRelease>| next.at);
        let due = async {
            match next {
                Some(at) => clock.sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            ended = ended.recv() => match ended {
                Some(release) => held.push(Reverse(release)),
                None => return,
            },
            () = due => drop(held.pop()),
        }
    }
}
