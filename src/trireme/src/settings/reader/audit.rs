//! Audit, `--audit-…`. A refused value is reported in kube-apiserver's words.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use trireme_audit::{AuditLogFormat, AuditPolicy, BatchSettings, LogSettings, Mode, Throttle, TruncateSettings};

use super::{DURATION, SettingsReader};
use crate::kubeconfig;
use crate::settings::audit::{AuditLog, AuditSettings, AuditWebhook};
use crate::settings::errors::SettingError;
use crate::settings::layers::Given;
use crate::settings::values::duration;

const BOOL: &str = "give true or false";
const NOT_NEGATIVE: &str = "can't be a negative number";
const POSITIVE: &str = "must be a positive number";
const VERSION: &str = "audit.k8s.io/v1";

/// The names of a backend's flags that the others have, too.
struct Flags {
    mode: &'static str,
    buffer_size: &'static str,
    max_size: &'static str,
    max_wait: &'static str,
    throttle: &'static str,
    qps: &'static str,
    burst: &'static str,
    truncates: &'static str,
    max_event: &'static str,
    max_batch: &'static str,
    version: &'static str,
}

const LOG: Flags = Flags {
    mode: "audit-log-mode",
    buffer_size: "audit-log-batch-buffer-size",
    max_size: "audit-log-batch-max-size",
    max_wait: "audit-log-batch-max-wait",
    throttle: "audit-log-batch-throttle-enable",
    qps: "audit-log-batch-throttle-qps",
    burst: "audit-log-batch-throttle-burst",
    truncates: "audit-log-truncate-enabled",
    max_event: "audit-log-truncate-max-event-size",
    max_batch: "audit-log-truncate-max-batch-size",
    version: "audit-log-version",
};

const WEBHOOK: Flags = Flags {
    mode: "audit-webhook-mode",
    buffer_size: "audit-webhook-batch-buffer-size",
    max_size: "audit-webhook-batch-max-size",
    max_wait: "audit-webhook-batch-max-wait",
    throttle: "audit-webhook-batch-throttle-enable",
    qps: "audit-webhook-batch-throttle-qps",
    burst: "audit-webhook-batch-throttle-burst",
    truncates: "audit-webhook-truncate-enabled",
    max_event: "audit-webhook-truncate-max-event-size",
    max_batch: "audit-webhook-truncate-max-batch-size",
    version: "audit-webhook-version",
};

impl SettingsReader {
    /// The policy and the backends.
    pub(super) fn audit(&mut self) -> AuditSettings {
        AuditSettings {
            policy: self.audit_policy().map(Arc::new),
            log: self.audit_log(),
            webhook: self.audit_webhook(),
        }
    }

    fn audit_policy(&mut self) -> Option<AuditPolicy> {
        let Given { origin, text } = self.layers.given("audit-policy-file")?;
        let refused = |error| {
            self.errors.push(SettingError {
                origin,
                value: Some(text.clone()),
                allowed: format!("loading audit policy file: {error}"),
            });
        };
        AuditPolicy::load(Path::new(&text)).map_err(refused).ok()
    }

    /// All flags are read even without a path: their errors are reported anyway.
    fn audit_log(&mut self) -> Option<AuditLog> {
        let format = self.value(
            "audit-log-format",
            "allowed formats are \"legacy,json\"",
            |text| match text {
                "legacy" => Some(AuditLogFormat::Legacy),
                "json" => Some(AuditLogFormat::Json),
                _ => None,
            },
        );
        let (max_size_mib, max_backups, max_age_days) = (
            self.value("audit-log-maxsize", NOT_NEGATIVE, number),
            self.value("audit-log-maxbackup", NOT_NEGATIVE, number),
            self.value("audit-log-maxage", NOT_NEGATIVE, number),
        );
        let compress = self.value("audit-log-compress", BOOL, number);
        let (mode, truncate) = (self.audit_mode(&LOG), self.audit_truncate(&LOG));
        let path = self.layers.given("audit-log-path")?.text;
        Some(AuditLog {
            log: LogSettings {
                path: PathBuf::from(path),
                format,
                max_size_mib,
                max_backups,
                max_age_days,
                compress,
            },
            mode,
            truncate,
        })
    }

    /// All flags are read even without a kubeconfig, as those of the log.
    fn audit_webhook(&mut self) -> Option<AuditWebhook> {
        let initial_backoff = self.value("audit-webhook-initial-backoff", DURATION, duration);
        let deprecated = self.optional("audit-webhook-batch-initial-backoff", DURATION, duration);
        let is_replaced = self.layers.is_said("audit-webhook-initial-backoff");
        let (mode, truncate) = (self.audit_mode(&WEBHOOK), self.audit_truncate(&WEBHOOK));
        let Given { origin, text } = self.layers.given("audit-webhook-config-file")?;
        let server = kubeconfig::webhook(Path::new(&text)).map_err(|error| {
            self.errors.push(SettingError {
                origin,
                value: Some(text),
                allowed: format!("initializing audit webhook: {error}"),
            });
        });
        Some(AuditWebhook {
            server: server.ok()?,
            initial_backoff: deprecated.filter(|_| !is_replaced).unwrap_or(initial_backoff),
            mode,
            truncate,
        })
    }

    fn audit_mode(&mut self, flags: &Flags) -> Mode {
        self.value(flags.version, "allowed versions are [\"audit.k8s.io/v1\"]", |text| {
            (text == VERSION).then_some(())
        });
        let is_throttled: bool = self.value(flags.throttle, BOOL, number);
        let qps: f64 = self.value(flags.qps, NOT_NEGATIVE, |text| {
            text.parse().ok().filter(|qps: &f64| qps.is_finite() && *qps >= 0.0)
        });
        let burst = self.value(flags.burst, NOT_NEGATIVE, number);
        let batch = BatchSettings {
            buffer_size: self.value(flags.buffer_size, POSITIVE, positive),
            max_size: self.value(flags.max_size, POSITIVE, positive),
            max_wait: self.value(flags.max_wait, DURATION, duration),
            throttle: (is_throttled && qps > 0.0).then_some(Throttle { qps, burst }),
        };
        self.value(
            flags.mode,
            "allowed modes are \"batch,blocking,blocking-strict\"",
            |text| match text {
                "batch" => Some(Mode::Batch(batch)),
                "blocking" => Some(Mode::Blocking),
                "blocking-strict" => Some(Mode::BlockingStrict),
                _ => None,
            },
        )
    }

    fn audit_truncate(&mut self, flags: &Flags) -> Option<TruncateSettings> {
        let is_truncated: bool = self.value(flags.truncates, BOOL, number);
        let max_event_bytes: usize = self.value(flags.max_event, POSITIVE, positive);
        let max_batch_bytes: usize = self.value(flags.max_batch, POSITIVE, positive);
        if is_truncated && max_batch_bytes < max_event_bytes {
            let why = format!("must be greater than max event size ({max_event_bytes})");
            self.refuse_if_given(flags.max_batch, &why);
        }
        is_truncated.then_some(TruncateSettings {
            max_event_bytes,
            max_batch_bytes,
        })
    }
}

fn number<T: FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}

fn positive(text: &str) -> Option<usize> {
    number(text).filter(|count| *count > 0)
}
