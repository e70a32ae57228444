//! The buckets of the histograms of priority and fairness (`k8s.io/apiserver/pkg/util/flowcontrol/metrics`).

use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder};

/// The buckets by metric, without the prefix of all of them.
const BUCKETS: [(&str, &[f64]); 8] = [
    ("request_wait_duration_seconds", &SECONDS),
    ("request_execution_seconds", &SECONDS),
    (
        "request_queue_length_after_enqueue",
        &[0.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1e3],
    ),
    ("work_estimated_seats", &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 100.0]),
    ("watch_count_samples", &[0.0, 1.0, 10.0, 100.0, 1e3, 1e4]),
    (
        "priority_level_seat_utilization",
        &[0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0],
    ),
    (
        "priority_level_request_utilization",
        &[0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.25, 0.5, 0.75, 1.0],
    ),
    (
        "demand_seats",
        &[0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.7, 2.0, 2.8, 4.0, 6.0],
    ),
];

const SECONDS: [f64; 13] = [0.0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0];

/// Gives the histograms their buckets.
///
/// # Errors
/// If the exporter does not take them.
pub(super) fn configure(builder: PrometheusBuilder) -> Result<PrometheusBuilder, BuildError> {
    BUCKETS.into_iter().try_fold(builder, |builder, (metric, buckets)| {
        builder.set_buckets_for_metric(Matcher::Full(format!("apiserver_flowcontrol_{metric}")), buckets)
    })
}

#[cfg(test)]
mod tests {
    use metrics::histogram;

    use super::*;

    #[test]
    fn every_histogram_has_its_own_buckets() {
        let builder = configure(PrometheusBuilder::new()).expect("they are not empty");
        let recorder = builder.build_recorder();
        metrics::with_local_recorder(&recorder, || {
            for (metric, _) in BUCKETS {
                histogram!(format!("apiserver_flowcontrol_{metric}")).record(0.0);
            }
        });
        let page = recorder.handle().render();
        for (metric, buckets) in BUCKETS {
            let bucket = format!("apiserver_flowcontrol_{metric}_bucket{{le=");
            let shown = page.lines().filter(|line| line.starts_with(&bucket)).count();
            assert_eq!(shown, buckets.len() + 1, "{metric}: those and +Inf\n{page}");
        }
    }
}
