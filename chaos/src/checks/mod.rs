//! Checks a recorded [`History`] against the promises of the system. Pure functions: no clock, no network, no files.
//!
//! ```text
//! History ──▶ Ledger (etcd's entries in order, by key, by attempt; who knew what when)
//!                │
//!                ├─ writes        1 2 3 4 8      ├─ fencing     17 18
//!                ├─ reads         5 7            ├─ liveness    21 27 28
//!                ├─ snapshots     6 7 12 16      ├─ resources   15 29
//!                │                                ├─ times       30
//!                ├─ observations  9              ├─ opinion     5 8, by another project's algorithm
//!                ├─ streams       10 … 15        ├─ answers     31
//!                                                ├─ access      22 23
//!                                                ├─ audit       24
//!                                                └─ logs        25 26
//! ```
//! Every acknowledged write carries a revision of etcd, so the order of writes is known and checking is a scan, not a
//! search. What an unknown outcome means is decided by etcd's own history: the write is there or it is not. Where that
//! history has a hole, nothing is claimed.
//!
//! Which invariant has which number: [`INVARIANTS`]. A violation is reported under one number, that of the promise whose
//! breach explains it best; the tests in `planted` break each promise once and expect that number alone.

mod access;
mod answers;
mod audit;
mod fencing;
mod inputs;
mod ledger;
mod liveness;
mod logs;
mod observations;
mod opinion;
mod reads;
mod resources;
mod snapshots;
mod streams;
mod times;
mod validity;
mod webhooks;
mod writes;

#[cfg(test)]
pub(crate) mod generate;
#[cfg(test)]
mod planted;

use std::fmt;

use serde::{Deserialize, Serialize};

use self::ledger::Ledger;
pub(crate) use self::liveness::failed;
pub(crate) use self::resources::percentile;
pub use self::validity::Validity;
use crate::history::History;

/// The invariants: the number used everywhere, and the promise in a few words.
pub const INVARIANTS: [(u8, &str); 30] = [
    (1, "an acknowledged write stays readable"),
    (2, "a definite failure has no effect"),
    (3, "no effect without a cause, and none twice"),
    (4, "writes take effect in real-time order"),
    (5, "a read without resourceVersion is linearizable"),
    (6, "a list without resourceVersion is an exact snapshot"),
    (7, "a read at resourceVersion=X is never older than X"),
    (8, "no update is lost"),
    (9, "one resourceVersion is one state, everywhere, and never goes back"),
    (10, "a watch is ordered, without duplicate and without gap"),
    (11, "a watch resumes at any replica without gap"),
    (12, "bookmarks are true"),
    (13, "410 if and only if the revision is gone"),
    (14, "leaving and entering a selector is an event"),
    (15, "a slow watcher is cut, never skipped, and slows no other client"),
    (16, "caches converge to etcd"),
    (17, "a deposed holder has no effect"),
    (18, "a duty's write takes effect once, and leases change hands in order"),
    (21, "everything works again soon after a heal"),
    (22, "no client is allowed what the policy does not allow"),
    (23, "a revoked permission or credential is gone within a second"),
    (24, "an acknowledged write is in an audit log, under its user"),
    (25, "no log shows a secret"),
    (26, "no replica panics"),
    (27, "/readyz is true"),
    (28, "a planned stop loses nothing"),
    (29, "resources are bounded"),
    (30, "a wall clock decides about nothing but times"),
    (31, "no client is refused that has done nothing wrong"),
    (
        32,
        "webhooks and servers that fail let nothing through, hold nothing up and lose nothing",
    ),
];

/// The promise with this number.
pub fn promise(invariant: u8) -> &'static str {
    let found = INVARIANTS.iter().find(|(number, _)| *number == invariant);
    found.map_or("", |(_, promise)| promise)
}

/// A record that shows a violation: the list in [`History`], and the place in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Evidence {
    /// Of [`History::ops`].
    Op(usize),
    /// Of [`History::watches`].
    Watch(usize),
    /// Of [`History::caches`].
    Cache(usize),
    /// Of [`History::truth`].
    Truth(usize),
    /// Of [`History::faults`].
    Fault(usize),
    /// Of [`History::samples`].
    Sample(usize),
    /// Of [`History::access`].
    Access(usize),
}

/// A broken promise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Violation {
    /// Its number in [`INVARIANTS`].
    pub invariant: u8,
    /// The observation, and the expectation.
    pub text: String,
    /// The records that show it.
    pub evidence: Vec<Evidence>,
}

impl Violation {
    fn new(invariant: u8, text: String, evidence: impl Into<Vec<Evidence>>) -> Self {
        let evidence = evidence.into();
        Self {
            invariant,
            text,
            evidence,
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            invariant,
            text,
            evidence,
        } = self;
        write!(f, "{invariant} ({}): {text} {evidence:?}", promise(*invariant))
    }
}

/// The verdict of the checkers on a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// Broken promises, by number; empty is good.
    pub violations: Vec<Violation>,
    /// True if the run can show anything.
    pub validity: Validity,
}

/// Runs all checkers.
pub fn check(history: &History) -> Verdict {
    let ledger = Ledger::new(history);
    let streams = streams::collect(history);
    let mut violations = writes::check(&ledger);
    violations.extend(reads::check(&ledger));
    violations.extend(snapshots::check(&ledger, &streams));
    violations.extend(observations::check(&ledger));
    violations.extend(streams::check(&ledger, &streams));
    violations.extend(fencing::check(&ledger));
    violations.extend(liveness::check(history));
    violations.extend(resources::check(history));
    violations.extend(times::check(history));
    violations.extend(opinion::check(&ledger));
    violations.extend(answers::check(history));
    violations.extend(access::check(history));
    violations.extend(audit::check(history));
    violations.extend(webhooks::check(history));
    violations.extend(logs::check(history));
    violations.sort_by_key(|violation| violation.invariant);
    let validity = validity::check(&ledger);
    Verdict { violations, validity }
}
