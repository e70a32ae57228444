//! Metrics of impersonation, by kube-apiserver's names (`k8s.io/apiserver/pkg/endpoints/filters/impersonation/metrics`).

use std::time::Duration;

use ::metrics::{counter, histogram};

/// Records a request to act as another user, by the mode that allowed it; empty if none did.
pub(super) fn record_attempt(mode: &'static str, is_allowed: bool, took: Duration) {
    let labels = [("mode", mode), ("decision", decision(is_allowed))];
    counter!("apiserver_impersonation_attempts_total", &labels).increment(1);
    histogram!("apiserver_impersonation_attempts_duration_seconds", &labels).record(took.as_secs_f64());
}

/// Records a question that a mode asked of the authorizer.
pub(super) fn record_authorization(mode: &'static str, is_allowed: bool, took: Duration) {
    let labels = [("mode", mode), ("decision", decision(is_allowed))];
    counter!("apiserver_impersonation_authorization_attempts_total", &labels).increment(1);
    histogram!(
        "apiserver_impersonation_authorization_attempts_duration_seconds",
        &labels
    )
    .record(took.as_secs_f64());
}

const fn decision(is_allowed: bool) -> &'static str {
    if is_allowed { "allowed" } else { "denied" }
}
