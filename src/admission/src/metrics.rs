//! The durations of admission, by step and by plugin (`k8s.io/apiserver/pkg/admission/metrics`).
//!
//! A plugin is measured only where it is asked: one that does not handle a request costs nothing and has no sample of it. The clock
//! is read once between two plugins, since a plugin takes hardly longer than that; the series are looked up once.

use std::{
    sync::OnceLock,
    time::{Duration, Instant},
};

use ::metrics::{Histogram, Label, histogram};
use trireme_actors::Clock;
use trireme_registry::Operation;

use crate::matching::operation_name;

const STEP: &str = "apiserver_admission_step_admission_duration_seconds";
const CONTROLLER: &str = "apiserver_admission_controller_admission_duration_seconds";

/// The steps of admission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AdmissionStep {
    /// Mutating admission.
    Admit,
    /// Validating admission.
    Validate,
}

impl AdmissionStep {
    const fn label(self) -> &'static str {
        match self {
            Self::Admit => "admit",
            Self::Validate => "validate",
        }
    }
}

/// The durations of a plugin, or of whole steps.
pub(crate) struct AdmissionMeter {
    /// None for whole steps.
    plugin: Option<&'static str>,
    series: [OnceLock<Histogram>; SERIES],
}

/// Steps, operations, and whether the request was refused.
const SERIES: usize = 2 * OPERATIONS * 2;
const OPERATIONS: usize = 4;

impl AdmissionMeter {
    pub(crate) fn of_steps() -> Self {
        Self {
            plugin: None,
            series: Default::default(),
        }
    }

    pub(crate) fn of_plugin(name: &'static str) -> Self {
        Self {
            plugin: Some(name),
            ..Self::of_steps()
        }
    }

    fn record(&self, (step, operation): (AdmissionStep, Operation), took: Duration, is_rejected: bool) {
        let index = (step as usize * OPERATIONS + operation as usize) * 2 + usize::from(is_rejected);
        let make = || {
            let labels = [
                Some(("type", step.label())),
                Some(("operation", operation_name(operation))),
                Some(("rejected", if is_rejected { "true" } else { "false" })),
                self.plugin.map(|name| ("name", name)),
            ];
            let labels = labels.into_iter().flatten();
            let labels: Vec<_> = labels
                .map(|(name, value)| Label::from_static_parts(name, value))
                .collect();
            match self.plugin {
                Some(_) => histogram!(CONTROLLER, labels),
                None => histogram!(STEP, labels),
            }
        };
        if let Some(series) = self.series.get(index) {
            series.get_or_init(make).record(took.as_secs_f64());
        }
    }
}

/// Measures one step of one request. A step that is dropped before its end has waited too long for a plugin, and counts as refused.
pub(crate) struct StepTimer<'m> {
    clock: &'m Clock,
    meter: &'m AdmissionMeter,
    of: (AdmissionStep, Operation),
    began: Instant,
    last: Instant,
    /// The plugin that is asked, if it is measured.
    asked: Option<&'m AdmissionMeter>,
    is_over: bool,
}

impl<'m> StepTimer<'m> {
    pub(crate) fn begin(clock: &'m Clock, meter: &'m AdmissionMeter, of: (AdmissionStep, Operation)) -> Self {
        let now = clock.now();
        Self {
            clock,
            meter,
            of,
            began: now,
            last: now,
            asked: None,
            is_over: false,
        }
    }

    /// The next plugin is asked.
    pub(crate) const fn ask(&mut self, plugin: Option<&'m AdmissionMeter>) {
        self.asked = plugin;
    }

    /// The plugin has answered.
    pub(crate) fn answered(&mut self, is_rejected: bool) {
        let now = self.clock.now();
        if let Some(plugin) = self.asked.take() {
            plugin.record(self.of, now.saturating_duration_since(self.last), is_rejected);
        }
        self.last = now;
    }

    /// The step ends with the last answer.
    pub(crate) fn end(mut self, is_rejected: bool) {
        self.is_over = true;
        let took = self.last.saturating_duration_since(self.began);
        self.meter.record(self.of, took, is_rejected);
    }
}

impl Drop for StepTimer<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.answered(true);
            let took = self.last.saturating_duration_since(self.began);
            self.meter.record(self.of, took, true);
        }
    }
}

#[cfg(test)]
mod tests {
    use metrics_exporter_prometheus::PrometheusBuilder;
    use trireme_actors::ManualClock;

    use super::*;

    fn page(session: impl FnOnce(&ManualClock, &Clock)) -> String {
        let builder = PrometheusBuilder::new().set_buckets(&[0.1]).expect("a bucket");
        let recorder = builder.build_recorder();
        let manual = ManualClock::new();
        metrics::with_local_recorder(&recorder, || session(&manual, &Clock::from(manual.clone())));
        recorder.handle().render()
    }

    #[test]
    fn each_plugin_has_its_own_time_and_the_step_that_of_all() {
        let page = page(|time, clock| {
            let steps = AdmissionMeter::of_steps();
            let plugins = ["LimitRanger", "Priority"].map(AdmissionMeter::of_plugin);
            let mut timer = StepTimer::begin(clock, &steps, (AdmissionStep::Admit, Operation::Create));
            for (plugin, is_rejected) in plugins.iter().zip([false, true]) {
                timer.ask(Some(plugin));
                time.advance(Duration::from_secs(1));
                timer.answered(is_rejected);
            }
            // A check that has no series of its own.
            timer.ask(None);
            time.advance(Duration::from_secs(1));
            timer.answered(false);
            timer.end(true);
        });
        for series in [
            format!(
                "{CONTROLLER}_sum{{type=\"admit\",operation=\"CREATE\",rejected=\"false\",name=\"LimitRanger\"}} 1"
            ),
            format!("{CONTROLLER}_sum{{type=\"admit\",operation=\"CREATE\",rejected=\"true\",name=\"Priority\"}} 1"),
            format!("{STEP}_sum{{type=\"admit\",operation=\"CREATE\",rejected=\"true\"}} 3"),
        ] {
            assert!(page.lines().any(|line| line == series), "{series}\n{page}");
        }
        assert_eq!(page.matches("_count{").count(), 3, "{page}");
    }

    #[test]
    fn a_plugin_that_is_waited_for_in_vain_counts_as_a_refusal() {
        let page = page(|time, clock| {
            let (steps, plugin) = (
                AdmissionMeter::of_steps(),
                AdmissionMeter::of_plugin("ImagePolicyWebhook"),
            );
            let mut timer = StepTimer::begin(clock, &steps, (AdmissionStep::Validate, Operation::Update));
            timer.ask(Some(&plugin));
            time.advance(Duration::from_secs(5));
        });
        assert_eq!(
            page.matches(r#"_sum{type="validate",operation="UPDATE",rejected="true""#)
                .count(),
            2,
            "{page}"
        );
        assert_eq!(page.matches("} 5\n").count(), 2, "{page}");
    }
}
