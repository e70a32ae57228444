//! Invariants 17 and 18: tokens only rise, and what is done once is done once.

use std::collections::{BTreeMap, HashMap};

use super::{Evidence, Ledger, Violation, liveness::installed};
use crate::history::{History, Revision, SampleRecord};

pub(super) fn check(ledger: &Ledger<'_>) -> Vec<Violation> {
    let mut violations = tokens(ledger);
    violations.extend(late_writes(ledger));
    violations.extend(once(ledger));
    violations.extend(transitions(ledger));
    violations.extend(holders(ledger.history));
    violations
}

/// 17: fences only rise, and writes under a token happen while it is the newest.
fn tokens(ledger: &Ledger<'_>) -> Vec<Violation> {
    let mut newest: HashMap<&str, (u64, usize)> = HashMap::new();
    let mut violations = Vec::new();
    for found in &ledger.entries {
        let Some(stamp) = &found.entry.fence else { continue };
        let current = newest.get(stamp.duty.as_str()).copied();
        let (token, shown) = current.unwrap_or((0, found.index));
        // Fences that were raised in a hole of etcd's history are unknown.
        let since = current.map_or(0, |(_, shown)| ledger.revision_of(shown));
        let known = ledger.covers(since, found.entry.revision);
        let wrong = if stamp.raised {
            stamp.token <= token
        } else {
            stamp.token != token
        };
        if known && wrong {
            let what = if stamp.raised {
                "was raised to"
            } else {
                "was written under"
            };
            let text = format!(
                "{} {what} token {} of {} while {token} was the newest",
                found.entry.path, stamp.token, stamp.duty
            );
            let evidence = [Evidence::Truth(shown), Evidence::Truth(found.index)];
            violations.push(Violation::new(17, text, evidence));
        } else if stamp.raised {
            newest.insert(&stamp.duty, (stamp.token, found.index));
        }
    }
    violations
}

/// 17: a write that came late has no effect while another one holds the duty. Whatever the former holder writes together
/// with that write's slot is that write.
fn late_writes(ledger: &Ledger<'_>) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (place, fault) in installed(ledger.history) {
        let Some(late) = &fault.late else { continue };
        let raised = ledger.entries.iter().filter(|found| {
            let stamp = found.entry.fence.as_ref();
            stamp.is_some_and(|stamp| stamp.raised && stamp.duty == late.duty && stamp.token > late.token)
        });
        let mut raised = raised.map(|found| found.entry.revision);
        let Some(deposed) = raised.next() else { continue };
        let until = raised.next().unwrap_or(Revision::MAX);
        let during = ledger.entries.iter();
        let during = during.filter(|found| (deposed..until).contains(&found.entry.revision));
        let slots: BTreeMap<Revision, usize> = during
            .clone()
            .filter(|found| found.entry.path == late.slot)
            .map(|found| (found.entry.revision, found.index))
            .collect();
        for found in during.filter(|found| found.entry.path == late.path) {
            if let Some(slot) = slots.get(&found.entry.revision) {
                let text = format!(
                    "{} was written under token {} of {} after another one had taken over",
                    late.path, late.token, late.duty
                );
                let evidence = [
                    Evidence::Fault(place),
                    Evidence::Truth(*slot),
                    Evidence::Truth(found.index),
                ];
                violations.push(Violation::new(17, text, evidence));
            }
        }
    }
    violations
}

/// 18: a write of a duty takes effect once.
fn once(ledger: &Ledger<'_>) -> Vec<Violation> {
    let mut made: HashMap<(&str, &str), usize> = HashMap::new();
    let mut violations = Vec::new();
    for found in &ledger.entries {
        let stamp = found.entry.fence.as_ref();
        let Some((duty, write)) = stamp.and_then(|stamp| Some((&stamp.duty, stamp.write.as_ref()?))) else {
            continue;
        };
        if let Some(first) = made.insert((duty, write), found.index) {
            let text = format!("the write {write} of {duty} took effect twice");
            let evidence = [Evidence::Truth(first), Evidence::Truth(found.index)];
            violations.push(Violation::new(18, text, evidence));
        }
    }
    violations
}

/// 18: a lease that changes hands counts it, and one that does not does not.
fn transitions(ledger: &Ledger<'_>) -> Vec<Violation> {
    let mut violations = Vec::new();
    for found in &ledger.entries {
        let before = found.previous.map(|place| &ledger.entries[place]);
        let (Some(now), Some(before)) = (&found.entry.lease, before) else {
            continue;
        };
        let Some(old) = &before.entry.lease else { continue };
        let taken = now.holder != old.holder && !now.holder.is_empty();
        let expected = old.transitions + u64::from(taken);
        let whole = ledger.covers(before.entry.revision, found.entry.revision);
        if now.transitions != expected && whole {
            let path = &found.entry.path;
            let text = format!(
                "{path} went from {} ({}) to {} ({})",
                old.holder, old.transitions, now.holder, now.transitions
            );
            let evidence = [Evidence::Truth(before.index), Evidence::Truth(found.index)];
            violations.push(Violation::new(18, text, evidence));
        }
    }
    violations
}

/// 18: a token has one holder, whichever replica is asked, and no replica sees it fall.
fn holders(history: &History) -> Vec<Violation> {
    let mut holders: BTreeMap<(&str, u64), (u64, usize)> = BTreeMap::new();
    let mut newest: HashMap<(&str, u32, &str), (u64, usize)> = HashMap::new();
    let mut violations = Vec::new();
    for (index, record) in history.samples.iter().enumerate() {
        let SampleRecord::Duty(sample) = record else { continue };
        if let Some(holder) = sample.holder {
            let (first, shown) = *holders.entry((&sample.duty, sample.token)).or_insert((holder, index));
            if first != holder {
                let text = format!(
                    "token {} of {} is held by {first} and by {holder}",
                    sample.token, sample.duty
                );
                violations.push(Violation::new(
                    18,
                    text,
                    [Evidence::Sample(shown), Evidence::Sample(index)],
                ));
            }
        }
        let view = newest.entry((&sample.replica, sample.pid, &sample.duty)).or_default();
        if sample.token < view.0 {
            let text = format!(
                "{} saw token {} of {}, and then {}",
                sample.replica, view.0, sample.duty, sample.token
            );
            violations.push(Violation::new(
                18,
                text,
                [Evidence::Sample(view.1), Evidence::Sample(index)],
            ));
        }
        *view = (*view).max((sample.token, index));
    }
    violations
}
