//! POST to a subresource that does something to an object.

use actix_web::web;
use trireme_registry::SubresourceCreateRequest;

use super::{ResourceCall, object::posted};
use crate::{
    negotiation::{OfferedForms, Produces, negotiate_view},
    options::{self, OptionsVerb},
    respond::HandlerResult,
};

/// Does what the body says and answers with the resulting object, or with a `Status`.
pub(crate) async fn handle(call: &ResourceCall, name: &str, payload: web::Payload) -> HandlerResult {
    let offered = OfferedForms {
        tables: false,
        ..call.offered()
    };
    let accept = negotiate_view(call.exchange.accept.as_deref(), Produces::Documents, offered)?;
    let body = call.body(payload).await?;
    let request = SubresourceCreateRequest {
        target: call.target(),
        subresource: name.to_owned(),
        collection: None,
        body,
        options: options::read(
            &call.exchange.query,
            call.exchange.user_agent.as_deref(),
            OptionsVerb::Create,
        )?,
        routes: call.api.director.surface(),
    };
    let done = call.route.registry.create_subresource(request).await?;
    call.warn(done.warnings);
    let ty = call.subresource_type(name);
    Ok(posted(&call.exchange, &accept, done.object, ty))
}
