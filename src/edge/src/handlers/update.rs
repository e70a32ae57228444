//! PUT of an object or part of it.

use actix_web::{http::StatusCode, web};
use trireme_registry::request::{Subresource, UpdateRequest};

use super::{ResourceCall, object::ObjectShape};
use crate::{
    options::{self, OptionsVerb},
    respond::HandlerResult,
};

/// Replaces an object; creates it if its kind may be created so.
pub(crate) async fn handle(call: &ResourceCall, payload: web::Payload) -> HandlerResult {
    let shape = ObjectShape::negotiate(&call.exchange, call.offered())?;
    let body = call.body(payload).await?;
    let mut options = options::read(
        &call.exchange.query,
        call.exchange.user_agent.as_deref(),
        OptionsVerb::Update,
    )?;
    let creates = call.route.registry.info().strategy.allow_create_on_update();
    if creates && call.subresource == Subresource::None {
        options.creation_check = Some(call.creation_check());
    }
    let request = UpdateRequest {
        target: call.target(),
        subresource: call.subresource,
        body,
        options,
    };
    let written = call.route.registry.update(request).await?;
    call.warn(written.warnings);
    let code = if written.created {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    shape.answer(call, code, &written.object).await
}
