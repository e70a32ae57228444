//! Counts of what became of requests, by level; the names are kube-apiserver's.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};

/// What became of the requests of a level.
pub(crate) struct LevelCounters {
    level: String,
    in_queue: Gauge,
    pub(crate) waiting: AtomicU64,
    pub(crate) rejected: AtomicU64,
    pub(crate) timed_out: AtomicU64,
    pub(crate) cancelled: AtomicU64,
}

/// Why a request was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RefusalReason {
    /// The level has no seats free and no queues.
    ConcurrencyLimit,
    /// Its queue is full.
    QueueFull,
    /// Its turn did not come in time.
    TimeOut,
    /// Its client has left.
    Cancelled,
}

impl RefusalReason {
    fn label(self) -> &'static str {
        match self {
            Self::ConcurrencyLimit => "concurrency-limit",
            Self::QueueFull => "queue-full",
            Self::TimeOut => "time-out",
            Self::Cancelled => "cancelled",
        }
    }
}

impl LevelCounters {
    pub(crate) fn new(level: &str) -> Self {
        Self {
            level: level.to_owned(),
            in_queue: gauge!("apiserver_flowcontrol_current_inqueue_requests", "priority_level" => level.to_owned()),
            waiting: AtomicU64::new(0),
            rejected: AtomicU64::new(0),
            timed_out: AtomicU64::new(0),
            cancelled: AtomicU64::new(0),
        }
    }

    pub(crate) fn refused(&self, schema: &str, reason: RefusalReason) {
        let count = match reason {
            RefusalReason::ConcurrencyLimit | RefusalReason::QueueFull => &self.rejected,
            RefusalReason::TimeOut => &self.timed_out,
            RefusalReason::Cancelled => &self.cancelled,
        };
        count.fetch_add(1, Ordering::Relaxed);
        counter!(
            "apiserver_flowcontrol_rejected_requests_total",
            "priority_level" => self.level.clone(), "flow_schema" => schema.to_owned(), "reason" => reason.label()
        )
        .increment(1);
    }

    /// Begins to count a request that waits.
    pub(crate) fn wait<'c>(&'c self, schema: &'c str) -> WaitCount<'c> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        self.in_queue.increment(1.0);
        WaitCount {
            counters: self,
            schema,
            is_over: false,
        }
    }
}

/// The meters of requests of one schema in one level, looked up once.
pub(crate) struct RouteMeters {
    dispatched: Counter,
    waited: Histogram,
    seats: Histogram,
}

impl RouteMeters {
    pub(crate) fn new(schema: &str, level: &str) -> Self {
        let labels = [("priority_level", level.to_owned()), ("flow_schema", schema.to_owned())];
        Self {
            dispatched: counter!("apiserver_flowcontrol_dispatched_requests_total", &labels),
            waited: histogram!("apiserver_flowcontrol_request_wait_duration_seconds", &labels),
            seats: histogram!("apiserver_flowcontrol_work_estimated_seats", &labels),
        }
    }

    /// A request asks for so many seats.
    pub(crate) fn asked(&self, seats: u32) {
        self.seats.record(f64::from(seats));
    }

    /// A request has got its seat after so long.
    pub(crate) fn dispatched(&self, after: Duration) {
        self.dispatched.increment(1);
        self.waited.record(after.as_secs_f64());
    }
}

/// A request that waits. Dropped before it is over, its client has left.
pub(crate) struct WaitCount<'c> {
    counters: &'c LevelCounters,
    schema: &'c str,
    is_over: bool,
}

impl WaitCount<'_> {
    /// It has its seat, or is refused.
    pub(crate) fn over(mut self) {
        self.is_over = true;
    }
}

impl Drop for WaitCount<'_> {
    fn drop(&mut self) {
        self.counters.waiting.fetch_sub(1, Ordering::Relaxed);
        self.counters.in_queue.decrement(1.0);
        if !self.is_over {
            self.counters.refused(self.schema, RefusalReason::Cancelled);
        }
    }
}
