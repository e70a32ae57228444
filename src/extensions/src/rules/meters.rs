//! The durations of compiling and evaluating rules (`k8s.io/apiserver/pkg/cel/metrics`): as in kube-apiserver, those of custom resources
//! alone. kube-apiserver measures each part of a schema that it walks through, here all the rules of a version or an object are
//! measured at once.

use metrics::{Histogram, histogram};
use trireme_actors::Clock;

/// Measures rules.
#[derive(Clone)]
pub(crate) struct RuleMeters {
    clock: Clock,
    compilation: Histogram,
    evaluation: Histogram,
}

impl RuleMeters {
    pub(crate) fn new(clock: Clock) -> Self {
        Self {
            clock,
            compilation: histogram!("apiserver_cel_compilation_duration_seconds"),
            evaluation: histogram!("apiserver_cel_evaluation_duration_seconds"),
        }
    }

    /// Compiles the rules of a version.
    pub(crate) fn compile<T>(&self, compile: impl FnOnce() -> T) -> T {
        self.measure(&self.compilation, compile)
    }

    /// Evaluates the rules on an object.
    pub(crate) fn evaluate<T>(&self, evaluate: impl FnOnce() -> T) -> T {
        self.measure(&self.evaluation, evaluate)
    }

    fn measure<T>(&self, durations: &Histogram, work: impl FnOnce() -> T) -> T {
        let began = self.clock.now();
        let done = work();
        durations.record(self.clock.now().saturating_duration_since(began).as_secs_f64());
        done
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use metrics_exporter_prometheus::PrometheusBuilder;
    use trireme_actors::ManualClock;

    use super::*;

    #[test]
    fn compiling_and_evaluating_are_measured_apart() {
        let builder = PrometheusBuilder::new().set_buckets(&[1.0]).expect("a bucket");
        let recorder = builder.build_recorder();
        metrics::with_local_recorder(&recorder, || {
            let time = ManualClock::new();
            let meters = RuleMeters::new(time.clone().into());
            meters.compile(|| time.advance(Duration::from_secs(3)));
            for seconds in [1, 4] {
                meters.evaluate(|| time.advance(Duration::from_secs(seconds)));
            }
        });
        let page = recorder.handle().render();
        for series in [
            "apiserver_cel_compilation_duration_seconds_sum 3",
            "apiserver_cel_compilation_duration_seconds_count 1",
            "apiserver_cel_evaluation_duration_seconds_sum 5",
            "apiserver_cel_evaluation_duration_seconds_bucket{le=\"1\"} 1",
        ] {
            assert!(page.lines().any(|line| line == series), "{series}\n{page}");
        }
    }
}
