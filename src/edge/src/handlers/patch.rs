//! PATCH of an object or part of it.

use actix_web::{http::StatusCode, web};
use bytes::Bytes;
use serde_json::Value;
use trireme_machinery::yaml;
use trireme_registry::request::{PatchKind, PatchRequest};

use super::{ResourceCall, object::ObjectShape};
use crate::{
    negotiation::{self, PatchType, patch_type},
    options::{self, OptionsVerb},
    respond::HandlerResult,
};

/// Applies a patch.
pub(crate) async fn handle(call: &ResourceCall, payload: web::Payload) -> HandlerResult {
    let patch_type = match patch_type(call.content_type().as_deref()) {
        Ok(PatchType::Patch(PatchKind::StrategicMerge)) | Err(_) if call.route.registry.info().is_custom => {
            return Err(negotiation::no_such_custom_patch());
        }
        other => other?,
    };
    let shape = ObjectShape::negotiate(&call.exchange, call.offered())?;
    let patch = call.bytes(payload).await?;
    let (kind, write) = match patch_type {
        PatchType::Patch(kind) => (kind, OptionsVerb::Patch),
        PatchType::Apply => (PatchKind::Apply, OptionsVerb::Apply),
    };
    let mut options = options::read(&call.exchange.query, call.exchange.user_agent.as_deref(), write)?;
    if kind == PatchKind::Apply {
        options.creation_check = Some(call.creation_check());
    }
    call.exchange.audit_notes().note_body(|| patch_body(&patch));
    let request = PatchRequest {
        target: call.target(),
        subresource: call.subresource,
        kind,
        patch,
        options,
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

/// A patch for the audit log: as JSON, or as text if it is none. kube-apiserver loses the event of what is no JSON.
fn patch_body(patch: &Bytes) -> Value {
    let read = serde_json::from_slice(patch).ok();
    let read = read.or_else(|| yaml::decode(patch).ok().map(|document| document.value));
    read.unwrap_or_else(|| String::from_utf8_lossy(patch).into_owned().into())
}
