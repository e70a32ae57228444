//! The audit logs of a generated history: every acknowledged write is in that of a replica.

use super::REPLICAS;
use crate::history::{AuditRecord, BALANCER, History, Op, Outcome, RecordedVerb, TRAFFIC_USER};

/// Records all acknowledged writes that there are, in the place of what was recorded.
pub(in crate::checks) fn audit(history: &mut History) {
    let written = history
        .ops
        .iter()
        .filter(|op| op.verb.writes() && op.outcome == Outcome::Ok);
    history.audit = written.map(event).collect();
}

fn event(op: &Op) -> AuditRecord {
    let replica = if op.replica == BALANCER {
        REPLICAS[0]
    } else {
        &op.replica
    };
    let verb = match op.verb {
        RecordedVerb::Create => "create",
        RecordedVerb::Update => "update",
        RecordedVerb::Patch => "patch",
        _ => "delete",
    };
    AuditRecord {
        replica: replica.to_owned(),
        id: op.audit_id.clone(),
        user: TRAFFIC_USER.to_owned(),
        verb: verb.to_owned(),
        resource: op.key.resource.clone(),
        namespace: op.key.namespace.clone(),
        name: op.key.name.clone(),
        code: op.code,
    }
}
