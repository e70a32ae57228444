//! Invariants 10 to 15: the events of watch streams, compared with what happened.
//!
//! A stream is walked beside etcd's history: each event must be the next one that its selector sees. The streams of one
//! client follow each other, so what is missed between two of them shows at the beginning of the second.

mod gone;
mod walk;

use std::collections::{BTreeMap, HashMap};

use super::{Evidence, Ledger, Violation};
use crate::history::{
    History, ListedItem, RecordKind, Revision, StreamEnd, WatchEnd, WatchEvent, WatchOpened, WatchRecord,
};

/// A stream, put together again.
#[derive(Debug)]
pub(super) struct Stream<'h> {
    pub(super) start: &'h WatchOpened,
    /// The place of the start in [`History::watches`].
    pub(super) index: usize,
    /// Places in [`History::watches`], as they came.
    pub(super) events: Vec<(usize, &'h WatchEvent)>,
    pub(super) end: Option<&'h WatchEnd>,
    /// The state that the client had seen before, if this stream goes on where another ended.
    pub(super) resumes: Option<Revision>,
}

impl Stream<'_> {
    /// Up to where the client has seen everything when the stream ends.
    fn reached(&self) -> Option<Revision> {
        let revisions = self.events.iter().filter(|(_, event)| event.kind != RecordKind::Error);
        let newest = revisions.map(|(_, event)| event.rv).max();
        newest.max(self.start.from_rv)
    }
}

/// All streams, in the order in which they were asked for.
pub(super) fn collect(history: &History) -> Vec<Stream<'_>> {
    let mut streams: BTreeMap<u64, Stream<'_>> = BTreeMap::new();
    for (index, record) in history.watches.iter().enumerate() {
        match record {
            WatchRecord::Start(start) => {
                let stream = Stream {
                    start,
                    index,
                    events: Vec::new(),
                    end: None,
                    resumes: None,
                };
                streams.insert(start.stream, stream);
            }
            WatchRecord::Event(event) => {
                if let Some(stream) = streams.get_mut(&event.stream) {
                    stream.events.push((index, event));
                }
            }
            WatchRecord::End(end) => {
                if let Some(stream) = streams.get_mut(&end.stream) {
                    stream.end = Some(end);
                }
            }
        }
    }
    let mut streams: Vec<_> = streams.into_values().collect();
    streams.sort_by_key(|stream| (stream.start.at, stream.start.stream));
    let mut reached: HashMap<&str, Option<Revision>> = HashMap::new();
    for stream in &mut streams {
        let client = stream.start.client.as_str();
        // Who begins with the state, or has listed, owes nothing to what was before.
        stream.resumes = reached
            .get(client)
            .copied()
            .flatten()
            .filter(|_| stream.start.from_rv.is_some());
        let gone = stream.end.is_some_and(|end| end.how == StreamEnd::Gone410);
        let known = stream.reached().max(stream.resumes);
        reached.insert(client, known.filter(|_| !gone));
    }
    streams
}

pub(super) fn check(ledger: &Ledger<'_>, streams: &[Stream<'_>]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for stream in streams {
        violations.extend(walk::check(ledger, stream));
        violations.extend(gone::check(ledger, stream));
    }
    violations
}

/// The state that a stream had sent when it said that this is all: the revision, the objects, the
/// records.
pub(super) fn initial_state<'h>(
    history: &'h History,
    stream: &Stream<'h>,
) -> Option<(Revision, Vec<&'h ListedItem>, Vec<Evidence>)> {
    if stream.start.from_rv.is_some() {
        return None;
    }
    let end = stream.events.iter().position(|(_, event)| event.initial_events_end)?;
    let (last, bookmark) = stream.events[end];
    let mut state: BTreeMap<(&str, &str), &ListedItem> = BTreeMap::new();
    for (index, _) in &stream.events[..end] {
        let WatchRecord::Event(event) = &history.watches[*index] else {
            continue;
        };
        let name = (event.object.namespace.as_str(), event.object.name.as_str());
        match event.kind {
            RecordKind::Added | RecordKind::Modified => _ = state.insert(name, &event.object),
            RecordKind::Deleted => _ = state.remove(&name),
            RecordKind::Bookmark | RecordKind::Error => {}
        }
    }
    let evidence = vec![Evidence::Watch(stream.index), Evidence::Watch(last)];
    Some((bookmark.rv, state.into_values().collect(), evidence))
}
