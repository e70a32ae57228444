//! Invariants 22 and 23: no replica allows what the policy does not, whatever happens to it, and what is revoked counts for nothing soon
//! after: permissions and credentials.

use std::collections::HashMap;

use super::{Evidence, Violation, liveness::installed};
use crate::history::{AccessKind, AccessRecord, Credential, History, Nanos};

pub(super) fn check(history: &History) -> Vec<Violation> {
    let mut violations = privileges(history);
    violations.extend(revocations(history));
    violations
}

/// 22: who never had a permission is never let through, also not while caches are loaded.
fn privileges(history: &History) -> Vec<Violation> {
    let gained = of_kind(history, AccessKind::Forbidden).filter(|(_, record)| record.is_allowed());
    let violation = |(index, record): (usize, &AccessRecord)| {
        let AccessRecord {
            user,
            replica,
            request,
            code,
            ..
        } = record;
        let text = format!("{user}, who may not, got {code} for {request} at {replica}");
        Violation::new(22, text, [Evidence::Access(index)])
    };
    gained.map(violation).collect()
}

/// 23: a while after a revocation no replica allows what it has revoked.
fn revocations(history: &History) -> Vec<Violation> {
    let late = after_revocations(history).filter(|(_, _, record)| record.is_allowed());
    let violation = |(revoked, index, record): (Nanos, usize, &AccessRecord)| {
        let since = record.called.saturating_sub(revoked) / 1_000_000;
        let (user, code, replica) = (&record.user, record.code, &record.replica);
        let revocation = record.credential.revocation();
        let text = format!("{user} got {code} at {replica} {since} ms after {revocation}");
        Violation::new(23, text, [Evidence::Access(index)])
    };
    late.map(violation).collect()
}

/// The answers that must not be those of one who may: the time of the revocation, the place of the record, the record. A
/// replica that is cut off or stopped cannot know of it, so what overlaps a fault, or the time it may take to get over it, is no
/// part of these. Planned stops and deaths of replicas are no such faults: those that run know, and those that start must.
fn after_revocations(history: &History) -> impl Iterator<Item = (Nanos, usize, &AccessRecord)> {
    let limits = &history.run.limits;
    let revoked: HashMap<Credential, Vec<(Nanos, Nanos)>> =
        HashMap::from(Credential::ALL.map(|credential| (credential, revoked(history, credential))));
    let asked = of_kind(history, AccessKind::Revocable).filter(|(_, record)| {
        record.code != 0
            && !installed(history).any(|(_, fault)| {
                let over = fault.until.saturating_add(limits.liveness);
                let is_known = fault.planned || fault.kills_replicas;
                !is_known && fault.at <= record.returned && record.called <= over
            })
    });
    asked.filter_map(move |(index, record)| {
        let of = revoked.get(&record.credential)?.iter().find(|(from, until)| {
            record.called >= from.saturating_add(limits.revocation) && record.returned <= *until
        })?;
        Some((of.0, index, record))
    })
}

/// The number of those answers for the credential that has the fewest; 0 if one of the credentials was never good for anything.
pub(super) fn fewest_after_revocations(history: &History) -> usize {
    let mut counts = HashMap::from(Credential::ALL.map(|credential| (credential, 0)));
    for (_, _, record) in after_revocations(history) {
        *counts.entry(record.credential).or_default() += 1;
    }
    let was_good = |credential: Credential| {
        of_kind(history, AccessKind::Revocable)
            .any(|(_, record)| record.credential == credential && record.is_allowed())
    };
    let counts = counts.into_iter();
    let judged = counts.map(|(credential, count)| if was_good(credential) { count } else { 0 });
    judged.min().unwrap_or(0)
}

/// The times from which to which it surely counted for nothing: what was surely made had surely been taken away.
fn revoked(history: &History, credential: Credential) -> Vec<(Nanos, Nanos)> {
    let is_change = |record: &&AccessRecord| {
        matches!(record.kind, AccessKind::Grant | AccessKind::Revoke) && record.credential == credential
    };
    let mut changes: Vec<&AccessRecord> = history.access.iter().filter(is_change).collect();
    changes.sort_by_key(|record| record.called);
    let nexts = changes.iter().skip(2).map(|next| next.called).chain([Nanos::MAX]);
    let pairs = changes.iter().zip(changes.iter().skip(1)).zip(nexts);
    pairs
        .filter(|((grant, revoke), _)| {
            let are_sure = grant.code == 201 && revoke.code == 200;
            are_sure && (grant.kind, revoke.kind) == (AccessKind::Grant, AccessKind::Revoke)
        })
        .map(|((_, revoke), until)| (revoke.returned, until))
        .collect()
}

pub(super) fn of_kind(history: &History, kind: AccessKind) -> impl Iterator<Item = (usize, &AccessRecord)> {
    let records = history.access.iter().enumerate();
    records.filter(move |(_, record)| record.kind == kind)
}
