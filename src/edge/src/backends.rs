//! The way to backends of objects: the kubelets of nodes, and what listens on nodes and on addresses of pods
//! (`pkg/kubelet/client`, `CreateProxyTransport` of kube-apiserver).

use std::{fmt, net::IpAddr, sync::Arc};

use arc_swap::ArcSwap;
use serde_json::Value;
use tokio::net::lookup_host;
use trireme_actors::ActorSystem;
use trireme_http::client::{
    Client, ClientError, ClientIdentity, ClientSettings, ClientTls, Endpoint, IncomingBody, OutboundBody, OutboundCall,
    Protocols, Request, Response, TlsOptions, TlsOptionsError, Trust,
};
use trireme_machinery::{ApiError, GroupResource, Reason};
use trireme_registry::{
    DirectorHandle,
    item::parse,
    request::{Freshness, GetRequest, Target, own_user},
    subresource::BackendHost,
};

use crate::metrics;

/// The port of kubelets that do not say theirs.
const KUBELET_PORT: u16 = 10_250;

/// TLS towards kubelets, ready for use.
pub struct KubeletTls {
    verified: Arc<ClientTls>,
    unverified: Arc<ClientTls>,
}

impl KubeletTls {
    /// Believes kubelets with certificates of these CAs, PEM; any kubelet without them, as kube-apiserver does. `identity` is shown
    /// to them.
    ///
    /// # Errors
    /// If one of them cannot be used.
    pub fn new(ca: Option<Vec<u8>>, identity: Option<ClientIdentity>) -> Result<Self, TlsOptionsError> {
        let tls = |trust| {
            ClientTls::new(&TlsOptions {
                trust,
                identity: identity.clone(),
                ..TlsOptions::default()
            })
        };
        Ok(Self {
            verified: tls(ca.map_or(Trust::Unverified, Trust::Ca))?,
            unverified: tls(Trust::Unverified)?,
        })
    }
}

/// The settings of the way to backends.
pub struct BackendSettings {
    /// TLS towards kubelets; replaced when its files change.
    pub kubelet_tls: Arc<ArcSwap<KubeletTls>>,
    /// The types of nodes' addresses, the best first.
    pub address_types: Vec<String>,
}

/// Calls backends. Cheap to clone.
#[derive(Clone)]
pub struct Backends(Arc<SharedBackends>);

struct SharedBackends {
    settings: BackendSettings,
    /// Towards pods and other ports of nodes, whose certificates nobody could know.
    any_tls: Arc<ClientTls>,
    client: Client,
}

/// A backend, found and ready to be called.
pub(crate) struct FoundBackend {
    pub(crate) endpoint: Endpoint,
    tls: Arc<ClientTls>,
    client: Client,
}

impl Backends {
    /// Calls backends from now on.
    ///
    /// # Errors
    /// If TLS cannot be set up.
    pub fn start(system: &ActorSystem, settings: BackendSettings) -> Result<Self, TlsOptionsError> {
        let any_tls = ClientTls::new(&TlsOptions {
            trust: Trust::Unverified,
            ..TlsOptions::default()
        })?;
        // A user asks for each call and sees how it ends: a breaker would only hide that a node is back.
        let client = ClientSettings {
            breaker: None,
            ..ClientSettings::default()
        };
        // There from the beginning.
        metrics::logs::fetched(false).increment(0);
        metrics::logs::distrusted().increment(0);
        let (clock, tasks) = (system.clock().clone(), system.tasks().clone());
        Ok(Self(Arc::new(SharedBackends {
            settings,
            any_tls,
            client: Client::new("backends", client, clock, tasks),
        })))
    }

    /// Finds the server behind an object of a resource.
    ///
    /// # Errors
    /// If a node is not there, or says no address that can be used.
    pub(crate) async fn find(
        &self,
        (director, resource): (&DirectorHandle, &GroupResource),
        host: &BackendHost,
        unverified: bool,
    ) -> Result<FoundBackend, ApiError> {
        let node_object = |name| node_object(director, resource, name);
        match host {
            BackendHost::Kubelet(node) => {
                let (host, port) = self.kubelet(&node_object(node).await?)?;
                self.found("https", &host, &port.to_string(), Some(unverified))
            }
            BackendHost::Node { name, scheme, port } => {
                let (host, kubelet_port) = self.kubelet(&node_object(name).await?)?;
                check_reachable(&host).await?;
                let kubelet_port = kubelet_port.to_string();
                if port.is_empty() || *port == kubelet_port {
                    return self.found("https", &host, &kubelet_port, Some(unverified));
                }
                self.found(scheme, &host, port, None)
            }
            BackendHost::Address { scheme, host, port } => self.found(scheme, &host.to_string(), port, None),
        }
    }

    fn found(
        &self,
        scheme: &str,
        host: &str,
        port: &str,
        kubelet_unverified: Option<bool>,
    ) -> Result<FoundBackend, ApiError> {
        let scheme = if scheme.is_empty() { "http" } else { scheme };
        let host = if host.contains(':') {
            format!("[{host}]")
        } else {
            host.to_owned()
        };
        let port = if port.is_empty() {
            String::new()
        } else {
            format!(":{port}")
        };
        let endpoint = Endpoint::parse(&format!("{scheme}://{host}{port}"));
        let tls = self.0.settings.kubelet_tls.load();
        let tls = match kubelet_unverified {
            None => &self.0.any_tls,
            Some(false) => &tls.verified,
            Some(true) => &tls.unverified,
        };
        Ok(FoundBackend {
            endpoint: endpoint.map_err(|error| unreachable_service(&error.to_string()))?,
            tls: Arc::clone(tls),
            client: self.0.client.clone(),
        })
    }

    /// The host and the port of a node's kubelet.
    fn kubelet(&self, node: &Value) -> Result<(String, u16), ApiError> {
        let status = &node["status"];
        let addresses: Vec<(&str, &str)> = status["addresses"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|address| (text(&address["type"]), text(&address["address"])))
            .collect();
        let of_type = |wanted: &String| addresses.iter().find(|(kind, _)| kind == wanted);
        let Some((_, host)) = self.0.settings.address_types.iter().find_map(of_type) else {
            let known: Vec<String> = addresses
                .iter()
                .map(|(kind, address)| format!("{{{kind} {address}}}"))
                .collect();
            let known = known.join(" ");
            let why = format!("no preferred addresses found; known addresses: [{known}]");
            return Err(ApiError::unspecified(why));
        };
        let port = status["daemonEndpoints"]["kubeletEndpoint"]["Port"].as_u64();
        let port = port.and_then(|port| u16::try_from(port).ok()).filter(|port| *port != 0);
        Ok(((*host).to_owned(), port.unwrap_or(KUBELET_PORT)))
    }
}

impl fmt::Debug for Backends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Backends(..)")
    }
}

impl FoundBackend {
    /// Sends a request. HTTP/1.1: some can be upgraded only there, and backends are to see the host that the client named.
    pub(crate) async fn send(&self, request: Request<OutboundBody>) -> Result<Response<IncomingBody>, ClientError> {
        let call = OutboundCall {
            tls: Some(Arc::clone(&self.tls)),
            protocols: Protocols::Http1,
            ..OutboundCall::new(self.endpoint.clone(), request)
        };
        self.client.send(call).await
    }

    /// Host and port.
    pub(crate) fn authority(&self) -> String {
        let origin = self.endpoint.to_string();
        origin
            .split_once("://")
            .map_or(String::new(), |(_, authority)| authority.to_owned())
    }

    /// An error in the words of Go's `net/http`.
    pub(crate) fn failure(&self, error: &ClientError) -> String {
        error.as_net_http(&self.endpoint)
    }
}

/// The error for a backend that a request is proxied to and that does not answer.
pub(crate) fn unreachable_service(why: &str) -> ApiError {
    ApiError::new(
        Reason::ServiceUnavailable,
        format!("error trying to reach service: {why}"),
    )
}

/// A node. As in kube-apiserver, one that is not there is said to be none of the resource that was asked for.
async fn node_object(director: &DirectorHandle, asked_for: &GroupResource, name: &str) -> Result<Value, ApiError> {
    let route = director.surface().find("", "v1", "nodes");
    let route = route.ok_or_else(|| ApiError::internal("nodes are not served"))?;
    let target = Target {
        name: name.to_owned(),
        user: own_user(),
        ..Target::default()
    };
    let freshness = Freshness::Latest;
    match route.registry.get(GetRequest { target, freshness }).await {
        Ok(item) => parse(&item),
        Err(error) if error.reason == Reason::NotFound => Err(ApiError::not_found(asked_for, name)),
        Err(error) => Err(error),
    }
}

/// No client is proxied to the server's own host by way of a node's address.
async fn check_reachable(host: &str) -> Result<(), ApiError> {
    let found: Vec<IpAddr> = match lookup_host((host, 0)).await {
        Ok(found) => found.map(|address| address.ip()).collect(),
        Err(error) => return Err(ApiError::bad_request(format!("lookup {host}: {error}"))),
    };
    if found.is_empty() {
        return Err(ApiError::bad_request("no addresses for hostname"));
    }
    match found.into_iter().all(trireme_registry::subresource::may_be_reached) {
        true => Ok(()),
        false => Err(ApiError::bad_request("address not allowed")),
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
