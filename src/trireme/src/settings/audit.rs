//! The settings of audit: `--audit-…`.

use std::{sync::Arc, time::Duration};

use trireme_audit::{AuditPolicy, LogSettings, Mode, TruncateSettings};
use trireme_http::client::RemoteServer;

/// The policy and the backends. Nothing is recorded without one of each.
#[derive(Debug, Clone, Default)]
pub(crate) struct AuditSettings {
    /// The policy of what is recorded.
    pub(crate) policy: Option<Arc<AuditPolicy>>,
    /// The log.
    pub(crate) log: Option<AuditLog>,
    /// The server that events are posted to.
    pub(crate) webhook: Option<AuditWebhook>,
}

/// The log backend.
#[derive(Debug, Clone)]
pub(crate) struct AuditLog {
    /// The file.
    pub(crate) log: LogSettings,
    /// The mode: whether requests wait for it.
    pub(crate) mode: Mode,
    /// Bounds on sizes, if there are any.
    pub(crate) truncate: Option<TruncateSettings>,
}

/// The webhook backend.
#[derive(Debug, Clone)]
pub(crate) struct AuditWebhook {
    /// The server.
    pub(crate) server: RemoteServer,
    /// The time before events are posted a second time.
    pub(crate) initial_backoff: Duration,
    /// The mode: whether requests wait for it.
    pub(crate) mode: Mode,
    /// Bounds on sizes, if there are any.
    pub(crate) truncate: Option<TruncateSettings>,
}
