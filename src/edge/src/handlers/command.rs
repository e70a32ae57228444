//! POST to a subresource that does something to an object.

use actix_web::{http::StatusCode, web};
use serde_json::json;
use trireme_registry::subresource::SubresourceCreateRequest;

use super::Call;
use crate::{
    negotiation::{Produces, negotiate_without_tables},
    options::{self, Write},
    respond::{self, Answered},
};

/// Does what the body says and tells of it by what was made of it, or by a `Status`.
pub(crate) async fn handle(call: &Call, name: &str, payload: web::Payload) -> Answered {
    let accept = negotiate_without_tables(call.exchange.accept.as_deref(), Produces::Documents)?;
    let body = call.body(payload).await?;
    let request = SubresourceCreateRequest {
        target: call.target(),
        subresource: name.to_owned(),
        body,
        options: options::read(&call.exchange.query, call.exchange.user_agent.as_deref(), Write::Create)?,
        routes: call.api.director.surface(),
    };
    let done = call.route.registry.create_subresource(request).await?;
    call.warn(done.warnings);
    let success = || json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    Ok(respond::value(
        &call.exchange,
        accept.format,
        StatusCode::CREATED,
        &done.object.unwrap_or_else(success),
    ))
}
