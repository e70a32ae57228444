//! The parts that the edge is built from.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use trireme_actors::{ActorSnapshot, Clock};
use trireme_aggregation::RemoteServers;
use trireme_audit::Audit;
use trireme_auth::{AnonymousAuth, Authenticator, Authorizer, FrontProxyHeaders, IssuerDocuments};
use trireme_flow::Limiter;
use trireme_http::{
    client::Client,
    server::{ConnectionLimits, TlsProvider},
};
use trireme_machinery::{Features, schema::TypeTable};
use trireme_registry::{DirectorHandle, Readiness};

use crate::{
    allowed_origins::AllowedOrigins, backends::Backends, health::Health, profiling::Profiler, replicas::Replicas,
    spans::Spans, user_counts::OpenBounds,
};

/// Settings of the edge.
#[derive(Clone)]
pub struct EdgeConfig {
    /// The address to listen on; port 0 takes a free one.
    pub listen: SocketAddr,
    /// The number of threads that serve connections.
    pub workers: usize,
    /// Certificates and keys.
    pub tls: Arc<dyn TlsProvider>,
    /// Bounds on what clients may do before and between requests.
    pub limits: ConnectionLimits,
    /// `--shutdown-watch-termination-grace-period`: over how long the ends of watches are spread at a shutdown.
    pub watch_grace: Duration,
    /// `--anonymous-auth` and `anonymous` of `--authentication-config`: the requests without credentials that are those of
    /// `system:anonymous`; others get 401.
    pub anonymous: AnonymousAuth,
    /// The headers in which proxies name the user: they are read by authenticators alone.
    pub front_proxy: FrontProxyHeaders,
    /// `--request-timeout`: how long a request may take that is not long-running.
    pub request_timeout: Duration,
    /// `--slow-request-threshold`: requests that take at least this time are logged; `None` logs none.
    pub slow_request: Option<Duration>,
    /// `--min-request-timeout`: how long a watch lasts at least that does not say so itself.
    pub min_watch: Duration,
    /// `--max-watches` and `--max-watches-per-user`
    pub watches: OpenBounds,
    /// `--max-connections-per-user`; the bound of all is one of `limits`.
    pub connections_per_user: Option<usize>,
    /// `--goaway-chance`: of how many HTTP/2 requests the connection is ended.
    pub goaway_chance: f64,
    /// `--cors-allowed-origins`: the origins whose pages may read answers.
    pub allowed_origins: AllowedOrigins,
    /// `--strict-transport-security-directives`: the header of that name.
    pub strict_transport_security: Option<String>,
    /// The host and port that `/api` shows to clients; the address listened on if there is none.
    pub advertised_address: Option<String>,
    /// The contents of `/version`.
    pub version: VersionInfo,
    /// `--feature-gates`: the features that are on.
    pub features: Features,
    /// The flags that `/flagz` shows, by name.
    pub flags: Vec<(String, String)>,
}

impl EdgeConfig {
    /// Settings with the defaults of kube-apiserver.
    pub fn new(listen: SocketAddr, tls: Arc<dyn TlsProvider>) -> Self {
        Self {
            listen,
            workers: std::thread::available_parallelism().map_or(1, usize::from),
            tls,
            limits: ConnectionLimits::default(),
            watch_grace: Duration::ZERO,
            anonymous: AnonymousAuth::everywhere(true),
            front_proxy: FrontProxyHeaders::standard(),
            request_timeout: Duration::from_secs(60),
            slow_request: Some(Duration::from_millis(500)),
            min_watch: Duration::from_secs(1800),
            watches: OpenBounds::default(),
            connections_per_user: None,
            goaway_chance: 0.0,
            allowed_origins: AllowedOrigins::default(),
            strict_transport_security: None,
            advertised_address: None,
            version: VersionInfo::default(),
            features: Features::default(),
            flags: Vec::new(),
        }
    }
}

/// The other rooms, as the edge needs them.
pub struct Rooms {
    /// The resources.
    pub director: DirectorHandle,
    /// Says who asks.
    pub authenticator: Arc<dyn Authenticator>,
    /// Says what they may do.
    pub authorizer: Arc<dyn Authorizer>,
    /// Documents for checking service-account tokens elsewhere; `None` if they cannot be looked up.
    pub issuer: Option<IssuerDocuments>,
    /// Bounds how many ask at once.
    pub limiter: Limiter,
    /// The parts that bring paths while the server starts: until all have been ready once, a path that is not served is not
    /// known to be none.
    pub paths: Vec<Arc<dyn Readiness>>,
    /// The checks of the server's health.
    pub health: Health,
    /// Renders the metrics; its recorder is installed, with [`crate::metrics::configure`] applied.
    pub metrics: metrics_exporter_prometheus::PrometheusHandle,
    /// Looks at the actors.
    pub actors: Arc<dyn Fn() -> Vec<ActorSnapshot> + Send + Sync>,
    /// The clients whose endpoints `/debug/breakers` shows.
    pub clients: Vec<Client>,
    /// Shows the replica group, and changes it.
    pub replicas: Arc<dyn Replicas>,
    /// The way to other API servers.
    pub aggregation: RemoteServers,
    /// The way to kubelets, pods and nodes.
    pub backends: Backends,
    /// Takes CPU profiles; `None` serves none (`--profiling=false`).
    pub profiler: Option<Arc<dyn Profiler>>,
    /// Sets how much is logged, 0 to 10; larger numbers count as 10.
    pub set_verbosity: Arc<dyn Fn(u8) + Send + Sync>,
    /// Exports requests as spans; `None` exports none.
    pub spans: Option<Arc<dyn Spans>>,
    /// The audit policy and its backends; `None` records nothing.
    pub audit: Option<Arc<Audit>>,
    /// The time.
    pub clock: Clock,
    /// The types of the API machinery's own objects, such as `Status`: protobuf goes by them.
    pub types: &'static TypeTable,
}

/// The contents of `/version`: the Kubernetes version whose API is served, and the build that serves it.
#[derive(Debug, Clone)]
pub struct VersionInfo {
    /// `v1.36.…+trireme-…`
    pub git_version: String,
    /// The commit.
    pub git_commit: String,
    /// The time of the build, RFC 3339.
    pub build_date: String,
}

impl VersionInfo {
    /// The release of Kubernetes, `1.36.…`.
    pub fn release(&self) -> &str {
        let version = self.git_version.trim_start_matches('v');
        version.split(['-', '+']).next().unwrap_or(version)
    }
}

impl Default for VersionInfo {
    fn default() -> Self {
        Self {
            git_version: format!("v1.36.2+trireme-{}", env!("CARGO_PKG_VERSION")),
            git_commit: String::new(),
            build_date: "1970-01-01T00:00:00Z".to_owned(),
        }
    }
}
