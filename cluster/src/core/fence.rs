//! May a holder still act, and may the leader give its leases to another? Both sides count by their own monotonic
//! clock, and the holder always gives up first.
//!
//! ```text
//! holder   sent ─────────────── ttl ───────────────┤ acts no more
//!            \                    /
//! leader      received ── ttl ───────────────────────── margin ──┤ expires it
//!                    \── asks a quorum whether it still leads ── acknowledges
//! ```
//!
//! The holder counts from the moment it *sent* the renewal that was acknowledged; the leader from when it *received*
//! it, which is later, and waits a margin longer for clocks that do not run alike. A new leader cannot know what its
//! predecessor acknowledged. But the predecessor acknowledged only what it then confirmed with a quorum, and it could
//! not confirm anything after a quorum had elected the new leader; so a full ttl after that no replica holds a lease
//! by the predecessor's word.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::leases::Holder;

/// The lifetime of a renewal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    /// The time that the holder counts.
    pub(crate) ttl: Duration,
    /// The margin that the leader waits beyond it.
    pub(crate) margin: Duration,
}

impl Timing {
    /// The time from which a holder acts no more whose acknowledged renewal was sent at `sent`.
    pub(crate) fn holder_stops(self, sent: Instant) -> Instant {
        sent + self.ttl
    }

    /// The time from which a leader may expire a holder whose last renewal came at `heard`.
    pub(crate) fn leader_expires(self, heard: Instant) -> Instant {
        heard + self.ttl + self.margin
    }
}

/// The renewals that the leader of one term has seen in it.
#[derive(Debug)]
pub(crate) struct Renewals {
    timing: Timing,
    /// The time when the leader found itself elected, which is not before it was.
    elected: Instant,
    heard: BTreeMap<Holder, Instant>,
    /// Those whose expiry was proposed.
    expiring: BTreeSet<Holder>,
}

impl Renewals {
    pub(crate) fn new(timing: Timing, elected: Instant) -> Self {
        Self {
            timing,
            elected,
            heard: BTreeMap::new(),
            expiring: BTreeSet::new(),
        }
    }

    /// Takes down that a renewal has come in. False if it must not be acknowledged, because the expiry of this holder
    /// is under way.
    #[must_use]
    pub(crate) fn receive(&mut self, holder: Holder, now: Instant) -> bool {
        if self.expiring.contains(&holder) {
            return false;
        }
        self.heard.insert(holder, now);
        true
    }

    /// Those of `holders`, which are all that renew by the applied state, that have been silent for too long. From now
    /// on they are not acknowledged, until their expiry is applied: a replica that is not among `holders` any more
    /// may enter anew. Only the state shows it; a proposal that seemed to fail may have been agreed on.
    pub(crate) fn overdue(&mut self, holders: &BTreeSet<Holder>, now: Instant) -> Vec<Holder> {
        self.expiring.retain(|holder| holders.contains(holder));
        // Who has been heard and is not among them may be entering.
        let timing = self.timing;
        self.heard
            .retain(|holder, heard| holders.contains(holder) || now < timing.leader_expires(*heard));
        let mut overdue = Vec::new();
        for holder in holders {
            let heard = self.heard.get(holder).copied().unwrap_or(self.elected);
            if now >= self.timing.leader_expires(heard) {
                self.expiring.insert(*holder);
                overdue.push(*holder);
            }
        }
        overdue
    }
}
