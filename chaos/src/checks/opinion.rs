//! Invariants 5 and 8 once more, by an algorithm of another project: porcupine's search for a linearization of the
//! requests on each key. Slower, and it cannot say what is wrong; but it shares no code with the scans.
//!
//! ```text
//! a key is a register:  absent (0) | the revision of its last write
//! an unknown write      may return as late as it likes (i64::MAX); which revision it had, if any, etcd knows
//! ```

use std::{collections::BTreeMap, time::Duration};

use porcupine_rs::{CheckResult, Model, Operation, check_operations_timeout};

use super::{Evidence, Ledger, Violation, reads::AnswerAge};
use crate::history::{Key, Op, Outcome, RecordedVerb, Revision};

/// A key whose search takes longer is left to the scans.
const PATIENCE: Duration = Duration::from_millis(500);

#[derive(Debug, Clone)]
enum RegisterAccess {
    /// `replaces` is the precondition, if it had one.
    Write {
        revision: Revision,
        replaces: Option<Revision>,
    },
    Delete {
        surely: bool,
    },
    Read(Revision),
}

/// A register without looking at preconditions: whether reads are linearizable.
#[derive(Debug, Clone)]
struct ReadRegister;

/// The same with preconditions: whether updates are lost.
#[derive(Debug, Clone)]
struct CompareAndSet;

fn step(state: Revision, access: &RegisterAccess, compare: bool) -> (bool, Revision) {
    match access {
        RegisterAccess::Write { revision, replaces } => {
            (!compare || replaces.is_none_or(|replaces| replaces == state), *revision)
        }
        RegisterAccess::Delete { surely } => (state != 0 || !surely, 0),
        RegisterAccess::Read(revision) => (*revision == state, state),
    }
}

impl Model for ReadRegister {
    type State = Revision;
    type Op = RegisterAccess;
    type Metadata = ();

    fn init() -> Revision {
        0
    }

    fn step(state: &Revision, access: &RegisterAccess) -> (bool, Revision) {
        step(*state, access, false)
    }
}

impl Model for CompareAndSet {
    type State = Revision;
    type Op = RegisterAccess;
    type Metadata = ();

    fn init() -> Revision {
        0
    }

    fn step(state: &Revision, access: &RegisterAccess) -> (bool, Revision) {
        step(*state, access, true)
    }
}

pub(super) fn check(ledger: &Ledger<'_>) -> Vec<Violation> {
    let mut keys: BTreeMap<&Key, Vec<usize>> = BTreeMap::new();
    for (index, op) in ledger.history.ops.iter().enumerate() {
        if op.verb.writes() || op.verb == RecordedVerb::Get {
            keys.entry(&op.key).or_default().push(index);
        }
    }
    let mut violations = Vec::new();
    // Where etcd's history has holes, the effects of unknown writes cannot be known.
    if !ledger.head.is_some_and(|head| ledger.covers(0, head)) {
        return violations;
    }
    for (key, indices) in keys {
        let accesses: Vec<_> = indices
            .iter()
            .filter_map(|index| Some((&ledger.history.ops[*index], access(ledger, *index)?)))
            .collect();
        let invariant = if illegal::<ReadRegister>(&accesses) {
            5
        } else if illegal::<CompareAndSet>(&accesses) {
            8
        } else {
            continue;
        };
        let text = format!(
            "porcupine finds no linearization of the requests for {}/{}",
            key.namespace, key.name
        );
        let evidence: Vec<_> = indices.into_iter().map(Evidence::Op).collect();
        violations.push(Violation::new(invariant, text, evidence));
    }
    violations
}

fn illegal<M: Model<Op = RegisterAccess, Metadata = ()>>(accesses: &[(&Op, RegisterAccess)]) -> bool {
    let time = |nanos| i64::try_from(nanos).unwrap_or(i64::MAX);
    let operation = |(op, access): &(&Op, RegisterAccess)| Operation::<M> {
        client_id: None,
        call_time: time(op.called),
        return_time: if op.outcome == Outcome::Unknown {
            i64::MAX
        } else {
            time(op.returned)
        },
        op: access.clone(),
        metadata: None,
    };
    let operations: Vec<_> = accesses.iter().map(operation).collect();
    matches!(check_operations_timeout(&operations, PATIENCE), CheckResult::Illegal)
}

/// The operation of a request on the register; `None` if neither.
fn access(ledger: &Ledger<'_>, index: usize) -> Option<RegisterAccess> {
    let op = &ledger.history.ops[index];
    match (op.verb, op.outcome) {
        (RecordedVerb::Get, _) if AnswerAge::of(op) != Some(AnswerAge::Newest) => None,
        (RecordedVerb::Get, Outcome::Ok) => Some(RegisterAccess::Read(op.rv?)),
        (RecordedVerb::Get, Outcome::Fail) if op.code == 404 => Some(RegisterAccess::Read(0)),
        (RecordedVerb::Delete, Outcome::Ok) => Some(RegisterAccess::Delete { surely: true }),
        (RecordedVerb::Delete, Outcome::Unknown) => Some(RegisterAccess::Delete { surely: false }),
        (RecordedVerb::Create | RecordedVerb::Update | RecordedVerb::Patch, Outcome::Ok) => {
            Some(RegisterAccess::Write {
                revision: op.rv?,
                replaces: replaces(op),
            })
        }
        (RecordedVerb::Create | RecordedVerb::Update | RecordedVerb::Patch, Outcome::Unknown) => {
            let place = *ledger.by_attempt.get(op.attempt.as_str())?.first()?;
            Some(RegisterAccess::Write {
                revision: ledger.entries[place].entry.revision,
                replaces: replaces(op),
            })
        }
        _ => None,
    }
}

fn replaces(op: &Op) -> Option<Revision> {
    match op.verb {
        RecordedVerb::Create => Some(0),
        _ => op.request_rv.as_ref()?.parse().ok(),
    }
}
