//! Finds the records that a harm is done to.

use std::ops::Range;

use rand::{rngs::StdRng, seq::IndexedRandom};

use crate::{
    checks::generate::SLOW,
    history::{
        DutySample, FaultRecord, FenceStamp, History, Nanos, Op, Outcome, Purpose, RecordKind, RecordedVerb,
        ReplicaSample, SECOND, SampleRecord, TruthEntry, TruthRecord, WatchEvent, WatchOpened, WatchRecord,
    },
};

pub(super) fn event(history: &mut History, index: usize) -> &mut WatchEvent {
    match &mut history.watches[index] {
        WatchRecord::Event(event) => event,
        other => panic!("not an event: {other:?}"),
    }
}

/// The places of a client's events, without bookmarks.
pub(super) fn places_of(history: &History, client: &str) -> Vec<usize> {
    let mut stream = None;
    let mut places = Vec::new();
    for (place, record) in history.watches.iter().enumerate() {
        match record {
            WatchRecord::Start(start) => stream = (start.client == client).then_some(start.stream),
            WatchRecord::Event(event) if Some(event.stream) == stream && event.kind != RecordKind::Bookmark => {
                places.push(place);
            }
            _ => {}
        }
    }
    places
}

/// An event that is neither the first of its stream nor beside a bookmark that would show more.
pub(super) fn pick(history: &History, rng: &mut StdRng, wanted: fn(&WatchOpened, &WatchEvent) -> bool) -> usize {
    let mut found = Vec::new();
    let mut current = None;
    for (place, record) in history.watches.iter().enumerate() {
        match record {
            WatchRecord::Start(start) => current = Some((start, 0)),
            WatchRecord::Event(event) if event.kind != RecordKind::Bookmark => {
                if let Some((start, events)) = &mut current {
                    *events += 1;
                    let followed = matches!(history.watches.get(place + 1), Some(WatchRecord::Event(_)));
                    if *events > 2 && followed && wanted(start, event) {
                        found.push(place);
                    }
                }
            }
            _ => {}
        }
    }
    *found.choose(rng).expect("there is such an event")
}

/// The first event of a stream that resumes another.
pub(super) fn first_after_a_hop(history: &History, rng: &mut StdRng) -> usize {
    let hops = (1..history.watches.len() - 1).filter(|place| {
        let start = matches!(&history.watches[*place], WatchRecord::Start(start) if start.client == "watch-all");
        let resumes = matches!(&history.watches[*place - 1], WatchRecord::End(_));
        let comes = |place: usize| {
            matches!(&history.watches[place], WatchRecord::Event(event) if event.kind != RecordKind::Bookmark)
        };
        start && resumes && comes(*place + 1) && place + 2 < history.watches.len() && comes(*place + 2)
    });
    let hops: Vec<_> = hops.collect();
    hops.choose(rng).expect("there is a hop") + 1
}

/// A bookmark in the middle of a stream, right before an event.
pub(super) fn bookmark_before_event(history: &History) -> usize {
    let kind = |place: usize| match &history.watches[place] {
        WatchRecord::Event(event) if !event.initial_events_end => Some(event.kind),
        _ => None,
    };
    let is_event = |place| kind(place).is_some_and(|kind| kind != RecordKind::Bookmark);
    let mut places = 1..history.watches.len() - 1;
    let found =
        places.find(|place| kind(*place) == Some(RecordKind::Bookmark) && is_event(place - 1) && is_event(place + 1));
    found.expect("there is such a bookmark")
}

pub(super) fn samples(history: &mut History) -> impl Iterator<Item = &mut ReplicaSample> {
    history.samples.iter_mut().filter_map(|record| match record {
        SampleRecord::Replica(sample) => Some(sample),
        SampleRecord::Duty(_) => None,
    })
}

pub(super) fn duties(history: &mut History) -> impl Iterator<Item = &mut DutySample> {
    history.samples.iter_mut().filter_map(|record| match record {
        SampleRecord::Duty(sample) => Some(sample),
        SampleRecord::Replica(_) => None,
    })
}

pub(super) fn entries(history: &History) -> impl Iterator<Item = &TruthEntry> {
    history.truth.iter().filter_map(|record| match record {
        TruthRecord::Entry(entry) => Some(entry),
        _ => None,
    })
}

/// The stamps of one entry that is like this, as all members report it.
pub(super) fn stamps(history: &mut History, wanted: impl Fn(&FenceStamp) -> bool, skip: usize) -> Vec<&mut FenceStamp> {
    let like = entries(history).filter(|entry| entry.fence.as_ref().is_some_and(&wanted));
    let revision = like
        .map(|entry| entry.revision)
        .nth(skip)
        .expect("there is such an entry");
    let found = history.truth.iter_mut().filter_map(|record| match record {
        TruthRecord::Entry(entry) if entry.revision == revision => entry.fence.as_mut(),
        _ => None,
    });
    found.collect()
}

/// Slow watchers for a while in which nothing else is wrong.
pub(in crate::checks::planted) fn slow_watchers() -> FaultRecord {
    FaultRecord {
        name: "slow-watchers".to_owned(),
        at: SLOW.0,
        until: SLOW.1,
        observed: true,
        slow_watchers: Some(0..SLOW.0),
        ..FaultRecord::default()
    }
}

/// Writes that probes make of one replica are refused until so long after the beginning.
const REFUSED_UNTIL: Nanos = 6 * SECOND;

/// One replica refuses for a while whatever probes write.
pub(in crate::checks::planted) fn refuse_writes(history: &mut History) {
    for op in &mut history.ops {
        if op.replica == "r1" && op.purpose == Purpose::Probe && op.verb.writes() && op.called < REFUSED_UNTIL {
            (op.code, op.outcome) = (503, Outcome::Unknown);
        }
    }
}

/// A store that takes no writes meanwhile.
pub(in crate::checks::planted) fn read_only() -> FaultRecord {
    FaultRecord {
        name: "etcd-full".to_owned(),
        until: REFUSED_UNTIL + 3 * SECOND,
        observed: true,
        read_only: true,
        ..FaultRecord::default()
    }
}

/// A wall clock that is wrong for a while in which no request fails and nothing else is wrong.
pub(in crate::checks::planted) fn wrong_clock(history: &History) -> FaultRecord {
    let fails = |at: Nanos| {
        let met = |op: &&Op| op.called <= at + SECOND / 2 && at <= op.returned;
        history
            .ops
            .iter()
            .filter(met)
            .any(|op| op.outcome == Outcome::Unknown || op.code == 429)
    };
    let at = (SLOW.0..SLOW.1).step_by(10_000_000).find(|at| !fails(*at));
    let at = at.expect("half a second without a failure");
    FaultRecord {
        name: "a wall clock jumps".to_owned(),
        target: "r1".to_owned(),
        at,
        until: at + SECOND / 2,
        observed: true,
        times_only: true,
        ..FaultRecord::default()
    }
}

/// A read of the load in this time.
pub(super) fn read_during(history: &mut History, time: Range<Nanos>) -> &mut Op {
    let found = history.ops.iter_mut().find(|op| {
        let during = op.called > time.start && op.returned < time.end;
        during && op.purpose == Purpose::Traffic && op.verb == RecordedVerb::Get && op.outcome == Outcome::Ok
    });
    found.expect("a read")
}
