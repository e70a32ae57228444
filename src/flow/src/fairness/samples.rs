//! Samples of how much of the levels is in use, in the histograms that kube-apiserver observes at the end of every nanosecond.
//! Here a sample is taken ten times a second: their averages say the same, their counts do not.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use arc_swap::ArcSwap;
use metrics::{Histogram, histogram};
use trireme_actors::ActorSystem;

use super::controller::{FlowLevel, LevelTable};

/// The time between two samples.
const PERIOD: Duration = Duration::from_millis(100);

/// The histograms of one level.
pub(crate) struct LevelSamples {
    seats: Histogram,
    executing: Histogram,
    waiting: Histogram,
    demand: Histogram,
}

impl LevelSamples {
    pub(crate) fn new(level: &str) -> Self {
        let in_phase = |metric: &'static str, phase: &'static str| histogram!(metric, "phase" => phase, "priority_level" => level.to_owned());
        let requests = "apiserver_flowcontrol_priority_level_request_utilization";
        Self {
            seats: in_phase("apiserver_flowcontrol_priority_level_seat_utilization", "executing"),
            executing: in_phase(requests, "executing"),
            waiting: in_phase(requests, "waiting"),
            demand: histogram!("apiserver_flowcontrol_demand_seats", "priority_level" => level.to_owned()),
        }
    }

    /// Takes a sample of a level of a server with so many seats.
    fn take(&self, level: &FlowLevel, server_seats: u32) {
        let seats = &level.seats;
        // A level that has none is compared with a tenth of the server.
        let limit = match seats.limit() {
            0 => (f64::from(server_seats) / 10.0).round().max(1.0),
            limit => f64::from(limit),
        };
        let places = seats.shape().map_or(1, |shape| {
            shape.queues.max(1).saturating_mul(shape.queue_length_limit.max(1))
        });
        let waiting = level.counters.waiting.load(Ordering::Relaxed);
        self.seats.record(f64::from(seats.in_use()) / limit);
        self.executing.record(f64::from(seats.executing()) / limit);
        self.waiting.record(waiting as f64 / places as f64);
        self.demand.record(f64::from(seats.demand()) / limit);
    }
}

/// Takes samples of the levels that there are.
pub(crate) fn take_regularly(system: &ActorSystem, levels: Arc<ArcSwap<LevelTable>>, server_seats: u32) {
    let take = move || {
        let table = levels.load();
        table
            .levels
            .iter()
            .for_each(|level| level.samples.take(level, server_seats));
    };
    let _ = system.tasks().every("flow-samples", PERIOD, take);
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use metrics_exporter_prometheus::PrometheusBuilder;
    use trireme_actors::{testkit::run, topology::Topology};

    use crate::{FlowDemand, FlowRequest, FlowSubject, PriorityAndFairness, RequestDetails, RequestKind, WorkEstimate};

    #[test]
    fn seats_in_use_are_shown_as_a_part_of_the_levels() {
        let recorder = PrometheusBuilder::new().build_recorder();
        run(Topology::trireme(), |kit| async move {
            let start = || PriorityAndFairness::start(&kit.system, 4).expect("the actors start");
            let fairness = metrics::with_local_recorder(&recorder, start);
            let nobody = FlowRequest {
                user: "",
                groups: &[],
                verb: "get",
                subject: FlowSubject::Path("/"),
            };
            let flow = fairness.classify(&nobody);
            assert_eq!(flow.level(), "catch-all");
            let demand = FlowDemand {
                work: WorkEstimate::of_seats(3),
                kind: RequestKind::ReadOnly,
                is_watch: false,
                deadline: kit.system.clock().now(),
            };
            let seat = fairness.acquire(&flow, demand, RequestDetails::default());
            assert!(seat.now_or_never().is_some_and(|seat| seat.is_ok_and(|seat| {
                let table = fairness.table.load();
                for level in &table.levels {
                    level.samples.take(level, 4);
                }
                drop(seat);
                true
            })));
            let page = recorder.handle().render();
            for (metric, labels, sum) in [
                ("priority_level_seat_utilization", "phase=\"executing\",", "0.75"),
                ("priority_level_request_utilization", "phase=\"executing\",", "0.25"),
                ("priority_level_request_utilization", "phase=\"waiting\",", "0"),
                ("demand_seats", "", "0.75"),
            ] {
                let series =
                    format!("apiserver_flowcontrol_{metric}_sum{{{labels}priority_level=\"catch-all\"}} {sum}");
                assert!(page.lines().any(|line| line == series), "{series}\n{page}");
            }
        });
    }
}
