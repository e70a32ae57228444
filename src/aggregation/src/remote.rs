//! The way to other API servers: for requests of clients, for looks at whether they are there, and for their documents.

use std::{fmt, sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use trireme_actors::ActorSystem;
use trireme_http::client::{
    Client, ClientError, ClientIdentity, ClientSettings, ClientTls, Endpoint, IncomingBody, OutboundBody, OutboundCall,
    Protocols, Request, Response,
};
use trireme_machinery::schema::TypeTable;
use trireme_registry::{PublishedSurface, Readiness, ServiceResolver, View};

use crate::{
    api_service::{self, ApiServiceView, OWN_GROUP, ServiceTarget},
    availability_gauge::AvailabilityGauge,
};

/// The largest document that is read: many times OpenAPI 2 of all of Kubernetes, which has some MiB.
const MAX_DOCUMENT_BYTES: u64 = 64 * 1024 * 1024;

/// The certificate that is shown to other servers, if there is one; replaced when its files change.
pub type ProxyIdentity = Arc<ArcSwap<Option<ClientIdentity>>>;

/// The settings of the way to other servers.
pub struct RemoteSettings {
    /// Finds the servers behind services.
    pub services: ServiceResolver,
    /// Shows them who this is.
    pub identity: ProxyIdentity,
    /// True if redirects are not passed on.
    pub rejects_redirects: bool,
    /// The types of the API machinery, by which documents of other servers are decoded.
    pub types: &'static TypeTable,
}

/// The other API servers. Cheap to clone.
#[derive(Clone)]
pub struct RemoteServers(Arc<SharedServers>);

struct SharedServers {
    services: ApiServiceView,
    settings: RemoteSettings,
    client: Client,
    gauge: AvailabilityGauge,
}

/// The reason that another server does not answer.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// It was found not to be available, or there is no way to it: 503.
    #[error("service unavailable")]
    Unavailable,
    /// The APIService names no usable trust: 500.
    #[error("{0}")]
    Trust(String),
    /// It did not answer: 503.
    #[error("error trying to reach service: {0}")]
    Unreachable(String),
    /// It was asked to go on with another protocol, and answered with this code instead: 503.
    #[error("invalid upgrade response: status code {0}")]
    NotSwitched(u16),
}

/// Another server, found and ready to be called.
pub struct RemoteBackend {
    endpoint: Endpoint,
    tls: Arc<ClientTls>,
    client: Client,
    rejects_redirects: bool,
}

impl RemoteServers {
    /// Starts to follow APIServices, as soon as they are served.
    pub fn start(system: &ActorSystem, surface: &PublishedSurface, settings: RemoteSettings) -> Self {
        // Whether a server is there is looked at all the time: a breaker would keep it away when it is back.
        let client = ClientSettings {
            breaker: None,
            ..ClientSettings::default()
        };
        let client = Client::new(
            "aggregated-servers",
            client,
            system.clock().clone(),
            system.tasks().clone(),
        );
        let sources = vec![surface.resource(OWN_GROUP, "v1", "apiservices")];
        Self(Arc::new(SharedServers {
            services: View::start_when_served(system, "apiservices", sources, api_service::fold),
            settings,
            client,
            gauge: AvailabilityGauge::default(),
        }))
    }

    /// Says when the APIServices are known.
    pub fn readiness(&self) -> Arc<dyn Readiness> {
        Arc::new(self.0.services.clone())
    }

    /// Reports whether it is known of all local APIServices, or of all others, if they are available.
    pub fn are_judged(&self, local: bool) -> bool {
        let services = self.0.services.load();
        let mut alike = services.iter().filter(|(_, service)| service.remote.is_none() == local);
        self.0.services.is_ready() && alike.all(|(_, service)| service.available.is_some())
    }

    /// Reports whether an APIService is there and available.
    pub fn is_available(&self, name: &str) -> bool {
        let services = self.0.services.load();
        services
            .find(name)
            .is_some_and(|service| service.available == Some(true))
    }

    /// The metrics about APIServices that the recorder does not have, in the text format of Prometheus.
    pub fn render_metrics(&self) -> String {
        let services = self.0.services.load();
        self.0.gauge.render(|name| services.find(name).is_some())
    }

    pub(crate) fn gauge(&self) -> &AvailabilityGauge {
        &self.0.gauge
    }

    pub(crate) fn services(&self) -> &ApiServiceView {
        &self.0.services
    }

    pub(crate) fn types(&self) -> &'static TypeTable {
        self.0.settings.types
    }

    pub(crate) fn resolver(&self) -> &ServiceResolver {
        &self.0.settings.services
    }

    /// The server of an APIService that is available.
    ///
    /// # Errors
    /// If it is not, or cannot be called.
    pub async fn available(&self, service: &str) -> Result<RemoteBackend, RemoteError> {
        let services = self.0.services.load();
        let found = services.find(service).filter(|service| service.available == Some(true));
        let server = found.and_then(|service| service.proxied());
        let server = server.ok_or(RemoteError::Unavailable)?;
        let tls = self.tls(server).map_err(RemoteError::Trust)?;
        match self.endpoint(server).await {
            Ok(endpoint) => Ok(self.backend(endpoint, tls)),
            Err(why) => {
                tracing::debug!(service, why, "there is no way to an API server");
                Err(RemoteError::Unavailable)
            }
        }
    }

    /// A server, whether it is available or not.
    ///
    /// # Errors
    /// If it cannot be called.
    pub(crate) async fn backend_of(&self, server: &ServiceTarget) -> Result<RemoteBackend, String> {
        let endpoint = self.endpoint(server).await?;
        Ok(self.backend(endpoint, self.tls(server)?))
    }

    fn tls(&self, server: &ServiceTarget) -> Result<Arc<ClientTls>, String> {
        server.tls(&self.0.settings.identity.load_full())
    }

    async fn endpoint(&self, server: &ServiceTarget) -> Result<Endpoint, String> {
        let resolver = &self.0.settings.services;
        let (host, port) = resolver.resolve(&server.namespace, &server.name, server.port).await?;
        let host = if host.contains(':') { format!("[{host}]") } else { host };
        Endpoint::parse(&format!("https://{host}:{port}")).map_err(|error| error.to_string())
    }

    fn backend(&self, endpoint: Endpoint, tls: Arc<ClientTls>) -> RemoteBackend {
        RemoteBackend {
            endpoint,
            tls,
            client: self.0.client.clone(),
            rejects_redirects: self.0.settings.rejects_redirects,
        }
    }
}

impl fmt::Debug for RemoteServers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RemoteServers(..)")
    }
}

impl RemoteBackend {
    /// Scheme, host and port.
    pub fn origin(&self) -> String {
        self.endpoint.to_string()
    }

    /// Host and port.
    pub fn authority(&self) -> String {
        self.origin().trim_start_matches("https://").to_owned()
    }

    /// True if redirects are not passed on.
    pub fn rejects_redirects(&self) -> bool {
        self.rejects_redirects
    }

    /// Sends a request; upgrades want HTTP/1.1.
    ///
    /// # Errors
    /// If there is no answer.
    pub async fn send(
        &self,
        request: Request<OutboundBody>,
        protocols: Protocols,
        timeout: Option<Duration>,
    ) -> Result<Response<IncomingBody>, ClientError> {
        let call = OutboundCall {
            protocols,
            timeout,
            ..self.call(request)
        };
        self.client.send(call).await
    }

    /// Asks for a document, whose size is bounded.
    ///
    /// # Errors
    /// If there is no answer.
    pub(crate) async fn ask_for_document(
        &self,
        request: Request<OutboundBody>,
        timeout: Duration,
    ) -> Result<Response<IncomingBody>, ClientError> {
        self.client.send(document_call(self.call(request), timeout)).await
    }

    fn call(&self, request: Request<OutboundBody>) -> OutboundCall {
        OutboundCall {
            tls: Some(Arc::clone(&self.tls)),
            ..OutboundCall::new(self.endpoint.clone(), request)
        }
    }

    /// Has the next calls open connections of their own, which may lead to another server behind the same service.
    pub(crate) fn retire_connections(&self) {
        self.client.retire_connections(&self.endpoint, Some(&self.tls));
    }

    /// An error in the words of Go's `net/http`.
    pub fn failure(&self, error: &ClientError) -> String {
        error.as_net_http(&self.endpoint)
    }
}

/// A call whose answer is a document.
fn document_call(call: OutboundCall, timeout: Duration) -> OutboundCall {
    OutboundCall {
        timeout: Some(timeout),
        max_body_bytes: Some(MAX_DOCUMENT_BYTES),
        ..call
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_bounded() {
        let endpoint = Endpoint::parse("https://h:443").expect("an endpoint");
        let call = OutboundCall::new(endpoint, Request::new(OutboundBody::empty()));
        assert_eq!(
            document_call(call, Duration::from_secs(1)).max_body_bytes,
            Some(64 << 20)
        );
    }
}
