//! What is recorded of requests, and where: `--audit-…`.

use std::sync::Arc;

use trireme_audit::{AuditPolicy, LogSettings, Mode, TruncateSettings};

/// The policy and the backends. Nothing is recorded without one of each.
#[derive(Debug, Clone, Default)]
pub(crate) struct AuditSettings {
    /// What is recorded.
    pub(crate) policy: Option<Arc<AuditPolicy>>,
    /// The log.
    pub(crate) log: Option<AuditLog>,
}

/// The log backend.
#[derive(Debug, Clone)]
pub(crate) struct AuditLog {
    /// The file.
    pub(crate) log: LogSettings,
    /// Who waits for it.
    pub(crate) mode: Mode,
    /// Bounds on sizes, if there are any.
    pub(crate) truncate: Option<TruncateSettings>,
}
