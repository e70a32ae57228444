//! Errors on the wire: the one table from reasons to status codes, and the `Status` object.
//!
//! Deviation from kube-apiserver: where it answers 500 for what is the client's fault (a `resourceVersion` on create, a
//! `resourceVersion` that is no number, …), the rooms behind this one say `BadRequest` and the client reads 400.

use actix_web::{
    HttpResponse,
    http::{StatusCode, header},
};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use trireme_machinery::{
    ApiError, Object, Reason,
    protobuf::{self, MessageType},
    schema::TypeTable,
    yaml,
};

use crate::{
    negotiation::{self, ResponseFormat},
    wire,
};

/// The status code of each reason.
pub(crate) fn code(reason: Reason) -> StatusCode {
    match reason {
        Reason::BadRequest => StatusCode::BAD_REQUEST,
        Reason::Unauthorized => StatusCode::UNAUTHORIZED,
        Reason::Forbidden => StatusCode::FORBIDDEN,
        Reason::NotFound => StatusCode::NOT_FOUND,
        Reason::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
        Reason::NotAcceptable => StatusCode::NOT_ACCEPTABLE,
        Reason::RequestTimeout => StatusCode::REQUEST_TIMEOUT,
        Reason::AlreadyExists | Reason::Conflict => StatusCode::CONFLICT,
        Reason::Expired => StatusCode::GONE,
        Reason::RequestEntityTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        Reason::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        Reason::Invalid => StatusCode::UNPROCESSABLE_ENTITY,
        Reason::TooManyRequests => StatusCode::TOO_MANY_REQUESTS,
        Reason::InternalError | Reason::ServerTimeout | Reason::StorageReadError => StatusCode::INTERNAL_SERVER_ERROR,
        Reason::NotImplemented => StatusCode::NOT_IMPLEMENTED,
        Reason::ServiceUnavailable => StatusCode::SERVICE_UNAVAILABLE,
        Reason::Timeout => StatusCode::GATEWAY_TIMEOUT,
    }
}

/// The text of a reason in `Status.reason`.
fn reason_text(reason: Reason) -> &'static str {
    match reason {
        Reason::Unauthorized => "Unauthorized",
        Reason::Forbidden => "Forbidden",
        Reason::NotFound => "NotFound",
        Reason::AlreadyExists => "AlreadyExists",
        Reason::Conflict => "Conflict",
        Reason::Expired => "Expired",
        Reason::Invalid => "Invalid",
        Reason::BadRequest => "BadRequest",
        Reason::MethodNotAllowed => "MethodNotAllowed",
        Reason::NotAcceptable => "NotAcceptable",
        Reason::UnsupportedMediaType => "UnsupportedMediaType",
        Reason::RequestEntityTooLarge => "RequestEntityTooLarge",
        Reason::TooManyRequests => "TooManyRequests",
        Reason::Timeout | Reason::RequestTimeout => "Timeout",
        Reason::ServerTimeout => "ServerTimeout",
        Reason::ServiceUnavailable => "ServiceUnavailable",
        Reason::NotImplemented => "NotImplemented",
        Reason::StorageReadError => "StorageReadError",
        Reason::InternalError => "InternalError",
    }
}

/// The `Status` object of an error.
pub(crate) fn object(error: &ApiError) -> Value {
    let mut metadata = Object::new();
    if let Some(token) = &error.continue_token {
        metadata.insert("continue".into(), token.as_str().into());
    }
    let mut status = json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": metadata,
        "status": "Failure",
        "message": error.message,
        "code": code_of(error).as_u16(),
    });
    let reason = match &error.webhook_status {
        Some(given) => &given.reason,
        None => reason_text(error.reason),
    };
    if let Some(fields) = status.as_object_mut() {
        if !reason.is_empty() {
            fields.insert("reason".into(), reason.into());
        }
        if let Some(details) = error.details_json() {
            fields.insert("details".into(), details);
        }
    }
    status
}

/// The status code of an error: that of its reason, or the one that a webhook gave.
fn code_of(error: &ApiError) -> StatusCode {
    let given = error.webhook_status.as_ref();
    let given = given.and_then(|status| StatusCode::from_u16(status.code).ok());
    given.unwrap_or_else(|| code(error.reason))
}

/// The form of errors for a client.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ErrorStyle {
    pub(crate) format: ResponseFormat,
    pub(crate) pretty: bool,
    /// The type of `Status`, if protobuf can be written.
    pub(crate) status_type: Option<MessageType<'static>>,
}

impl ErrorStyle {
    /// As the client asks for; indented JSON if what it asks for is not to be had.
    pub(crate) fn of(accept: Option<&str>, pretty: bool, types: &'static TypeTable) -> Self {
        let format = negotiation::negotiate_format(accept);
        Self {
            format: format.unwrap_or_default(),
            pretty: pretty || format.is_none(),
            status_type: wire::meta_type(types, "Status"),
        }
    }
}

/// The answer to a failed request.
pub(crate) fn response(error: &ApiError, style: ErrorStyle) -> HttpResponse {
    let (format, body) = body(&object(error), style);
    let mut response = HttpResponse::build(code_of(error));
    response.insert_header((header::CONTENT_TYPE, format.media_type()));
    if let Some(seconds) = error
        .details
        .as_ref()
        .map(|details| details.retry_after_seconds)
        .filter(|s| *s > 0)
    {
        response.insert_header((header::RETRY_AFTER, seconds.to_string()));
    }
    response.body(body)
}

/// A `Status` as the client wants to read it, or else as JSON.
fn body(status: &Value, style: ErrorStyle) -> (ResponseFormat, Vec<u8>) {
    match (style.format, style.status_type) {
        (ResponseFormat::Protobuf, Some(ty)) => {
            if let Ok(bytes) = protobuf::encode_enveloped(ty.table, ty.id, status) {
                return (ResponseFormat::Protobuf, bytes);
            }
        }
        (ResponseFormat::Yaml, _) => return (ResponseFormat::Yaml, yaml::encode(status).into_bytes()),
        _ => {}
    }
    let json = serde_json::to_vec(&InOrder(status, STATUS)).unwrap_or_default();
    let mut json = if style.pretty { negotiation::indent(&json) } else { json };
    json.push(b'\n');
    (ResponseFormat::Json, json)
}

/// Names of fields in the order in which they are written, each with those of the objects below it.
#[derive(Clone, Copy)]
struct FieldOrder(&'static [(&'static str, FieldOrder)]);

/// Whatever is below is written as it comes.
const PLAIN: FieldOrder = FieldOrder(&[]);

/// The order of kube-apiserver. People read errors, and some programs hold them against a text.
const STATUS: FieldOrder = FieldOrder(&[
    ("kind", PLAIN),
    ("apiVersion", PLAIN),
    ("metadata", PLAIN),
    ("status", PLAIN),
    ("message", PLAIN),
    ("reason", PLAIN),
    ("details", DETAILS),
    ("code", PLAIN),
]);
const DETAILS: FieldOrder = FieldOrder(&[
    ("name", PLAIN),
    ("group", PLAIN),
    ("kind", PLAIN),
    ("uid", PLAIN),
    ("causes", CAUSE),
    ("retryAfterSeconds", PLAIN),
]);
const CAUSE: FieldOrder = FieldOrder(&[("reason", PLAIN), ("message", PLAIN), ("field", PLAIN)]);

/// A value whose fields are written in an order; those that it does not name come last.
struct InOrder<'a>(&'a Value, FieldOrder);

impl Serialize for InOrder<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(value, FieldOrder(order)) = self;
        match value {
            Value::Object(fields) => {
                let named = order
                    .iter()
                    .filter_map(|(name, below)| Some((*name, InOrder(fields.get(*name)?, *below))));
                let is_named = |field: &str| order.iter().any(|(name, _)| *name == field);
                let others = fields.iter().filter(|(name, _)| !is_named(name));
                let others = others.map(|(name, value)| (name.as_str(), InOrder(value, PLAIN)));
                serializer.collect_map(named.chain(others))
            }
            Value::Array(items) => serializer.collect_seq(items.iter().map(|item| InOrder(item, self.1))),
            plain => plain.serialize(serializer),
        }
    }
}

/// The answer of Go's multiplexer for a path that is not served.
pub(crate) fn page_not_found() -> HttpResponse {
    HttpResponse::NotFound()
        .insert_header((header::CONTENT_TYPE, "text/plain; charset=utf-8"))
        .insert_header(("X-Content-Type-Options", "nosniff"))
        .body("404 page not found\n")
}

/// The error for a path under a known group and version that names no resource.
pub(crate) fn resource_not_found() -> ApiError {
    ApiError::new(Reason::NotFound, "the server could not find the requested resource").with_details(Default::default())
}

pub(crate) fn not_implemented(what: &str) -> ApiError {
    let text = format!("{what} is not implemented by this server yet");
    ApiError::new(Reason::NotImplemented, text)
}

#[cfg(test)]
mod tests {
    use trireme_machinery::GroupResource;

    use super::*;

    fn check(error: ApiError, expected: &str) {
        let (_, body) = body(&object(&error), ErrorStyle::default());
        assert_eq!(String::from_utf8_lossy(&body), format!("{expected}\n"));
    }

    #[test]
    fn statuses_read_as_those_of_kube_apiserver() {
        let deployments = GroupResource {
            group: "apps".into(),
            resource: "deployments".into(),
        };
        check(
            ApiError::not_found(&deployments, "d"),
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"deployments.apps \"d\" not found","reason":"NotFound","details":{"name":"d","group":"apps","kind":"deployments"},"code":404}"#,
        );
        check(
            ApiError::new(Reason::Unauthorized, "Unauthorized"),
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Unauthorized","reason":"Unauthorized","code":401}"#,
        );
        check(
            resource_not_found(),
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"the server could not find the requested resource","reason":"NotFound","details":{},"code":404}"#,
        );
        check(
            ApiError::method_not_allowed(),
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"the server does not allow this method on the requested resource","reason":"MethodNotAllowed","details":{},"code":405}"#,
        );
    }

    #[test]
    fn causes_read_as_those_of_kube_apiserver() {
        let status = json!({"kind": "Status", "other": 1, "details": {"kind": "Pod", "name": "a", "causes": [
            {"field": "spec", "message": "bad", "reason": "FieldValueInvalid"},
        ]}});
        let text = serde_json::to_string(&InOrder(&status, STATUS)).expect("JSON");
        assert_eq!(
            text,
            r#"{"kind":"Status","details":{"name":"a","kind":"Pod","causes":[{"reason":"FieldValueInvalid","message":"bad","field":"spec"}]},"other":1}"#
        );
    }

    #[test]
    fn an_expired_list_says_where_to_go_on() {
        let mut error = ApiError::new(Reason::Expired, "too old");
        error.continue_token = Some("t".into());
        check(
            error,
            r#"{"kind":"Status","apiVersion":"v1","metadata":{"continue":"t"},"status":"Failure","message":"too old","reason":"Expired","code":410}"#,
        );
    }

    #[test]
    fn every_reason_has_a_code_of_its_own_kind() {
        let codes = [
            (Reason::TooManyRequests, 429),
            (Reason::RequestEntityTooLarge, 413),
            (Reason::NotImplemented, 501),
            (Reason::ServiceUnavailable, 503),
            (Reason::Timeout, 504),
            (Reason::RequestTimeout, 408),
            (Reason::Invalid, 422),
            (Reason::Conflict, 409),
            (Reason::InternalError, 500),
        ];
        for (reason, expected) in codes {
            assert_eq!(code(reason).as_u16(), expected, "{reason:?}");
        }
    }

    #[test]
    fn retry_after_is_said_in_the_header_too() {
        let error = ApiError::new(Reason::TooManyRequests, "later").with_retry_after(3);
        let response = response(&error, ErrorStyle::default());
        let header = response
            .headers()
            .get(header::RETRY_AFTER)
            .and_then(|value| value.to_str().ok());
        assert_eq!(header, Some("3"));
    }
}
