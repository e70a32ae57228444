//! The filters as a client sees them, with a tiny application behind them.

use std::{collections::HashMap, sync::Arc, time::Duration};

use actix_service::{IntoServiceFactory, Service, ServiceFactory, map_config};
use actix_web::{
    App, HttpResponse,
    body::{BoxBody, to_bytes},
    dev::{AppConfig, ServiceResponse},
    http::{Method, Version, header::HeaderValue},
    test::TestRequest,
    web,
};
use metrics_exporter_prometheus::PrometheusBuilder;
use serde_json::Value;
use trireme_actors::{ActorSystem, Clock, ManualClock};
use trireme_auth::{
    AnonymousAuth, Attributes, Authenticator, AuthorizationRequest, Authorizer, BoxFuture, Credentials, Decision,
    FrontProxyHeaders, Impersonator, MASTERS, Rejected,
};
use trireme_flow::{Full, InFlightLimits, Limiter, MaxInFlight, RequestKind, Seat};
use trireme_machinery::Features;
use trireme_registry::{PublishedSurface, request::UserInfo};

use trireme_http::server::ServerLifecycle;

use crate::{
    allowed_origins::AllowedOrigins,
    dropped_requests::DroppedRequests,
    exchange::CurrentExchange,
    state::ChainState,
    user_counts::{OpenBounds, OpenMetrics, UserCounts},
    watch_counts::WatchCounts,
};

mod access_metrics;
mod audit;
mod goaway;
mod slow_readers;
mod slow_requests;
mod streams;

/// Lets masters do everything, and all users read the public paths.
struct PublicPaths;

impl Authorizer for PublicPaths {
    fn authorize<'a>(&'a self, attributes: Attributes<'a>) -> BoxFuture<'a, Decision> {
        let is_public = attributes.verb == "get"
            && matches!(
                attributes.wanted,
                AuthorizationRequest::Path("/healthz" | "/livez" | "/readyz" | "/version" | "/version/")
            );
        let is_master = attributes.user.groups.iter().any(|group| group == MASTERS);
        Box::pin(std::future::ready(if is_master || is_public {
            Decision::Allow(String::new())
        } else {
            Decision::NoOpinion(String::new())
        }))
    }
}

/// Knows two users by their names.
struct TwoUsers;

impl Authenticator for TwoUsers {
    fn authenticate<'a>(&'a self, credentials: Credentials<'a>) -> BoxFuture<'a, Result<Option<UserInfo>, Rejected>> {
        let user = |name: &str, group: &str| UserInfo {
            name: name.to_owned(),
            groups: vec![group.to_owned()],
            ..UserInfo::default()
        };
        let answer = match credentials.bearer_token {
            None => Ok(None),
            Some("admin") => Ok(Some(user("admin", MASTERS))),
            Some("alice") => Ok(Some(user("alice", "dev"))),
            Some(_) => Err(Rejected("unknown")),
        };
        Box::pin(std::future::ready(answer))
    }
}

fn unbounded() -> UserCounts {
    let metrics = OpenMetrics {
        open: None,
        refused: "refused",
    };
    UserCounts::new(OpenBounds::default(), metrics)
}

struct Fixture {
    state: ChainState,
    clock: ManualClock,
}

/// An answer as a client sees it.
struct Seen {
    code: u16,
    headers: HashMap<String, String>,
    body: String,
}

impl Seen {
    fn message(&self) -> String {
        let status: Value = serde_json::from_str(&self.body).unwrap_or_default();
        status["message"].as_str().unwrap_or_default().to_owned()
    }

    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }
}

impl Fixture {
    fn new() -> Self {
        let clock = ManualClock::new();
        let system = ActorSystem::builder().clock(clock.clone()).build();
        let system = system.expect("a test can start a thread");
        let state = ChainState {
            clock: clock.clone().into(),
            authenticator: Arc::new(TwoUsers),
            authorizer: Arc::new(PublicPaths),
            audit: None,
            impersonator: Impersonator::new(Arc::new(PublicPaths), clock.clone().into(), Features::default()),
            limiter: Limiter::MaxInFlight(
                MaxInFlight::start(
                    &system,
                    InFlightLimits {
                        read_only: 1,
                        mutating: 1,
                    },
                )
                .expect("its actors start"),
            ),
            dropped: DroppedRequests::default(),
            watches: WatchCounts::default(),
            open_watches: unbounded(),
            open_streams: unbounded(),
            open_connections: unbounded(),
            surface: PublishedSurface::default(),
            lifecycle: ServerLifecycle::new(),
            anonymous: AnonymousAuth::everywhere(true),
            front_proxy: FrontProxyHeaders::standard(),
            request_timeout: Duration::from_secs(60),
            slow_request: Some(Duration::from_millis(500)),
            goaway_chance: 0.0,
            ends_anonymous_http2: true,
            allowed_origins: AllowedOrigins::default(),
            strict_transport_security: None,
            spans: None,
            types: trireme_schema::type_table(),
        };
        Self { state, clock }
    }

    /// The one seat for reading.
    async fn reading_seat(&self) -> Result<Seat, Full> {
        match &self.state.limiter {
            Limiter::MaxInFlight(classes) => classes.acquire(RequestKind::ReadOnly).await.map(Seat::from),
            Limiter::PriorityAndFairness(_) => Err(Full),
        }
    }

    async fn get(&self, path: &str, token: Option<&str>) -> Seen {
        self.send(request(path, token)).await
    }

    async fn send(&self, request: TestRequest) -> Seen {
        let response = super::serve(&self.state, &app().await, request.to_request()).await;
        let text = |value: &actix_web::http::header::HeaderValue| value.to_str().unwrap_or_default().to_owned();
        let headers = response
            .headers()
            .iter()
            .map(|(name, value)| (name.to_string(), text(value)))
            .collect();
        let code = response.status().as_u16();
        let body = to_bytes(response.into_body()).await.unwrap_or_default();
        Seen {
            code,
            headers,
            body: String::from_utf8_lossy(&body).into_owned(),
        }
    }
}

fn request(path: &str, token: Option<&str>) -> TestRequest {
    let request = TestRequest::with_uri(path);
    match token {
        None => request,
        Some(token) => request.insert_header(("Authorization", format!("Bearer {token}"))),
    }
}

async fn app() -> impl Service<actix_http::Request, Response = ServiceResponse<BoxBody>, Error = actix_web::Error> {
    let app = App::new()
        .route("/panic", web::get().to(|| async { panics() }))
        .route("/never", web::get().to(std::future::pending::<HttpResponse>))
        .route("/endless", web::get().to(slow_readers::endless))
        .route("/short", web::get().to(slow_readers::short))
        .route("/stalled", web::get().to(slow_readers::stalled))
        .route("/api/v1/endless", web::get().to(slow_readers::endless))
        .route(
            "/api/v1/namespaces/default/pods/x/log",
            web::get().to(slow_readers::endless),
        )
        .route("/version/", web::get().to(slow_readers::sized))
        .route(
            "/warn",
            web::get().to(|exchange: CurrentExchange| async move {
                exchange.warn("unknown field \"a\"");
                exchange.warn("unknown field \"a\"");
                "done"
            }),
        )
        .default_service(web::to(|exchange: CurrentExchange| async move { exchange.user().name }));
    let factory = map_config(app.into_factory(), |()| AppConfig::default());
    factory.new_service(()).await.expect("the application is in order")
}

fn panics() -> HttpResponse {
    panic!("a bug")
}

#[actix_web::test]
async fn only_the_public_paths_answer_without_credentials() {
    let fixture = Fixture::new();
    for path in ["/healthz", "/livez", "/readyz", "/version"] {
        let seen = fixture.get(path, None).await;
        assert_eq!((seen.code, seen.body.as_str()), (200, "system:anonymous"), "{path}");
    }
    for path in ["/", "/api", "/metrics", "/healthz/ping", "/api/v1/pods", "/nope"] {
        let seen = fixture.get(path, None).await;
        assert_eq!(seen.code, 403, "{path}");
        assert!(
            seen.message().contains(r#"User "system:anonymous" cannot "#),
            "{path}: {}",
            seen.message()
        );
    }
}

#[actix_web::test]
async fn requests_without_credentials_are_refused_if_anonymous_ones_are_off() {
    let mut fixture = Fixture::new();
    fixture.state.anonymous = AnonymousAuth::everywhere(false);
    assert_eq!(fixture.get("/healthz", None).await.code, 401);
    assert_eq!(fixture.get("/healthz", Some("admin")).await.code, 200);
}

/// Credentials that were offered are never taken for nothing.
#[actix_web::test]
async fn credentials_of_no_known_kind_are_none() {
    for header in ["", "Bearer", "Basic YTpi", "Token admin", "Bearer  admin"] {
        let request = request("/healthz", None).insert_header(("Authorization", header));
        let seen = Fixture::new().send(request).await;
        assert_eq!((seen.code, seen.body.as_str()), (200, "system:anonymous"), "{header:?}");
        let warns = seen.header("warning").contains("extra space before the bearer token");
        assert_eq!(warns, header == "Bearer  admin", "{header:?}");
    }
}

#[actix_web::test]
async fn bad_credentials_are_refused_even_on_public_paths() {
    let fixture = Fixture::new();
    for path in ["/healthz", "/version", "/api/v1/pods"] {
        assert_eq!(fixture.get(path, Some("guess")).await.code, 401, "{path}");
    }
}

#[actix_web::test]
async fn a_websocket_may_bring_its_token_as_a_subprotocol() {
    let fixture = Fixture::new();
    let code = async |path: &str, protocols: &str| {
        let request = request(path, None)
            .insert_header(("Upgrade", "websocket"))
            .insert_header(("Connection", "Upgrade"))
            .insert_header(("Sec-WebSocket-Protocol", protocols));
        fixture.send(request).await.code
    };
    let (admin, guess) = (
        "base64url.bearer.authorization.k8s.io.YWRtaW4",
        "base64url.bearer.authorization.k8s.io.Z3Vlc3M",
    );
    let watch = "/api/v1/pods?watch=1";
    assert_eq!(code(watch, &format!("{admin}, v1")).await, 200);
    assert_eq!(code(watch, &format!("{guess}, v1")).await, 401);
    assert_eq!(code(watch, "v1").await, 403);
    // A token that cannot be taken is no reason to go on without, not even where none is needed.
    assert_eq!(code("/healthz", admin).await, 401);
    assert_eq!(code("/healthz", "v1").await, 200);
}

#[actix_web::test]
async fn users_may_do_what_the_authorizer_allows() {
    let fixture = Fixture::new();
    assert_eq!(fixture.get("/api/v1/pods", Some("admin")).await.body, "admin");
    let seen = fixture.get("/api/v1/namespaces/n/pods/p/log", Some("alice")).await;
    assert_eq!(seen.code, 403);
    assert_eq!(
        seen.message(),
        r#"pods "p" is forbidden: User "alice" cannot get resource "pods/log" in API group "" in the namespace "n""#
    );
}

#[actix_web::test]
async fn every_answer_is_named_and_kept_out_of_caches() {
    let fixture = Fixture::new();
    let named = |path| request(path, Some("admin")).insert_header(("Audit-ID", "mine"));
    for path in ["/x", "/panic", "/api/v1/pods/%zz"] {
        let seen = fixture.send(named(path)).await;
        assert_eq!(seen.header("audit-id"), "mine", "{path}");
        assert_eq!(seen.header("cache-control"), "no-cache, private", "{path}");
    }
    assert_eq!(fixture.get("/x", None).await.header("audit-id").len(), 36);
}

#[actix_web::test]
async fn answers_are_dated_by_the_clock_also_when_it_is_set_back() {
    let fixture = Fixture::new();
    let date = async || fixture.get("/version", None).await.header("date").to_owned();
    assert_eq!(date().await, "Thu, 01 Jan 2026 00:00:00 GMT");
    fixture.clock.advance(Duration::from_millis(1_999));
    assert_eq!(date().await, "Thu, 01 Jan 2026 00:00:01 GMT");
    let day_before = Clock::from(fixture.clock.clone()).wall() - Duration::from_secs(86_400);
    fixture.clock.set_wall(day_before);
    assert_eq!(date().await, "Wed, 31 Dec 2025 00:00:01 GMT");
    fixture.clock.advance(Duration::from_secs(1));
    assert_eq!(date().await, "Wed, 31 Dec 2025 00:00:02 GMT");
}

#[actix_web::test]
async fn a_panic_is_an_internal_error_and_gives_its_seat_back() {
    let fixture = Fixture::new();
    for _ in 0..3 {
        let seen = fixture.get("/panic", Some("admin")).await;
        assert_eq!(seen.code, 500);
        assert!(seen.message().starts_with("This request caused apiserver to panic"));
    }
    assert!(fixture.reading_seat().await.is_ok());
}

#[actix_web::test]
async fn a_request_ends_at_its_deadline() {
    let fixture = Fixture::new();
    for (path, seconds) in [("/never", 60), ("/never?timeout=5s", 5), ("/never?timeout=2h", 60)] {
        let late = fixture.clock.elapse(Duration::from_secs(seconds));
        let (seen, ()) = tokio::join!(fixture.get(path, Some("admin")), late);
        assert_eq!(seen.code, 504, "{path}");
        assert_eq!(
            seen.message(),
            "Timeout: request did not complete within the allotted timeout"
        );
    }
}

#[actix_web::test]
async fn a_timeout_that_is_none_is_refused() {
    let seen = Fixture::new().get("/x?timeout=soon", Some("admin")).await;
    assert_eq!(seen.code, 400);
    assert_eq!(
        seen.message(),
        "invalid timeout specified in the request URL - time: invalid duration \"soon\""
    );
}

#[actix_web::test]
async fn too_many_requests_get_429_but_masters_are_admitted() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let fixture = metrics::with_local_recorder(&recorder, Fixture::new);
    let _taken = fixture.reading_seat().await;
    let seen = fixture.get("/api/v1/pods", Some("alice")).await;
    assert_eq!((seen.code, seen.header("retry-after")), (429, "1"));
    assert_eq!(seen.body, "Too many requests, please try again later.\n");
    assert_eq!(fixture.get("/api/v1/pods", Some("admin")).await.code, 200);
    let page = recorder.handle().render();
    let dropped = "apiserver_dropped_requests_total{request_kind=\"readOnly\"} 1";
    assert!(page.lines().any(|line| line == dropped), "{page}");
    // Long-running requests take no seat, so that watches do not starve all others.
    assert_eq!(fixture.get("/api/v1/pods?watch=1", Some("alice")).await.code, 403);
}

#[actix_web::test]
async fn a_draining_server_sends_clients_away_but_answers_probes() {
    let fixture = Fixture::new();
    fixture.state.lifecycle.refuse();
    let seen = fixture.get("/api/v1/pods", Some("admin")).await;
    assert_eq!((seen.code, seen.header("retry-after")), (429, "5"));
    assert_eq!(seen.header("content-type"), "text/plain; charset=utf-8");
    assert_eq!(seen.body, "The apiserver is shutting down, please try again later.\n");
    assert_eq!(fixture.get("/readyz", None).await.code, 200);
    for (agent, code) in [("kube-apiserver/v1.36.2", 200), ("kubectl/v1.36.2", 429)] {
        let named = request("/api/v1/pods", Some("admin")).insert_header(("User-Agent", agent));
        assert_eq!(fixture.send(named).await.code, code, "{agent}");
    }
    for path in ["/metrics", "/metrics/slis"] {
        assert_eq!(fixture.get(path, Some("admin")).await.code, 200, "{path}");
    }
}

#[actix_web::test]
async fn the_end_waits_for_requests_that_run_but_not_for_watches() {
    let fixture = Fixture::new();
    let (app, lifecycle) = (app().await, &fixture.state.lifecycle);
    let counts = [("/never", 1), ("/api/v1/pods?watch=1", 0), ("/never", 1)];
    for (path, count) in counts {
        let running = super::serve(&fixture.state, &app, request(path, Some("admin")).to_request());
        tokio::pin!(running);
        tokio::select! {
            biased;
            _ = running.as_mut() => assert_eq!(count, 0, "{path}"),
            () = std::future::ready(()) => assert_eq!(lifecycle.running_requests(), count, "{path}"),
        }
    }
    assert_eq!(lifecycle.running_requests(), 0, "all have ended");
    lifecycle.refuse();
    let refused = fixture.get("/version", Some("admin")).await;
    assert_eq!((refused.code, lifecycle.running_requests()), (429, 0));
}

#[actix_web::test]
async fn pages_of_allowed_origins_may_read_answers_and_ask_before() {
    let mut fixture = Fixture::new();
    fixture.state.allowed_origins = AllowedOrigins::parse(["//localhost(:|$)"]).expect("a pattern");
    let origin = |request: TestRequest, origin: &str| request.insert_header(("Origin", origin.to_owned()));
    let allowed = "http://localhost:8080";
    let seen = fixture.send(origin(request("/version", None), allowed)).await;
    assert_eq!((seen.code, seen.header("access-control-allow-origin")), (200, allowed));
    assert_eq!(seen.header("access-control-allow-credentials"), "true");
    let refused = fixture.send(origin(request("/x", None), allowed)).await;
    assert_eq!(
        (refused.code, refused.header("access-control-allow-origin")),
        (403, allowed)
    );
    let ask = |path: &str| request(path, None).method(Method::OPTIONS);
    let preflight = fixture.send(origin(ask("/x"), allowed)).await;
    assert_eq!(
        (preflight.code, preflight.header("access-control-expose-headers")),
        (204, "Date")
    );
    for other in ["http://localhost.evil", "https://other"] {
        let seen = fixture.send(origin(request("/version", None), other)).await;
        assert_eq!(
            (seen.code, seen.header("access-control-allow-origin")),
            (200, ""),
            "{other}"
        );
        let preflight = fixture.send(origin(ask("/x"), other)).await;
        assert_eq!(preflight.code, 403, "{other}");
    }
    let without = fixture.get("/version", None).await;
    assert_eq!(without.header("access-control-allow-methods"), "");
}

#[actix_web::test]
async fn browsers_are_to_come_over_tls_if_configured() {
    let mut fixture = Fixture::new();
    let header = |seen: &Seen| seen.header("strict-transport-security").to_owned();
    assert_eq!(header(&fixture.get("/version", None).await), "");
    fixture.state.strict_transport_security = Some(HeaderValue::from_static("max-age=1; preload"));
    assert_eq!(header(&fixture.get("/version", None).await), "max-age=1; preload");
    assert_eq!(header(&fixture.get("/x", None).await), "max-age=1; preload");
}

#[actix_web::test]
async fn warnings_are_headers_and_said_once() {
    let seen = Fixture::new().get("/warn", Some("admin")).await;
    assert_eq!(seen.header("warning"), r#"299 - "unknown field \"a\"""#);
}

#[actix_web::test]
async fn errors_are_written_as_the_client_asks() {
    let fixture = Fixture::new();
    let yaml = fixture
        .send(request("/x", None).insert_header(("Accept", "application/yaml")))
        .await;
    assert_eq!(yaml.header("content-type"), "application/yaml");
    assert!(yaml.body.starts_with("apiVersion: v1\ncode: 403\n"));
    let other = fixture
        .send(request("/x", None).insert_header(("Accept", "text/html")))
        .await;
    assert_eq!(other.header("content-type"), "application/json");
}
