//! The input that each checker had. A promise about which nothing was recorded is not kept, it is not tested: such a run is
//! invalid.

use std::collections::HashMap;

use super::{
    INVARIANTS, Ledger,
    access::{fewest_after_revocations, of_kind},
    audit::acknowledged,
    liveness::{heals, installed, replica_samples},
    promise,
    resources::can_be_compared,
};
use crate::history::{
    AccessKind, FaultRecord, History, Op, Outcome, Purpose, RecordKind, RecordedVerb, SampleRecord, StreamEnd,
    TruthEntry, WatchEvent, WatchOpened, WatchRecord,
};

/// The promises of this run about which nothing was recorded, in words.
pub(super) fn missing(ledger: &Ledger<'_>) -> Vec<String> {
    let judged = INVARIANTS.iter().map(|(number, _)| *number);
    let judged = judged.filter(|number| is_tested(ledger.history, *number));
    judged
        .filter(|number| count(ledger, *number) == 0)
        .map(|number| {
            format!(
                "nothing was recorded that invariant {number} ({}) could fail by",
                promise(number)
            )
        })
        .collect()
}

/// Returns true if a run is to say something about a promise. Four are about faults that few experiments have, two about logs
/// that older histories lack.
fn is_tested(history: &History, invariant: u8) -> bool {
    match invariant {
        21 => !heals(history).is_empty(),
        25 | 26 => history.run.logs.is_some(),
        28 => installed(history).any(|(_, fault)| fault.planned),
        30 => installed(history).any(|(_, fault)| fault.times_only),
        32 => installed(history).any(|(_, fault)| fault.guarded.is_some()),
        _ => true,
    }
}

/// The number of records that the checker of a promise has judged.
fn count(ledger: &Ledger<'_>, invariant: u8) -> usize {
    let history = ledger.history;
    match invariant {
        1 | 4 => ops(history, |op| op.verb.writes() && op.outcome == Outcome::Ok),
        2 => ops(history, |op| op.verb.writes() && op.outcome == Outcome::Fail),
        3 => entries(ledger, |entry| entry.attempt.is_some()),
        5 => ops(history, |op| read(op, RecordedVerb::Get) && op.request_rv.is_none()),
        6 => ops(history, |op| read(op, RecordedVerb::List) && op.request_rv.is_none()),
        7 => ops(history, |op| {
            let at_least = op.request_rv.as_ref().is_some_and(|rv| rv != "0");
            at_least && (read(op, RecordedVerb::Get) || read(op, RecordedVerb::List))
        }),
        8 => ops(history, |op| {
            op.verb == RecordedVerb::Update && op.outcome == Outcome::Ok && op.request_rv.is_some()
        }),
        9 => ops(history, |op| op.rv.is_some()),
        10 => events(history, |_, event| event.kind != RecordKind::Bookmark),
        11 => hops(history),
        12 => events(history, |_, event| event.kind == RecordKind::Bookmark),
        13 => started(history, |start| start.from_rv.is_some()),
        14 => events(history, |start, _| !start.selector.is_empty()),
        15 if !can_be_compared(history) => 0,
        15 => started(history, |start| start.reads_per_second.is_some()),
        16 => history.caches.iter().filter(|cache| cache.settled).count(),
        17 => entries(ledger, |entry| entry.fence.as_ref().is_some_and(|stamp| !stamp.raised)),
        18 => transitions(ledger),
        21 => ops(history, |op| heals(history).iter().any(|heal| op.called >= *heal)),
        22 => of_kind(history, AccessKind::Forbidden)
            .filter(|(_, record)| record.code != 0)
            .count(),
        23 => fewest_after_revocations(history),
        24 => acknowledged(history).count().min(history.audit.len()),
        25 | 26 => {
            let lines = history.run.logs.as_ref().map_or(0, |logs| logs.lines);
            usize::try_from(lines).unwrap_or(usize::MAX)
        }
        27 => replica_samples(history)
            .filter(|(_, sample)| sample.ready == Some(true))
            .count(),
        28 => during(history, |fault| fault.planned),
        29 => replica_samples(history).filter(|(_, sample)| sample.rss > 0).count(),
        30 => during(history, |fault| fault.times_only),
        31 => ops(history, |op| op.code != 0),
        32 => guarded(history),
        _ => 0,
    }
}

/// Writes that a webhook guards which fails.
fn guarded(history: &History) -> usize {
    let writes = installed(history).filter_map(|(_, fault)| fault.guarded.as_ref());
    writes
        .map(|writes| usize::try_from(writes.attempts).unwrap_or(usize::MAX))
        .sum()
}

fn ops(history: &History, is_judged: impl Fn(&Op) -> bool) -> usize {
    history.ops.iter().filter(|op| is_judged(op)).count()
}

fn read(op: &Op, verb: RecordedVerb) -> bool {
    op.verb == verb && op.outcome == Outcome::Ok
}

fn entries(ledger: &Ledger<'_>, is_judged: impl Fn(&TruthEntry) -> bool) -> usize {
    ledger.entries.iter().filter(|found| is_judged(found.entry)).count()
}

fn started(history: &History, is_judged: impl Fn(&WatchOpened) -> bool) -> usize {
    starts(history).filter(|start| is_judged(start)).count()
}

fn starts(history: &History) -> impl Iterator<Item = &WatchOpened> {
    history.watches.iter().filter_map(|record| match record {
        WatchRecord::Start(start) => Some(start),
        _ => None,
    })
}

fn events(history: &History, is_judged: impl Fn(&WatchOpened, &WatchEvent) -> bool) -> usize {
    let by_stream: HashMap<u64, &WatchOpened> = starts(history).map(|start| (start.stream, start)).collect();
    let events = history.watches.iter().filter_map(|record| match record {
        WatchRecord::Event(event) => Some((*by_stream.get(&event.stream)?, event)),
        _ => None,
    });
    events
        .filter(|(start, event)| event.kind != RecordKind::Error && is_judged(start, event))
        .count()
}

/// Streams that go on at another replica than where the client's stream before ended.
fn hops(history: &History) -> usize {
    let mut last: HashMap<&str, (&str, bool)> = HashMap::new();
    let gone: HashMap<u64, bool> = history
        .watches
        .iter()
        .filter_map(|record| match record {
            WatchRecord::End(end) => Some((end.stream, end.how == StreamEnd::Gone410)),
            _ => None,
        })
        .collect();
    let mut hops = 0;
    for start in starts(history) {
        let is_gone = gone.get(&start.stream).copied().unwrap_or_default();
        let before = last.insert(&start.client, (&start.replica, is_gone));
        let goes_on = before.is_some_and(|(replica, was_gone)| replica != start.replica && !was_gone);
        hops += usize::from(goes_on && start.from_rv.is_some());
    }
    hops
}

/// Elections' leases that changed hands while duties were held.
fn transitions(ledger: &Ledger<'_>) -> usize {
    let changed = ledger.entries.iter().filter(|found| {
        let before = found
            .previous
            .and_then(|place| ledger.entries[place].entry.lease.as_ref());
        let (Some(before), Some(now)) = (before, &found.entry.lease) else {
            return false;
        };
        !now.holder.is_empty() && now.holder != before.holder
    });
    let samples = ledger.history.samples.iter();
    let held = samples.filter(|record| matches!(record, SampleRecord::Duty(_))).count();
    changed.count().min(held)
}

/// Requests of the load under a fault of a kind.
fn during(history: &History, of_kind: fn(&FaultRecord) -> bool) -> usize {
    let faults: Vec<_> = installed(history).filter(|(_, fault)| of_kind(fault)).collect();
    ops(history, |op| {
        let meets = |fault: &FaultRecord| op.called <= fault.until && fault.at <= op.returned;
        op.purpose == Purpose::Traffic && faults.iter().any(|(_, fault)| meets(fault))
    })
}
