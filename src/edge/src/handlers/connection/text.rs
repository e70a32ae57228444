//! A text of a backend as the answer: the log of a container (`apiserver/pkg/registry/generic/rest/streamer.go`), also over a
//! WebSocket once the backend has begun to answer.

use bytes::Bytes;
use trireme_http::client::{HeaderMap, HeaderValue, IncomingBody, Method, OutboundBody, Request, Response, header};
use trireme_machinery::{ApiError, ErrorDetails, WebhookStatus, webhook_answer};

use super::{ResourceCall, location, socket};
use crate::{backends::FoundBackend, metrics, passing, respond::HandlerResult, websocket};

/// The most of an error's text that is read.
const MAX_ERROR_BYTES: usize = 50_000;

/// Gets the text and answers with it as it comes.
pub(super) async fn fetch(call: &ResourceCall, backend: &FoundBackend, target: &str) -> HandlerResult {
    let mut request = Request::new(OutboundBody::empty());
    *request.method_mut() = Method::GET;
    *request.uri_mut() = location::uri(target)?;
    let sent = backend.send(request).await;
    let failed = |why: &str| ApiError::unspecified(format!("Get \"{}{target}\": {why}", backend.endpoint));
    let mut response = sent.map_err(|error| {
        let why = backend.failure(&error);
        if why.contains("x509:") {
            metrics::logs::distrusted().increment(1);
        }
        failed(&why)
    })?;
    let code = response.status().as_u16();
    if response.status().is_redirection() && response.headers().contains_key(header::LOCATION) {
        return Err(failed("redirects forbidden"));
    }
    if !(200..=206).contains(&code) {
        return Err(refusal(call, code, response).await);
    }
    let text = HeaderValue::from_static("text/plain");
    *response.headers_mut() = HeaderMap::from_iter([(header::CONTENT_TYPE, text)]);
    *response.status_mut() = trireme_http::client::StatusCode::OK;
    Ok(match websocket::handshake(&call.http, socket::SUBPROTOCOLS) {
        Ok(Some(handshake)) => socket::switch(handshake, response.into_body()),
        Ok(None) => passing::answer(&call.exchange, response, None),
        Err(refused) => websocket::refusal(refused, call.exchange.error_style()),
    })
}

/// An answer of the backend that is no success, as an error of this server.
async fn refusal(call: &ResourceCall, code: u16, response: Response<IncomingBody>) -> ApiError {
    let text = match beginning(response.into_body()).await {
        Ok(text) => text,
        Err(error) => return ApiError::internal(error),
    };
    let text = String::from_utf8_lossy(&text).into_owned();
    match code {
        400 => ApiError::bad_request(text),
        500 => ApiError::internal(text),
        code => {
            let (reason, words) = webhook_answer::server_words(code, &text);
            let name = call.exchange.info.path_name();
            let details = ErrorDetails {
                name: name.to_owned(),
                kind: "pods/log".to_owned(),
                ..ErrorDetails::default()
            };
            let mut error = ApiError::unspecified(format!("{words} ( pods/log {name})")).with_details(details);
            error.webhook_status = Some(Box::new(WebhookStatus {
                code,
                reason: reason.to_owned(),
            }));
            error
        }
    }
}

async fn beginning(mut body: IncomingBody) -> Result<Vec<u8>, trireme_http::client::ClientError> {
    use futures_util::StreamExt as _;
    let mut read = Vec::new();
    while read.len() < MAX_ERROR_BYTES
        && let Some(piece) = body.next().await
    {
        let piece: Bytes = piece?;
        read.extend_from_slice(&piece);
    }
    read.truncate(MAX_ERROR_BYTES);
    Ok(read)
}
