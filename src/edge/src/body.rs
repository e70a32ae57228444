//! Request bodies.

pub(crate) mod protobuf;

use actix_web::{error::PayloadError, http::header, web};
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use trireme_machinery::{ApiError, Reason};

/// The largest body that is taken.
pub(crate) const MAX_BYTES: usize = 3 * 1024 * 1024;

/// Reads a body. How long that may take is the deadline's business.
///
/// # Errors
/// 413 for a body over 3 MiB, 400 for one that breaks off.
pub(crate) async fn read(request: &actix_web::HttpRequest, mut payload: web::Payload) -> Result<Bytes, ApiError> {
    let length = request.headers().get(header::CONTENT_LENGTH);
    let length = length
        .and_then(|value| value.to_str().ok())
        .and_then(|text| text.parse::<usize>().ok());
    if length.is_some_and(|length| length > MAX_BYTES) {
        return Err(too_large());
    }
    let Some(first) = next(&mut payload).await? else {
        return Ok(Bytes::new());
    };
    // Most bodies come in one piece and are taken as they are.
    let Some(second) = next(&mut payload).await? else {
        return within_limit(first);
    };
    let mut whole = BytesMut::with_capacity(length.unwrap_or(first.len() + second.len()));
    whole.extend_from_slice(&first);
    whole.extend_from_slice(&second);
    while let Some(chunk) = next(&mut payload).await? {
        if whole.len() + chunk.len() > MAX_BYTES {
            return Err(too_large());
        }
        whole.extend_from_slice(&chunk);
    }
    within_limit(whole.freeze())
}

fn within_limit(bytes: Bytes) -> Result<Bytes, ApiError> {
    if bytes.len() > MAX_BYTES {
        Err(too_large())
    } else {
        Ok(bytes)
    }
}

async fn next(payload: &mut web::Payload) -> Result<Option<Bytes>, ApiError> {
    let broken = |error: PayloadError| ApiError::bad_request(format!("the body of the request broke off: {error}"));
    payload.next().await.transpose().map_err(broken)
}

fn too_large() -> ApiError {
    let text = format!("Request entity too large: limit is {MAX_BYTES}");
    ApiError::new(Reason::RequestEntityTooLarge, text)
}
