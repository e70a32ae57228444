//! The metrics of requests to etcd, under kube-apiserver's names.
//!
//! To record by name is to make the labels and look the series up, twice a request; so the series that have been used are
//! kept. There are as many as resources times operations.

use std::{
    collections::HashMap,
    sync::{PoisonError, RwLock},
    time::Duration,
};

use metrics::{Counter, Histogram};

use super::endpoints::EtcdOperation;

/// The series of one store.
#[derive(Default)]
pub(super) struct EtcdMeters(RwLock<HashMap<&'static str, HashMap<Box<str>, CallSeries>>>);

#[derive(Clone)]
struct CallSeries {
    duration: Histogram,
    requests: Counter,
}

impl EtcdMeters {
    /// Records a request that is done.
    pub(super) fn record(&self, operation: EtcdOperation<'_>, took: Duration, failed: bool) {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let series = known
            .get(operation.name)
            .and_then(|all| all.get(operation.resource))
            .cloned();
        drop(known);
        let series = series.unwrap_or_else(|| self.add(operation));
        series.duration.record(took.as_secs_f64());
        series.requests.increment(1);
        if failed {
            metrics::counter!("etcd_request_errors_total", &labels(operation)).increment(1);
        }
    }

    fn add(&self, operation: EtcdOperation<'_>) -> CallSeries {
        let labels = labels(operation);
        let series = CallSeries {
            duration: metrics::histogram!("etcd_request_duration_seconds", &labels),
            requests: metrics::counter!("etcd_requests_total", &labels),
        };
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let of_operation = known.entry(operation.name).or_default();
        of_operation.insert(operation.resource.into(), series.clone());
        series
    }
}

fn labels(operation: EtcdOperation<'_>) -> [(&'static str, String); 2] {
    [
        ("operation", operation.name.to_owned()),
        ("type", operation.resource.to_owned()),
    ]
}
