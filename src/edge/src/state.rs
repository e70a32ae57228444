//! State that all workers share.

use std::{sync::Arc, time::Duration};

use actix_web::http::header::HeaderValue;
use trireme_actors::Clock;
use trireme_audit::Audit;
use trireme_auth::{AnonymousAuth, Authenticator, Authorizer, FrontProxyHeaders, Impersonator};
use trireme_flow::Limiter;
use trireme_registry::PublishedSurface;

use trireme_http::server::ServerLifecycle;
use trireme_machinery::schema::TypeTable;

use crate::{
    allowed_origins::AllowedOrigins, dropped_requests::DroppedRequests, spans::Spans, user_counts::UserCounts,
    watch_counts::WatchCounts,
};

/// The parts that the filter chain works with.
pub(crate) struct ChainState {
    /// Times requests.
    pub(crate) clock: Clock,
    /// Says who asks.
    pub(crate) authenticator: Arc<dyn Authenticator>,
    /// Says what they may do.
    pub(crate) authorizer: Arc<dyn Authorizer>,
    /// The audit policy and its backends, if there are any.
    pub(crate) audit: Option<Arc<Audit>>,
    /// Says who may act as whom.
    pub(crate) impersonator: Impersonator,
    /// Bounds how many ask at once.
    pub(crate) limiter: Limiter,
    /// The requests for which it had no seat lately.
    pub(crate) dropped: DroppedRequests,
    /// The watches under way, by which writes are more or less work.
    pub(crate) watches: WatchCounts,
    /// The watches of users, within their bounds.
    pub(crate) open_watches: UserCounts,
    /// Other requests of users that last as long as they like, each of which has a connection to a backend, within the bounds of
    /// connections.
    pub(crate) open_streams: UserCounts,
    /// The connections of users, within the bound of each; [`trireme_http`] has the bound of all.
    pub(crate) open_connections: UserCounts,
    /// The served resources, and the numbers of their objects.
    pub(crate) surface: PublishedSurface,
    /// The server's way to its end.
    pub(crate) lifecycle: ServerLifecycle,
    /// The paths that anonymous requests may use.
    pub(crate) anonymous: AnonymousAuth,
    /// The headers in which proxies name the user.
    pub(crate) front_proxy: FrontProxyHeaders,
    /// The longest time of a request that is not long-running.
    pub(crate) request_timeout: Duration,
    /// The least time of a request that is logged as slow; `None` logs none.
    pub(crate) slow_request: Option<Duration>,
    /// Of how many HTTP/2 requests the connection is ended: 0 to 1.
    pub(crate) goaway_chance: f64,
    /// True if an HTTP/2 connection ends after a request of an anonymous user or with bad credentials.
    pub(crate) ends_anonymous_http2: bool,
    /// The origins whose pages may read answers.
    pub(crate) allowed_origins: AllowedOrigins,
    /// The value of `Strict-Transport-Security`: that browsers are to come over TLS only, and for how long.
    pub(crate) strict_transport_security: Option<HeaderValue>,
    /// Exports requests, if there is a collector.
    pub(crate) spans: Option<Arc<dyn Spans>>,
    /// The types of the API machinery.
    pub(crate) types: &'static TypeTable,
}
