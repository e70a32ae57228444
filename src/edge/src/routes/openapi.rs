//! `/openapi/v2` and `/openapi/v3`.

use actix_web::{
    HttpRequest, HttpResponse,
    http::{Method, StatusCode, header},
};
use trireme_kinds::openapi::{self, Document};
use trireme_machinery::{ApiError, Reason};

use crate::{
    exchange::{Current, Exchange},
    respond, status,
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

/// `/openapi/v2`
pub(super) async fn v2(exchange: Current, request: HttpRequest) -> HttpResponse {
    let answered = async {
        read_only(&exchange)?;
        let protobuf = wanted(&exchange, &V2_PROTOBUF)?;
        let (document, media_type) = if protobuf {
            (
                made(|| Some(openapi::builtin().v2_protobuf().clone())).await?,
                V2_PROTOBUF[1],
            )
        } else {
            (
                made(|| Some(openapi::builtin().v2_json().clone())).await?,
                "application/json",
            )
        };
        let document = document.ok_or_else(status::resource_not_found)?;
        Ok(send(&request, &document, media_type))
    };
    respond::finish(&exchange, answered.await)
}

/// `/openapi/v3`
pub(super) async fn v3_index(exchange: Current) -> HttpResponse {
    let answered = async {
        read_only(&exchange)?;
        let index = made(|| Some(openapi::index([openapi::builtin()]).to_string())).await?;
        Ok(respond::text(StatusCode::OK, index.unwrap_or_default()))
    };
    respond::finish(&exchange, answered.await)
}

/// `/openapi/v3/{path}`
pub(super) async fn v3(exchange: Current, request: HttpRequest) -> HttpResponse {
    let answered = async {
        read_only(&exchange)?;
        let path = exchange
            .info
            .path()
            .strip_prefix("/openapi/v3/")
            .unwrap_or_default()
            .trim_end_matches('/')
            .to_owned();
        let found = path.clone();
        let Some(document) = made(move || openapi::builtin().v3(&found).cloned()).await? else {
            return Ok(status::page_not_found());
        };
        if wanted(&exchange, &V3_PROTOBUF)? {
            return Err(ApiError::new(
                Reason::NotAcceptable,
                "OpenAPI v3 is only served as application/json",
            ));
        }
        match exchange.query.get("hash") {
            None | Some("") => Ok(send(&request, &document, "application/json")),
            Some(hash) if hash == document.hash => {
                let mut response = send(&request, &document, "application/json");
                let value = header::HeaderValue::from_static(IMMUTABLE);
                response.headers_mut().insert(header::CACHE_CONTROL, value);
                Ok(response)
            }
            Some(_) => {
                let location = format!("/openapi/v3/{path}?hash={}", document.hash);
                Ok(HttpResponse::MovedPermanently()
                    .insert_header((header::LOCATION, location))
                    .finish())
            }
        }
    };
    respond::finish(&exchange, answered.await)
}

fn read_only(exchange: &Exchange) -> Result<(), ApiError> {
    if exchange.method == Method::GET {
        Ok(())
    } else {
        Err(ApiError::method_not_allowed())
    }
}

/// Makes a document in a thread of its own: the first time takes long.
async fn made<T: Send + 'static>(make: impl FnOnce() -> Option<T> + Send + 'static) -> Result<Option<T>, ApiError> {
    tokio::task::spawn_blocking(make)
        .await
        .map_err(|_| ApiError::internal("the document could not be made"))
}

/// Whether protobuf is asked for, and JSON not before it.
fn wanted(exchange: &Exchange, protobuf: &[&str]) -> Result<bool, ApiError> {
    let Some(accept) = exchange.accept.as_deref().filter(|accept| !accept.trim().is_empty()) else {
        return Ok(false);
    };
    for clause in accept.split(',') {
        match clause.split(';').next().unwrap_or_default().trim() {
            "application/json" | "application/*" | "*/*" => return Ok(false),
            media_type if protobuf.contains(&media_type) => return Ok(true),
            _ => {}
        }
    }
    Err(ApiError::new(
        Reason::NotAcceptable,
        "OpenAPI documents are served as application/json",
    ))
}

fn send(request: &HttpRequest, document: &Document, media_type: &str) -> HttpResponse {
    let etag = format!("\"{}\"", document.hash);
    let known = request
        .headers()
        .get(header::IF_NONE_MATCH)
        .and_then(|value| value.to_str().ok());
    if known == Some(&etag) {
        return HttpResponse::NotModified().insert_header((header::ETAG, etag)).finish();
    }
    let response = HttpResponse::Ok()
        .insert_header((header::CONTENT_TYPE, media_type))
        .insert_header((header::ETAG, etag))
        .insert_header((header::VARY, "Accept"))
        .body(document.body.clone());
    crate::compress::large(request, response)
}
