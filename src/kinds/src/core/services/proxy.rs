//! `/proxy`: leads to one of the addresses behind a service.

use futures_util::future::BoxFuture;
use serde_json::Value;
use trireme_machinery::{ApiError, Reason};
use trireme_registry::{
    item::parse,
    request::{Freshness, GetRequest, Target},
    subresource::{Connect, ConnectCall, Destination},
};

use crate::{
    core::proxy,
    values::{integer_at, items},
};

pub(super) struct ServiceProxy;

impl Connect for ServiceProxy {
    fn name(&self) -> &'static str {
        "proxy"
    }

    fn find<'a>(&'a self, call: &'a ConnectCall) -> BoxFuture<'a, Result<Destination, ApiError>> {
        Box::pin(async move {
            let address = proxy::address(&call.target.name, "service")?;
            let service = call.object(address.name).await?;
            if let Ok(port) = address.port.parse::<i64>() {
                let spec = service.get("spec").unwrap_or(&Value::Null);
                let has_port = |candidate: &Value| integer_at(candidate, "/port") == Some(port);
                if !items(spec, "ports").iter().any(has_port) {
                    let text = format!("no service port {port} found for service \"{}\"", address.name);
                    return Err(ApiError::new(Reason::ServiceUnavailable, text));
                }
            }
            let endpoints = endpoints(call, address.name).await?;
            if items(&endpoints, "subsets").is_empty() {
                let text = format!("no endpoints available for service \"{}\"", address.name);
                return Err(ApiError::new(Reason::ServiceUnavailable, text));
            }
            Ok(Destination::Backend)
        })
    }
}

/// The endpoints of the service; before the first look-up the answer is that of a service that does not exist.
async fn endpoints(call: &ConnectCall, name: &str) -> Result<Value, ApiError> {
    let objects = call.routes.objects("", "v1", "endpoints");
    let objects = objects.ok_or_else(|| ApiError::internal("endpoints are not served"))?;
    let target = Target {
        version: 0,
        name: name.to_owned(),
        ..call.target.clone()
    };
    let freshness = Freshness::Latest;
    match objects.get(GetRequest { target, freshness }).await {
        Ok(item) => parse(&item),
        Err(error) if error.reason == Reason::NotFound => Err(ApiError::not_found(call.registry.resource(), name)),
        Err(error) => Err(error),
    }
}
