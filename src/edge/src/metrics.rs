//! The request metrics of kube-apiserver, under its names and with its labels.
//!
//! Recording by name would look every series up in the recorder once per request, so each worker keeps the handles of
//! the series it has used. Labels are bounded: resources are named only if they exist.

pub(crate) mod access;
pub(crate) mod bodies;
mod flow;
pub(crate) mod watches;

use std::{
    cell::{OnceCell, RefCell},
    collections::HashMap,
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use actix_web::http::{Method, StatusCode};
use metrics::{Counter, Gauge, Histogram, Label, SharedString, counter, gauge, histogram};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder};
use trireme_machinery::GroupVersion;
use trireme_registry::{ResourceDefinition, SubresourceDefinition};

use crate::{exchange::Exchange, query::Query, request_info::RequestInfo, state::ChainState};

const DURATION: &str = "apiserver_request_duration_seconds";
/// The duration without webhooks and queues: what the server itself is answerable for.
const SLI_DURATION: &str = "apiserver_request_sli_duration_seconds";
/// By the value of `fieldValidation`. kube-apiserver has the series and never records anything in them.
const FIELD_VALIDATION_DURATION: &str = "field_validation_request_duration_seconds";
const SIZE: &str = "apiserver_response_sizes";
/// Recorded by the authenticator of certificates.
const CERTIFICATE_EXPIRATION: &str = "apiserver_client_certificate_expiration_seconds";
/// Recorded by the webhook for tokens.
const TOKEN_CACHE_DURATION: &str = "authentication_token_cache_request_duration_seconds";

const DURATION_BUCKETS: [f64; 23] = [
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0,
    45.0, 60.0,
];
/// Those of the SLI and of field validation have no buckets below 50 ms.
const FIRST_SLI_BUCKET: usize = 2;
const SIZE_BUCKETS: [f64; 7] = [1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9];
/// From half an hour to a year.
const CERTIFICATE_EXPIRATION_BUCKETS: [f64; 14] = [
    0.0,
    1800.0,
    3600.0,
    7200.0,
    21600.0,
    43200.0,
    86400.0,
    172_800.0,
    345_600.0,
    604_800.0,
    2_592_000.0,
    7_776_000.0,
    15_552_000.0,
    31_104_000.0,
];
/// Those that Prometheus has by default.
const TOKEN_CACHE_BUCKETS: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// The labels of field validation; the last is that of all other values.
const FIELD_VALIDATION: [&str; 5] = ["", "Ignore", "Warn", "Strict", "invalid"];

/// The subresources whose requests are reported as connections, whatever their method.
const CONNECTIONS: [&str; 5] = ["log", "exec", "portforward", "attach", "proxy"];
/// The paths that are no resources and still have series of their own.
const PROBES: [&str; 5] = ["/healthz", "/livez", "/readyz", "/metrics", "/version"];
/// The paths beside them that early ends are counted by.
const DOCUMENTS: [&str; 4] = ["/api", "/apis", "/openapi/v2", "/openapi/v3"];

/// Gives the histograms of this room their buckets.
///
/// # Errors
/// If the exporter does not take them.
pub fn configure(builder: PrometheusBuilder) -> Result<PrometheusBuilder, BuildError> {
    let builder = flow::configure(bodies::configure(watches::configure(access::configure(builder)?)?)?)?;
    builder
        .set_buckets_for_metric(Matcher::Full(DURATION.to_owned()), &DURATION_BUCKETS)?
        .set_buckets_for_metric(
            Matcher::Full(SLI_DURATION.to_owned()),
            &DURATION_BUCKETS[FIRST_SLI_BUCKET..],
        )?
        .set_buckets_for_metric(
            Matcher::Full(FIELD_VALIDATION_DURATION.to_owned()),
            &DURATION_BUCKETS[FIRST_SLI_BUCKET..],
        )?
        .set_buckets_for_metric(Matcher::Full(SIZE.to_owned()), &SIZE_BUCKETS)?
        .set_buckets_for_metric(
            Matcher::Full(CERTIFICATE_EXPIRATION.to_owned()),
            &CERTIFICATE_EXPIRATION_BUCKETS,
        )?
        .set_buckets_for_metric(Matcher::Full(TOKEN_CACHE_DURATION.to_owned()), &TOKEN_CACHE_BUCKETS)
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Series {
    verb: &'static str,
    scope: &'static str,
    component: &'static str,
    dry_run: &'static str,
    group: Arc<str>,
    version: Arc<str>,
    resource: Arc<str>,
    subresource: SharedString,
    code: u16,
}

struct Meters {
    requests: Counter,
    duration: Histogram,
    /// None of dry runs and watches.
    sli_duration: Option<Histogram>,
    sizes: Histogram,
}

thread_local! {
    static METERS: RefCell<HashMap<Series, Rc<Meters>>> = RefCell::default();
    static FIELD_VALIDATIONS: [OnceCell<Histogram>; FIELD_VALIDATION.len()] =
        const { [const { OnceCell::new() }; _] };
    static TERMINATIONS: RefCell<HashMap<Series, Counter>> = RefCell::default();
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
    record_field_validation(&exchange.query, took);
    if let Some(sli_duration) = &meters.sli_duration {
        let elsewhere = exchange.webhooks.mutating() + exchange.webhooks.validating() + exchange.queue_wait.get();
        sli_duration.record(took.saturating_sub(elsewhere).as_secs_f64());
    }
    if read {
        #[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^52")]
        meters.sizes.record(bytes as f64);
    }
}

fn record_field_validation(query: &Query, took: Duration) {
    let mut values = query.all("fieldValidation");
    let value = values.next().unwrap_or_default();
    let known = FIELD_VALIDATION.iter().position(|known| *known == value);
    let index = match known {
        Some(known) if values.next().is_none() => known,
        _ => FIELD_VALIDATION.len() - 1,
    };
    FIELD_VALIDATIONS.with(|durations| {
        let duration = || histogram!(FIELD_VALIDATION_DURATION, "field_validation" => FIELD_VALIDATION[index]);
        durations[index].get_or_init(duration).record(took.as_secs_f64());
    });
}

/// Counts a request that is ended early for the server's own protection: it gets no seat, or its time is over.
pub(crate) fn record_termination(state: &ChainState, exchange: &Exchange, code: StatusCode) {
    exchange.name_resource(&state.surface);
    count_termination(Series::of_termination(exchange, code));
}

/// Counts a request whose answer is broken off because its time is over.
pub(crate) fn record_abort(exchange: &Exchange) {
    let mut labels = Series::of(exchange, 0).labels();
    labels.retain(|label| label.key() != "component");
    counter!("apiserver_request_aborts_total", labels).increment(1);
}

/// Counts a request that another API server was to answer and that was not passed on.
pub(crate) fn record_not_proxied(exchange: &Exchange, group_version: &GroupVersion, code: StatusCode) {
    let mut series = Series::of_termination(exchange, code);
    series.component = "aggregator";
    if exchange.info.is_resource {
        series.scope = scope(&exchange.info);
        series.group = Arc::clone(&group_version.group);
        series.version = Arc::clone(&group_version.version);
    }
    count_termination(series);
}

fn count_termination(series: Series) {
    TERMINATIONS.with_borrow_mut(|known| {
        let counter = known.entry(series).or_insert_with_key(|series| {
            let mut labels = series.labels();
            labels.push(Label::new("code", series.code.to_string()));
            counter!("apiserver_request_terminations_total", labels)
        });
        counter.increment(1);
    });
}

impl Series {
    fn of(exchange: &Exchange, code: u16) -> Self {
        let info = &exchange.info;
        let resource = exchange.resource.get();
        let version = resource.and_then(|resource| resource.version(info.version()));
        Self {
            verb: verb(exchange),
            scope: resource.map_or("", |_| scope(info)),
            component: "apiserver",
            dry_run: dry_run(exchange),
            group: resource.map_or_else(Arc::default, |r| Arc::clone(&r.resource.group)),
            version: version.map_or_else(Arc::default, |version| Arc::clone(&version.group_version.version)),
            resource: resource.map_or_else(Arc::default, |r| Arc::clone(&r.resource.resource)),
            subresource: match resource.map(|resource| resource.subresource(info.subresource())) {
                None => SharedString::const_str(known_path(&PROBES, info.path())),
                Some(Some(part)) => SharedString::from(Arc::clone(&part.name)),
                Some(None) => SharedString::const_str(""),
            },
            code,
        }
    }

    /// The series of an early end: without dry run, and named by more of the paths that are no resources.
    fn of_termination(exchange: &Exchange, code: StatusCode) -> Self {
        let mut series = Self::of(exchange, code.as_u16());
        series.dry_run = "";
        if !exchange.info.is_resource && series.subresource.is_empty() {
            series.subresource = SharedString::const_str(known_path(&DOCUMENTS, exchange.info.path()));
        }
        series
    }

    fn labels(&self) -> Vec<Label> {
        vec![
            Label::from_static_parts("verb", self.verb),
            Label::new("group", self.group.to_string()),
            Label::new("version", self.version.to_string()),
            Label::new("resource", self.resource.to_string()),
            Label::new("subresource", self.subresource.clone()),
            Label::from_static_parts("scope", self.scope),
            Label::from_static_parts("component", self.component),
        ]
    }

    fn meters(&self) -> Meters {
        let sizes = histogram!(SIZE, self.labels());
        let has_sli = self.dry_run.is_empty() && self.verb != "WATCH";
        let sli_duration = has_sli.then(|| histogram!(SLI_DURATION, self.labels()));
        let mut labels = self.labels();
        labels.push(Label::from_static_parts("dry_run", self.dry_run));
        let duration = histogram!(DURATION, labels.clone());
        labels.push(Label::new("code", self.code.to_string()));
        Meters {
            requests: counter!("apiserver_request_total", labels),
            duration,
            sli_duration,
            sizes,
        }
    }
}

/// The verb as kube-apiserver's metrics call it.
fn verb(exchange: &Exchange) -> &'static str {
    let info = &exchange.info;
    if info.is_resource && CONNECTIONS.contains(&info.subresource()) {
        "CONNECT"
    } else if exchange.is_apply {
        "APPLY"
    } else if info.is_resource {
        match info.verb.as_str() {
            "get" => "GET",
            "list" => "LIST",
            "watch" => "WATCH",
            "create" => "POST",
            "update" => "PUT",
            "patch" => "PATCH",
            "delete" | "deletecollection" => "DELETE",
            "proxy" => "CONNECT",
            _ => "other",
        }
    } else {
        match exchange.method {
            Method::GET | Method::HEAD => "GET",
            Method::POST => "POST",
            Method::PUT => "PUT",
            Method::PATCH => "PATCH",
            Method::DELETE => "DELETE",
            _ => "other",
        }
    }
}

/// The part of a collection that a request is about, or its object.
fn scope(info: &RequestInfo) -> &'static str {
    if !info.name().is_empty() || info.verb.as_str() == "create" {
        "resource"
    } else if !info.namespace().is_empty() {
        "namespace"
    } else {
        "cluster"
    }
}

/// The value of `dryRun` if it is allowed.
fn dry_run(exchange: &Exchange) -> &'static str {
    let mut values = exchange.query.all("dryRun").map(|value| value == "All");
    match values.next() {
        None => "",
        Some(is_all) if is_all && values.all(|is_all| is_all) => "All",
        Some(_) => "invalid",
    }
}

/// The path, if it is one of those that have series of their own.
fn known_path(known: &[&'static str], path: &str) -> &'static str {
    known.iter().find(|known| **known == path).copied().unwrap_or("")
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

/// Metrics of logs that are fetched from kubelets (`pkg/registry/core/pod/rest/log.go`).
pub(crate) mod logs {
    use metrics::{Counter, counter};

    /// Of fetches, by whether the certificate of the kubelet matters.
    pub(crate) fn fetched(unverified: bool) -> Counter {
        let usage = if unverified { "skip_tls_allowed" } else { "enforce_tls" };
        counter!("kube_apiserver_pod_logs_insecure_backend_total", "usage" => usage)
    }

    /// Of fetches that failed because of the kubelet's certificate.
    pub(crate) fn distrusted() -> Counter {
        counter!("kube_apiserver_pod_logs_backend_tls_failure_total")
    }
}

#[cfg(test)]
mod tests;
