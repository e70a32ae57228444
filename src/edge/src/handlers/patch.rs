//! PATCH of an object or part of it.

use actix_web::{http::StatusCode, web};
use trireme_machinery::{ApiError, Reason};
use trireme_registry::request::{PatchKind, PatchRequest};

use super::{Call, object::Shape};
use crate::{
    negotiation::{self, PatchType, patch_type},
    options::{self, Write},
    respond::Answered,
};

/// Applies a patch.
pub(crate) async fn handle(call: &Call, payload: web::Payload) -> Answered {
    let patch_type = match patch_type(call.content_type().as_deref()) {
        Ok(PatchType::Patch(PatchKind::StrategicMerge)) | Err(_) if call.route.registry.info().is_custom => {
            return Err(negotiation::no_such_custom_patch());
        }
        other => other?,
    };
    let shape = Shape::negotiate(&call.exchange)?;
    let patch = call.bytes(payload).await?;
    let kind = match patch_type {
        PatchType::Patch(kind) => kind,
        PatchType::Apply => {
            options::read(&call.exchange.query, call.exchange.user_agent.as_deref(), Write::Apply)?;
            let text = "server-side apply is not implemented by this server yet";
            return Err(ApiError::new(Reason::NotImplemented, text));
        }
    };
    let request = PatchRequest {
        target: call.target(),
        subresource: call.subresource,
        kind,
        patch,
        options: options::read(&call.exchange.query, call.exchange.user_agent.as_deref(), Write::Patch)?,
    };
    let written = call.route.registry.patch(request).await?;
    call.warn(written.warnings);
    let code = if written.created {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    shape.answer(call, code, &written.object).await
}
