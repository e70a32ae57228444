//! etcd's history in order, with the questions that checkers ask of it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::history::{History, Key, Nanos, RecordKind, RecordedVerb, Revision, TruthEntry, TruthRecord, WatchRecord};

/// A change of one key, known from one member or from several.
#[derive(Debug)]
pub(crate) struct LedgerEntry<'h> {
    /// As the member that reported it first recorded it.
    pub(crate) entry: &'h TruthEntry,
    /// Its place in [`History::truth`].
    pub(crate) index: usize,
    /// The change of the same key before it, as a place in [`Ledger::entries`].
    pub(crate) previous: Option<usize>,
    /// The change of the same key after it.
    pub(crate) next: Option<usize>,
    /// The time when the first member reported it: it was committed by then.
    pub(crate) at: Nanos,
}

/// History with indexes.
#[derive(Debug)]
pub(crate) struct Ledger<'h> {
    pub(crate) history: &'h History,
    /// By revision, then path.
    pub(crate) entries: Vec<LedgerEntry<'h>>,
    /// Places in `entries`, by revision.
    by_key: HashMap<&'h Key, Vec<usize>>,
    by_resource: HashMap<&'h str, Vec<usize>>,
    pub(crate) by_attempt: HashMap<&'h str, Vec<usize>>,
    /// Places in [`History::ops`].
    pub(crate) op_of_attempt: HashMap<&'h str, usize>,
    /// The newest revision at the end, if it was read.
    pub(crate) head: Option<Revision>,
    /// Revisions that no member recorded, inclusive.
    holes: Vec<(Revision, Revision)>,
    /// (when acknowledged, revision), by time.
    compactions: Vec<(Nanos, Revision)>,
    /// The revisions that were known to be committed, by time.
    known: ValueTimeline,
    /// Changes that members report differently: places in [`History::truth`].
    pub(crate) disagreements: Vec<(usize, usize)>,
}

/// The greatest value reported up to a moment.
#[derive(Debug, Default)]
pub(crate) struct ValueTimeline(Vec<(Nanos, Revision)>);

impl ValueTimeline {
    pub(crate) fn new(mut reported: Vec<(Nanos, Revision)>) -> Self {
        reported.sort_unstable();
        let mut greatest = 0;
        for (_, value) in &mut reported {
            greatest = greatest.max(*value);
            *value = greatest;
        }
        Self(reported)
    }

    /// The greatest reported strictly before.
    pub(crate) fn before(&self, moment: Nanos) -> Revision {
        let place = self.0.partition_point(|(at, _)| *at < moment);
        place.checked_sub(1).map_or(0, |last| self.0[last].1)
    }
}

impl<'h> Ledger<'h> {
    pub(crate) fn new(history: &'h History) -> Self {
        let (entries, disagreements) = merge(history);
        let mut ledger = Self {
            history,
            entries,
            by_key: HashMap::new(),
            by_resource: HashMap::new(),
            by_attempt: HashMap::new(),
            op_of_attempt: attempts(history),
            head: None,
            holes: holes(history),
            compactions: Vec::new(),
            known: ValueTimeline::default(),
            disagreements,
        };
        ledger.index();
        ledger.learn_ends();
        ledger.known = ledger.timeline();
        ledger
    }

    fn index(&mut self) {
        for place in 0..self.entries.len() {
            let entry = self.entries[place].entry;
            if entry.key.resource.is_empty() {
                continue;
            }
            let same_key = self.by_key.entry(&entry.key).or_default();
            let previous = same_key.last().copied();
            same_key.push(place);
            self.by_resource.entry(&entry.key.resource).or_default().push(place);
            if let Some(attempt) = &entry.attempt {
                self.by_attempt.entry(attempt).or_default().push(place);
            }
            self.entries[place].previous = previous;
            if let Some(previous) = previous {
                self.entries[previous].next = Some(place);
            }
        }
    }

    fn learn_ends(&mut self) {
        for record in &self.history.truth {
            match record {
                TruthRecord::End { revision, .. } => self.head = self.head.max(Some(*revision)),
                TruthRecord::Compacted { revision, called, .. } => self.compactions.push((*called, *revision)),
                TruthRecord::Entry(_) | TruthRecord::Gap { .. } => {}
            }
        }
        self.compactions.sort_unstable();
    }

    /// Builds the timeline: a revision that a client read was committed when it was read.
    fn timeline(&self) -> ValueTimeline {
        let mut reported: Vec<_> = self
            .entries
            .iter()
            .map(|entry| (entry.at, entry.entry.revision))
            .collect();
        let answered = self
            .history
            .ops
            .iter()
            .filter(|op| op.outcome == crate::history::Outcome::Ok);
        reported.extend(answered.filter_map(|op| Some((op.returned, op.rv?))));
        reported.extend(self.history.watches.iter().filter_map(|record| match record {
            WatchRecord::Event(event) if event.kind != RecordKind::Error => Some((event.at, event.rv)),
            _ => None,
        }));
        ValueTimeline::new(reported)
    }

    /// The newest revision that was known to be committed before this moment: a linearizable read that begins then
    /// must not be older.
    pub(crate) fn known_before(&self, moment: Nanos) -> Revision {
        self.known.before(moment)
    }

    /// Returns true if every change from one revision to another, inclusive, is in the ledger.
    pub(crate) fn covers(&self, from: Revision, to: Revision) -> bool {
        let is_complete = self.head.is_some_and(|head| to <= head);
        is_complete && self.holes.iter().all(|(first, last)| *last < from || to < *first)
    }

    /// All changes of one key, as places in [`Ledger::entries`].
    pub(crate) fn of_key(&self, key: &Key) -> &[usize] {
        self.by_key.get(key).map_or(&[], Vec::as_slice)
    }

    /// All changes of one resource.
    pub(crate) fn of_resource(&self, resource: &str) -> &[usize] {
        self.by_resource.get(resource).map_or(&[], Vec::as_slice)
    }

    /// The change of a key at exactly this revision.
    pub(crate) fn at(&self, key: &Key, revision: Revision) -> Option<&LedgerEntry<'h>> {
        let places = self.of_key(key);
        let found = places.binary_search_by_key(&revision, |place| self.entries[*place].entry.revision);
        found.ok().map(|found| &self.entries[places[found]])
    }

    /// The revision of an entry, by its place in [`History::truth`].
    pub(crate) fn revision_of(&self, index: usize) -> Revision {
        match self.history.truth.get(index) {
            Some(TruthRecord::Entry(entry)) => entry.revision,
            _ => 0,
        }
    }

    /// Up to where history may have been dropped by a moment.
    pub(crate) fn compacted_before(&self, moment: Nanos) -> Revision {
        let asked = self.compactions.iter().filter(|(called, _)| *called < moment);
        asked.map(|(_, revision)| *revision).max().unwrap_or(0)
    }

    /// Returns true if the system writes this key of its own accord.
    pub(crate) fn is_internal(&self, path: &str) -> bool {
        let internal = &self.history.run.internal;
        internal.iter().any(|prefix| path.starts_with(prefix.as_str()))
    }
}

/// Returns true if an object lies in what a list or a watch selects.
pub(crate) fn selects(key: &Key, selector: &BTreeMap<String, String>, entry: &TruthEntry) -> bool {
    let part = |wanted: &str, is: &str| wanted.is_empty() || wanted == is;
    !entry.deleted
        && part(&key.namespace, &entry.key.namespace)
        && part(&key.name, &entry.key.name)
        && selector
            .iter()
            .all(|(name, value)| entry.labels.get(name) == Some(value))
}

fn merge(history: &History) -> (Vec<LedgerEntry<'_>>, Vec<(usize, usize)>) {
    let mut merged: BTreeMap<(Revision, &str), LedgerEntry<'_>> = BTreeMap::new();
    let mut disagreements = Vec::new();
    for (index, record) in history.truth.iter().enumerate() {
        let TruthRecord::Entry(entry) = record else { continue };
        let fresh = LedgerEntry {
            entry,
            index,
            previous: None,
            next: None,
            at: entry.at,
        };
        let kept = merged.entry((entry.revision, &entry.path)).or_insert(fresh);
        kept.at = kept.at.min(entry.at);
        let state = |entry: &TruthEntry| (entry.deleted, entry.hash);
        if state(kept.entry) != state(entry) {
            disagreements.push((kept.index, index));
        }
    }
    (merged.into_values().collect(), disagreements)
}

fn attempts(history: &History) -> HashMap<&str, usize> {
    let writes = history.ops.iter().enumerate().filter(|(_, op)| op.verb.writes());
    writes
        .filter(|(_, op)| op.verb != RecordedVerb::Delete)
        .map(|(index, op)| (op.attempt.as_str(), index))
        .collect()
}

/// The events in a gap of every member. With no member at all, nothing is covered, but then there is no head either.
fn holes(history: &History) -> Vec<(Revision, Revision)> {
    let mut members = BTreeSet::new();
    let mut gaps: BTreeMap<&str, Vec<(Revision, Revision)>> = BTreeMap::new();
    for record in &history.truth {
        match record {
            TruthRecord::Entry(entry) => _ = members.insert(entry.member.as_str()),
            TruthRecord::End { member, .. } => _ = members.insert(member.as_str()),
            TruthRecord::Gap { member, after, until } => {
                let inside = (after.saturating_add(1), until.saturating_sub(1));
                gaps.entry(member).or_default().push(inside);
            }
            TruthRecord::Compacted { .. } => {}
        }
    }
    let whole = vec![(0, Revision::MAX)];
    members.iter().fold(whole, |missed, member| {
        let own = gaps.get(member).map_or(&[][..], Vec::as_slice);
        let pairs = missed.iter().flat_map(|one| own.iter().map(move |other| (one, other)));
        pairs
            .map(|(one, other)| (one.0.max(other.0), one.1.min(other.1)))
            .filter(|(first, last)| first <= last)
            .collect()
    })
}
