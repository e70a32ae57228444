//! Requests as spans, as a collector sees them.

use std::fs;
use std::net::TcpListener;
use std::path::PathBuf;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{TraceService, TraceServiceServer};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::trace::v1::Span;
use serde_json::json;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tonic::transport::server::TcpIncoming;
use trireme_tests::canary::{PLANTED, leaks};
use trireme_tests::http::{Client, Request};
use trireme_tests::server::{ADMIN_TOKEN, USER_TOKEN};
use trireme_tests::{Server, StoreChoice};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";
const PATIENCE: Duration = Duration::from_secs(30);

/// A collector that hands every span to the test.
struct Collector {
    runtime: Runtime,
    port: u16,
    spans: mpsc::UnboundedReceiver<Span>,
    dir: TempDir,
}

struct Collecting(mpsc::UnboundedSender<Span>);

#[tonic::async_trait]
impl TraceService for Collecting {
    async fn export(
        &self,
        request: tonic::Request<ExportTraceServiceRequest>,
    ) -> Result<tonic::Response<ExportTraceServiceResponse>, tonic::Status> {
        let resources = request.into_inner().resource_spans;
        let scopes = resources.into_iter().flat_map(|resource| resource.scope_spans);
        for span in scopes.flat_map(|scope| scope.spans) {
            // A test that has seen enough listens no longer.
            let _ = self.0.send(span);
        }
        Ok(tonic::Response::new(ExportTraceServiceResponse::default()))
    }
}

impl Collector {
    fn start() -> Self {
        let runtime = Runtime::new().expect("threads can be started");
        let (sender, spans) = mpsc::unbounded_channel();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let port = listener.local_addr().expect("it is bound").port();
        listener.set_nonblocking(true).expect("it can be");
        let serving = async move {
            let listener = tokio::net::TcpListener::from_std(listener).expect("it is a socket");
            tonic::transport::Server::builder()
                .add_service(TraceServiceServer::new(Collecting(sender)))
                .serve_with_incoming(TcpIncoming::from(listener))
                .await
        };
        runtime.spawn(serving);
        Self {
            runtime,
            port,
            spans,
            dir: TempDir::new().expect("a directory"),
        }
    }

    /// A server that exports to this.
    fn server(&self, samples_per_million: u32) -> Server {
        let flag = format!("--tracing-config-file={}", self.config(samples_per_million).display());
        Server::try_start(StoreChoice::Embedded, &[&flag]).unwrap_or_else(|error| panic!("{error}"))
    }

    fn config(&self, samples_per_million: u32) -> PathBuf {
        let file = self.dir.path().join("tracing.yaml");
        let text = format!(
            "apiVersion: apiserver.config.k8s.io/v1beta1\nkind: TracingConfiguration\nendpoint: 127.0.0.1:{}\n\
             samplingRatePerMillion: {samples_per_million}\n",
            self.port
        );
        fs::write(&file, text).expect("written");
        file
    }

    /// The next span whose `audit-id` is this.
    fn span_of(&mut self, audit_id: &str) -> Span {
        let spans = &mut self.spans;
        let found = async move {
            loop {
                let span = spans.recv().await.expect("the collector serves");
                if text(&span.attributes, "audit-id") == audit_id {
                    return span;
                }
            }
        };
        self.runtime
            .block_on(async { tokio::time::timeout(PATIENCE, found).await })
            .unwrap_or_else(|_| panic!("there is no span of {audit_id}"))
    }
}

fn text(attributes: &[KeyValue], name: &str) -> String {
    let attribute = attributes.iter().find(|attribute| attribute.key == name);
    match attribute
        .and_then(|attribute| attribute.value.clone())
        .and_then(|value| value.value)
    {
        Some(any_value::Value::StringValue(text)) => text,
        Some(any_value::Value::IntValue(number)) => number.to_string(),
        _ => String::new(),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Sends a GET with this name, with headers of a trace.
fn get(client: &Client, token: &str, path: &str, audit_id: &str, trace_headers: &str) -> u16 {
    let head = format!(
        "GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\nAuthorization: Bearer {token}\r\nAudit-ID: \
         {audit_id}\r\n{trace_headers}\r\n"
    );
    client.send_raw(head.as_bytes(), "GET").expect("it answers").code
}

#[test]
fn a_request_of_a_trace_is_a_span_of_it_with_its_steps() {
    let mut collector = Collector::start();
    let server = collector.server(0);
    let client = server.client();
    let sampled = format!("traceparent: 00-{TRACE}-{PARENT}-01\r\ntracestate: a=b\r\n");
    let path = "/api/v1/namespaces/ns/configmaps/none?limit=1&access_token=hidden";
    assert_eq!(get(&client, ADMIN_TOKEN, path, "mine", &sampled), 404);
    let span = collector.span_of("mine");
    assert_eq!(leaks(&format!("{span:?}")), Vec::<String>::new());
    assert_eq!(
        (hex(&span.trace_id), hex(&span.parent_span_id)),
        (TRACE.to_owned(), PARENT.to_owned())
    );
    assert_eq!(span.name, "GET /api/v1/namespaces/{:namespace}/configmaps/{:name}");
    let attribute = |name| text(&span.attributes, name);
    assert_eq!(attribute("url.path"), "/api/v1/namespaces/ns/configmaps/none");
    assert_eq!(attribute("http.response.status_code"), "404");
    assert!(span.start_time_unix_nano < span.end_time_unix_nano);
    let steps: Vec<&str> = span.events.iter().map(|event| event.name.as_str()).collect();
    let expected = [
        "authenticated",
        "seat taken",
        "authorized",
        "revision known",
        "answer made",
    ];
    let mut rest = steps.iter();
    for step in expected {
        assert!(
            rest.any(|passed| *passed == step),
            "{step} is missing or not in order: {steps:?}"
        );
    }
    assert!(!format!("{span:?}").contains("hidden"));
}

#[test]
fn spans_have_nothing_of_a_secret_that_is_written() {
    let mut collector = Collector::start();
    let server = collector.server(0);
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"},
        "data": {"encoded": STANDARD.encode(PLANTED)}, "stringData": {"plain": PLANTED},
    });
    for (audit_id, code) in [("made", 201), ("taken", 409)] {
        let headers = [
            ("Traceparent".to_owned(), format!("00-{TRACE}-{PARENT}-01")),
            ("Audit-ID".to_owned(), audit_id.to_owned()),
        ];
        let answer = server.client().send(&Request {
            method: "POST",
            path: "/api/v1/namespaces/default/secrets",
            body: Some(secret.to_string().into_bytes()),
            content_type: Some("application/json"),
            headers: &headers,
            ..Request::default()
        });
        assert_eq!(answer.expect("it answers").code, code);
        let span = collector.span_of(audit_id);
        assert_eq!(hex(&span.trace_id), TRACE);
        assert_eq!(leaks(&format!("{span:?}")), Vec::<String>::new());
    }
}

#[test]
fn what_is_not_to_be_sampled_is_not_and_strangers_do_not_decide() {
    let mut collector = Collector::start();
    let server = collector.server(0);
    let client = server.client();
    let sampled = format!("traceparent: 00-{TRACE}-{PARENT}-01\r\n");
    let unsampled = format!("traceparent: 00-{TRACE}-{PARENT}-00\r\n");
    for (token, headers) in [
        (ADMIN_TOKEN, ""),
        (ADMIN_TOKEN, unsampled.as_str()),
        (ADMIN_TOKEN, "traceparent: 00-nonsense-01\r\n"),
        (USER_TOKEN, sampled.as_str()),
    ] {
        get(&client, token, "/api", "not-mine", headers);
    }
    get(&client, ADMIN_TOKEN, "/api", "last", &sampled);
    // Spans are exported in the order in which they end.
    let spans = &mut collector.spans;
    let first = collector
        .runtime
        .block_on(async { tokio::time::timeout(PATIENCE, spans.recv()).await })
        .expect("it is exported")
        .expect("the collector serves");
    assert_eq!(text(&first.attributes, "audit-id"), "last");
}

#[test]
fn a_stranger_s_trace_is_linked_and_spans_are_flushed_at_the_end() {
    let mut collector = Collector::start();
    let mut server = collector.server(1_000_000);
    let sampled = format!("traceparent: 00-{TRACE}-{PARENT}-01\r\n");
    assert_eq!(get(&server.client(), USER_TOKEN, "/api", "theirs", &sampled), 200);
    server.process().terminate(PATIENCE).expect("it ends");
    let span = collector.span_of("theirs");
    assert_ne!(hex(&span.trace_id), TRACE);
    assert_eq!(span.parent_span_id, Vec::<u8>::new());
    let links: Vec<String> = span.links.iter().map(|link| hex(&link.trace_id)).collect();
    assert_eq!(links, [TRACE]);
}

#[test]
fn requests_do_not_notice_that_there_is_no_collector() {
    let mut collector = Collector::start();
    let server = collector.server(1_000_000);
    let client = server.client();
    assert_eq!(get(&client, ADMIN_TOKEN, "/api", "before", ""), 200);
    collector.span_of("before");
    collector.runtime.shutdown_background();
    for _ in 0..200 {
        assert_eq!(get(&client, ADMIN_TOKEN, "/api", "after", ""), 200);
    }
}
