//! The time that a request spends in admission webhooks, which its service level is not measured by
//! (`k8s.io/apiserver/pkg/endpoints/request/webhook_duration.go`).
//!
//! The edge begins a [`WebhookLatency`] for a request that admission may see, and hands it on in the request's
//! [`Target`](crate::request::Target); the webhook plugins add the time of their calls.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// The webhook latency of one request. Cheap to clone; clones are the same. The default is off.
#[derive(Debug, Clone, Default)]
pub struct WebhookLatency(Option<Arc<LatencyRecord>>);

#[derive(Debug, Default)]
struct LatencyRecord {
    mutating_micros: AtomicU64,
    validating_micros: AtomicU64,
}

impl WebhookLatency {
    /// Begins to record.
    pub fn begin() -> Self {
        Self(Some(Arc::default()))
    }

    /// Adds the time of a call of a mutating webhook: these are called one after the other.
    pub fn add_mutating(&self, took: Duration) {
        if let Some(record) = &self.0 {
            record.mutating_micros.fetch_add(micros(took), Ordering::Relaxed);
        }
    }

    /// Notes the time of a call of a validating webhook. These are called side by side, so the longest call is what they take.
    pub fn note_validating(&self, took: Duration) {
        if let Some(record) = &self.0 {
            record.validating_micros.fetch_max(micros(took), Ordering::Relaxed);
        }
    }

    /// The time in mutating webhooks so far.
    pub fn mutating(&self) -> Duration {
        self.read(|record| &record.mutating_micros)
    }

    /// The time in validating webhooks so far.
    pub fn validating(&self) -> Duration {
        self.read(|record| &record.validating_micros)
    }

    fn read(&self, which: impl FnOnce(&LatencyRecord) -> &AtomicU64) -> Duration {
        let micros = self.0.as_deref().map(|record| which(record).load(Ordering::Relaxed));
        Duration::from_micros(micros.unwrap_or(0))
    }
}

fn micros(took: Duration) -> u64 {
    u64::try_from(took.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mutating_calls_add_up_and_the_longest_validating_call_counts() {
        let latency = WebhookLatency::begin();
        for millis in [30, 10] {
            latency.clone().add_mutating(Duration::from_millis(millis));
            latency.clone().note_validating(Duration::from_millis(millis));
        }
        assert_eq!(latency.mutating(), Duration::from_millis(40));
        assert_eq!(latency.validating(), Duration::from_millis(30));
    }

    #[test]
    fn a_latency_that_is_off_records_nothing() {
        let latency = WebhookLatency::default();
        latency.add_mutating(Duration::from_secs(1));
        latency.note_validating(Duration::from_secs(1));
        assert_eq!((latency.mutating(), latency.validating()), Default::default());
    }
}
