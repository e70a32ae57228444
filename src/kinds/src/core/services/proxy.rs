//! `/proxy`: leads to one of the addresses behind a service.

use std::net::IpAddr;

use futures_util::future::BoxFuture;
use rand::seq::SliceRandom as _;
use serde_json::Value;
use trireme_machinery::{ApiError, Reason};
use trireme_registry::{
    item::parse,
    request::{Freshness, GetRequest, Target},
    subresource::{BackendHost, Connect, ConnectCall, Destination},
};

use crate::{
    core::proxy,
    values::{integer_at, items, text},
};

pub(super) struct ServiceProxy;

impl Connect for ServiceProxy {
    fn name(&self) -> &'static str {
        "proxy"
    }

    fn find<'a>(&'a self, call: &'a ConnectCall) -> BoxFuture<'a, Result<Destination, ApiError>> {
        Box::pin(async move {
            let asked = proxy::address(&call.target.name, "service")?;
            let mut port_name = asked.port;
            let service;
            if let Ok(port) = asked.port.parse::<i64>() {
                service = call.object(asked.name).await?;
                let spec = service.get("spec").unwrap_or(&Value::Null);
                let has_port = |candidate: &&Value| integer_at(candidate, "/port") == Some(port);
                let found = items(spec, "ports").iter().find(has_port).ok_or_else(|| {
                    let text = format!("no service port {port} found for service \"{}\"", asked.name);
                    ApiError::new(Reason::ServiceUnavailable, text)
                })?;
                port_name = text(found, "name");
            }
            let endpoints = endpoints(call, asked.name).await?;
            let (host, port) = match items(&endpoints, "subsets") {
                [] => None,
                subsets => ready_address(call, subsets, port_name).await,
            }
            .ok_or_else(|| {
                let named = match items(&endpoints, "subsets") {
                    [] => asked.name,
                    _ => call.target.name.as_str(),
                };
                let text = format!("no endpoints available for service \"{named}\"");
                ApiError::new(Reason::ServiceUnavailable, text)
            })?;
            let scheme = asked.scheme.to_owned();
            Ok(proxy::destination(BackendHost::Address { scheme, host, port }, call))
        })
    }
}

/// The address and the port of one of the pods behind a service: a random one, that has the address.
async fn ready_address(call: &ConnectCall, subsets: &[Value], port_name: &str) -> Option<(IpAddr, String)> {
    let mut candidates = Vec::new();
    for subset in subsets {
        let port = items(subset, "ports")
            .iter()
            .find(|port| text(port, "name") == port_name);
        let Some(port) = port else { continue };
        let port = integer_at(port, "/port").unwrap_or_default().to_string();
        candidates.extend(items(subset, "addresses").iter().map(|address| (address, port.clone())));
    }
    candidates.shuffle(&mut rand::rng());
    for (address, port) in candidates {
        if belongs_to_its_pod(call, address).await {
            let host = text(address, "ip").parse().ok();
            if let Some(host) = host {
                return Some((host, port));
            }
        }
    }
    None
}

/// Reports whether an address is that of the pod that it names, in the service's namespace. Users may write others into endpoints.
async fn belongs_to_its_pod(call: &ConnectCall, address: &Value) -> bool {
    let reference = address.get("targetRef").unwrap_or(&Value::Null);
    if text(reference, "namespace") != call.target.namespace {
        return false;
    }
    let pod = object(call, "pods", text(reference, "name")).await;
    let status = pod
        .as_ref()
        .ok()
        .and_then(|pod| pod.get("status"))
        .unwrap_or(&Value::Null);
    items(status, "podIPs")
        .iter()
        .any(|pod| text(pod, "ip") == text(address, "ip"))
}

/// The endpoints of the service. As in kube-apiserver, those that are not there are said to be a service.
async fn endpoints(call: &ConnectCall, name: &str) -> Result<Value, ApiError> {
    match object(call, "endpoints", name).await {
        Err(error) if error.reason == Reason::NotFound => Err(ApiError::not_found(call.registry.resource(), name)),
        found => found,
    }
}

/// An object of the core group in the namespace of the service.
async fn object(call: &ConnectCall, resource: &'static str, name: &str) -> Result<Value, ApiError> {
    let objects = call.routes.objects("", "v1", resource);
    let objects = objects.ok_or_else(|| ApiError::internal("the resource is not served"))?;
    let target = Target {
        version: 0,
        name: name.to_owned(),
        ..call.target.clone()
    };
    let freshness = Freshness::Latest;
    parse(&*objects.get(GetRequest { target, freshness }).await?)
}
