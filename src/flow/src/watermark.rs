//! The requests that are in flight or wait, by class, as dashboards know them from servers without priorities: the most at one
//! time within the last second.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use metrics::{Gauge, gauge};
use trireme_actors::ActorSystem;

/// The time between two looks.
const PERIOD: Duration = Duration::from_secs(1);

/// The requests of one class in one phase.
pub(crate) struct Watermark {
    current: AtomicU32,
    /// The most since the last look.
    most: AtomicU32,
    shown: Gauge,
}

impl Watermark {
    /// Nothing yet. The recorder of metrics must be installed before.
    pub(crate) fn new(metric: &'static str, class: &'static str) -> Arc<Self> {
        Arc::new(Self {
            current: AtomicU32::new(0),
            most: AtomicU32::new(0),
            shown: gauge!(metric, "request_kind" => class),
        })
    }

    /// Counts a request until the count is dropped.
    pub(crate) fn count(self: &Arc<Self>) -> WatermarkCount {
        let current = self.current.fetch_add(1, Ordering::AcqRel).saturating_add(1);
        self.most.fetch_max(current, Ordering::AcqRel);
        WatermarkCount(Arc::clone(self))
    }

    /// Shows the most since the last look; a request that just goes on counts, too.
    pub(crate) fn show(&self) {
        let current = self.current.load(Ordering::Acquire);
        let most = self.most.swap(current, Ordering::AcqRel);
        self.shown.set(f64::from(most.max(current)));
    }
}

/// One request of those that are counted.
pub(crate) struct WatermarkCount(Arc<Watermark>);

impl Drop for WatermarkCount {
    fn drop(&mut self) {
        self.0.current.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Shows the marks every second.
pub(crate) fn show_every_second(system: &ActorSystem, task: &'static str, marks: Vec<Arc<Watermark>>) {
    let show = move || marks.iter().for_each(|mark| mark.show());
    let _ = system.tasks().every(task, PERIOD, show);
}

#[cfg(test)]
mod tests {
    use metrics_exporter_prometheus::PrometheusBuilder;

    use super::Watermark;

    #[test]
    fn the_most_requests_since_the_last_look_are_shown() {
        let recorder = PrometheusBuilder::new().build_recorder();
        let metric = "apiserver_current_inqueue_requests";
        let mark = metrics::with_local_recorder(&recorder, || Watermark::new(metric, "mutating"));
        let shown = || {
            mark.show();
            let page = recorder.handle().render();
            let series = format!("{metric}{{request_kind=\"mutating\"}} ");
            let value = page.lines().find_map(|line| line.strip_prefix(&series));
            value.map(str::to_owned)
        };
        let [first, second] = [mark.count(), mark.count()];
        drop(first);
        assert_eq!(shown().as_deref(), Some("2"));
        assert_eq!(shown().as_deref(), Some("1"), "it goes on");
        drop(second);
        assert_eq!(shown().as_deref(), Some("1"));
        assert_eq!(shown().as_deref(), Some("0"));
    }
}
