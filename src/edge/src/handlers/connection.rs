//! Requests that are for a backend of an object, such as a pod's kubelet.

use std::sync::Arc;

use actix_web::HttpResponse;
use trireme_registry::subresource::{ConnectCall, Destination, SubresourceRole};

use super::ResourceCall;
use crate::{
    respond::HandlerResult,
    status::{self, not_implemented},
};

/// Finds the backend that the request is for. No backend can be reached yet, so it ends there.
pub(crate) async fn handle(call: &ResourceCall, name: &str) -> HandlerResult {
    let registry = &call.route.registry;
    let info = registry.info().clone();
    let Some(SubresourceRole::Connect(connect)) = info.strategy.subresource(name) else {
        return Err(status::resource_not_found());
    };
    match connect.find(&connect_call(call)).await? {
        Destination::Absent => Ok(HttpResponse::NoContent().finish()),
        Destination::Backend => Err(not_implemented(&format!("{}/{name}", info.resource.resource))),
    }
}

fn connect_call(call: &ResourceCall) -> ConnectCall {
    ConnectCall {
        registry: Arc::new(call.route.registry.clone()),
        routes: call.api.director.surface(),
        target: call.target(),
        query: call.exchange.query.pairs().to_vec(),
    }
}
