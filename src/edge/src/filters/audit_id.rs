//! Gives the request an id and returns it to the client in `Audit-Id`.

use actix_http::{HttpMessage, Request};
use actix_web::{HttpResponse, http::header::HeaderName, http::header::HeaderValue};
use trireme_audit::AuditId;

const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");

/// The id that the client gives, or a new one.
pub(crate) fn assign(request: &Request) -> AuditId {
    AuditId::from_client(request.headers().get(AUDIT_ID).map(HeaderValue::as_bytes))
}

/// Names the request in its answer.
pub(crate) fn set(id: &AuditId, response: &mut HttpResponse) {
    if let Ok(value) = HeaderValue::from_str(id.as_str()) {
        response.headers_mut().insert(AUDIT_ID, value);
    }
}
