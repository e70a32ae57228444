//! Keeps answers out of caches.

use actix_web::{
    HttpResponse,
    http::header::{CACHE_CONTROL, HeaderValue},
};

/// Forbids to keep the answer, unless a handler has said otherwise.
pub(crate) fn set(response: &mut HttpResponse) {
    if !response.headers().contains_key(CACHE_CONTROL) {
        let value = HeaderValue::from_static("no-cache, private");
        response.headers_mut().insert(CACHE_CONTROL, value);
    }
}
