//! Invariants 22 and 23: no replica allows what the policy does not, whatever happens to it, and a revoked permission is gone soon.

use super::{Evidence, Violation, liveness::installed};
use crate::history::{AccessKind, AccessRecord, History, Nanos};

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

/// 23: a while after a binding was deleted no replica allows by it.
fn revocations(history: &History) -> Vec<Violation> {
    let late = after_revocations(history).filter(|(_, _, record)| record.is_allowed());
    let violation = |(revoked, index, record): (Nanos, usize, &AccessRecord)| {
        let since = record.called.saturating_sub(revoked) / 1_000_000;
        let text = format!(
            "{} got {} at {} {since} ms after its binding was deleted",
            record.user, record.code, record.replica
        );
        Violation::new(23, text, [Evidence::Access(index)])
    };
    late.map(violation).collect()
}

/// The answers that a revoked binding must not be found in: the time of the deletion, the place of the record, the record. A
/// replica that is cut off or stopped cannot know of it, so what overlaps a fault, or the time it may take to get over it, is no
/// part of these; a planned stop is no such fault.
pub(super) fn after_revocations(history: &History) -> impl Iterator<Item = (Nanos, usize, &AccessRecord)> {
    let limits = &history.run.limits;
    let asked = of_kind(history, AccessKind::Revocable).filter(|(_, record)| {
        record.code != 0
            && !installed(history).any(|(_, fault)| {
                let over = fault.until.saturating_add(limits.liveness);
                !fault.planned && fault.at <= record.returned && record.called <= over
            })
    });
    let revoked = revoked(history);
    asked.filter_map(move |(index, record)| {
        let of = revoked.iter().find(|(from, until)| {
            record.called >= from.saturating_add(limits.revocation) && record.returned <= *until
        })?;
        Some((of.0, index, record))
    })
}

/// The times from which to which there surely was no binding: one that was surely made had surely been deleted.
fn revoked(history: &History) -> Vec<(Nanos, Nanos)> {
    let is_change = |record: &&AccessRecord| matches!(record.kind, AccessKind::Grant | AccessKind::Revoke);
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
