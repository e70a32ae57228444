//! Keeps answers out of caches.

use actix_web::{
    HttpResponse,
    http::header::{CACHE_CONTROL, HeaderValue},
};

/// Forbids all others to keep an answer, and the client to use what it has kept without asking.
pub(crate) const PRIVATE: &str = "no-cache, private";

/// Forbids to keep the answer, unless a handler has said otherwise.
pub(crate) fn set(response: &mut HttpResponse) {
    if !response.headers().contains_key(CACHE_CONTROL) {
        let value = HeaderValue::from_static(PRIVATE);
        response.headers_mut().insert(CACHE_CONTROL, value);
    }
}
