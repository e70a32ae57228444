//! From results to answers.

use actix_web::{
    HttpResponse,
    body::BoxBody,
    http::{StatusCode, header},
};
use bytes::Bytes;
use serde_json::Value;
use trireme_machinery::{
    ApiError,
    protobuf::{MessageType, framing},
    yaml,
};
use trireme_registry::documents::Document;

use crate::{
    exchange::Exchange,
    negotiation::{self, ResponseFormat},
    status, wire,
};

/// The result of a handler.
pub(crate) type HandlerResult = Result<HttpResponse, ApiError>;

/// The answer, be it the wanted one or an error in the form that the client asks for.
pub(crate) fn finish(exchange: &Exchange, answered: HandlerResult) -> HttpResponse {
    answered.unwrap_or_else(|error| {
        if let Some(trail) = exchange.audit.get() {
            trail.note_value(&status::object(&error));
        }
        let response = status::response(&error, exchange.error_style());
        error.warnings.into_iter().for_each(|text| exchange.warn(text));
        response
    })
}

/// The answer to a request that may not be carried out (`responsewriters.RespondWithError`).
pub(crate) fn refused(exchange: &Exchange, error: ApiError) -> HttpResponse {
    let mut response = finish(exchange, Err(error));
    let nosniff = header::HeaderValue::from_static("nosniff");
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, nosniff);
    response
}

/// An answer with a value in it, whose type is what protobuf goes by.
pub(crate) fn value(
    exchange: &Exchange,
    format: ResponseFormat,
    code: StatusCode,
    ty: Option<MessageType<'_>>,
    value: &Value,
) -> HttpResponse {
    if let Some(trail) = exchange.audit.get().filter(|_| is_of_the_api(exchange)) {
        trail.note_value(value);
    }
    match format {
        ResponseFormat::Json => written(exchange, code, value.to_string().into()),
        ResponseFormat::Yaml => bytes(format, code, yaml::encode(value).into()),
        ResponseFormat::Protobuf => {
            let text = |name| value.get(name).and_then(Value::as_str).unwrap_or_default();
            let enveloped =
                wire::message(ty, value).map(|message| framing::enveloped(text("apiVersion"), text("kind"), &message));
            finish(
                exchange,
                enveloped.map(|enveloped| bytes(format, code, enveloped.into())),
            )
        }
    }
}

/// An answer with a value in it that is had as JSON alone.
pub(crate) fn json_value(exchange: &Exchange, code: StatusCode, value: &Value) -> HttpResponse {
    json(exchange, code, value.to_string().into())
}

/// An answer with a value in it that is no object, indented for everyone (`responsewriters.WriteRawJSON`).
pub(crate) fn raw_json(code: StatusCode, value: &Value) -> HttpResponse {
    let indented = negotiation::indent(value.to_string().as_bytes());
    bytes(ResponseFormat::Json, code, indented.into())
}

/// An answer with a document of discovery in it.
pub(crate) fn document(exchange: &Exchange, format: ResponseFormat, document: &Document) -> HttpResponse {
    if format == ResponseFormat::Json {
        return json(exchange, StatusCode::OK, document.body.clone());
    }
    let read = serde_json::from_slice(&document.body).unwrap_or_default();
    let ty = wire::document_type(exchange.types, &read);
    value(exchange, format, StatusCode::OK, ty, &read)
}

/// An answer with an encoded value in it.
pub(crate) fn bytes(format: ResponseFormat, code: StatusCode, bytes: Bytes) -> HttpResponse {
    HttpResponse::build(code)
        .insert_header((header::CONTENT_TYPE, format.media_type()))
        .message_body(BoxBody::new(bytes))
        .expect("these headers are well-formed")
}

/// An answer with compact JSON in it, indented if the client wants that.
pub(crate) fn json(exchange: &Exchange, code: StatusCode, bytes: Bytes) -> HttpResponse {
    if let Some(trail) = exchange.audit.get().filter(|_| is_of_the_api(exchange)) {
        trail.note_bytes(&bytes);
    }
    written(exchange, code, bytes)
}

/// Returns true for objects and discovery; what is at other paths is not recorded, as in kube-apiserver.
fn is_of_the_api(exchange: &Exchange) -> bool {
    exchange.info.is_resource || exchange.info.path().starts_with("/api")
}

fn written(exchange: &Exchange, code: StatusCode, bytes: Bytes) -> HttpResponse {
    let bytes = if exchange.pretty() {
        negotiation::indent(&bytes).into()
    } else {
        bytes
    };
    self::bytes(ResponseFormat::Json, code, bytes)
}

/// An answer in plain text.
pub(crate) fn text(code: StatusCode, text: impl Into<String>) -> HttpResponse {
    HttpResponse::build(code)
        .insert_header((header::CONTENT_TYPE, "text/plain; charset=utf-8"))
        .insert_header(("X-Content-Type-Options", "nosniff"))
        .body(text.into())
}
