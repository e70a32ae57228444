//! POST to a collection.

use actix_web::{http::StatusCode, web};
use trireme_registry::request::CreateRequest;

use super::{ResourceCall, object::ObjectShape};
use crate::{
    options::{self, OptionsVerb},
    respond::HandlerResult,
};

/// Creates an object.
pub(crate) async fn handle(call: &ResourceCall, payload: web::Payload) -> HandlerResult {
    let shape = ObjectShape::negotiate(&call.exchange, call.offered())?;
    let body = call.body(payload).await?;
    let options = options::read(
        &call.exchange.query,
        call.exchange.user_agent.as_deref(),
        OptionsVerb::Create,
    )?;
    let request = CreateRequest {
        target: call.target(),
        body,
        options,
    };
    let written = call.route.registry.create(request).await?;
    call.warn(written.warnings);
    shape.answer(call, StatusCode::CREATED, &written.object).await
}
