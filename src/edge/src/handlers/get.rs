//! GET of one object.

use actix_web::http::StatusCode;
use trireme_machinery::ApiError;
use trireme_registry::{
    list_options::get_freshness,
    request::{GetRequest, Subresource},
};

use super::{ResourceCall, object::ObjectShape};
use crate::{query::Query, respond::HandlerResult};

/// `export` did something before Kubernetes 1.21.
fn refuse_export(query: &Query) -> Result<(), ApiError> {
    if query.get("export").is_some_and(|given| !given.is_empty()) && query.flag("export") {
        return Err(ApiError::bad_request(
            "the export parameter, deprecated since v1.14, is no longer supported",
        ));
    }
    Ok(())
}

/// Reads an object or its scale.
pub(crate) async fn handle(call: &ResourceCall) -> HandlerResult {
    let shape = ObjectShape::negotiate(&call.exchange, call.offered())?;
    refuse_export(&call.exchange.query)?;
    let request = GetRequest {
        target: call.target(),
        freshness: get_freshness(call.exchange.query.get("resourceVersion"))?,
    };
    let registry = &call.route.registry;
    Ok(match call.subresource {
        Subresource::Scale => shape.value(call, StatusCode::OK, registry.scale(request).await?),
        _ => shape.item(call, StatusCode::OK, &registry.get(request).await?).await?,
    })
}
