//! Logs and metrics of the process. `main` starts both before anything else runs.
//!
//! Logs go to standard error, one event a line; standard output carries only what a user asked for. Metrics are kept in
//! a Prometheus recorder whose handle the edge renders at `/metrics`.

use std::io;
use std::sync::Arc;

use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use tracing_subscriber::{EnvFilter, reload};

use crate::settings::{LogFormat, LoggingSettings};

/// Seconds; finer than kube-apiserver's near 1 ms, where answers from memory lie.
const LATENCY_BUCKETS: &[f64] = &[
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0,
];

/// Encryption takes microseconds.
const TRANSFORMATION: &str = "apiserver_storage_transformation_duration_seconds";

/// Calls of KMS plugins cross a socket.
const KMS_OPERATIONS: &str = "apiserver_envelope_encryption_kms_operations_latency_seconds";

/// The generation of a key is shorter still.
const KEY_GENERATION: &str = "apiserver_storage_data_key_generation_duration_seconds";

/// The buckets that kube-apiserver gives to histograms without any of their own.
const STANDARD_BUCKETS: &[f64] = &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// The histograms that have these buckets in kube-apiserver.
const BUCKETS: &[(&str, &[f64])] = &[
    (
        "apiserver_admission_controller_admission_duration_seconds",
        ADMISSION_BUCKETS,
    ),
    ("apiserver_admission_step_admission_duration_seconds", ADMISSION_BUCKETS),
    (
        "apiserver_admission_webhook_admission_duration_seconds",
        WEBHOOK_BUCKETS,
    ),
    ("apiserver_cel_compilation_duration_seconds", STANDARD_BUCKETS),
    ("apiserver_cel_evaluation_duration_seconds", STANDARD_BUCKETS),
    (
        "kube_apiserver_clusterip_allocator_allocation_duration_seconds",
        STANDARD_BUCKETS,
    ),
    (
        "apiserver_flowcontrol_request_queue_length_after_enqueue",
        QUEUE_LENGTH_BUCKETS,
    ),
    ("apiserver_watch_cache_read_wait_seconds", READ_WAIT_BUCKETS),
    ("etcd_lease_object_counts", LEASE_OBJECTS_BUCKETS),
];
const ADMISSION_BUCKETS: &[f64] = &[0.005, 0.025, 0.1, 0.5, 1.0, 2.5];
/// Webhooks may take up to 30 s.
const WEBHOOK_BUCKETS: &[f64] = &[0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 25.0];
const QUEUE_LENGTH_BUCKETS: &[f64] = &[0.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0];
/// Reads wait for their cache for up to three seconds.
const READ_WAIT_BUCKETS: &[f64] = &[0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0];
const LEASE_OBJECTS_BUCKETS: &[f64] = &[10.0, 50.0, 100.0, 500.0, 1000.0, 2500.0, 5000.0];

/// Powers of two, as in kube-apiserver.
fn doubled(first: f64, count: u32) -> Vec<f64> {
    (0..count).map(|power| first * f64::from(1_u32 << power)).collect()
}

/// Sets how much is logged from now on, 0 to 10.
pub(crate) type SetVerbosity = Arc<dyn Fn(u8) + Send + Sync>;

/// Sends logs to standard error from now on.
pub(crate) fn start_logs(log: LoggingSettings) -> SetVerbosity {
    let builder = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(directives(log.verbosity)))
        .with_writer(io::stderr)
        .with_ansi(false);
    match log.format {
        LogFormat::Text => {
            let builder = builder.with_filter_reloading();
            let filter = builder.reload_handle();
            builder.init();
            setter(filter)
        }
        LogFormat::Json => {
            let builder = builder.json().with_filter_reloading();
            let filter = builder.reload_handle();
            builder.init();
            setter(filter)
        }
    }
}

fn setter<S: 'static>(filter: reload::Handle<EnvFilter, S>) -> SetVerbosity {
    Arc::new(move |verbosity| {
        // It fails only when nothing is logged any more.
        let _ = filter.reload(EnvFilter::new(directives(verbosity)));
    })
}

/// Records metrics from now on. The handle renders them.
pub(crate) fn start_metrics() -> Result<PrometheusHandle, BuildError> {
    exporter()?.install_recorder()
}

/// The exporter, which knows the buckets of all histograms.
fn exporter() -> Result<PrometheusBuilder, BuildError> {
    let mut builder =
        PrometheusBuilder::new().set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), LATENCY_BUCKETS)?;
    for (name, buckets) in BUCKETS {
        builder = builder.set_buckets_for_metric(Matcher::Full((*name).to_owned()), buckets)?;
    }
    let builder = builder.set_buckets_for_metric(Matcher::Full(TRANSFORMATION.to_owned()), &doubled(5e-6, 25))?;
    let builder = builder.set_buckets_for_metric(Matcher::Full(KMS_OPERATIONS.to_owned()), &doubled(1e-4, 20))?;
    let builder = builder.set_buckets_for_metric(Matcher::Full(KEY_GENERATION.to_owned()), &doubled(5e-6, 14))?;
    trireme_edge::metrics::configure(builder)
}

/// Filters of the log levels. Other crates speak up two levels later than ours: they are many. openraft's warnings and
/// errors come with every heartbeat to a replica that is away, some fifty lines a second; the group tells of what
/// matters.
fn directives(verbosity: u8) -> &'static str {
    match verbosity {
        0..=3 => "warn,openraft=off,trireme=info,audit=info",
        4..=5 => "info,openraft=off,trireme=debug",
        6..=7 => "info,trireme=trace",
        8..=9 => "debug,trireme=trace",
        _ => "trace",
    }
}

#[cfg(test)]
mod tests {
    use super::{BUCKETS, directives, exporter};

    #[test]
    fn histograms_of_kube_apiserver_have_its_buckets() {
        let recorder = exporter().expect("valid buckets").build_recorder();
        metrics::with_local_recorder(&recorder, || {
            BUCKETS
                .iter()
                .for_each(|(name, _)| metrics::histogram!(*name).record(0.0));
        });
        let page = recorder.handle().render();
        for (name, buckets) in BUCKETS {
            let series = format!("{name}_bucket{{le=\"");
            let shown = page
                .lines()
                .filter_map(|line| line.strip_prefix(&series)?.split('"').next());
            let mut wanted: Vec<String> = buckets.iter().map(f64::to_string).collect();
            wanted.push("+Inf".to_owned());
            assert_eq!(shown.collect::<Vec<_>>(), wanted, "{name}");
        }
    }

    #[test]
    fn every_level_is_a_filter_that_can_be_read() {
        for level in 0..=10 {
            let read = tracing_subscriber::EnvFilter::builder().parse(directives(level));
            assert!(read.is_ok(), "level {level}");
        }
    }
}
