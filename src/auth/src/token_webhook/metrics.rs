//! Metrics of verdicts on tokens that are remembered (`k8s.io/apiserver/pkg/authentication/token/cache/stats.go`).

use std::time::{Duration, Instant};

use ::metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};
use trireme_actors::Clock;

const REQUESTS: &str = "authentication_token_cache_request_total";
const REQUEST_DURATION: &str = "authentication_token_cache_request_duration_seconds";
const FETCHES: &str = "authentication_token_cache_fetch_total";
const ACTIVE_FETCHES: &str = "authentication_token_cache_active_fetch_count";

/// Counts requests by whether the verdict on their tokens is at hand.
pub(super) struct TokenCacheMetrics {
    hit: RequestSeries,
    miss: RequestSeries,
    blocked: Gauge,
    pub(super) fetches: FetchMetrics,
}

struct RequestSeries {
    count: Counter,
    duration: Histogram,
}

impl RequestSeries {
    fn new(status: &'static str) -> Self {
        Self {
            count: counter!(REQUESTS, "status" => status),
            duration: histogram!(REQUEST_DURATION, "status" => status),
        }
    }

    fn record(&self, took: Duration) {
        self.count.increment(1);
        self.duration.record(took.as_secs_f64());
    }
}

impl TokenCacheMetrics {
    pub(super) fn new() -> Self {
        Self {
            hit: RequestSeries::new("hit"),
            miss: RequestSeries::new("miss"),
            blocked: gauge!(ACTIVE_FETCHES, "status" => "blocked"),
            fetches: FetchMetrics {
                in_flight: gauge!(ACTIVE_FETCHES, "status" => "in_flight"),
                ok: counter!(FETCHES, "status" => "ok"),
                failed: counter!(FETCHES, "status" => "error"),
            },
        }
    }

    /// A request found the verdict.
    pub(super) fn record_hit(&self, took: Duration) {
        self.hit.record(took);
    }

    /// A request that came at `begun` waits for the verdict until this is dropped.
    pub(super) fn wait<'a>(&'a self, clock: &'a Clock, begun: Instant) -> BlockedRequest<'a> {
        self.blocked.increment(1.0);
        BlockedRequest {
            metrics: self,
            clock,
            begun,
        }
    }
}

/// A request that waits for a verdict; recorded when it is dropped.
pub(super) struct BlockedRequest<'a> {
    metrics: &'a TokenCacheMetrics,
    clock: &'a Clock,
    begun: Instant,
}

impl Drop for BlockedRequest<'_> {
    fn drop(&mut self) {
        self.metrics.blocked.decrement(1.0);
        let took = self.clock.now().saturating_duration_since(self.begun);
        self.metrics.miss.record(took);
    }
}

/// Counts the calls to the webhook, each for all requests that wait for it.
#[derive(Clone)]
pub(super) struct FetchMetrics {
    in_flight: Gauge,
    ok: Counter,
    failed: Counter,
}

impl FetchMetrics {
    /// A call begins; it goes on until this is dropped.
    pub(super) fn begin(self) -> Fetch {
        self.in_flight.increment(1.0);
        Fetch(self)
    }
}

/// A call under way.
pub(super) struct Fetch(FetchMetrics);

impl Fetch {
    /// It has ended: with a verdict, good or bad, or without one.
    pub(super) fn end(self, has_verdict: bool) {
        let fetches = &self.0;
        let ended = if has_verdict { &fetches.ok } else { &fetches.failed };
        ended.increment(1);
    }
}

impl Drop for Fetch {
    fn drop(&mut self) {
        self.0.in_flight.decrement(1.0);
    }
}
