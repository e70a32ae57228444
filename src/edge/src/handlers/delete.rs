//! DELETE of one object.

use std::mem;

use actix_web::{http::StatusCode, web};
use serde_json::json;
use trireme_machinery::ApiError;
use trireme_registry::request::{DeleteOptions, DeleteRequest};

use super::{
    ResourceCall,
    object::{ObjectShape, deleted},
};
use crate::{
    delete_options::{self, DeletionOptions},
    filters::authorization,
    negotiation,
    respond::HandlerResult,
};

/// Deletes an object, or marks it for deletion.
pub(crate) async fn handle(call: &ResourceCall, payload: web::Payload) -> HandlerResult {
    let shape = ObjectShape::negotiate(&call.exchange, call.offered())?;
    let deletion = options(call, payload).await?;
    if deletion.ignores_read_error {
        return delete_unreadable(call, &shape).await;
    }
    warn_of_default(call, &deletion.options);
    let request = DeleteRequest {
        target: call.target(),
        options: deletion.options,
    };
    let mut done = call.route.registry.delete(request).await?;
    call.warn(mem::take(&mut done.warnings));
    let code = if !done.removed && deletion.accepted_if_pending {
        StatusCode::ACCEPTED
    } else {
        StatusCode::OK
    };
    if done.as_status {
        let status = deleted(call, &done.object);
        return Ok(shape.status(call, code, &status));
    }
    shape.item(call, code, &done.object).await
}

/// Deletes what cannot be read, for a user who may do even that.
async fn delete_unreadable(call: &ResourceCall, shape: &ObjectShape) -> HandlerResult {
    authorization::authorize_unsafe_deletion(&*call.api.authorizer, &call.exchange).await?;
    let target = call.target();
    let name = target.name.clone();
    call.route.registry.delete_unreadable(target).await?;
    let kind = &*call.route.registry.info().kind;
    let status = json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {"name": name, "kind": kind},
        "code": 200,
    });
    Ok(shape.status(call, StatusCode::OK, &status))
}

/// Warns a client that leaves it to the kind what becomes of dependents.
pub(super) fn warn_of_default(call: &ResourceCall, options: &DeleteOptions) {
    let strategy = &call.route.registry.info().strategy;
    let warning = strategy
        .default_propagation_warning()
        .filter(|_| options.propagation.is_none());
    call.warn(warning.map(str::to_owned).into_iter().collect());
}

/// The options of a deletion: a body leaves the query without meaning.
pub(super) async fn options(call: &ResourceCall, payload: web::Payload) -> Result<DeletionOptions, ApiError> {
    let bytes = call.bytes(payload).await?;
    if bytes.is_empty() {
        return delete_options::from_query(&call.exchange.query, call.api.unsafe_deletion());
    }
    let format = negotiation::body_format(call.content_type().as_deref())?;
    let types = &call.route.registry.info().types;
    let deletion = delete_options::from_body(&bytes, format, types, call.api.unsafe_deletion())?;
    let notes = call.exchange.audit_notes();
    notes.note_body(|| delete_options::recorded(&bytes, format, types));
    Ok(deletion)
}
