//! Brings up the audit backends.

use std::sync::Arc;

use trireme_actors::ActorSystem;
use trireme_audit::{Audit, AuditSink, LogBackend, SinkSettings};

use crate::build_error::BuildError;
use crate::settings::AuditSettings;

/// Lines that are written at a time; each wait for the disk is shared by so many requests.
const LINES_AT_ONCE: usize = 256;

/// Opens the backends of the settings.
pub(crate) fn start(settings: &AuditSettings, system: &ActorSystem) -> Result<AuditSink, BuildError> {
    let mut sink = AuditSink::default();
    if let Some(log) = &settings.log {
        let backend = LogBackend::open(&log.log, system.clock().clone())?;
        let how = SinkSettings {
            mode: log.mode,
            truncate: log.truncate,
            group: LINES_AT_ONCE,
            // Lines are in order.
            concurrency: 1,
        };
        sink.add(system, Arc::new(backend), how)?;
    }
    Ok(sink)
}

/// The policy with the backends; nothing without one of them.
pub(crate) fn of(settings: &AuditSettings, sink: &AuditSink) -> Option<Arc<Audit>> {
    let policy = settings.policy.as_ref().filter(|_| !sink.is_empty())?;
    Some(Arc::new(Audit {
        policy: Arc::clone(policy),
        sink: sink.clone(),
    }))
}
