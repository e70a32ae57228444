//! Invariants 25 and 26: what the replicas log.

use super::Violation;
use crate::history::History;

pub(super) fn check(history: &History) -> Vec<Violation> {
    let Some(logs) = &history.run.logs else {
        return Vec::new();
    };
    let leaks = logs.leaks.iter().map(|line| Violation::new(25, line.clone(), []));
    let panics = logs.panics.iter().map(|line| Violation::new(26, line.clone(), []));
    leaks.chain(panics).collect()
}
