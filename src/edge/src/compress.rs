//! gzip for large answers.

use std::{
    io::Write,
    pin::Pin,
    task::{Context, Poll, ready},
};

use actix_web::{
    HttpRequest, HttpResponse,
    body::{BodySize, BoxBody, MessageBody},
    http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, HeaderValue, VARY},
};
use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use trireme_machinery::{Feature, Features};

/// Smaller answers are not worth it; the figure is kube-apiserver's.
const THRESHOLD_BYTES: u64 = 128 * 1024;
/// Bytes that are compressed at a time: about half a millisecond's work.
const PIECE_BYTES: usize = 32 * 1024;

/// Compresses an answer if it is large, the client takes gzip and the feature APIResponseCompression is on. Streams begin only after their first chunk is known
/// not to be their last, so they count as large.
pub(crate) fn large(features: Features, request: &HttpRequest, response: HttpResponse) -> HttpResponse {
    let large = match response.body().size() {
        BodySize::None => false,
        BodySize::Sized(size) => size > THRESHOLD_BYTES,
        BodySize::Stream => true,
    };
    if !large || !accepts_gzip(request) || !features.has(Feature::ApiResponseCompression) {
        return response;
    }
    compressed(response)
}

/// Compresses an answer of any size if the client takes gzip, whichever features are on.
pub(crate) fn any(request: &HttpRequest, response: HttpResponse) -> HttpResponse {
    match accepts_gzip(request) {
        true => compressed(response),
        false => response,
    }
}

fn compressed(response: HttpResponse) -> HttpResponse {
    let mut response = response.map_body(|_, body| BoxBody::new(GzipBody::new(body)));
    let headers = response.headers_mut();
    headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    // Beside what else the answer depends on.
    headers.append(VARY, HeaderValue::from_static("Accept-Encoding"));
    response
}

fn accepts_gzip(request: &HttpRequest) -> bool {
    let header = request
        .headers()
        .get(ACCEPT_ENCODING)
        .and_then(|value| value.to_str().ok());
    header.is_some_and(|header| header.split(',').any(|encoding| encoding.trim() == "gzip"))
}

/// A body that is compressed as it is read.
struct GzipBody {
    body: BoxBody,
    encoder: Option<GzEncoder<Vec<u8>>>,
    /// Bytes that have been read and are not yet compressed.
    pending: Bytes,
}

impl GzipBody {
    fn new(body: BoxBody) -> Self {
        Self {
            body,
            encoder: Some(GzEncoder::new(Vec::new(), Compression::fast())),
            pending: Bytes::new(),
        }
    }
}

impl MessageBody for GzipBody {
    type Error = Box<dyn std::error::Error>;

    fn size(&self) -> BodySize {
        BodySize::Stream
    }

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Self::Error>>> {
        let this = &mut *self;
        loop {
            let Some(encoder) = this.encoder.as_mut() else {
                return Poll::Ready(None);
            };
            if this.pending.is_empty() {
                match ready!(Pin::new(&mut this.body).poll_next(cx)) {
                    Some(chunk) => this.pending = chunk?,
                    None => {
                        let rest = this.encoder.take().map(GzEncoder::finish).transpose()?;
                        return Poll::Ready(rest.map(|rest| Ok(rest.into())));
                    }
                }
            }
            let piece = this.pending.split_to(PIECE_BYTES.min(this.pending.len()));
            encoder.write_all(&piece)?;
            let done = std::mem::take(encoder.get_mut());
            if !done.is_empty() {
                return Poll::Ready(Some(Ok(done.into())));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use actix_web::{body::to_bytes, test::TestRequest};

    use super::*;

    async fn answered(size: usize, accept: &str) -> (Option<String>, Vec<u8>) {
        answered_with(Features::default(), size, accept).await
    }

    async fn answered_with(features: Features, size: usize, accept: &str) -> (Option<String>, Vec<u8>) {
        let request = TestRequest::default()
            .insert_header((ACCEPT_ENCODING, accept))
            .to_http_request();
        let body: Vec<u8> = (0..size).map(|i| u8::try_from(i % 251).unwrap_or(0)).collect();
        let response = large(features, &request, HttpResponse::Ok().body(body));
        let encoding = response
            .headers()
            .get(CONTENT_ENCODING)
            .and_then(|v| v.to_str().ok())
            .map(str::to_owned);
        let body = to_bytes(response.into_body()).await.expect("it can be read");
        (encoding, body.to_vec())
    }

    #[tokio::test]
    async fn large_answers_are_compressed_for_those_who_take_it() {
        let (encoding, body) = answered(300_000, "deflate, gzip").await;
        assert_eq!(encoding.as_deref(), Some("gzip"));
        let mut plain = Vec::new();
        flate2::read::GzDecoder::new(&*body)
            .read_to_end(&mut plain)
            .expect("it is gzip");
        assert_eq!(plain.len(), 300_000);
        assert!(plain.iter().enumerate().all(|(i, byte)| usize::from(*byte) == i % 251));
    }

    #[test]
    fn what_else_an_answer_depends_on_is_still_said() {
        let request = TestRequest::default().insert_header((ACCEPT_ENCODING, "gzip"));
        let response = HttpResponse::Ok().insert_header((VARY, "Accept")).body("x");
        let response = any(&request.to_http_request(), response);
        let vary: Vec<&[u8]> = response.headers().get_all(VARY).map(HeaderValue::as_bytes).collect();
        assert_eq!(vary, [&b"Accept"[..], b"Accept-Encoding"]);
    }

    #[tokio::test]
    async fn small_answers_and_other_clients_get_plain_bytes() {
        assert_eq!(answered(1000, "gzip").await.0, None);
        assert_eq!(answered(300_000, "deflate").await.0, None);
        assert_eq!(answered(300_000, "").await.0, None);
        let off = Features::without(&[Feature::ApiResponseCompression]);
        assert_eq!(answered_with(off, 300_000, "gzip").await.0, None);
    }
}
