//! The gauge `aggregator_unavailable_apiservice` (`kube-aggregator/pkg/controllers/status/metrics`).
//!
//! It shows the APIServices that this replica has judged last, and none that is gone or that another replica judges now: the
//! recorder of metrics forgets no series, so this one is kept here.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

const HEAD: &str = "\
# HELP aggregator_unavailable_apiservice Gauge of APIServices which are marked as unavailable broken down by APIService name.
# TYPE aggregator_unavailable_apiservice gauge
";

/// The availability of APIServices by name.
#[derive(Default)]
pub(crate) struct AvailabilityGauge(Mutex<BTreeMap<Arc<str>, bool>>);

impl AvailabilityGauge {
    pub(crate) fn set(&self, name: &Arc<str>, is_available: bool) {
        self.entries().insert(Arc::clone(name), is_available);
    }

    pub(crate) fn forget(&self, name: &str) {
        self.entries().remove(name);
    }

    pub(crate) fn clear(&self) {
        self.entries().clear();
    }

    /// The gauge of the APIServices that are there, in the text format of Prometheus; empty without one. The duty may not be told of
    /// one that went while changes were missed.
    pub(crate) fn render(&self, is_there: impl Fn(&str) -> bool) -> String {
        let entries = self.entries();
        let mut page = String::new();
        for (name, is_available) in entries.iter().filter(|(name, _)| is_there(name)) {
            if page.is_empty() {
                page.push_str(HEAD);
            }
            let value = u8::from(!is_available);
            // Writing to a string does not fail.
            let _ = writeln!(page, "aggregator_unavailable_apiservice{{name=\"{name}\"}} {value}");
        }
        page
    }

    fn entries(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, bool>> {
        // The map is whole at any time.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_services_that_are_there_are_shown() {
        let gauge = AvailabilityGauge::default();
        gauge.set(&"v1.apps".into(), true);
        gauge.set(&"v1.g".into(), true);
        gauge.set(&"v1.g".into(), false);
        gauge.set(&"v2.g".into(), false);
        gauge.forget("v2.g");
        let lines = "aggregator_unavailable_apiservice{name=\"v1.apps\"} 0\n\
            aggregator_unavailable_apiservice{name=\"v1.g\"} 1\n";
        gauge.set(&"v3.g".into(), true);
        assert_eq!(gauge.render(|name| name != "v3.g"), format!("{HEAD}{lines}"));
        assert_eq!(gauge.render(|_| false), "");
        gauge.clear();
        assert_eq!(gauge.render(|_| true), "");
    }
}
