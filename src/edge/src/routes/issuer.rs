//! Documents for checking service-account tokens elsewhere: OpenID Connect discovery, RFC 8414 and RFC 7517.

use actix_web::{HttpResponse, http::header};

use crate::{api::EdgeShared, status};

/// Keys change seldom; kube-apiserver allows an hour, too.
const CACHED: &str = "public, max-age=3600";

/// `/.well-known/openid-configuration`
pub(super) async fn configuration(api: EdgeShared) -> HttpResponse {
    match &api.issuer {
        Some(documents) => send("application/json", documents.configuration()),
        None => status::page_not_found(),
    }
}

/// `/openid/v1/jwks`
pub(super) async fn keys(api: EdgeShared) -> HttpResponse {
    match &api.issuer {
        Some(documents) => send("application/jwk-set+json", documents.keys()),
        None => status::page_not_found(),
    }
}

fn send(media_type: &'static str, document: &str) -> HttpResponse {
    HttpResponse::Ok()
        .insert_header((header::CONTENT_TYPE, media_type))
        .insert_header((header::CACHE_CONTROL, CACHED))
        .body(document.to_owned())
}
