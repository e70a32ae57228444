//! The event log of one resource: a persistent sequence, so that a snapshot of the cache carries its own history.
//!
//! Owned by the cache's state; read by watchers that start in the past or fell behind, and by reads at an exact
//! revision, which undo the newest events on the index. Bounded by age, count and bytes.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use imbl::Vector;
use trireme_storage::Revision;

use super::index::ItemIndex;
use crate::event::LogEvent;

/// The least age of kept history, unless the hard caps are hit: more than a client needs to come back after its
/// replica died or its request timed out (60 s) and was tried again.
const KEEP_FOR: Duration = Duration::from_secs(75);
/// Older events stay as long as there are few, so that watchers of a quiet resource can always resume.
const QUIET: Bounds = Bounds {
    events: 1_000,
    bytes: 4 << 20,
};
/// The bounds of a busy resource's history whatever its age: 100,000 events are 75 s at 1,300 writes a second.
const HARD: Bounds = Bounds {
    events: 100_000,
    bytes: 128 << 20,
};
/// The number of events that lie between two remembered states: bounds the work of a read at an exact revision.
const CHECKPOINT_EVERY: u64 = 2_048;

#[derive(Debug, Clone, Copy)]
struct Bounds {
    events: usize,
    bytes: usize,
}

#[derive(Debug, Clone)]
struct LogEntry {
    event: Arc<LogEvent>,
    at: Instant,
}

#[derive(Debug, Clone)]
struct Checkpoint {
    /// The sequence of the first event that is not in `index`.
    next: u64,
    index: ItemIndex,
}

/// The newest events, oldest first.
#[derive(Debug, Clone, Default)]
pub(crate) struct EventLog {
    entries: Vector<LogEntry>,
    checkpoints: Vector<Checkpoint>,
    /// The sequence of the next event.
    next: u64,
    /// Every event after this revision is in the log.
    start: Revision,
    bytes: usize,
}

impl EventLog {
    /// A log that knows nothing of what was up to `start`; sequences go on.
    pub(crate) fn restarted(&self, start: Revision) -> Self {
        // A sequence is left out, so that watchers that wait for it notice the hole.
        Self {
            next: self.next + 1,
            start,
            ..Self::default()
        }
    }

    /// The sequence that the next event will have.
    pub(crate) fn next_sequence(&self) -> u64 {
        self.next
    }

    /// The oldest revision after which everything is known.
    pub(crate) fn start(&self) -> Revision {
        self.start
    }

    /// The number of kept events.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Adds an event; `after` is the index with it applied.
    pub(crate) fn push(&mut self, event: Arc<LogEvent>, at: Instant, after: &ItemIndex) {
        debug_assert_eq!(event.sequence, self.next, "events are numbered without gaps");
        self.next = event.sequence + 1;
        self.bytes += weight(&event);
        self.entries.push_back(LogEntry { event, at });
        if self.next.is_multiple_of(CHECKPOINT_EVERY) {
            self.checkpoints.push_back(Checkpoint {
                next: self.next,
                index: after.clone(),
            });
        }
    }

    /// Forgets what is beyond the bounds.
    pub(crate) fn trim(&mut self, now: Instant) {
        while let Some(oldest) = self.entries.front() {
            let over = |bounds: Bounds| self.entries.len() > bounds.events || self.bytes > bounds.bytes;
            let aged = now.saturating_duration_since(oldest.at) >= KEEP_FOR;
            if !(over(HARD) || aged && over(QUIET)) {
                break;
            }
            self.start = self.start.max(oldest.event.revision());
            self.bytes = self.bytes.saturating_sub(weight(&oldest.event));
            self.entries.pop_front();
        }
        let first = self.first_sequence();
        while self
            .checkpoints
            .front()
            .is_some_and(|checkpoint| checkpoint.next <= first)
        {
            self.checkpoints.pop_front();
        }
    }

    /// The sequence of the first event after `revision`; `None` if the log does not reach back that far.
    pub(crate) fn after(&self, revision: Revision) -> Option<u64> {
        if revision < self.start {
            return None;
        }
        let (mut low, mut high) = (0, self.entries.len());
        while low < high {
            let middle = low.midpoint(high);
            match self.entries.get(middle) {
                Some(entry) if entry.event.revision() <= revision => low = middle + 1,
                Some(_) | None => high = middle,
            }
        }
        Some(self.first_sequence() + u64::try_from(low).unwrap_or(u64::MAX))
    }

    /// The event with this sequence, if it is still kept.
    pub(crate) fn get(&self, sequence: u64) -> Option<&Arc<LogEvent>> {
        let offset = sequence.checked_sub(self.first_sequence())?;
        self.entries
            .get(usize::try_from(offset).ok()?)
            .map(|entry| &entry.event)
    }

    /// Reports whether all events from `sequence` on are still kept.
    pub(crate) fn reaches(&self, sequence: u64) -> bool {
        sequence >= self.first_sequence()
    }

    /// The index as it was at `revision`, made of `index`, which has all events; `None` if that is too long ago.
    pub(crate) fn rewind(&self, index: &ItemIndex, revision: Revision) -> Option<ItemIndex> {
        let first_undone = self.after(revision)?;
        let checkpoint = self
            .checkpoints
            .iter()
            .find(|checkpoint| checkpoint.next >= first_undone);
        let (mut index, mut sequence) = match checkpoint {
            Some(checkpoint) => (checkpoint.index.clone(), checkpoint.next),
            None => (index.clone(), self.next),
        };
        while sequence > first_undone {
            sequence -= 1;
            let event = self.get(sequence)?;
            match &event.previous {
                Some(previous) => index.insert(previous.clone()),
                None => index.remove(&event.item.key),
            };
        }
        Some(index)
    }

    fn first_sequence(&self) -> u64 {
        self.next - u64::try_from(self.entries.len()).unwrap_or(u64::MAX)
    }
}

/// About what an event keeps in memory: the object after it; the one before belongs to the event before.
fn weight(event: &LogEvent) -> usize {
    event.item.bytes.len() + 256
}
