//! Brings up the audit backends.

use std::sync::Arc;

use trireme_actors::{ActorSystem, Clock};
use trireme_audit::{Audit, AuditSink, LogBackend, Mode, SinkSettings, WebhookBackend};
use trireme_http::client::{Client, ClientSettings};

use crate::build_error::BuildError;
use crate::settings::{AuditSettings, AuditWebhook};

/// Lines that are written at a time; each wait for the disk is shared by so many requests.
const LINES_AT_ONCE: usize = 256;
/// Posts under way that requests wait for, each for one of its own: more than the requests that are served at a time.
const AWAITED_POSTS: usize = 1024;
/// Batches under way: several seconds of them at the default rate, and a bound on the events that a receiver which is gone
/// keeps in memory.
const BATCHES_AT_ONCE: usize = 64;

/// Opens the log of the settings, if they name one.
pub(crate) fn open_log(settings: &AuditSettings, clock: &Clock) -> Result<Option<LogBackend>, BuildError> {
    let log = settings.log.as_ref();
    let opened = log.map(|log| LogBackend::open(&log.log, clock.clone()));
    Ok(opened.transpose()?)
}

/// Starts the backends of the settings; their log is open.
pub(crate) fn start(
    settings: &AuditSettings,
    log: Option<LogBackend>,
    system: &ActorSystem,
) -> Result<AuditSink, BuildError> {
    let mut sink = AuditSink::default();
    if let (Some(backend), Some(log)) = (log, &settings.log) {
        let how = SinkSettings {
            mode: log.mode,
            truncate: log.truncate,
            group: LINES_AT_ONCE,
            // Lines are in order.
            concurrency: 1,
        };
        sink.add(system, Arc::new(backend), how)?;
    }
    if let Some(webhook) = &settings.webhook {
        let how = SinkSettings {
            mode: webhook.mode,
            truncate: webhook.truncate,
            group: 1,
            concurrency: match webhook.mode {
                Mode::Batch(_) => BATCHES_AT_ONCE,
                Mode::Blocking | Mode::BlockingStrict => AWAITED_POSTS,
            },
        };
        sink.add(system, Arc::new(webhook_backend(webhook, system)), how)?;
    }
    Ok(sink)
}

fn webhook_backend(webhook: &AuditWebhook, system: &ActorSystem) -> WebhookBackend {
    let settings = ClientSettings {
        // Every event gets its attempts, or it is lost.
        breaker: None,
        ..ClientSettings::default()
    };
    let (clock, tasks) = (system.clock().clone(), system.tasks().clone());
    let client = Client::new("audit-webhook", settings, clock.clone(), tasks);
    WebhookBackend::new(webhook.server.clone(), client, clock, webhook.initial_backoff)
}

/// The policy with the backends; nothing without one of them.
pub(crate) fn of(settings: &AuditSettings, sink: &AuditSink) -> Option<Arc<Audit>> {
    let policy = settings.policy.as_ref().filter(|_| !sink.is_empty())?;
    Some(Arc::new(Audit {
        policy: Arc::clone(policy),
        sink: sink.clone(),
    }))
}
