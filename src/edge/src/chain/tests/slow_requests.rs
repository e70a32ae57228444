//! Log lines about requests that take long.

use std::{
    io,
    sync::{Arc, LazyLock, Mutex},
};

use expect_test::{Expect, expect};
use trireme_registry::trace::TraceStep;

use super::*;

/// A second subscriber. Whether an event is on for anyone is decided when a thread first comes by it. While there is but one subscriber,
/// only the one of that thread is asked; in a test of something else it has none, and the event would be off for all.
static ANOTHER: LazyLock<tracing::Dispatch> = LazyLock::new(|| tracing::Dispatch::new(subscriber(io::sink)));

fn subscriber<W>(lines: W) -> impl tracing::Subscriber + Send + Sync
where
    W: for<'w> tracing_subscriber::fmt::MakeWriter<'w> + Send + Sync + 'static,
{
    tracing_subscriber::fmt()
        .with_writer(lines)
        .with_max_level(tracing::Level::INFO)
        .with_ansi(false)
        .without_time()
        .finish()
}

/// The lines that were logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Collects the lines of this thread from now on.
    fn collect() -> (Self, tracing::subscriber::DefaultGuard) {
        LazyLock::force(&ANOTHER);
        let log = Self::default();
        let lines = log.clone();
        let guard = tracing::subscriber::set_default(subscriber(move || lines.clone()));
        (log, guard)
    }

    fn text(&self) -> String {
        let bytes = self.0.lock().expect("no test panics here").clone();
        String::from_utf8(bytes).expect("a log is text")
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no test panics here").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Answers everything after the milliseconds that `x-takes` says, most of them spent on a step of the registry.
async fn slow_app(
    clock: ManualClock,
) -> impl Service<actix_http::Request, Response = ServiceResponse<BoxBody>, Error = actix_web::Error> {
    let answer = move |exchange: CurrentExchange, http: actix_web::HttpRequest| {
        let takes = http.headers().get("x-takes").and_then(|value| value.to_str().ok());
        let takes: u64 = takes.and_then(|text| text.parse().ok()).unwrap_or(0);
        exchange.trace.pass(TraceStep::Decoded);
        clock.advance(Duration::from_millis(takes));
        exchange.trace.pass(TraceStep::Stored);
        async { HttpResponse::Ok().body("done") }
    };
    let app = App::new().default_service(web::to(answer));
    let factory = map_config(app.into_factory(), |()| AppConfig::default());
    factory.new_service(()).await.expect("the application is in order")
}

/// The line that is logged of a request that takes so long.
async fn logged(fixture: &Fixture, request: TestRequest, takes_ms: u64) -> String {
    let (log, _guard) = Log::collect();
    let request = request
        .insert_header(("x-takes", takes_ms.to_string()))
        .insert_header(("Audit-ID", "mine"));
    let app = slow_app(fixture.clock.clone()).await;
    let response = super::super::serve(&fixture.state, &app, request.to_request()).await;
    drop(to_bytes(response.into_body()).await);
    log.text()
}

async fn check(path: &str, takes_ms: u64, expected: Expect) {
    let agent = ("User-Agent", "kubectl/v1 \"quoted\"");
    let request = request(path, Some("admin")).insert_header(agent);
    // The level is padded; an expectation of one line loses such a space.
    expected.assert_eq(logged(&Fixture::new(), request, takes_ms).await.trim_start());
}

#[actix_web::test]
async fn a_slow_request_is_logged_once_with_its_steps() {
    let path = "/apis/apps/v1/namespaces/n/deployments/d/scale?limit=5&labelSelector=a%3Db";
    check(path, 500, expect![[r#"
        INFO trireme_edge::slow: slow request audit_id=mine verb="get" group="apps" version="v1" resource="deployments" subresource="scale" namespace="n" name="d" path="" query="limit=5&labelSelector=a=b" agent="kubectl/v1 \"quoted\"" status=200 bytes=4 total_ms=500.0 steps="authenticated 0.0 ms, seat taken 0.0 ms, authorized 0.0 ms, decoded 0.0 ms, stored 500.0 ms, answer made 0.0 ms"
    "#]]).await;
    check("/version", 1_234, expect![[r#"
        INFO trireme_edge::slow: slow request audit_id=mine verb="get" group="" version="" resource="" subresource="" namespace="" name="" path="/version" query="" agent="kubectl/v1 \"quoted\"" status=200 bytes=4 total_ms=1234.0 steps="authenticated 0.0 ms, seat taken 0.0 ms, authorized 0.0 ms, decoded 0.0 ms, stored 1234.0 ms, answer made 0.0 ms"
    "#]]).await;
}

#[actix_web::test]
async fn a_fast_request_and_a_watch_are_not_logged() {
    check("/api/v1/pods", 499, expect![[r#""#]]).await;
    check("/api/v1/pods?watch=1", 100_000, expect![[r#""#]]).await;
    check("/api/v1/namespaces/n/pods/p/log", 100_000, expect![[r#""#]]).await;
}

#[actix_web::test]
async fn without_a_threshold_nothing_is_logged() {
    let mut fixture = Fixture::new();
    fixture.state.slow_request = None;
    assert_eq!(logged(&fixture, request("/version", None), 100_000).await, "");
}

#[actix_web::test]
async fn secrets_of_a_request_are_not_logged() {
    let secrets = "access_token=hidden&token=hidden&X-Amz-Signature=hidden&limit=1";
    let request = request(&format!("/api/v1/pods?{secrets}"), Some("admin"))
        .insert_header(("Cookie", "hidden"))
        .insert_header(("Upgrade", "websocket"))
        .insert_header(("Connection", "Upgrade"))
        .insert_header((
            "Sec-WebSocket-Protocol",
            "base64url.bearer.authorization.k8s.io.YWRtaW4, v1",
        ));
    let line = logged(&Fixture::new(), request, 1_000).await;
    assert!(line.contains("query=\"limit=1\""), "{line}");
    for secret in ["hidden", "YWRtaW4", "Bearer", "access_token", "Signature"] {
        assert!(!line.contains(secret), "{secret} is logged: {line}");
    }
}
