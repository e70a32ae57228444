//! Counts of what became of requests, by level; the names are kube-apiserver's.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};

use super::{seats::LevelSeats, waiting::WaitingRequest, work::TrackedRequest};
use crate::watermark::WatermarkCount;

/// Requests that may wait in a level at one time: somewhat fewer than its actor has permits, so that dumps find one.
pub(crate) const MOST_WAITING: u64 = 8128;

/// What became of the requests of a level.
pub(crate) struct LevelCounters {
    level: String,
    /// Those that ask for a place in a queue or have one.
    asking: AtomicU64,
    /// Those that are in a queue.
    pub(crate) waiting: AtomicU64,
    /// Those that were refused, with those that left before their turn.
    pub(crate) rejected: AtomicU64,
    /// Those that left before their turn.
    pub(crate) cancelled: AtomicU64,
}

/// Why a request was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RefusalReason {
    /// The level has no seats free and no queues.
    ConcurrencyLimit,
    /// Its queue is full.
    QueueFull,
    /// Its turn did not come in time, or its client has left.
    TimeOut,
}

impl RefusalReason {
    fn label(self) -> &'static str {
        match self {
            Self::ConcurrencyLimit => "concurrency-limit",
            Self::QueueFull => "queue-full",
            Self::TimeOut => "time-out",
        }
    }
}

impl LevelCounters {
    pub(crate) fn new(level: &str) -> Self {
        Self {
            level: level.to_owned(),
            asking: AtomicU64::new(0),
            waiting: AtomicU64::new(0),
            rejected: AtomicU64::new(0),
            cancelled: AtomicU64::new(0),
        }
    }

    pub(crate) fn refused(&self, schema: &str, reason: RefusalReason) {
        self.rejected.fetch_add(1, Ordering::Relaxed);
        if reason == RefusalReason::TimeOut {
            self.cancelled.fetch_add(1, Ordering::Relaxed);
        }
        counter!(
            "apiserver_flowcontrol_rejected_requests_total",
            "priority_level" => self.level.clone(), "flow_schema" => schema.to_owned(), "reason" => reason.label()
        )
        .increment(1);
    }

    /// Begins to count a request that asks for a place in a queue, unless as many do or have one as may.
    pub(crate) fn ask<'c>(&'c self, seats: &'c LevelSeats, waiting: &'c WaitingRequest) -> Option<AskCount<'c>> {
        let more = |asking: u64| (asking < MOST_WAITING).then_some(asking + 1);
        self.asking
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .ok()?;
        Some(AskCount {
            counters: self,
            seats,
            waiting,
            is_over: false,
        })
    }
}

/// The meters of requests of one schema in one level, looked up once.
pub(crate) struct RouteMeters {
    dispatched: Counter,
    waited: Histogram,
    waited_in_vain: Histogram,
    no_accommodation: Counter,
    estimated_seats: Histogram,
    watchers: Histogram,
    queue_length: Histogram,
    in_queue: Gauge,
    in_queue_seats: Gauge,
    executing: Gauge,
    executing_seats: Gauge,
    took: Histogram,
    watch_took: Histogram,
}

impl RouteMeters {
    pub(crate) fn new(schema: &str, level: &str) -> Self {
        let labels = [("priority_level", level.to_owned()), ("flow_schema", schema.to_owned())];
        let and = |name: &'static str, value: &str| {
            let [level, schema] = labels.clone();
            [level, schema, (name, value.to_owned())]
        };
        let waited = |has_run: &str| {
            histogram!(
                "apiserver_flowcontrol_request_wait_duration_seconds",
                &and("execute", has_run)
            )
        };
        let took = |kind: &str| histogram!("apiserver_flowcontrol_request_execution_seconds", &and("type", kind));
        Self {
            dispatched: counter!("apiserver_flowcontrol_dispatched_requests_total", &labels),
            waited: waited("true"),
            waited_in_vain: waited("false"),
            no_accommodation: counter!("apiserver_flowcontrol_request_dispatch_no_accommodation_total", &labels),
            estimated_seats: histogram!("apiserver_flowcontrol_work_estimated_seats", &labels),
            watchers: histogram!("apiserver_flowcontrol_watch_count_samples", &labels),
            queue_length: histogram!("apiserver_flowcontrol_request_queue_length_after_enqueue", &labels),
            in_queue: gauge!("apiserver_flowcontrol_current_inqueue_requests", &labels),
            in_queue_seats: gauge!("apiserver_flowcontrol_current_inqueue_seats", &labels),
            executing: gauge!("apiserver_flowcontrol_current_executing_requests", &labels),
            executing_seats: gauge!("apiserver_flowcontrol_current_executing_seats", &labels),
            took: took("regular"),
            watch_took: took("watch"),
        }
    }

    /// A request asks for so many seats.
    pub(crate) fn asked(&self, seats: u32) {
        self.estimated_seats.record(f64::from(seats));
    }

    /// A write has so many watchers.
    pub(crate) fn watched(&self, watchers: u32) {
        self.watchers.record(f64::from(watchers));
    }

    /// A request waits in a queue of so many.
    pub(crate) fn enqueued(&self, length: usize) {
        self.queue_length.record(length as f64);
    }

    /// A request has got its seat.
    pub(crate) fn dispatched(&self) {
        self.dispatched.increment(1);
    }

    /// A request that is not exempt has got its seat after so long, or has left its queue.
    pub(crate) fn waited(&self, time: Duration) {
        self.waited.record(time.as_secs_f64());
    }

    /// A request has been refused after so long.
    pub(crate) fn waited_in_vain(&self, time: Duration) {
        self.waited_in_vain.record(time.as_secs_f64());
    }

    /// It is the turn of a request that needs more seats than are free.
    pub(crate) fn not_accommodated(&self) {
        self.no_accommodation.increment(1);
    }

    /// A request with so many seats begins to be worked on.
    pub(crate) fn begin(&self, seats: u32) {
        self.executing.increment(1.0);
        self.executing_seats.increment(f64::from(seats));
    }

    /// A request has been worked on for so long; for a watch, until it had begun.
    pub(crate) fn end(&self, took: Duration, is_watch: bool) {
        self.executing.decrement(1.0);
        let meter = if is_watch { &self.watch_took } else { &self.took };
        meter.record(took.as_secs_f64());
    }

    /// So many seats are taken no more.
    pub(crate) fn give_back(&self, seats: u32) {
        self.executing_seats.decrement(f64::from(seats));
    }
}

/// A request in a queue.
pub(crate) struct QueuedCount {
    counters: Arc<LevelCounters>,
    request: Arc<TrackedRequest>,
    _in_queue: WatermarkCount,
}

impl QueuedCount {
    pub(crate) fn new(counters: &Arc<LevelCounters>, request: &Arc<TrackedRequest>, in_queue: WatermarkCount) -> Self {
        counters.waiting.fetch_add(1, Ordering::Relaxed);
        request.meters.in_queue.increment(1.0);
        let seats = f64::from(request.work.most_seats());
        request.meters.in_queue_seats.increment(seats);
        Self {
            counters: Arc::clone(counters),
            request: Arc::clone(request),
            _in_queue: in_queue,
        }
    }
}

impl Drop for QueuedCount {
    fn drop(&mut self) {
        self.counters.waiting.fetch_sub(1, Ordering::Relaxed);
        self.request.meters.in_queue.decrement(1.0);
        let seats = f64::from(self.request.work.most_seats());
        self.request.meters.in_queue_seats.decrement(seats);
    }
}

/// A request that asks for a place in a queue or has one. Dropped before it is over, its time is, or its client has left.
pub(crate) struct AskCount<'c> {
    counters: &'c LevelCounters,
    seats: &'c LevelSeats,
    waiting: &'c WaitingRequest,
    is_over: bool,
}

impl AskCount<'_> {
    /// It has its seat, or is refused.
    pub(crate) fn over(mut self) {
        self.is_over = true;
    }
}

impl Drop for AskCount<'_> {
    fn drop(&mut self) {
        self.counters.asking.fetch_sub(1, Ordering::Relaxed);
        self.waiting.leave();
        if !self.is_over {
            let request = &self.waiting.request;
            // As with kube-apiserver, which counts all as executed that were in a queue.
            request.meters.waited(self.seats.time_since(request.arrived));
            self.counters.refused(request.schema.name(), RefusalReason::TimeOut);
            // The actor is to forget it.
            self.seats.freed.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use metrics_exporter_prometheus::PrometheusBuilder;
    use trireme_actors::Clock;

    use super::{super::late::LateReleases, *};
    use crate::{RequestDetails, WorkEstimate};

    #[test]
    fn those_that_leave_their_queue_are_rejected_for_their_time_and_have_waited() {
        let recorder = PrometheusBuilder::new().build_recorder();
        metrics::with_local_recorder(&recorder, || {
            let counters = LevelCounters::new("workload-low");
            let (late, _ended) = LateReleases::channel();
            let seats = LevelSeats::new(Clock::system(), late);
            let waiting = WaitingRequest::new(Arc::new(TrackedRequest {
                schema: Arc::default(),
                meters: Arc::new(RouteMeters::new("", "workload-low")),
                distinguisher: "".into(),
                arrived: Clock::system().now(),
                work: WorkEstimate::of_seats(1),
                is_watch: false,
                details: RequestDetails::default(),
            }));
            let [served, leaves] = [counters.ask(&seats, &waiting), counters.ask(&seats, &waiting)];
            if let Some(served) = served {
                served.over();
            }
            drop(leaves);
            let counts = [&counters.asking, &counters.rejected, &counters.cancelled];
            assert_eq!(counts.map(|count| count.load(Ordering::Relaxed)), [0, 1, 1]);
        });
        let page = recorder.handle().render();
        let labels = r#"priority_level="workload-low",flow_schema="""#;
        for series in [
            format!("apiserver_flowcontrol_rejected_requests_total{{{labels},reason=\"time-out\"}} 1"),
            format!("apiserver_flowcontrol_request_wait_duration_seconds_count{{{labels},execute=\"true\"}} 1"),
        ] {
            assert!(page.lines().any(|line| line == series), "{series}\n{page}");
        }
    }

    #[test]
    fn a_request_sees_how_long_its_queue_is() {
        let builder = PrometheusBuilder::new().set_buckets(&[0.0, 10.0]).expect("buckets");
        let recorder = builder.build_recorder();
        metrics::with_local_recorder(&recorder, || {
            let meters = RouteMeters::new("service-accounts", "workload-low");
            meters.enqueued(1);
            meters.enqueued(11);
        });
        let page = recorder.handle().render();
        let labels = r#"priority_level="workload-low",flow_schema="service-accounts""#;
        let name = "apiserver_flowcontrol_request_queue_length_after_enqueue";
        for series in [
            format!("{name}_bucket{{{labels},le=\"10\"}} 1"),
            format!("{name}_count{{{labels}}} 2"),
        ] {
            assert!(page.lines().any(|line| line == series), "{series}\n{page}");
        }
    }
}
