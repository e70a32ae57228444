//! Invariants 5 and 7 for reads of one object.

use super::{Evidence, Ledger, Violation};
use crate::history::{Op, Outcome, RecordedVerb, Revision};

/// The age that an answer may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AnswerAge {
    /// No `resourceVersion`: as new as anything known when the read began.
    Newest,
    /// `resourceVersion=0`: as old as it likes.
    Any,
    /// `resourceVersion=X`, not older.
    NotOlderThan(Revision),
    /// `resourceVersion=X` with `resourceVersionMatch=Exact`.
    Exact(Revision),
}

impl AnswerAge {
    /// The freshness that a read has asked for; `None` for nonsense, which the server refuses.
    pub(super) fn of(op: &Op) -> Option<Self> {
        match (op.request_rv.as_deref(), op.rv_match.as_deref()) {
            (None | Some(""), _) => Some(Self::Newest),
            (Some(rv), Some("Exact")) => rv.parse().ok().map(Self::Exact),
            (Some("0"), _) => Some(Self::Any),
            (Some(rv), _) => rv.parse().ok().map(Self::NotOlderThan),
        }
    }

    /// The least revision that the answer must reflect.
    pub(super) fn least(self, ledger: &Ledger<'_>, op: &Op) -> Revision {
        match self {
            Self::Newest => ledger.known_before(op.called),
            Self::Any => 0,
            Self::NotOlderThan(revision) | Self::Exact(revision) => revision,
        }
    }
}

pub(super) fn check(ledger: &Ledger<'_>) -> Vec<Violation> {
    let reads = ledger.history.ops.iter().enumerate();
    let reads = reads.filter(|(_, op)| op.verb == RecordedVerb::Get && (op.outcome == Outcome::Ok || op.code == 404));
    let wrong = reads.filter_map(|(index, op)| {
        let freshness = AnswerAge::of(op)?;
        let least = freshness.least(ledger, op);
        let why = if op.outcome == Outcome::Ok {
            wrong_state(ledger, op, least)?
        } else {
            wrongly_absent(ledger, op, least)?
        };
        let text = format!("{} read {}/{}: {why}", op.client, op.key.namespace, op.key.name);
        Some(Violation::new(number(op, freshness), text, [Evidence::Op(index)]))
    });
    wrong.collect()
}

fn number(op: &Op, freshness: AnswerAge) -> u8 {
    match freshness {
        // Whatever is missing at the very end was acknowledged and is not readable.
        AnswerAge::Newest if op.purpose == crate::history::Purpose::Final => 1,
        AnswerAge::Newest | AnswerAge::Any => 5,
        AnswerAge::NotOlderThan(_) | AnswerAge::Exact(_) => 7,
    }
}

/// There must be a moment, not before `least`, at which this was the object's state.
fn wrong_state(ledger: &Ledger<'_>, op: &Op, least: Revision) -> Option<String> {
    let Some(rv) = op.rv else {
        return Some("no resourceVersion".to_owned());
    };
    let Some(found) = ledger.at(&op.key, rv).filter(|found| !found.entry.deleted) else {
        let beyond = ledger.head.is_some_and(|head| rv > head);
        return (beyond || ledger.covers(rv, rv)).then(|| format!("it never was at {rv}"));
    };
    if let Some(next) = found.next.map(|next| ledger.entries[next].entry.revision)
        && next <= least
    {
        return Some(format!(
            "the state of {rv} was replaced at {next}, and {least} was known"
        ));
    }
    let writer = found.entry.attempt.as_deref();
    let writer = writer.and_then(|attempt| ledger.op_of_attempt.get(attempt));
    let asked = writer.map(|index| ledger.history.ops[*index].called);
    asked
        .is_some_and(|asked| asked > op.returned)
        .then(|| format!("the state of {rv} was read before it was written"))
}

/// There must be a moment, not before `least`, at which the object did not exist.
fn wrongly_absent(ledger: &Ledger<'_>, op: &Op, least: Revision) -> Option<String> {
    let head = ledger.head?;
    if !ledger.covers(0, head) {
        return None;
    }
    let places = ledger.of_key(&op.key);
    // Absence ends with a creation, or never.
    let mut absent = true;
    for place in places {
        let entry = ledger.entries[*place].entry;
        if absent && !entry.deleted && entry.revision > least {
            return None;
        }
        absent = entry.deleted;
    }
    (!absent).then(|| format!("it was not found although it existed at {least} and after"))
}
