//! Requests that are for a backend of an object, such as a pod's kubelet.

use actix_web::HttpResponse;
use trireme_registry::{
    ConnectAnswer, ConnectRequest,
    subresource::{Destination, SubresourceRole},
};

use super::ResourceCall;
use crate::{filters::authorization, request_info::RequestInfo, respond::HandlerResult, status::not_implemented};

/// Finds the backend that the request is for, once it is admitted. No backend can be reached yet, so it ends there.
pub(crate) async fn handle(call: &ResourceCall, name: &str) -> HandlerResult {
    let registry = &call.route.registry;
    if call.api.connect_needs_create && needs_create(call, name) {
        authorization::authorize_connection(&*call.api.authorizer, &call.exchange).await?;
    }
    let ConnectAnswer { destination, warnings } = registry.connect(request(call, name)).await?;
    call.warn(warnings);
    match destination {
        Destination::Absent => Ok(HttpResponse::NoContent().finish()),
        Destination::Backend => Err(not_implemented(&format!(
            "{}/{name}",
            registry.info().resource.resource
        ))),
    }
}

fn needs_create(call: &ResourceCall, name: &str) -> bool {
    let role = call.route.registry.info().strategy.subresource(name);
    matches!(role, Some(SubresourceRole::Connect(connect)) if connect.needs_create())
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
