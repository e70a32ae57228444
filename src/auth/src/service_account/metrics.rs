//! Metrics of the tokens that requests show (`k8s.io/kubernetes/pkg/serviceaccount/metrics.go`).

use metrics::{Counter, counter};

/// Counts uses of tokens. Each use is of one kind; those that a Secret keeps are also counted together.
pub(super) struct TokenMetrics {
    /// Of tokens that a Secret keeps.
    pub(super) kept: Counter,
    /// Of those, by a Secret that kube-controller-manager made for a service account.
    pub(super) kept_automatically: Counter,
    /// Of those, by a Secret that someone else made.
    pub(super) kept_manually: Counter,
    /// Of those, by a Secret that is marked as invalid.
    pub(super) marked_invalid: Counter,
    /// Of tokens whose end was put off, before the end that was asked for.
    pub(super) valid: Counter,
    /// The same after that end.
    pub(super) stale: Counter,
}

impl TokenMetrics {
    pub(super) fn new() -> Self {
        Self {
            kept: counter!("serviceaccount_legacy_tokens_total"),
            kept_automatically: counter!("serviceaccount_legacy_auto_token_uses_total"),
            kept_manually: counter!("serviceaccount_legacy_manual_token_uses_total"),
            marked_invalid: counter!("serviceaccount_invalid_legacy_auto_token_uses_total"),
            valid: counter!("serviceaccount_valid_tokens_total"),
            stale: counter!("serviceaccount_stale_tokens_total"),
        }
    }
}
