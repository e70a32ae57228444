//! Invariants 21, 27 and 28: the system works, and says whether it does.

use super::{Evidence, Violation};
use crate::history::{
    FaultRecord, FaultResult, History, Nanos, Op, Outcome, Purpose, RecordedVerb, ReplicaSample, SampleRecord,
    StreamEnd, WatchRecord,
};

pub(super) fn check(history: &History) -> Vec<Violation> {
    let mut violations = works_again(history);
    violations.extend(ready_and_not_working(history));
    violations.extend(ready_under_a_fault(history));
    violations.extend(planned_stops(history));
    violations
}

/// The times when a fault, or several in a row, had healed and the system was left alone for as long as it may need.
pub(super) fn heals(history: &History) -> Vec<Nanos> {
    let patience = history.run.limits.liveness;
    let mut faults: Vec<_> = installed(history).map(|(_, fault)| (fault.at, fault.until)).collect();
    faults.sort_unstable();
    let mut heals: Vec<Nanos> = Vec::new();
    for (at, until) in faults {
        match heals.last_mut() {
            Some(last) if at <= last.saturating_add(patience) => *last = until.max(*last),
            _ => heals.push(until),
        }
    }
    heals.retain(|heal| heal.saturating_add(patience) <= history.run.ended);
    heals
}

/// The longest time of a client's request that was over before the first fault.
fn slowest_before_faults(history: &History) -> Nanos {
    let first = installed(history).map(|(_, fault)| fault.at).min().unwrap_or(0);
    let before = history.ops.iter().filter(|op| {
        op.purpose == Purpose::Traffic && op.verb != RecordedVerb::Watch && op.returned < first && !failed(op)
    });
    before.map(|op| op.returned - op.called).max().unwrap_or(0)
}

pub(super) fn installed(history: &History) -> impl Iterator<Item = (usize, &FaultRecord)> {
    let faults = history.faults.iter().enumerate();
    faults.filter(|(_, fault)| fault.result == FaultResult::Installed)
}

pub(super) fn replica_samples(history: &History) -> impl Iterator<Item = (usize, &ReplicaSample)> {
    let samples = history.samples.iter().enumerate();
    samples.filter_map(|(index, record)| match record {
        SampleRecord::Replica(sample) => Some((index, sample)),
        SampleRecord::Duty(_) => None,
    })
}

/// 21: after a heal, a write and a read succeed at each replica, and all name one leader.
fn works_again(history: &History) -> Vec<Violation> {
    let has_group = replica_samples(history).any(|(_, sample)| sample.leader.is_some());
    let mut violations = Vec::new();
    for heal in heals(history) {
        let window = heal..=heal + history.run.limits.liveness;
        for replica in &history.run.replicas {
            let asked = history.ops.iter().enumerate();
            // What is read from memory shows nothing.
            let asked = asked.filter(|(_, op)| op.request_rv.as_deref() != Some("0"));
            let asked = asked.filter(|(_, op)| op.replica == *replica && window.contains(&op.called));
            let asked: Vec<_> = asked.collect();
            let works = |writes: bool| {
                let mut kind = asked.iter().filter(|(_, op)| op.verb.writes() == writes).peekable();
                // There was no probe: that makes the run invalid, and shows nothing.
                kind.peek().is_none() || kind.any(|(_, op)| op.outcome == Outcome::Ok && window.contains(&op.returned))
            };
            for (writes, what) in [(true, "write"), (false, "read")] {
                if !works(writes) {
                    let evidence: Vec<_> = asked.iter().map(|(index, _)| Evidence::Op(*index)).take(10).collect();
                    let text = format!("no {what} succeeded at {replica} after the heal at {}", seconds(heal));
                    violations.push(Violation::new(21, text, evidence));
                }
            }
        }
        if has_group && !agree_on_a_leader(history, *window.end()) {
            let text = format!("no single leader after the heal at {}", seconds(heal));
            violations.push(Violation::new(21, text, []));
        }
    }
    violations
}

/// Returns true if the last looks at the replicas before a moment show one leader.
fn agree_on_a_leader(history: &History, moment: Nanos) -> bool {
    let last = |replica: &String| {
        let looks = replica_samples(history).map(|(_, sample)| sample);
        let looks = looks.filter(|sample| sample.replica == *replica && sample.at <= moment);
        looks.max_by_key(|sample| sample.at)
    };
    let mut leaders = history
        .run
        .replicas
        .iter()
        .map(|replica| last(replica).and_then(|sample| sample.leader));
    let Some(first) = leaders.next() else { return true };
    first.is_some() && leaders.all(|leader| leader == first)
}

fn seconds(at: Nanos) -> String {
    format!("{}.{:03} s", at / 1_000_000_000, at / 1_000_000 % 1_000)
}

/// 27: a ready replica takes writes. Judged when probes have failed in a row for longer than `/readyz` may lag.
fn ready_and_not_working(history: &History) -> Vec<Violation> {
    let limits = &history.run.limits;
    let mut violations = Vec::new();
    for replica in &history.run.replicas {
        let ops = history.ops.iter().enumerate();
        let mut probes: Vec<_> = ops
            .filter(|(_, op)| op.purpose == Purpose::Probe && op.verb.writes() && op.replica == *replica)
            .collect();
        probes.sort_by_key(|(_, op)| op.called);
        let mut failing: Option<&Op> = None;
        for (index, probe) in probes {
            let in_time = probe.returned - probe.called <= limits.ready_probe;
            if in_time && (!failed(probe) || store_takes_no_writes(history, probe)) {
                failing = None;
                continue;
            }
            let since = *failing.get_or_insert(probe);
            let lie = replica_samples(history).find(|(_, sample)| {
                let late = since.called.saturating_add(limits.ready_lag);
                sample.replica == *replica
                    && sample.ready == Some(true)
                    && sample.called >= late
                    && sample.at <= probe.called
            });
            if let Some((shown, sample)) = lie {
                let text = format!(
                    "{replica} said at {} that it is ready; writes failed there since {}",
                    seconds(sample.at),
                    seconds(since.called)
                );
                violations.push(Violation::new(27, text, [Evidence::Sample(shown), Evidence::Op(index)]));
                // One violation is reported once, not with each probe.
                failing = None;
            }
        }
    }
    violations
}

/// Returns true if it is refused because the store takes no writes at all. To be unready for that would end reads, too.
fn store_takes_no_writes(history: &History, probe: &Op) -> bool {
    let during = |fault: &FaultRecord| fault.read_only && (fault.at..=fault.until).contains(&probe.returned);
    probe.code == 503 && installed(history).any(|(_, fault)| during(fault))
}

/// Returns true if a user would call it an error. A 409 or a 404 is an answer.
pub(crate) fn failed(op: &Op) -> bool {
    op.outcome == Outcome::Unknown || op.code == 429
}

/// 27: a replica that was cut off from what it needs does not say that it is ready.
fn ready_under_a_fault(history: &History) -> Vec<Violation> {
    let lag = history.run.limits.ready_lag;
    let mut violations = Vec::new();
    for (place, fault) in installed(history).filter(|(_, fault)| fault.observed) {
        // A replica may be ready again before the fault counts as healed: healing waits for just that.
        let lifted = fault.lifted.unwrap_or(fault.until);
        for replica in &fault.unready {
            let lie = replica_samples(history).find(|(_, sample)| {
                let during = sample.called >= fault.at.saturating_add(lag) && sample.at < lifted;
                sample.replica == *replica && sample.ready == Some(true) && during
            });
            if let Some((index, sample)) = lie {
                let (name, at) = (&fault.name, seconds(sample.at));
                let text = format!(
                    "{replica} said at {at} that it is ready, under {name} of {}",
                    fault.target
                );
                violations.push(Violation::new(
                    27,
                    text,
                    [Evidence::Fault(place), Evidence::Sample(index)],
                ));
            }
        }
    }
    violations
}

/// 28: nothing fails or waits while a replica stops as planned, unless something else was broken too. The limit of a wait is what
/// the stop may add to the slowest request before any fault, as a machine without an idle processor is slow all the time.
fn planned_stops(history: &History) -> Vec<Violation> {
    let mut violations = Vec::new();
    let limit = history.run.limits.planned_request + slowest_before_faults(history);
    for (place, fault) in installed(history).filter(|(_, fault)| fault.planned) {
        let meets = |other: &FaultRecord| other.at <= fault.until && fault.at <= other.until;
        if installed(history).any(|(_, other)| !other.planned && meets(other)) {
            continue;
        }
        for (index, op) in history.ops.iter().enumerate() {
            let during = op.called <= fault.until && fault.at <= op.returned;
            if op.purpose != Purpose::Traffic || op.verb == RecordedVerb::Watch || !during {
                continue;
            }
            let took = op.returned - op.called;
            let why = match () {
                () if failed(op) => format!(
                    "failed ({}{}{})",
                    op.code,
                    if op.error.is_empty() { "" } else { " " },
                    op.error
                ),
                () if took > limit => format!("took {}", seconds(took)),
                () => continue,
            };
            let text = format!(
                "a request of {} {why} during a planned stop of {}",
                op.client, fault.target
            );
            violations.push(Violation::new(28, text, [Evidence::Fault(place), Evidence::Op(index)]));
        }
        for (index, record) in history.watches.iter().enumerate() {
            if let WatchRecord::End(end) = record
                && (fault.at..=fault.until).contains(&end.at)
                && matches!(end.how, StreamEnd::Gone410 | StreamEnd::Refused)
            {
                let text = format!("stream {} ended with {:?} during a planned stop", end.stream, end.how);
                violations.push(Violation::new(
                    28,
                    text,
                    [Evidence::Fault(place), Evidence::Watch(index)],
                ));
            }
        }
    }
    violations
}
