//! Exports requests as OpenTelemetry spans, over OTLP and gRPC.
//!
//! ```text
//! edge ── finished spans ──► queue, bounded ──► a thread of its own ── batches ──► collector
//! ```
//!
//! Requests never wait for the collector: what does not fit the queue is dropped, and what the collector does not take is
//! lost. The steps of a request become events of its span, as in kube-apiserver.

use std::time::{Duration, SystemTime};

use opentelemetry::propagation::{Extractor, TextMapPropagator as _};
use opentelemetry::trace::{
    Link, Span as _, SpanBuilder, SpanKind, Status, TraceContextExt as _, Tracer as _, TracerProvider as _,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_otlp::{ExporterBuildError, SpanExporter, WithExportConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, Sampler, SdkTracer, SdkTracerProvider, Span as SdkSpan,
};
use trireme_edge::spans::{Done, Span, SpanFacts, Spans};

use crate::settings::Tracing;

/// Some megabytes at most, and the requests of seconds even if all are sampled.
const QUEUE: usize = 4096;
/// Spans in one message to the collector.
const BATCH: usize = 512;
/// The longest time that a span waits for others.
const DELAY: Duration = Duration::from_secs(1);
/// The time limit of the collector for a batch.
const EXPORT_WITHIN: Duration = Duration::from_secs(10);
/// The time for which the end of the process waits for the last batch.
const FLUSH_WITHIN: Duration = Duration::from_secs(5);

/// The exporter. Cheap to clone.
#[derive(Clone)]
pub(crate) struct OtlpSpans {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
    propagator: TraceContextPropagator,
}

impl OtlpSpans {
    /// Starts to export; connects when there is something to send. Must be called in a tokio runtime that outlives it.
    ///
    /// # Errors
    /// If the endpoint is no address.
    pub(crate) fn start(settings: &Tracing, instance: String) -> Result<Self, ExporterBuildError> {
        let exporter = SpanExporter::builder()
            .with_tonic()
            .with_endpoint(format!("http://{}", settings.endpoint))
            .with_timeout(EXPORT_WITHIN)
            .build()?;
        let batches = BatchConfigBuilder::default()
            .with_max_queue_size(QUEUE)
            .with_max_export_batch_size(BATCH)
            .with_scheduled_delay(DELAY)
            .build();
        let processor = BatchSpanProcessor::builder(exporter).with_batch_config(batches).build();
        let rate = f64::from(settings.samples_per_million) / 1e6;
        let attributes = [
            KeyValue::new("service.name", "apiserver"),
            KeyValue::new("service.instance.id", instance),
        ];
        let provider = SdkTracerProvider::builder()
            .with_span_processor(processor)
            .with_sampler(Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(rate))))
            .with_resource(Resource::builder_empty().with_attributes(attributes).build())
            .build();
        Ok(Self {
            tracer: provider.tracer("trireme"),
            provider,
            propagator: TraceContextPropagator::new(),
        })
    }

    /// Exports what is in the queue, if the collector takes it in time.
    pub(crate) async fn flush(self) {
        // It waits, and the connection is served by the threads that must not.
        let flushed = tokio::task::spawn_blocking(move || self.provider.shutdown_with_timeout(FLUSH_WITHIN)).await;
        if !matches!(flushed, Ok(Ok(()))) {
            tracing::warn!("the last spans could not be exported");
        }
    }
}

impl Spans for OtlpSpans {
    fn begin(&self, caller: SpanFacts<'_>) -> Option<Box<dyn Span>> {
        let mut builder = SpanBuilder::from_name("")
            .with_kind(SpanKind::Server)
            .with_start_time(caller.came);
        let named = self.propagator.extract_with_context(&Context::new(), &Headers(&caller));
        let context = if caller.is_trusted {
            named
        } else {
            let link = Link::with_context(named.span().span_context().clone());
            builder = builder.with_links(vec![link]);
            Context::new()
        };
        let span = self.tracer.build_with_context(builder, &context);
        let open = |span| -> Box<dyn Span> {
            Box::new(OpenSpan {
                span,
                came: caller.came,
            })
        };
        span.is_recording().then(|| open(span))
    }
}

/// A sampled request.
struct OpenSpan {
    span: SdkSpan,
    came: SystemTime,
}

impl Span for OpenSpan {
    fn end(self: Box<Self>, request: Done<'_>) {
        let Self { mut span, came } = *self;
        span.update_name(request.name);
        span.set_attributes([
            KeyValue::new("http.request.method", request.method.to_owned()),
            KeyValue::new("url.path", request.path.to_owned()),
            KeyValue::new("user_agent.original", request.user_agent.to_owned()),
            KeyValue::new("audit-id", request.audit_id.to_owned()),
            KeyValue::new("http.response.status_code", i64::from(request.status)),
            KeyValue::new(
                "http.response.body.size",
                i64::try_from(request.bytes).unwrap_or(i64::MAX),
            ),
        ]);
        for passed in request.steps {
            span.add_event_with_timestamp(passed.step.name(), came + passed.at, Vec::new());
        }
        if request.status >= 500 {
            span.set_status(Status::error(""));
        }
        span.end_with_timestamp(came + request.took);
    }
}

/// The headers of a trace, as the propagator asks for them.
struct Headers<'a>(&'a SpanFacts<'a>);

impl Extractor for Headers<'_> {
    fn get(&self, name: &str) -> Option<&str> {
        match name {
            "traceparent" => self.0.traceparent,
            "tracestate" => self.0.tracestate,
            _ => None,
        }
    }

    fn keys(&self) -> Vec<&str> {
        vec!["traceparent", "tracestate"]
    }
}
