//! The metrics of webhooks that authorize, by kube-apiserver's names (`plugin/pkg/authorizer/webhook/metrics`).

use std::time::Duration;

use ::metrics::{counter, histogram};

/// The end of one round trip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RoundTrip {
    Success,
    Timeout,
    Error,
}

impl RoundTrip {
    const fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Timeout => "timeout",
            Self::Error => "error",
        }
    }
}

/// Counts a round trip to a webhook.
pub(super) fn observe_round_trip(webhook: &str, result: RoundTrip, elapsed: Duration) {
    let name = webhook.to_owned();
    counter!("apiserver_authorization_webhook_evaluations_total", "name" => name.clone(), "result" => result.name())
        .increment(1);
    histogram!("apiserver_authorization_webhook_duration_seconds", "name" => name, "result" => result.name())
        .record(elapsed.as_secs_f64());
}

/// Counts a failure for which the next authorizer is asked.
pub(super) fn count_fail_open(webhook: &str, result: RoundTrip) {
    counter!(
        "apiserver_authorization_webhook_evaluations_fail_open_total",
        "name" => webhook.to_owned(), "result" => result.name()
    )
    .increment(1);
}

/// Counts an evaluation of match conditions.
pub(super) fn observe_conditions(webhook: &str, outcome: &Result<bool, String>, elapsed: Duration) {
    let name = webhook.to_owned();
    let kind = "Webhook";
    histogram!(
        "apiserver_authorization_match_condition_evaluation_seconds",
        "type" => kind, "name" => name.clone()
    )
    .record(elapsed.as_secs_f64());
    match outcome {
        Ok(true) => {}
        Ok(false) => {
            counter!("apiserver_authorization_match_condition_exclusions_total", "type" => kind, "name" => name)
                .increment(1);
        }
        Err(_) => {
            counter!("apiserver_authorization_match_condition_evaluation_errors_total", "type" => kind, "name" => name)
                .increment(1);
        }
    }
}
