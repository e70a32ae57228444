//! Request bodies.

#![cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

pub(crate) mod protobuf;

use actix_web::{HttpRequest, error::PayloadError, http::header, web};
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use trireme_machinery::{ApiError, Reason, go_text::quote};

use crate::{
    api::Api,
    exchange::{Exchange, header_text},
    metrics::bodies::record_body,
};

/// The largest body that is taken.
pub(crate) const MAX_BYTES: usize = 3 * 1024 * 1024;

/// Reads a body.
///
/// # Errors
/// 408 for a body that has not come when the request's deadline has, 413 for one over 3 MiB, 415 for one that is
/// compressed, 400 for one that breaks off.
pub(crate) async fn read(
    api: &Api,
    exchange: &Exchange,
    request: &HttpRequest,
    payload: web::Payload,
) -> Result<Bytes, ApiError> {
    check_encoding(request)?;
    let whole = read_whole(request, payload);
    let read = match exchange.deadline.get() {
        None => whole.await,
        // The deadline of the whole request is the same moment. This one is looked at first, and knows who was slow.
        Some(deadline) => {
            let read = api.clock.timeout_at(deadline, whole).await;
            read.unwrap_or_else(|| Err(too_slow()))
        }
    }?;
    record_body(exchange, read.len());
    Ok(read)
}

/// kube-apiserver ignores the header and fails to read what is compressed; this says what is wrong.
fn check_encoding(request: &HttpRequest) -> Result<(), ApiError> {
    match header_text(request.headers(), header::CONTENT_ENCODING).as_deref() {
        None | Some("" | "identity") => Ok(()),
        Some(encoding) => {
            let text = format!(
                "the body of the request is encoded as {}: send it as it is",
                quote(encoding)
            );
            Err(ApiError::new(Reason::UnsupportedMediaType, text))
        }
    }
}

fn too_slow() -> ApiError {
    ApiError::new(
        Reason::RequestTimeout,
        "Timeout: the body of the request did not arrive within the allotted timeout",
    )
}

async fn read_whole(request: &HttpRequest, mut payload: web::Payload) -> Result<Bytes, ApiError> {
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
    let mut whole = BytesMut::with_capacity(length.unwrap_or(first.len().saturating_add(second.len())));
    whole.extend_from_slice(&first);
    whole.extend_from_slice(&second);
    while let Some(chunk) = next(&mut payload).await? {
        if whole.len().saturating_add(chunk.len()) > MAX_BYTES {
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
