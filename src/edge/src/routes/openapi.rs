//! `/openapi/v2` and `/openapi/v3`.

use std::time::Duration;

use actix_web::{
    HttpRequest, HttpResponse,
    http::{
        Method, StatusCode,
        header::{self, TryIntoHeaderValue as _},
    },
    web,
};
use trireme_machinery::{ApiError, Features, Reason};
use trireme_registry::documents::Document;

use super::proxied;
use crate::{
    api::EdgeShared,
    exchange::{CurrentExchange, Exchange},
    negotiation::preferred_types,
    respond,
};

const V2_PROTOBUF: [&str; 2] = [
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
    "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
];
const V3_PROTOBUF: [&str; 2] = [
    "application/com.github.proto-openapi.spec.v3@v1.0+protobuf",
    "application/com.github.proto-openapi.spec.v3.v1.0+protobuf",
];

/// A document under a URL with its hash never changes.
const IMMUTABLE: &str = "public, immutable";
/// The time for which it may be kept.
const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

/// `/openapi/v2`
pub(super) async fn v2(exchange: CurrentExchange, api: EdgeShared, request: HttpRequest) -> HttpResponse {
    let answered = async {
        read_only(&exchange)?;
        let protobuf = wanted(&exchange, &V2_PROTOBUF)?;
        let surface = api.director.settled_surface().await;
        let (document, media_type) = if protobuf {
            let document = rendered(move || surface.documents().openapi_v2_protobuf()).await?;
            (document, V2_PROTOBUF[1])
        } else {
            let document = rendered(move || surface.documents().openapi_v2_json()).await?;
            (document, "application/json")
        };
        Ok(send(api.features, &request, &document, media_type))
    };
    respond::finish(&exchange, answered.await)
}

/// `/openapi/v3`
pub(super) async fn v3_index(exchange: CurrentExchange, api: EdgeShared) -> HttpResponse {
    let answered = async {
        read_only(&exchange)?;
        let surface = api.director.settled_surface().await;
        let index = rendered(move || surface.documents().openapi_index()).await?;
        let index = String::from_utf8_lossy(&index.body).into_owned();
        Ok(respond::text(StatusCode::OK, index))
    };
    respond::finish(&exchange, answered.await)
}

/// `/openapi/v3/{path}`
pub(super) async fn v3(
    exchange: CurrentExchange,
    api: EdgeShared,
    request: HttpRequest,
    payload: web::Payload,
) -> HttpResponse {
    let surface = api.director.settled_surface().await;
    let path = exchange.info.path().strip_prefix("/openapi/v3/").unwrap_or_default();
    let path = path.trim_end_matches('/').to_owned();
    if let Some(proxied) = surface.documents().openapi_v3_server(&path) {
        return proxied::forward(&exchange, &api, &request, payload, proxied).await;
    }
    let answered = async {
        read_only(&exchange)?;
        let Some(hash) = surface.documents().openapi_v3_hash(&path).map(str::to_owned) else {
            return Ok(HttpResponse::NotFound().finish());
        };
        let protobuf = wanted(&exchange, &V3_PROTOBUF)?;
        let asked_for = exchange.query.get("hash").filter(|asked_for| !asked_for.is_empty());
        if asked_for.is_some_and(|asked_for| asked_for != hash) {
            let location = format!("/openapi/v3/{path}?hash={hash}");
            return Ok(HttpResponse::MovedPermanently()
                .insert_header((header::LOCATION, location))
                .finish());
        }
        let is_immutable = asked_for.is_some();
        let render = move || {
            let documents = surface.documents();
            if protobuf {
                documents.openapi_v3_protobuf(&path)
            } else {
                documents.openapi_v3(&path)
            }
        };
        let Some(document) = rendered(render).await? else {
            return Ok(HttpResponse::NotFound().finish());
        };
        let media_type = if protobuf { V3_PROTOBUF[1] } else { "application/json" };
        let mut response = send(api.features, &request, &document, media_type);
        if is_immutable {
            let value = header::HeaderValue::from_static(IMMUTABLE);
            response.headers_mut().insert(header::CACHE_CONTROL, value);
            // Without it, what has no age of its own counts as stale at once.
            if let Ok(value) = header::HttpDate::from(api.clock.wall() + YEAR).try_into_value() {
                response.headers_mut().insert(header::EXPIRES, value);
            }
        }
        Ok(response)
    };
    respond::finish(&exchange, answered.await)
}

fn read_only(exchange: &Exchange) -> Result<(), ApiError> {
    if matches!(exchange.method, Method::GET | Method::HEAD) {
        Ok(())
    } else {
        Err(ApiError::method_not_allowed())
    }
}

/// Renders a document in a thread of its own: the first time takes long.
async fn rendered<T: Send + 'static>(render: impl FnOnce() -> T + Send + 'static) -> Result<T, ApiError> {
    tokio::task::spawn_blocking(render)
        .await
        .map_err(|_| ApiError::internal("the document could not be rendered"))
}

/// Reports whether protobuf is asked for, and JSON not before it.
fn wanted(exchange: &Exchange, protobuf: &[&str]) -> Result<bool, ApiError> {
    prefers_protobuf(exchange.accept.as_deref().unwrap_or_default(), protobuf).ok_or_else(|| {
        let text = "OpenAPI documents are served as application/json";
        ApiError::new(Reason::NotAcceptable, text)
    })
}

/// The same by an `Accept` header; `None` if neither is asked for.
fn prefers_protobuf(accept: &str, protobuf: &[&str]) -> Option<bool> {
    if accept.trim().is_empty() {
        return Some(false);
    }
    preferred_types(accept).find_map(|media_type| match media_type {
        ("application", "json") | ("application" | "*", "*") => Some(false),
        (kind, subtype) => protobuf
            .iter()
            .any(|known| known.split_once('/') == Some((kind, subtype)))
            .then_some(true),
    })
}

fn send(features: Features, request: &HttpRequest, document: &Document, media_type: &str) -> HttpResponse {
    let etag = document.etag();
    let vary = (header::VARY, "Accept");
    if is_known(request, &etag) {
        return HttpResponse::NotModified()
            .insert_header((header::ETAG, etag))
            .insert_header(vary)
            .finish();
    }
    let response = HttpResponse::Ok()
        .insert_header((header::CONTENT_TYPE, media_type))
        .insert_header((header::ETAG, etag))
        .insert_header(vary)
        .body(document.body.clone());
    crate::compress::large(features, request, response)
}

/// Reports whether a client names the version of a document among those that it has (RFC 9110, section 13.1.2).
fn is_known(request: &HttpRequest, etag: &str) -> bool {
    let known = request.headers().get(header::IF_NONE_MATCH);
    let known = known.and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut known = known.split(',').map(str::trim);
    known.any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known) == etag)
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    #[test]
    fn a_version_that_the_client_has_is_not_sent_again() {
        let is_known = |header: &str| {
            let request = TestRequest::default().insert_header((header::IF_NONE_MATCH, header));
            is_known(&request.to_http_request(), "\"A1\"")
        };
        for known in ["\"A1\"", "W/\"A1\"", "\"B2\", \"A1\"", "*"] {
            assert!(is_known(known), "{known}");
        }
        for unknown in ["", "A1", "\"A\"", "\"a1\""] {
            assert!(!is_known(unknown), "{unknown}");
        }
        assert!(!super::is_known(&TestRequest::default().to_http_request(), "\"A1\""));
    }

    #[test]
    fn the_client_prefers_json_or_protobuf() {
        let wanted = |accept: &str| prefers_protobuf(accept, &V2_PROTOBUF);
        for json in ["", "*/*", "application/json", "application/*", "text/html, */*;q=0.1"] {
            assert_eq!(wanted(json), Some(false), "{json}");
        }
        let protobuf = V2_PROTOBUF[1];
        assert_eq!(wanted(protobuf), Some(true));
        assert_eq!(wanted(&format!("application/json;q=0.5, {protobuf}")), Some(true));
        assert_eq!(wanted(&format!("application/json, {protobuf}")), Some(false));
        assert_eq!(
            wanted(&format!("*/*, {protobuf}")),
            Some(true),
            "what is named goes before what is not"
        );
        assert_eq!(wanted("text/html"), None);
    }
}
