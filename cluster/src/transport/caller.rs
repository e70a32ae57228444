//! Calls to peers: a few kept connections each, one call at a time on each, back-off when a peer cannot be reached.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::AsyncReadExt as _;
use tokio::sync::Semaphore;
use trireme_actors::Clock;

use super::frame;
use super::wire::{BoxStream, Wire};

/// The time limit of connecting, the TLS handshake included.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(500);
/// Calls under way to one peer: replication, votes, read-index rounds and renewals each have one or two.
const MOST_CALLS: usize = 16;
/// Idle connections kept to one peer.
const MOST_IDLE: usize = 4;
/// The first pause after a failed dial; doubled by each further one.
const FIRST_BACKOFF: Duration = Duration::from_millis(25);
/// The longest pause. Well below an election, so that a peer that is back is found back.
const LAST_BACKOFF: Duration = Duration::from_millis(200);

/// The time for which a peer cannot be dialled before that is logged: longer than a replica takes to start anew.
const OUTAGE: Duration = Duration::from_secs(5);

/// The reason that there is no answer. In all cases but [`CallError::Unreachable`] the call may have been done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    #[error("cannot reach {address}: {why}")]
    Unreachable { address: String, why: String },
    #[error("{address} did not answer in time")]
    Timeout { address: String },
    #[error("lost the connection to {address}")]
    Lost {
        address: String,
        #[source]
        source: io::Error,
    },
}

/// Makes calls. Clones share connections.
#[derive(Clone)]
pub(crate) struct PeerCaller {
    wire: Arc<dyn Wire>,
    clock: Clock,
    peers: Arc<Mutex<HashMap<String, Arc<CallerPeer>>>>,
}

struct CallerPeer {
    calls: Semaphore,
    state: Mutex<PeerState>,
}

#[derive(Default)]
struct PeerState {
    idle: Vec<BoxStream>,
    failures: u32,
    /// No dialling before this.
    not_before: Option<Instant>,
    /// The time of the first of these failures.
    failing_since: Option<Instant>,
    is_outage_reported: bool,
}

/// The log state of a peer.
#[derive(Debug, PartialEq, Eq)]
enum News {
    Outage,
    Return,
}

impl PeerState {
    fn dialled(&mut self) -> Option<News> {
        let was_reported = self.is_outage_reported;
        (self.failures, self.not_before) = (0, None);
        (self.failing_since, self.is_outage_reported) = (None, false);
        was_reported.then_some(News::Return)
    }

    /// An outage is reported once, however long it is.
    fn failed(&mut self, now: Instant) -> Option<News> {
        let pause = FIRST_BACKOFF * 2_u32.saturating_pow(self.failures.min(8));
        self.failures += 1;
        self.not_before = Some(now + pause.min(LAST_BACKOFF));
        let since = *self.failing_since.get_or_insert(now);
        let is_news = now.saturating_duration_since(since) >= OUTAGE && !self.is_outage_reported;
        self.is_outage_reported |= is_news;
        is_news.then_some(News::Outage)
    }
}

/// Drops a peer's idle connections when a call on one fails or is given up: they have likely died with it, and each
/// would cost another call its patience before a new one is dialled.
struct Suspicion<'a> {
    peer: &'a CallerPeer,
    is_founded: bool,
}

impl Drop for Suspicion<'_> {
    fn drop(&mut self) {
        if self.is_founded {
            self.peer.state().idle.clear();
        }
    }
}

impl CallerPeer {
    fn state(&self) -> MutexGuard<'_, PeerState> {
        // The state is whole at any time; a panic of another holder does not change that.
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl PeerCaller {
    pub(crate) fn new(wire: Arc<dyn Wire>, clock: Clock) -> Self {
        let peers = Arc::default();
        Self { wire, clock, peers }
    }

    /// Sends `request` to the peer at `address` and waits for its answer for at most `patience`.
    pub(crate) async fn call<Q, A>(&self, address: &str, request: &Q, patience: Duration) -> Result<A, CallError>
    where
        Q: Serialize + Sync,
        A: DeserializeOwned,
    {
        let until = self.clock.now() + patience;
        let called = self
            .clock
            .timeout_at(until, self.call_unbounded(address, request))
            .await;
        called.unwrap_or_else(|| {
            Err(CallError::Timeout {
                address: address.to_owned(),
            })
        })
    }

    async fn call_unbounded<Q, A>(&self, address: &str, request: &Q) -> Result<A, CallError>
    where
        Q: Serialize + Sync,
        A: DeserializeOwned,
    {
        let peer = self.peer(address);
        // It is never closed, so a permit comes as soon as another call ends.
        let _call = peer.calls.acquire().await;
        let mut stream = self.connection(&peer, address).await?;
        // A connection on which anything went wrong, or whose call was given up, is dropped and never used again: an
        // answer that is still under way must not be taken for another call's.
        let mut suspicion = Suspicion {
            peer: &peer,
            is_founded: true,
        };
        let answered = exchange(&mut stream, request).await;
        let answer = answered.map_err(|source| CallError::Lost {
            address: address.to_owned(),
            source,
        })?;
        suspicion.is_founded = false;
        let mut state = peer.state();
        if state.idle.len() < MOST_IDLE {
            state.idle.push(stream);
        }
        Ok(answer)
    }

    fn peer(&self, address: &str) -> Arc<CallerPeer> {
        let mut peers = self.peers.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let peer = peers.entry(address.to_owned()).or_insert_with(|| {
            Arc::new(CallerPeer {
                calls: Semaphore::new(MOST_CALLS),
                state: Mutex::default(),
            })
        });
        Arc::clone(peer)
    }

    async fn connection(&self, peer: &CallerPeer, address: &str) -> Result<BoxStream, CallError> {
        let unreachable = |why: String| CallError::Unreachable {
            address: address.to_owned(),
            why,
        };
        {
            let mut state = peer.state();
            while let Some(mut stream) = state.idle.pop() {
                if is_open(&mut stream) {
                    return Ok(stream);
                }
            }
            if state.not_before.is_some_and(|at| self.clock.now() < at) {
                return Err(unreachable("waiting before the next attempt".to_owned()));
            }
        }
        let until = self.clock.now() + CONNECT_TIMEOUT;
        let dialled = self.clock.timeout_at(until, self.wire.connect(address)).await;
        let dialled = dialled.unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into()));
        let mut state = peer.state();
        match dialled {
            Ok(stream) => {
                if state.dialled() == Some(News::Return) {
                    tracing::info!(peer = address, "a replica of the group is reached again");
                }
                Ok(stream)
            }
            Err(error) => {
                if state.failed(self.clock.now()) == Some(News::Outage) {
                    tracing::warn!(peer = address, %error, "a replica of the group cannot be reached");
                }
                Err(unreachable(error.to_string()))
            }
        }
    }
}

/// Returns true if a kept connection can be used. A peer closes those over which nothing has come for a while, and all
/// when its process ends; a call that is lost on such a connection may be a vote, and Raft asks for none a second time.
fn is_open(stream: &mut BoxStream) -> bool {
    // Nothing comes unasked, so what there is to be read is the end.
    stream.read(&mut [0]).now_or_never().is_none()
}

async fn exchange<Q: Serialize, A: DeserializeOwned>(stream: &mut BoxStream, request: &Q) -> io::Result<A> {
    frame::write(stream, request).await?;
    let answer = frame::read(stream).await?;
    answer.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

#[cfg(test)]
mod tests {
    use trireme_actors::ManualClock;

    use super::*;

    #[test]
    fn an_outage_is_reported_once_and_so_is_its_end() {
        let manual = ManualClock::new();
        let clock = Clock::from(manual.clone());
        let mut state = PeerState::default();
        assert_eq!(state.failed(clock.now()), None, "it may just be starting");
        assert_eq!(state.dialled(), None, "it is not reported yet");
        for (seconds, expected) in [(0, None), (4, None), (1, Some(News::Outage)), (60, None)] {
            manual.advance(Duration::from_secs(seconds));
            assert_eq!(state.failed(clock.now()), expected, "{seconds} s later");
        }
        assert_eq!(state.dialled(), Some(News::Return));
        assert_eq!(state.dialled(), None);
        assert_eq!(state.failed(clock.now()), None, "another outage begins");
    }
}
