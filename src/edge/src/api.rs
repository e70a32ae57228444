//! State that the handlers of all workers share.

use std::{sync::Arc, time::Duration};

use actix_web::{FromRequest, HttpRequest, dev::Payload, web};
use trireme_actors::{ActorSnapshot, Clock};
use trireme_aggregation::RemoteServers;
use trireme_auth::{Authorizer, IssuerDocuments};
use trireme_flow::Limiter;
use trireme_http::{client::Client, server::ServerLifecycle};
use trireme_machinery::{Feature, Features};
use trireme_registry::{DirectorHandle, documents::Document};

use crate::{
    backends::Backends, config::VersionInfo, health::Health, installed_paths::InstalledPaths, profiling::Profiler,
    replicas::Replicas,
};

/// Gives a snapshot of all actors.
pub(crate) type ActorSnapshots = Arc<dyn Fn() -> Vec<ActorSnapshot> + Send + Sync>;

/// The parts that handlers work with.
pub(crate) struct Api {
    /// Everything that is served.
    pub(crate) director: DirectorHandle,
    /// `/api`
    pub(crate) api_versions: Document,
    /// The paths that come while the server starts.
    pub(crate) paths: InstalledPaths,
    /// The checks of the server's health.
    pub(crate) health: Health,
    /// Says if an update or an apply may create what it does not find.
    pub(crate) authorizer: Arc<dyn Authorizer>,
    /// Renders the metrics.
    pub(crate) metrics: metrics_exporter_prometheus::PrometheusHandle,
    /// Looks at the actors.
    pub(crate) actors: ActorSnapshots,
    /// The clients whose breakers can be looked at.
    pub(crate) clients: Vec<Client>,
    /// Shows the replica group, and changes it.
    pub(crate) replicas: Arc<dyn Replicas>,
    /// Shows who waits for a seat.
    pub(crate) limiter: Limiter,
    /// The way to other API servers.
    pub(crate) aggregation: RemoteServers,
    /// The way to kubelets, pods and nodes.
    pub(crate) backends: Backends,
    /// Takes CPU profiles, unless that is switched off.
    pub(crate) profiler: Option<Arc<dyn Profiler>>,
    /// Sets how much is logged, 0 to 10.
    pub(crate) set_verbosity: Arc<dyn Fn(u8) + Send + Sync>,
    /// Documents for checking service-account tokens elsewhere, if they can be looked up.
    pub(crate) issuer: Option<IssuerDocuments>,
    /// The contents of `/version`.
    pub(crate) version: VersionInfo,
    /// The features that are on.
    pub(crate) features: Features,
    /// The flags that `/flagz` shows, if it is served.
    pub(crate) flagz: Option<Vec<(String, String)>>,
    /// The start of the server, if `/statusz` is served.
    pub(crate) started: Option<jiff::Timestamp>,
    /// Ends what lasts with the server.
    pub(crate) lifecycle: ServerLifecycle,
    /// Times reviews and ages.
    pub(crate) clock: Clock,
    /// The least time of a watch that does not ask for one; it lasts at most twice that.
    pub(crate) min_watch: Duration,
}

impl Api {
    /// Reports whether what cannot be read may be deleted on purpose.
    pub(crate) fn unsafe_deletion(&self) -> bool {
        self.features.has(Feature::AllowUnsafeMalformedObjectDeletion)
    }
}

/// Handlers take the shared state as an argument.
#[derive(Clone)]
pub(crate) struct EdgeShared(web::Data<Api>);

impl std::ops::Deref for EdgeShared {
    type Target = Api;

    fn deref(&self) -> &Api {
        &self.0
    }
}

impl FromRequest for EdgeShared {
    type Error = actix_web::Error;
    type Future = std::future::Ready<Result<Self, Self::Error>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        let data = request.app_data::<web::Data<Api>>().cloned();
        std::future::ready(
            data.map(Self)
                .ok_or_else(|| actix_web::error::ErrorInternalServerError("the application has no state")),
        )
    }
}
