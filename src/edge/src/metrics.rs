//! The request metrics of kube-apiserver, under its names and with its labels.
//!
//! Recording by name would look every series up in the recorder once per request, so each worker keeps the handles of
//! the series it has used. Labels are bounded: resources are named only if they exist.

use std::{cell::RefCell, collections::HashMap, rc::Rc, sync::Arc, time::Duration};

use actix_web::http::{Method, StatusCode};
use metrics::{Counter, Gauge, Histogram, Label, counter, gauge, histogram};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder};
use trireme_registry::{ResourceDefinition, SubresourceDefinition};

use crate::exchange::Exchange;

const DURATION: &str = "apiserver_request_duration_seconds";
const SIZE: &str = "apiserver_response_sizes";
const ESTIMATED_SEATS: &str = "apiserver_flowcontrol_work_estimated_seats";
const WATCH_COUNTS: &str = "apiserver_flowcontrol_watch_count_samples";
/// The times that requests wait for their seats and keep them.
const FLOW_SECONDS: &str = "apiserver_flowcontrol_request_";

const DURATION_BUCKETS: [f64; 23] = [
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0,
    45.0, 60.0,
];
const SIZE_BUCKETS: [f64; 7] = [1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9];
const FLOW_SECONDS_BUCKETS: [f64; 13] = [0.0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0];
const SEAT_BUCKETS: [f64; 8] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 100.0];
const WATCH_COUNT_BUCKETS: [f64; 6] = [0.0, 1.0, 10.0, 100.0, 1e3, 1e4];

/// Gives the histograms of this room their buckets.
///
/// # Errors
/// If the exporter does not take them.
pub fn configure(builder: PrometheusBuilder) -> Result<PrometheusBuilder, BuildError> {
    builder
        .set_buckets_for_metric(Matcher::Full(DURATION.to_owned()), &DURATION_BUCKETS)?
        .set_buckets_for_metric(Matcher::Full(SIZE.to_owned()), &SIZE_BUCKETS)?
        .set_buckets_for_metric(Matcher::Prefix(FLOW_SECONDS.to_owned()), &FLOW_SECONDS_BUCKETS)?
        .set_buckets_for_metric(Matcher::Full(ESTIMATED_SEATS.to_owned()), &SEAT_BUCKETS)?
        .set_buckets_for_metric(Matcher::Full(WATCH_COUNTS.to_owned()), &WATCH_COUNT_BUCKETS)
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Series {
    verb: &'static str,
    scope: &'static str,
    dry_run: bool,
    group: Arc<str>,
    version: Arc<str>,
    resource: Arc<str>,
    subresource: &'static str,
    code: u16,
}

struct Meters {
    requests: Counter,
    duration: Histogram,
    sizes: Histogram,
}

thread_local! {
    static METERS: RefCell<HashMap<Series, Rc<Meters>>> = RefCell::default();
}

/// Records that a resource was asked for in a version that clients are to leave.
pub(crate) fn record_deprecated(
    definition: &ResourceDefinition,
    version: usize,
    part: Option<&SubresourceDefinition>,
    removed_release: &Arc<str>,
) {
    let version = definition.versions.get(version).unwrap_or_else(|| definition.stored());
    let labels = vec![
        Label::new("group", Arc::clone(&version.group_version.group)),
        Label::new("version", Arc::clone(&version.group_version.version)),
        Label::new("resource", Arc::clone(&definition.resource.resource)),
        Label::new(
            "subresource",
            part.map_or_else(Arc::default, |part| Arc::clone(&part.name)),
        ),
        Label::new("removed_release", Arc::clone(removed_release)),
    ];
    gauge!("apiserver_requested_deprecated_apis", labels).set(1.0);
}

/// Records a request that is done.
pub(crate) fn record(exchange: &Exchange, status: StatusCode, bytes: u64, took: Duration) {
    let series = Series::of(exchange, status.as_u16());
    let read = matches!(series.verb, "GET" | "LIST");
    let meters = METERS.with_borrow_mut(|meters| match meters.get(&series) {
        Some(known) => Rc::clone(known),
        None => {
            let new = Rc::new(series.meters());
            meters.insert(series, Rc::clone(&new));
            new
        }
    });
    meters.requests.increment(1);
    meters.duration.record(took.as_secs_f64());
    if read {
        #[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^52")]
        meters.sizes.record(bytes as f64);
    }
}

impl Series {
    fn of(exchange: &Exchange, code: u16) -> Self {
        let info = &exchange.info;
        let resource = exchange.resource.get();
        let version = resource.and_then(|resource| resource.version(info.version()));
        Self {
            verb: verb(exchange),
            scope: match resource {
                None => "",
                Some(_) if !info.name().is_empty() || info.verb.as_str() == "create" => "resource",
                Some(_) if !info.namespace().is_empty() => "namespace",
                Some(_) => "cluster",
            },
            dry_run: exchange.query.get("dryRun") == Some("All"),
            group: resource.map_or_else(Arc::default, |r| Arc::clone(&r.resource.group)),
            version: version.map_or_else(Arc::default, |version| Arc::clone(&version.group_version.version)),
            resource: resource.map_or_else(Arc::default, |r| Arc::clone(&r.resource.resource)),
            subresource: match (resource, info.subresource()) {
                (None, _) => probe(info.path()),
                (_, "status") => "status",
                (_, "scale") => "scale",
                (_, "finalize") => "finalize",
                _ => "",
            },
            code,
        }
    }

    fn labels(&self) -> Vec<Label> {
        vec![
            Label::from_static_parts("verb", self.verb),
            Label::new("group", self.group.to_string()),
            Label::new("version", self.version.to_string()),
            Label::new("resource", self.resource.to_string()),
            Label::from_static_parts("subresource", self.subresource),
            Label::from_static_parts("scope", self.scope),
            Label::from_static_parts("component", "apiserver"),
        ]
    }

    fn meters(&self) -> Meters {
        let sizes = histogram!(SIZE, self.labels());
        let mut labels = self.labels();
        labels.push(Label::from_static_parts(
            "dry_run",
            if self.dry_run { "All" } else { "" },
        ));
        let duration = histogram!(DURATION, labels.clone());
        labels.push(Label::new("code", self.code.to_string()));
        Meters {
            requests: counter!("apiserver_request_total", labels),
            duration,
            sizes,
        }
    }
}

/// The verb as kube-apiserver's metrics call it.
fn verb(exchange: &Exchange) -> &'static str {
    let info = &exchange.info;
    if info.is_resource {
        match info.verb.as_str() {
            "get" => "GET",
            "list" => "LIST",
            "watch" => "WATCH",
            "create" => "POST",
            "update" => "PUT",
            "patch" => "PATCH",
            "delete" => "DELETE",
            "deletecollection" => "DELETECOLLECTION",
            "proxy" => "CONNECT",
            _ => "other",
        }
    } else {
        match exchange.method {
            Method::GET => "GET",
            Method::POST => "POST",
            Method::PUT => "PUT",
            Method::PATCH => "PATCH",
            Method::DELETE => "DELETE",
            _ => "other",
        }
    }
}

/// The paths that are no resources and still have series of their own.
fn probe(path: &str) -> &'static str {
    ["/healthz", "/livez", "/readyz", "/metrics", "/version"]
        .into_iter()
        .find(|probe| *probe == path)
        .unwrap_or("")
}

/// Counts a long-running request as under way until it is dropped.
pub(crate) struct LongRunning(Gauge);

impl LongRunning {
    pub(crate) fn begin(exchange: &Exchange) -> Self {
        let gauge = gauge!("apiserver_longrunning_requests", Series::of(exchange, 0).labels());
        gauge.increment(1.0);
        Self(gauge)
    }
}

impl Drop for LongRunning {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}
