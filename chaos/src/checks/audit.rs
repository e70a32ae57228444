//! Invariant 24: each acknowledged write is in the audit log of a replica, as what it was and under its user.

use std::collections::HashMap;

use super::{Evidence, Violation};
use crate::history::{AuditRecord, BALANCER, History, Op, Outcome, RecordedVerb, TRAFFIC_USER};

pub(super) fn check(history: &History) -> Vec<Violation> {
    let mut events: HashMap<&str, Vec<&AuditRecord>> = HashMap::new();
    for event in &history.audit {
        events.entry(&event.id).or_default().push(event);
    }
    let violation = |(index, op): (usize, &Op)| {
        let found = events.get(op.audit_id.as_str()).map_or(&[][..], Vec::as_slice);
        if found.iter().any(|event| describes(event, op)) {
            return None;
        }
        let said = match found.first() {
            None => "is in no audit log".to_owned(),
            Some(event) => format!("is in the audit logs as something else: {event:?}"),
        };
        let text = format!(
            "the acknowledged {:?} of {} {}/{} with the audit id {:?} {said}",
            op.verb, op.key.resource, op.key.namespace, op.key.name, op.audit_id
        );
        Some(Violation::new(24, text, [Evidence::Op(index)]))
    };
    acknowledged(history).filter_map(violation).collect()
}

/// The writes that must be in an audit log, with their places.
pub(super) fn acknowledged(history: &History) -> impl Iterator<Item = (usize, &Op)> {
    let ops = history.ops.iter().enumerate();
    ops.filter(|(_, op)| op.verb.writes() && op.outcome == Outcome::Ok)
}

fn describes(event: &AuditRecord, op: &Op) -> bool {
    let served_there = op.replica == BALANCER || op.replica == event.replica;
    let names_it = event.name == op.key.name || event.verb == "deletecollection";
    let of_it = (&event.resource, &event.namespace) == (&op.key.resource, &op.key.namespace);
    let verb_fits = match op.verb {
        RecordedVerb::Create => event.verb == "create",
        RecordedVerb::Update => event.verb == "update",
        RecordedVerb::Patch => event.verb == "patch",
        RecordedVerb::Delete => matches!(event.verb.as_str(), "delete" | "deletecollection"),
        RecordedVerb::Get | RecordedVerb::List | RecordedVerb::Watch => false,
    };
    served_there && names_it && of_it && verb_fits && event.code == op.code && event.user == TRAFFIC_USER
}
