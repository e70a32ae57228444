//! The handle of a link: what it does now, what it has done, and the strikes that hit open connections.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::{Conditions, Way};

/// One link between two parts. Clones are the same link.
#[derive(Debug, Clone)]
pub struct Link(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    name: String,
    conditions: watch::Sender<Conditions>,
    strikes: watch::Sender<Strikes>,
    trap: watch::Sender<Trap>,
    chance: Mutex<StdRng>,
    tally: Tally,
}

/// The number of hits of open connections. A connection compares with what it has seen, so that none is missed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Strikes {
    pub(super) resets: u64,
    pub(super) forgets: u64,
    pub(super) mends: u64,
}

/// The bytes that a link waits for.
#[derive(Debug, Default)]
enum Trap {
    #[default]
    None,
    Set(Vec<Vec<u8>>),
    Sprung(Bytes),
}

/// The traffic of a link and the effects on it, since its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Connections accepted.
    pub connections: u64,
    /// Those of them that are open.
    pub open: u64,
    /// Connections that found the server gone.
    pub unreachable: u64,
    /// Connections reset right at their opening. What the kernel refuses is not seen.
    pub turned_away: u64,
    /// Connections that had to wait at their opening.
    pub hung: u64,
    /// Open connections that were reset.
    pub resets: u64,
    /// Open connections that the server was made to forget.
    pub half_opened: u64,
    /// Bytes handed on to the server.
    pub bytes_to_server: u64,
    /// Bytes handed on to the client.
    pub bytes_to_client: u64,
    /// Bytes that met a blackhole. They arrive when it is gone, if the connection lives so long.
    pub held_bytes: u64,
    /// Bytes that went into a half-open connection, and nowhere from there.
    pub swallowed_bytes: u64,
    /// Pieces that were kept back for a delay, a jitter or the bandwidth.
    pub delayed: u64,
    /// Segments lost.
    pub losses: u64,
}

impl Counts {
    /// The difference since `earlier`; of the open connections, those that are open now.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            connections: self.connections - earlier.connections,
            open: self.open,
            unreachable: self.unreachable - earlier.unreachable,
            turned_away: self.turned_away - earlier.turned_away,
            hung: self.hung - earlier.hung,
            resets: self.resets - earlier.resets,
            half_opened: self.half_opened - earlier.half_opened,
            bytes_to_server: self.bytes_to_server - earlier.bytes_to_server,
            bytes_to_client: self.bytes_to_client - earlier.bytes_to_client,
            held_bytes: self.held_bytes - earlier.held_bytes,
            swallowed_bytes: self.swallowed_bytes - earlier.swallowed_bytes,
            delayed: self.delayed - earlier.delayed,
            losses: self.losses - earlier.losses,
        }
    }

    /// The number of times that a fault touched something: zero means that it did not bite. Bytes that only passed do
    /// not count.
    pub fn touched(&self) -> u64 {
        self.turned_away
            + self.hung
            + self.resets
            + self.half_opened
            + self.held_bytes
            + self.swallowed_bytes
            + self.delayed
            + self.losses
    }
}

/// The same, being counted.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) connections: AtomicU64,
    pub(super) closed: AtomicU64,
    pub(super) unreachable: AtomicU64,
    pub(super) turned_away: AtomicU64,
    pub(super) hung: AtomicU64,
    pub(super) resets: AtomicU64,
    pub(super) half_opened: AtomicU64,
    bytes_to_server: AtomicU64,
    bytes_to_client: AtomicU64,
    pub(super) held_bytes: AtomicU64,
    pub(super) swallowed_bytes: AtomicU64,
    pub(super) delayed: AtomicU64,
    pub(super) losses: AtomicU64,
}

impl Tally {
    pub(super) fn passed(&self, way: Way) -> &AtomicU64 {
        match way {
            Way::ToServer => &self.bytes_to_server,
            Way::ToClient => &self.bytes_to_client,
        }
    }
}

/// Adds to a count.
pub(super) fn add(count: &AtomicU64, more: usize) {
    count.fetch_add(u64::try_from(more).unwrap_or(u64::MAX), Ordering::Relaxed);
}

impl Link {
    /// A perfect link. The seed decides jitter and losses.
    pub fn new(name: impl Into<String>, seed: u64) -> Self {
        Self(Arc::new(Inner {
            name: name.into(),
            conditions: watch::Sender::new(Conditions::default()),
            strikes: watch::Sender::new(Strikes::default()),
            trap: watch::Sender::default(),
            chance: Mutex::new(StdRng::seed_from_u64(seed)),
            tally: Tally::default(),
        }))
    }

    /// Its name in reports.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Changes what it does, from the next byte and the next connection on.
    pub fn set(&self, conditions: Conditions) {
        self.0.conditions.send_replace(conditions);
    }

    /// Its present conditions.
    pub fn conditions(&self) -> Conditions {
        *self.0.conditions.borrow()
    }

    /// Makes it perfect again, and takes its trap away. Connections that were half-open are reset, as their server would
    /// do it now.
    pub fn heal(&self) {
        self.0.trap.send_replace(Trap::None);
        self.set(Conditions::default());
        self.0.strikes.send_modify(|strikes| strikes.mends += 1);
    }

    /// Resets every open connection, at both ends. New ones are not touched.
    pub fn reset_connections(&self) {
        self.0.strikes.send_modify(|strikes| strikes.resets += 1);
    }

    /// Makes the server lose every open connection without the client's knowledge, as after a power cut: what the client
    /// sends goes nowhere, and nothing comes back, until [`Link::heal`].
    pub fn half_open_connections(&self) {
        self.0.strikes.send_modify(|strikes| strikes.forgets += 1);
    }

    /// Lies in wait for a piece to the server with one of these texts in it: from that piece on nothing passes in this
    /// direction, as in a blackhole, until [`Link::heal`]. So a request is held while it is under way, and its client can
    /// be struck at a moment that is otherwise too short to be met. A text that is cut in two by the sender slips through.
    pub fn set_trap(&self, texts: Vec<Vec<u8>>) {
        self.0.trap.send_replace(Trap::Set(texts));
    }

    /// Takes a trap away that has not sprung.
    pub fn disarm(&self) {
        self.0.trap.send_if_modified(|trap| {
            let is_set = matches!(trap, Trap::Set(_));
            if is_set {
                *trap = Trap::None;
            }
            is_set
        });
    }

    /// Waits until the trap has sprung; gives the piece that it holds.
    pub async fn caught(&self) -> Bytes {
        let mut trap = self.0.trap.subscribe();
        let sprung = trap.wait_for(|trap| matches!(trap, Trap::Sprung(_))).await;
        match sprung.as_deref() {
            Ok(Trap::Sprung(piece)) => piece.clone(),
            // The sender lives in `self`.
            _ => Bytes::new(),
        }
    }

    /// Advances the trap by a piece to the server.
    pub(super) fn step_on(&self, piece: &Bytes) {
        let has = |text: &[u8]| piece.windows(text.len().max(1)).any(|window| window == text);
        let meant = |trap: &Trap| matches!(trap, Trap::Set(texts) if texts.iter().any(|text| has(text)));
        if !meant(&self.0.trap.borrow()) {
            return;
        }
        self.0
            .conditions
            .send_modify(|conditions| conditions.to_server.blackhole = true);
        self.0.trap.send_replace(Trap::Sprung(piece.clone()));
    }

    /// Its counters so far.
    pub fn counts(&self) -> Counts {
        let tally = &self.0.tally;
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        // Closed ones first: a connection that ends in between must not make the number of open ones negative.
        let closed = read(&tally.closed);
        let connections = read(&tally.connections);
        Counts {
            connections,
            open: connections - closed,
            unreachable: read(&tally.unreachable),
            turned_away: read(&tally.turned_away),
            hung: read(&tally.hung),
            resets: read(&tally.resets),
            half_opened: read(&tally.half_opened),
            bytes_to_server: read(&tally.bytes_to_server),
            bytes_to_client: read(&tally.bytes_to_client),
            held_bytes: read(&tally.held_bytes),
            swallowed_bytes: read(&tally.swallowed_bytes),
            delayed: read(&tally.delayed),
            losses: read(&tally.losses),
        }
    }

    pub(super) fn tally(&self) -> &Tally {
        &self.0.tally
    }

    pub(super) fn watch_conditions(&self) -> watch::Receiver<Conditions> {
        self.0.conditions.subscribe()
    }

    pub(super) fn watch_strikes(&self) -> watch::Receiver<Strikes> {
        self.0.strikes.subscribe()
    }

    /// Returns true if something that happens with this probability happens now.
    pub(super) fn happens(&self, probability: f64) -> bool {
        self.chance().random_bool(probability.clamp(0.0, 1.0))
    }

    /// Evenly from -1 to 1.
    pub(super) fn swing(&self) -> f64 {
        self.chance().random_range(-1.0..=1.0)
    }

    fn chance(&self) -> MutexGuard<'_, StdRng> {
        // Random numbers are whole at any time.
        self.0.chance.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
