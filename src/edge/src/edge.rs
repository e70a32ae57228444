//! The edge as a whole: one application per worker behind the filter chain.

use std::{io, sync::Arc};

use actix_http::Request;
use actix_service::{IntoServiceFactory, Service, ServiceFactory, map_config};
use actix_web::{
    App, HttpResponse,
    body::BoxBody,
    dev::{AppConfig, ServiceResponse},
    http::header::HeaderValue,
    web,
};
use trireme_audit::AuditId;
use trireme_auth::Impersonator;
use trireme_http::server::{self, BadHead, Handler, RunningServer, ServerConfig, ServerLifecycle};
use trireme_machinery::{ApiError, Feature, Reason};
use trireme_registry::documents;

use crate::{
    api::Api,
    chain,
    config::{EdgeConfig, Rooms},
    dropped_requests::DroppedRequests,
    filters::audit_id,
    installed_paths::InstalledPaths,
    routes,
    state::ChainState,
    status::{self, ErrorStyle},
    user_counts::{OpenBounds, OpenMetrics, UserCounts},
    watch_counts::WatchCounts,
};

/// The watches of all users.
const WATCHES: OpenMetrics = OpenMetrics {
    open: Some("trireme_watches"),
    refused: "trireme_watches_refused_total",
};
/// The streams to backends of all users.
const STREAMS: OpenMetrics = OpenMetrics {
    open: Some("trireme_streams"),
    refused: "trireme_streams_refused_total",
};
/// The connections whose users are known; the HTTP server counts all.
const CONNECTIONS: OpenMetrics = OpenMetrics {
    open: None,
    refused: server::CONNECTIONS_REFUSED,
};

/// The HTTP edge.
#[derive(Debug, Clone, Copy)]
pub struct Edge;

/// The reason that the edge cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum EdgeError {
    /// The address cannot be bound or a thread cannot be started.
    #[error("cannot serve on {0}")]
    Start(std::net::SocketAddr, #[source] io::Error),
}

impl Edge {
    /// Binds the address and serves. Readiness is the business of `rooms.health`.
    ///
    /// # Errors
    /// If the address cannot be bound or a thread cannot be started.
    pub fn build(config: EdgeConfig, rooms: Rooms) -> Result<RunningServer, EdgeError> {
        let lifecycle = ServerLifecycle::new();
        let chain = Arc::new(ChainState {
            clock: rooms.clock.clone(),
            authenticator: rooms.authenticator,
            audit: rooms.audit,
            impersonator: Impersonator::new(Arc::clone(&rooms.authorizer), rooms.clock.clone(), config.features),
            authorizer: Arc::clone(&rooms.authorizer),
            limiter: rooms.limiter.clone(),
            dropped: DroppedRequests::default(),
            watches: WatchCounts::default(),
            open_watches: UserCounts::new(config.watches, WATCHES),
            open_streams: UserCounts::new(
                OpenBounds {
                    all: config.limits.connections,
                    per_user: config.connections_per_user,
                },
                STREAMS,
            ),
            open_connections: UserCounts::new(
                OpenBounds {
                    all: None,
                    per_user: config.connections_per_user,
                },
                CONNECTIONS,
            ),
            surface: rooms.director.published().clone(),
            lifecycle: lifecycle.clone(),
            anonymous: config.anonymous,
            front_proxy: config.front_proxy,
            request_timeout: config.request_timeout,
            slow_request: config.slow_request,
            goaway_chance: config.goaway_chance,
            ends_anonymous_http2: config.features.has(Feature::UnauthenticatedHttp2DosMitigation),
            allowed_origins: config.allowed_origins,
            strict_transport_security: config
                .strict_transport_security
                .and_then(|directives| HeaderValue::try_from(directives).ok()),
            spans: rooms.spans,
            types: rooms.types,
        });
        let advertised = config.advertised_address.unwrap_or_else(|| config.listen.to_string());
        let api = web::Data::new(Api {
            director: rooms.director,
            api_versions: documents::api_versions(&advertised),
            paths: InstalledPaths::new(rooms.paths),
            health: rooms.health,
            authorizer: rooms.authorizer,
            metrics: rooms.metrics,
            actors: rooms.actors,
            clients: rooms.clients,
            replicas: rooms.replicas,
            limiter: rooms.limiter,
            aggregation: rooms.aggregation,
            backends: rooms.backends,
            profiler: rooms.profiler,
            set_verbosity: rooms.set_verbosity,
            issuer: rooms.issuer,
            version: config.version,
            features: config.features,
            flagz: config.features.has(Feature::ComponentFlagz).then_some(config.flags),
            started: config
                .features
                .has(Feature::ComponentStatusz)
                .then(|| jiff::Timestamp::try_from(rooms.clock.wall()).unwrap_or_default()),
            lifecycle: lifecycle.clone(),
            clock: rooms.clock,
            min_watch: config.min_watch,
        });
        let server = ServerConfig {
            listen: config.listen,
            workers: config.workers,
            tls: config.tls,
            limits: config.limits,
            watch_grace: config.watch_grace,
        };
        server::start(&server, lifecycle, move || {
            build_worker(Arc::clone(&chain), api.clone())
        })
        .map_err(|error| EdgeError::Start(config.listen, error))
    }
}

/// A worker's application behind the filter chain.
struct Chained<S> {
    state: Arc<ChainState>,
    app: S,
}

impl<S> Handler for Chained<S>
where
    S: Service<Request, Response = ServiceResponse<BoxBody>, Error = actix_web::Error> + 'static,
{
    async fn handle(&self, request: Request) -> HttpResponse {
        chain::serve(&self.state, &self.app, request).await
    }

    fn refuse(&self, error: BadHead) -> HttpResponse {
        let reason = match error {
            // As Go's server answers it.
            BadHead::Expectation => return HttpResponse::new(error.status()),
            BadHead::TransferEncoding => Reason::NotImplemented,
            _ => Reason::BadRequest,
        };
        let mut response = status::response(&ApiError::new(reason, error.to_string()), ErrorStyle::default());
        audit_id::set(&AuditId::from_client(None), &mut response);
        response
    }
}

async fn build_worker(state: Arc<ChainState>, api: web::Data<Api>) -> impl Handler {
    let app = App::new().app_data(api).configure(routes::configure);
    let factory = map_config(app.into_factory(), |()| AppConfig::default());
    let app = factory.new_service(()).await.expect("the routes are in order");
    Chained { state, app }
}
