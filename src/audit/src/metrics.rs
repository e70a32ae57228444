//! The metrics of audit, under kube-apiserver's names.

use metrics::counter;

use crate::level::AuditLevel;

/// Counts a request by the level at which the policy has it recorded.
pub fn observe_level(level: AuditLevel) {
    counter!("apiserver_audit_level_total", "level" => level.name()).increment(1);
}

/// Counts a request that was refused as it could not be recorded.
pub fn observe_rejected_request() {
    counter!("apiserver_audit_requests_rejected_total").increment(1);
}

/// Counts an event that was made for the backends.
pub(crate) fn observe_event() {
    counter!("apiserver_audit_event_total").increment(1);
}

/// Counts events that a backend or what stands in front of it has lost.
pub(crate) fn observe_lost(plugin: &'static str, events: usize) {
    let events = u64::try_from(events).unwrap_or(u64::MAX);
    counter!("apiserver_audit_error_total", "plugin" => plugin).increment(events);
}
