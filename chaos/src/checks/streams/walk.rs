//! Walks one stream beside etcd's history.

use super::Stream;
use crate::{
    checks::{
        Evidence, Ledger, Violation,
        ledger::{LedgerEntry, selects},
    },
    history::{RecordKind, Revision, StreamEnd, WatchEvent},
};

pub(super) fn check(ledger: &Ledger<'_>, stream: &Stream<'_>) -> Vec<Violation> {
    let Some((from, skip)) = beginning(stream) else {
        return Vec::new();
    };
    let mut walk = Walk {
        ledger,
        stream,
        changes: ledger.of_resource(&stream.start.key.resource),
        next: 0,
        from,
        last: from,
        bookmark: 0,
        has_event: false,
        violations: Vec::new(),
    };
    let changes = walk.changes;
    walk.next = changes.partition_point(|place| ledger.entries[*place].entry.revision <= from);
    for (index, event) in &stream.events[skip..] {
        match event.kind {
            RecordKind::Bookmark => walk.bookmark(*index, event.rv),
            RecordKind::Error => {}
            _ => walk.event(*index, event),
        }
    }
    walk.finish();
    walk.violations
}

/// The beginning of the single events: the revision, and how many records come before.
fn beginning(stream: &Stream<'_>) -> Option<(Revision, usize)> {
    match stream.start.from_rv {
        // A client that resumes too far ahead has lost what is between.
        Some(from) => Some((stream.resumes.map_or(from, |reached| reached.min(from)), 0)),
        None => {
            let end = stream.events.iter().position(|(_, event)| event.initial_events_end)?;
            Some((stream.events[end].1.rv, end + 1))
        }
    }
}

struct Walk<'a, 'h> {
    ledger: &'a Ledger<'h>,
    stream: &'a Stream<'h>,
    /// Of the resource.
    changes: &'a [usize],
    /// The place in `changes` of the first one that is not passed.
    next: usize,
    from: Revision,
    /// The newest that was sent or passed over.
    last: Revision,
    bookmark: Revision,
    /// An event has come.
    has_event: bool,
    violations: Vec<Violation>,
}

impl Walk<'_, '_> {
    fn report(&mut self, invariant: u8, why: &str, evidence: impl IntoIterator<Item = Evidence>) {
        let start = self.stream.start;
        let text = format!(
            "stream {} of {} at {}, from {}: {why}",
            start.stream, start.client, start.replica, self.from
        );
        let mut all = vec![Evidence::Watch(self.stream.index)];
        all.extend(evidence);
        self.violations.push(Violation::new(invariant, text, all));
    }

    /// The event that the selector makes of a change, if it matches.
    fn expected(&self, entry: &LedgerEntry<'_>) -> Option<RecordKind> {
        let start = self.stream.start;
        let seen = |entry: &LedgerEntry<'_>| selects(&start.key, &start.selector, entry.entry);
        let before = entry.previous.is_some_and(|place| seen(&self.ledger.entries[place]));
        match (before, seen(entry)) {
            (false, true) => Some(RecordKind::Added),
            (true, true) => Some(RecordKind::Modified),
            (true, false) => Some(RecordKind::Deleted),
            (false, false) => None,
        }
    }

    fn event(&mut self, index: usize, event: &WatchEvent) {
        let rv = event.rv;
        if rv <= self.last {
            let resumed = self.stream.resumes.is_some() && rv <= self.from;
            let why = format!("the change of {rv} came after that of {}", self.last);
            self.report(if resumed { 11 } else { 10 }, &why, [Evidence::Watch(index)]);
            return;
        }
        if rv <= self.bookmark {
            let why = format!("the change of {rv} came after a bookmark of {}", self.bookmark);
            self.report(12, &why, [Evidence::Watch(index)]);
        }
        // Several keys may change at one revision; the traffic never does that, so one event stands for it.
        self.pass_to(rv - 1);
        self.compare(index, event);
        self.pass_over(rv);
        self.last = rv;
        self.has_event = true;
    }

    fn compare(&mut self, index: usize, event: &WatchEvent) {
        let here = self.changes[self.next..]
            .iter()
            .map(|place| &self.ledger.entries[*place]);
        let mut here = here.take_while(|entry| entry.entry.revision == event.rv);
        let found = here.find(|entry| {
            let key = &entry.entry.key;
            key.namespace == event.object.namespace && key.name == event.object.name
        });
        let by_selector = if self.stream.start.selector.is_empty() { 10 } else { 14 };
        let Some(found) = found else {
            if self.ledger.covers(event.rv, event.rv) || self.ledger.head.is_some_and(|head| event.rv > head) {
                let why = format!("an event for {} that never happened", event.rv);
                self.report(10, &why, [Evidence::Watch(index)]);
            }
            return;
        };
        let expected = self.expected(found);
        if expected != Some(event.kind) && self.ledger.covers(0, event.rv) {
            let evidence = [Evidence::Watch(index), Evidence::Truth(found.index)];
            let why = format!("{:?} for {}, which is {expected:?}", event.kind, event.rv);
            self.report(by_selector, &why, evidence);
        }
    }

    fn bookmark(&mut self, index: usize, rv: Revision) {
        if rv < self.last {
            let why = format!("a bookmark of {rv} after the change of {}", self.last);
            self.report(12, &why, [Evidence::Watch(index)]);
            return;
        }
        // What it passes over and comes later is reported then; what never comes, at the next event or at the end.
        self.bookmark = rv;
    }

    /// All events up to here should have been sent: reports those that were not.
    fn pass_to(&mut self, revision: Revision) {
        while let Some(entry) = self.changes.get(self.next).map(|place| &self.ledger.entries[*place]) {
            if entry.entry.revision > revision {
                break;
            }
            self.next += 1;
            // Across a hole the earlier state is unknown.
            let before = entry.previous.map(|place| self.ledger.entries[place].entry.revision);
            if let Some(kind) = self.expected(entry)
                && self.ledger.covers(before.unwrap_or(0), entry.entry.revision)
            {
                let why = format!(
                    "{kind:?} of {} at {} is missing",
                    entry.entry.path, entry.entry.revision
                );
                self.report(self.gap(entry, kind), &why, [Evidence::Truth(entry.index)]);
            }
        }
    }

    fn pass_over(&mut self, revision: Revision) {
        let rest = &self.changes[self.next..];
        self.next += rest.partition_point(|place| self.ledger.entries[*place].entry.revision <= revision);
    }

    /// Which promise a missing event breaks.
    fn gap(&self, entry: &LedgerEntry<'_>, kind: RecordKind) -> u8 {
        let start = self.stream.start;
        let by_label = match kind {
            RecordKind::Added => entry
                .previous
                .is_some_and(|place| !self.ledger.entries[place].entry.deleted),
            RecordKind::Deleted => !entry.entry.deleted,
            _ => false,
        };
        match () {
            () if start.reads_per_second.is_some() => 15,
            // It should have been 410.
            () if entry.entry.revision <= self.ledger.compacted_before(start.at) => 13,
            () if by_label => 14,
            () if self.stream.resumes.is_some() && !self.has_event => 11,
            () => 10,
        }
    }

    /// Checks the events that came up to the last one, and those that did not come up to the revision that is vouched for.
    fn finish(&mut self) {
        let end = self.stream.end.filter(|end| end.how == StreamEnd::Closed);
        let vouched = end.and_then(|end| end.complete_to).unwrap_or(0);
        self.pass_to(vouched.max(self.bookmark));
    }
}
