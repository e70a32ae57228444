//! Requests that are for a backend of an object, such as a pod's kubelet.

mod links;
mod location;
mod page;
mod proxy;
mod socket;
mod stream;
mod text;

use actix_web::{HttpResponse, web};
use trireme_machinery::Feature;
use trireme_registry::{
    ConnectAnswer, ConnectRequest,
    subresource::{Connect, Destination, Passing, SubresourceRole},
};

use super::ResourceCall;
use crate::{
    filters::authorization,
    metrics,
    negotiation::{OfferedForms, Produces, negotiate_view},
    request_info::RequestInfo,
    respond::HandlerResult,
};

/// Finds the backend that the request is for, once it is admitted, and passes the request on.
pub(crate) async fn handle(call: &ResourceCall, name: &str, payload: web::Payload) -> HandlerResult {
    let registry = &call.route.registry;
    let connect = connect(call, name);
    if connect.is_some_and(|connect| !connect.is_admitted()) {
        let offered = OfferedForms {
            tables: false,
            ..call.offered()
        };
        negotiate_view(call.exchange.accept.as_deref(), Produces::Texts, offered)?;
    }
    if call
        .api
        .features
        .has(Feature::AuthorizePodWebsocketUpgradeCreatePermission)
        && connect.is_some_and(|connect| connect.needs_create())
    {
        authorization::authorize_connection(&*call.api.authorizer, &call.exchange).await?;
    }
    let ConnectAnswer { destination, warnings } = registry.connect(request(call, name)).await?;
    call.warn(warnings);
    let target = match destination {
        Destination::Absent => return Ok(HttpResponse::NoContent().finish()),
        Destination::Backend(target) => target,
    };
    let unverified = matches!(target.passing, Passing::Text { unverified: true, .. });
    let of = (&call.api.director, &registry.info().resource);
    let found = call.api.backends.find(of, &target.host, unverified).await?;
    match &target.passing {
        Passing::Text { query, .. } => {
            metrics::logs::fetched(unverified).increment(1);
            text::fetch(call, &found, &location::target(&target.path, query)).await
        }
        Passing::Stream { query } => stream::pass(call, &found, &location::target(&target.path, query)).await,
        Passing::Proxy => proxy::pass(call, &found, &target.path, payload).await,
    }
}

fn connect<'c>(call: &'c ResourceCall, name: &str) -> Option<&'c dyn Connect> {
    match call.route.registry.info().strategy.subresource(name) {
        Some(SubresourceRole::Connect(connect)) => Some(connect),
        _ => None,
    }
}

fn request(call: &ResourceCall, name: &str) -> ConnectRequest {
    let mut query = call.exchange.query.pairs().to_vec();
    if name == "proxy" {
        query.retain(|(name, _)| name != "path");
        query.push(("path".to_owned(), path_behind(&call.exchange.info)));
    }
    ConnectRequest {
        target: call.target(),
        subresource: name.to_owned(),
        query,
        routes: call.api.director.surface(),
    }
}

/// The path behind a proxy, which begins with a slash unless it is empty, and ends with one if that of the URL does.
fn path_behind(info: &RequestInfo) -> String {
    let mut path = info.rest().to_owned();
    if !path.is_empty() && !path.starts_with('/') {
        path.insert(0, '/');
    }
    if info.path().ends_with('/') && !path.ends_with('/') {
        path.push('/');
    }
    path
}
