//! The metrics of calls, by kube-apiserver's names (`k8s.io/apiserver/pkg/admission/metrics`).

use std::time::Duration;

use ::metrics::{counter, histogram};

/// Codes above count as this one.
const MAX_CODE: u16 = 600;

/// The call that is measured.
#[derive(Clone, Copy)]
pub(super) struct MeasuredCall<'c> {
    pub(super) webhook: &'c str,
    pub(super) step: &'static str,
    pub(super) operation: &'static str,
}

impl MeasuredCall<'_> {
    /// Counts a call that took `elapsed`.
    pub(super) fn observe(&self, elapsed: Duration, rejected: bool, code: u16) {
        let name = self.webhook.to_owned();
        let rejected = if rejected { "true" } else { "false" };
        let code = code.min(MAX_CODE).to_string();
        counter!(
            "apiserver_admission_webhook_request_total",
            "name" => name.clone(), "type" => self.step, "operation" => self.operation, "code" => code, "rejected" => rejected
        )
        .increment(1);
        histogram!(
            "apiserver_admission_webhook_admission_duration_seconds",
            "name" => name, "type" => self.step, "operation" => self.operation, "rejected" => rejected
        )
        .record(elapsed.as_secs_f64());
    }

    /// Counts a refusal, by the webhook or for want of its answer.
    pub(super) fn reject(&self, error_type: &'static str, code: u16) {
        counter!(
            "apiserver_admission_webhook_rejection_count",
            "name" => self.webhook.to_owned(), "type" => self.step, "operation" => self.operation,
            "error_type" => error_type, "rejection_code" => code.min(MAX_CODE).to_string()
        )
        .increment(1);
    }

    /// Counts a webhook that was not asked because of its match conditions.
    pub(super) fn exclude(&self) {
        counter!(
            "apiserver_admission_match_condition_exclusions_total",
            "name" => self.webhook.to_owned(), "kind" => "webhook", "type" => self.step, "operation" => self.operation
        )
        .increment(1);
    }

    /// Counts match conditions that could not be evaluated.
    pub(super) fn condition_errors(&self) {
        counter!(
            "apiserver_admission_match_condition_evaluation_errors_total",
            "name" => self.webhook.to_owned(), "kind" => "webhook", "type" => self.step, "operation" => self.operation
        )
        .increment(1);
    }

    /// Counts a failed call that counts for nothing.
    pub(super) fn fail_open(&self) {
        counter!(
            "apiserver_admission_webhook_fail_open_count",
            "name" => self.webhook.to_owned(), "type" => self.step
        )
        .increment(1);
    }
}
