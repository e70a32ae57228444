//! Reviews that are answered from the request alone: `SelfSubjectReview` (`kubectl auth whoami`).

use actix_web::{HttpRequest, HttpResponse, http::StatusCode, http::header, web};
use serde_json::{Value, json};
use trireme_machinery::{ApiError, Object, json as json_text, time::Time, yaml};
use trireme_registry::request::{BodyFormat, UserInfo};

use crate::{
    api::Shared,
    body,
    exchange::{Current, Exchange, header_text},
    negotiation::{self, Produces, negotiate_without_tables},
    respond::{self, Answered},
};

const REVIEW_TYPE: &str = "io.k8s.api.authentication.v1.SelfSubjectReview";

/// POST of a `SelfSubjectReview`: says who the client is.
pub(super) async fn self_subject(
    exchange: &Current,
    api: &Shared,
    request: &HttpRequest,
    payload: web::Payload,
) -> Answered {
    let accept = negotiate_without_tables(exchange.accept.as_deref(), Produces::Documents)?;
    let content_type = header_text(request.headers(), header::CONTENT_TYPE);
    let format = negotiation::body_format(content_type.as_deref())?;
    check_body(&body::read(api, exchange, request, payload).await?, format)?;
    let now = api
        .clock
        .wall()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    let now = Time::from_unix(i64::try_from(now.as_secs()).unwrap_or_default(), 0);
    let review = json!({
        "kind": "SelfSubjectReview",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {"creationTimestamp": now.to_string()},
        "status": {"userInfo": user_info(&exchange.user())},
    });
    Ok(created(exchange, accept.format, &review))
}

fn created(exchange: &Exchange, format: negotiation::Format, review: &Value) -> HttpResponse {
    respond::value(exchange, format, StatusCode::CREATED, review)
}

fn check_body(bytes: &[u8], format: BodyFormat) -> Result<(), ApiError> {
    let unrecognized = |why: String| {
        let text = format!("the object provided is unrecognized (must be of type SelfSubjectReview): {why}");
        ApiError::bad_request(text)
    };
    let value = match format {
        BodyFormat::Json => {
            json_text::decode(bytes)
                .map_err(|error| unrecognized(format!("couldn't get version/kind; json parse error: {error}")))?
                .value
        }
        BodyFormat::Yaml => {
            yaml::decode(bytes)
                .map_err(|error| unrecognized(error.to_string()))?
                .value
        }
        BodyFormat::Protobuf => {
            body::protobuf::decode(bytes, REVIEW_TYPE).map_err(|error| unrecognized(error.to_string()))?
        }
    };
    let kind = value.get("kind").and_then(Value::as_str).unwrap_or_default();
    if !value.is_object() || !matches!(kind, "" | "SelfSubjectReview") {
        return Err(unrecognized(format!(
            "it is a {}",
            if kind.is_empty() {
                json_text::kind_name(&value)
            } else {
                kind
            }
        )));
    }
    Ok(())
}

fn user_info(user: &UserInfo) -> Value {
    let mut info = Object::new();
    info.insert("username".into(), user.name.as_str().into());
    if !user.uid.is_empty() {
        info.insert("uid".into(), user.uid.as_str().into());
    }
    if !user.groups.is_empty() {
        info.insert("groups".into(), user.groups.clone().into());
    }
    if !user.extra.is_empty() {
        info.insert("extra".into(), json!(user.extra));
    }
    info.into()
}
