//! Invariant 32: webhooks that fail let nothing through that they guard, hold nothing up for longer than their timeout, and lose
//! nothing. The fault's own writes show it.

use super::{Evidence, Violation, liveness::installed};
use crate::history::History;

pub(super) fn check(history: &History) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (place, fault) in installed(history) {
        let Some(writes) = &fault.guarded else { continue };
        let kinds = [
            ("was let through", &writes.let_through),
            ("was held up or failed", &writes.held_up),
            ("was lost", &writes.lost),
        ];
        for (what, found) in kinds {
            let violation = |one: &String| {
                let text = format!("{one} {what} while {}", fault.name);
                Violation::new(32, text, [Evidence::Fault(place)])
            };
            violations.extend(found.iter().map(violation));
        }
    }
    violations
}
