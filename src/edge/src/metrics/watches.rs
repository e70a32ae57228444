//! Metrics of the events of watches (`k8s.io/apiserver/pkg/endpoints/handlers/watch.go`).
//!
//! An event costs its watcher no more than the size that is recorded: a watch keeps the handles of its series.

use std::{cell::RefCell, collections::HashMap, rc::Rc, sync::Arc, time::Duration};

use bytes::Bytes;
use metrics::{Counter, Histogram, Label, counter, histogram};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder};
use trireme_machinery::GroupVersion;

use crate::request_info::RequestInfo;

const SIZES: &str = "apiserver_watch_events_sizes";
const LIST_DURATION: &str = "apiserver_watch_list_duration_seconds";

const SIZE_BUCKETS: [f64; 8] = [1024.0, 2048.0, 4096.0, 8192.0, 16384.0, 32768.0, 65536.0, 131_072.0];
const LIST_DURATION_BUCKETS: [f64; 17] = [
    0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0,
];

pub(super) fn configure(builder: PrometheusBuilder) -> Result<PrometheusBuilder, BuildError> {
    builder
        .set_buckets_for_metric(Matcher::Full(SIZES.to_owned()), &SIZE_BUCKETS)?
        .set_buckets_for_metric(Matcher::Full(LIST_DURATION.to_owned()), &LIST_DURATION_BUCKETS)
}

/// The version of a resource: group, version, plural.
type WatchedVersion = [Arc<str>; 3];

thread_local! {
    static METERS: RefCell<HashMap<WatchedVersion, WatchMeters>> = RefCell::default();
}

/// The series of the watches of a resource in one version. Cheap to clone.
#[derive(Clone)]
pub(crate) struct WatchMeters(Rc<WatchSeries>);

struct WatchSeries {
    watched: WatchedVersion,
    events: Counter,
    sizes: Histogram,
}

impl WatchMeters {
    /// Those of this resource.
    pub(crate) fn of(GroupVersion { group, version }: &GroupVersion, resource: &Arc<str>) -> Self {
        let watched = [group, version, resource].map(Arc::clone);
        METERS.with_borrow_mut(|known| known.entry(watched).or_insert_with_key(Self::new).clone())
    }

    fn new(watched: &WatchedVersion) -> Self {
        Self(Rc::new(WatchSeries {
            events: counter!("apiserver_watch_events_total", labels(watched)),
            sizes: histogram!(SIZES, labels(watched)),
            watched: watched.clone(),
        }))
    }

    /// Records events that are sent. Each has so many bytes in front of it that say how long it is.
    pub(crate) fn record_events(&self, events: &[Bytes], prefix: usize) {
        self.0.events.increment(events.len() as u64);
        for event in events {
            #[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^52")]
            self.0.sizes.record(event.len().saturating_sub(prefix) as f64);
        }
    }

    /// Records that a watch which began with the state of its collection has sent all of it.
    pub(crate) fn record_initial_events(&self, info: &RequestInfo, took: Duration) {
        let mut labels = labels(&self.0.watched);
        labels.push(Label::from_static_parts("scope", super::scope(info)));
        histogram!(LIST_DURATION, labels).record(took.as_secs_f64());
    }
}

fn labels([group, version, resource]: &WatchedVersion) -> Vec<Label> {
    vec![
        Label::new("group", Arc::clone(group)),
        Label::new("version", Arc::clone(version)),
        Label::new("resource", Arc::clone(resource)),
    ]
}
