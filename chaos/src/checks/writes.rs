//! Invariants 1, 2, 3, 4 and 8: what became of each attempt to write.

use std::collections::HashMap;

use super::{Evidence, Ledger, Violation};
use crate::history::{Key, Nanos, Op, Outcome, RecordedVerb, Revision};

pub(super) fn check(ledger: &Ledger<'_>) -> Vec<Violation> {
    let mut violations = acknowledged(ledger);
    violations.extend(definite_failures(ledger));
    violations.extend(causes(ledger));
    violations.extend(deletions_have_causes(ledger));
    violations.extend(real_time_order(ledger));
    violations.extend(lost_updates(ledger));
    violations.extend(counters(ledger));
    violations
}

fn show(op: &Op) -> String {
    let Key {
        resource,
        namespace,
        name,
    } = &op.key;
    format!("{:?} of {resource} {namespace}/{name} by {}", op.verb, op.client).to_lowercase()
}

/// 1: what was acknowledged is in etcd as it was acknowledged.
fn acknowledged(ledger: &Ledger<'_>) -> Vec<Violation> {
    let mut violations = Vec::new();
    let acknowledged = ledger.history.ops.iter().enumerate();
    for (index, op) in acknowledged.filter(|(_, op)| op.verb.writes() && op.outcome == Outcome::Ok) {
        let lost = match (op.verb, op.rv) {
            (RecordedVerb::Delete, _) => (!was_deleted(ledger, op)).then(|| "etcd never saw the deletion".to_owned()),
            (_, Some(revision)) => missing_or_other(ledger, op, revision),
            (_, None) => Some("it was acknowledged without a resourceVersion".to_owned()),
        };
        violations.extend(lost.map(|why| {
            let text = format!("{} was acknowledged, but {why}", show(op));
            Violation::new(1, text, [Evidence::Op(index)])
        }));
    }
    violations
}

fn missing_or_other(ledger: &Ledger<'_>, op: &Op, revision: Revision) -> Option<String> {
    let beyond = ledger.head.is_some_and(|head| revision > head);
    let Some(found) = ledger.at(&op.key, revision).map(|found| found.entry) else {
        let looked = beyond || ledger.covers(revision, revision);
        return looked.then(|| format!("etcd has no such change at {revision}"));
    };
    let same_uid = op.uid.as_ref().is_none_or(|uid| *uid == found.uid);
    let same_hash = op.hash.is_none_or(|hash| hash == found.hash);
    (found.deleted || !same_uid || !same_hash).then(|| format!("etcd holds something else at {revision}"))
}

/// Returns true if some deletion in etcd can be this one: of the same object, and not known before it was asked for.
fn was_deleted(ledger: &Ledger<'_>, op: &Op) -> bool {
    let Some(head) = ledger.head else { return true };
    let mut places = ledger.of_key(&op.key).iter().map(|place| &ledger.entries[*place]);
    let found = places.any(|entry| {
        let before = entry.previous.map(|previous| ledger.entries[previous].entry);
        let same = op
            .uid
            .as_ref()
            .is_none_or(|uid| before.is_none_or(|before| before.uid == *uid));
        entry.entry.deleted && entry.at >= op.called && same
    });
    found || !ledger.covers(0, head)
}

/// 2: what was refused is not in etcd.
fn definite_failures(ledger: &Ledger<'_>) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (attempt, places) in &ledger.by_attempt {
        let Some(index) = ledger.op_of_attempt.get(attempt) else {
            continue;
        };
        let op = &ledger.history.ops[*index];
        if op.outcome == Outcome::Fail {
            let found = places.iter().map(|place| &ledger.entries[*place]);
            let mut evidence = vec![Evidence::Op(*index)];
            evidence.extend(found.map(|entry| Evidence::Truth(entry.index)));
            let text = format!("{} was refused with {}, but is in etcd", show(op), op.code);
            violations.push(Violation::new(2, text, evidence));
        }
    }
    violations
}

/// 3: each entry has one attempt that made it, and each attempt at most one entry.
fn causes(ledger: &Ledger<'_>) -> Vec<Violation> {
    let mut violations = Vec::new();
    for found in &ledger.entries {
        let entry = found.entry;
        if entry.key.resource.is_empty() || entry.deleted || ledger.is_internal(&entry.path) {
            continue;
        }
        let attempt = entry.attempt.as_deref().unwrap_or_default();
        let cause = ledger
            .op_of_attempt
            .get(attempt)
            .map(|index| &ledger.history.ops[*index]);
        if cause.is_none_or(|op| op.key != entry.key) {
            let text = format!("no client wrote {} at {}", entry.path, entry.revision);
            violations.push(Violation::new(3, text, [Evidence::Truth(found.index)]));
        }
    }
    for (attempt, places) in &ledger.by_attempt {
        let [first, second, ..] = places.as_slice() else {
            continue;
        };
        let (first, second) = (&ledger.entries[*first], &ledger.entries[*second]);
        if !ledger.is_internal(&first.entry.path) {
            let (one, other) = (first.entry.revision, second.entry.revision);
            let text = format!("attempt {attempt} took effect twice, at {one} and {other}");
            let evidence = [Evidence::Truth(first.index), Evidence::Truth(second.index)];
            violations.push(Violation::new(3, text, evidence));
        }
    }
    violations
}

/// 3 for deletions, which carry no attempt: at no moment more of them than were asked for.
fn deletions_have_causes(ledger: &Ledger<'_>) -> Vec<Violation> {
    let mut asked: HashMap<&Key, Vec<Nanos>> = HashMap::new();
    for op in &ledger.history.ops {
        if op.verb == RecordedVerb::Delete && op.outcome != Outcome::Fail {
            asked.entry(&op.key).or_default().push(op.called);
        }
    }
    asked.values_mut().for_each(|times| times.sort_unstable());
    let mut done: HashMap<&Key, usize> = HashMap::new();
    let mut violations = Vec::new();
    for found in ledger.entries.iter().filter(|found| found.entry.deleted) {
        let entry = found.entry;
        if entry.key.resource.is_empty() || ledger.is_internal(&entry.path) {
            continue;
        }
        let done = done.entry(&entry.key).or_default();
        let asked = asked.get(&entry.key).map_or(&[][..], Vec::as_slice);
        if asked.get(*done).is_some_and(|called| *called <= found.at) {
            *done += 1;
        } else {
            let text = format!("no client deleted {} at {}", entry.path, entry.revision);
            violations.push(Violation::new(3, text, [Evidence::Truth(found.index)]));
        }
    }
    violations
}

/// A value that a client saw between two moments.
#[derive(Debug, Clone, Copy)]
pub(super) struct SeenValue {
    pub(super) called: Nanos,
    /// `None` if its end is unknown.
    pub(super) returned: Option<Nanos>,
    pub(super) value: Revision,
    /// The place in `History::ops`.
    pub(super) op: usize,
}

/// Pairs in which the later one, which began after the earlier had ended, has the lower value (or the same, if each value
/// may be seen once only).
pub(super) fn backwards(mut seen: Vec<SeenValue>, strict: bool) -> Vec<(SeenValue, SeenValue)> {
    let mut ended: Vec<_> = seen.iter().filter_map(|seen| Some((seen.returned?, *seen))).collect();
    ended.sort_unstable_by_key(|(returned, seen)| (*returned, seen.op));
    seen.sort_unstable_by_key(|seen| (seen.called, seen.op));
    let mut ended = ended.into_iter().peekable();
    let mut newest: Option<SeenValue> = None;
    let mut pairs = Vec::new();
    for later in seen {
        while let Some((_, earlier)) = ended.next_if(|(returned, _)| *returned < later.called) {
            if newest.is_none_or(|newest| newest.value < earlier.value) {
                newest = Some(earlier);
            }
        }
        let wrong = |earlier: &SeenValue| later.value < earlier.value || strict && later.value == earlier.value;
        pairs.extend(newest.filter(wrong).map(|earlier| (earlier, later)));
    }
    pairs
}

/// 4: a write that began after another was acknowledged has the higher revision.
fn real_time_order(ledger: &Ledger<'_>) -> Vec<Violation> {
    let ops = ledger.history.ops.iter().enumerate();
    let writes = ops.filter(|(_, op)| op.verb.writes() && op.verb != RecordedVerb::Delete);
    let seen = writes.filter_map(|(index, op)| {
        let landed = || {
            let place = *ledger.by_attempt.get(op.attempt.as_str())?.first()?;
            Some(ledger.entries[place].entry.revision)
        };
        let (value, returned) = match op.outcome {
            Outcome::Ok => (op.rv?, Some(op.returned)),
            Outcome::Unknown => (landed()?, None),
            Outcome::Fail => return None,
        };
        Some(SeenValue {
            called: op.called,
            returned,
            value,
            op: index,
        })
    });
    let pairs = backwards(seen.collect(), true);
    let violations = pairs.into_iter().map(|(earlier, later)| {
        let text = format!(
            "a write at {} was acknowledged before another began, which is at {}",
            earlier.value, later.value
        );
        Violation::new(4, text, [Evidence::Op(earlier.op), Evidence::Op(later.op)])
    });
    violations.collect()
}

/// 8: what an update says it replaces is what it replaced.
fn lost_updates(ledger: &Ledger<'_>) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut replaced: HashMap<(&Key, Revision), usize> = HashMap::new();
    for (index, op) in ledger.history.ops.iter().enumerate() {
        let conditional = matches!(op.verb, RecordedVerb::Update | RecordedVerb::Patch) && op.outcome == Outcome::Ok;
        let precondition = op.request_rv.as_ref().and_then(|rv| rv.parse::<Revision>().ok());
        let (true, Some(wanted)) = (conditional, precondition) else {
            continue;
        };
        if let Some(first) = replaced.insert((&op.key, wanted), index) {
            let text = format!("two updates replaced {wanted}: {}", show(op));
            violations.push(Violation::new(8, text, [Evidence::Op(first), Evidence::Op(index)]));
            continue;
        }
        let Some(entry) = op.rv.and_then(|revision| ledger.at(&op.key, revision)) else {
            continue;
        };
        let previous = entry.previous.map_or(0, |place| ledger.entries[place].entry.revision);
        if previous != wanted && ledger.covers(wanted, entry.entry.revision) {
            let text = format!("{} replaced {previous} although it meant {wanted}", show(op));
            let evidence = [Evidence::Op(index), Evidence::Truth(entry.index)];
            violations.push(Violation::new(8, text, evidence));
        }
    }
    violations
}

/// 8, by effect: as many increments as the counter says.
fn counters(ledger: &Ledger<'_>) -> Vec<Violation> {
    let mut violations = Vec::new();
    for found in &ledger.entries {
        let entry = found.entry;
        let attempt = entry.attempt.as_deref().unwrap_or_default();
        let cause = ledger
            .op_of_attempt
            .get(attempt)
            .map(|index| &ledger.history.ops[*index]);
        let Some(previous) = found.previous.map(|place| &ledger.entries[place]) else {
            continue;
        };
        if cause.is_some_and(|op| op.increments)
            && ledger.covers(previous.entry.revision, entry.revision)
            && entry.counter != previous.entry.counter.map(|counter| counter + 1)
        {
            let (now, before) = (entry.counter, previous.entry.counter);
            let text = format!("the counter in {} went from {before:?} to {now:?}", entry.path);
            let evidence = [Evidence::Truth(previous.index), Evidence::Truth(found.index)];
            violations.push(Violation::new(8, text, evidence));
        }
    }
    violations
}
