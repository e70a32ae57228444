//! Between hyper's requests and responses (http 1) and actix-web's (http 0.2).
//!
//! The two differ in the version of their types only, so a head costs some small copies; bodies are passed on as they
//! are.

#![cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use std::{
    cell::RefCell,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
    time::Duration,
};

use actix_http::{HttpMessage, Payload, Request, error::PayloadError};
use actix_web::{
    HttpResponse,
    body::{BodySize, BoxBody, MessageBody},
    http as http02,
};
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use hyper::body::{Body, Frame, Incoming, SizeHint};

use super::{connection::Peer, handler::Handler, stalls::Fetched};

/// A head that hyper lets through and that is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadHead {
    /// actix-web's types cannot hold it.
    #[error("the head of the request cannot be represented")]
    Unrepresentable,
    /// HTTP/1.1 wants one `Host`. With two, a proxy may have gone by the other one.
    #[error("the request must have exactly one Host header, with a host and perhaps a port")]
    Host,
    /// A coding of the body other than in chunks.
    #[error("the only transfer encoding that is supported is chunked")]
    TransferEncoding,
    /// Neither a path nor a URL.
    #[error("the target of the request must be a path")]
    Target,
    /// It is not certain where the body ends.
    #[error("the request must not have both Content-Length and Transfer-Encoding")]
    TwoLengths,
    /// The client has an expectation that is not known here.
    #[error("the only expectation that is supported is 100-continue")]
    Expectation,
}

/// Bytes of a request's body that are thrown away after the answer is known; larger rests end the connection.
const UNREAD_BYTES: usize = 16 * 1024 * 1024;
const UNREAD_PATIENCE: Duration = Duration::from_secs(5);
/// A client that sends nothing for this time waits for its answer.
const UNREAD_PAUSE: Duration = Duration::from_millis(500);

/// A request's body, kept beside the request so that what the handler did not read can be read after it.
pub(super) struct Unread(Option<Rc<RefCell<Incoming>>>);

impl Unread {
    /// Reads on to the end. A connection that is closed while its client still sends loses the answer on its way: the
    /// client would see a reset instead of the 401 or 413.
    pub(super) async fn discard(self) {
        // There is no other holder, unless the answer itself is still reading it.
        let ours = |body: &Rc<RefCell<Incoming>>| Rc::strong_count(body) == 1 && !body.borrow().is_end_stream();
        let Some(body) = self.0.filter(ours) else { return };
        let mut rest = IncomingStream(body);
        let discarded = async {
            let mut bytes = 0_usize;
            while let Ok(Some(Ok(chunk))) = tokio::time::timeout(UNREAD_PAUSE, rest.next()).await {
                bytes = bytes.saturating_add(chunk.len());
                if bytes > UNREAD_BYTES {
                    return;
                }
            }
        };
        // What comes later than that is the connection's end.
        let _ = tokio::time::timeout(UNREAD_PATIENCE, discarded).await;
    }
}

impl BadHead {
    /// The status code of the refusal.
    pub fn status(self) -> http02::StatusCode {
        match self {
            Self::TransferEncoding => http02::StatusCode::NOT_IMPLEMENTED,
            Self::Expectation => http02::StatusCode::EXPECTATION_FAILED,
            _ => http02::StatusCode::BAD_REQUEST,
        }
    }
}

/// Refuses what hyper lets pass and a proxy in front may have understood otherwise.
fn check_head(head: &http::request::Parts) -> Result<(), BadHead> {
    let mut hosts = head.headers.get_all(http::header::HOST).iter();
    let wanted = head.version == http::Version::HTTP_11;
    match (hosts.next(), hosts.next()) {
        (None, _) if wanted => return Err(BadHead::Host),
        (_, Some(_)) => return Err(BadHead::Host),
        (Some(host), None) if !host.as_bytes().iter().all(|byte| is_of_host(*byte)) => return Err(BadHead::Host),
        _ => {}
    }
    let encodings = head.headers.get_all(http::header::TRANSFER_ENCODING);
    if !encodings
        .iter()
        .all(|value| value.as_bytes().eq_ignore_ascii_case(b"chunked"))
    {
        return Err(BadHead::TransferEncoding);
    }
    // HTTP/2 has no connection that the expectation could be about.
    if head.version != http::Version::HTTP_2 && !is_known_expectation(&head.headers) {
        return Err(BadHead::Expectation);
    }
    // `CONNECT` alone names a host and port there.
    if head.uri.scheme().is_none() && head.uri.authority().is_some() && head.method != http::Method::CONNECT {
        return Err(BadHead::Target);
    }
    Ok(())
}

/// Reports whether a client expects nothing, or what every server does.
fn is_known_expectation(headers: &http::HeaderMap) -> bool {
    let Some(expected) = headers.get(http::header::EXPECT) else {
        return true;
    };
    let mut tokens = expected
        .as_bytes()
        .split(|byte| b" \t,".contains(byte))
        .filter(|token| !token.is_empty())
        .peekable();
    tokens.peek().is_none() || tokens.any(|token| token.eq_ignore_ascii_case(b"100-continue"))
}

/// Reports whether a byte may stand in a host and port (RFC 3986).
fn is_of_host(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:[]%".contains(&byte)
}

/// Makes an actix-web request.
pub(super) fn request(request: http::Request<Incoming>, peer: &Rc<Peer>) -> Result<(Request, Unread), BadHead> {
    let (parts, body) = request.into_parts();
    check_head(&parts)?;
    // A client that waits for `100 Continue` sends nothing that would have to be read.
    let waits = parts.headers.contains_key(http::header::EXPECT);
    let (payload, unread) = if body.is_end_stream() {
        (Payload::None, Unread(None))
    } else {
        let body = Rc::new(RefCell::new(body));
        let unread = Unread((!waits).then(|| Rc::clone(&body)));
        let payload = Box::pin(IncomingStream(body)) as actix_http::BoxedPayloadStream;
        (Payload::Stream { payload }, unread)
    };
    let mut out = Request::with_payload(payload);
    out.extensions_mut().insert(Rc::clone(peer));
    let head = out.head_mut();
    head.peer_addr = Some(peer.address);
    head.method = http02::Method::from_bytes(parts.method.as_str().as_bytes()).map_err(|_| BadHead::Unrepresentable)?;
    head.version = match parts.version {
        http::Version::HTTP_2 => http02::Version::HTTP_2,
        http::Version::HTTP_10 => http02::Version::HTTP_10,
        _ => http02::Version::HTTP_11,
    };
    let target = parts.uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    let target = Bytes::copy_from_slice(target.as_bytes());
    head.uri = http02::Uri::from_maybe_shared(target).map_err(|_| BadHead::Unrepresentable)?;
    for (name, value) in &parts.headers {
        let name =
            http02::header::HeaderName::from_bytes(name.as_str().as_bytes()).map_err(|_| BadHead::Unrepresentable)?;
        let value = http02::header::HeaderValue::from_bytes(value.as_bytes()).map_err(|_| BadHead::Unrepresentable)?;
        head.headers.append(name, value);
    }
    // Over HTTP/2 it stands in the target.
    if let Some(authority) = parts.uri.authority()
        && !head.headers.contains_key(http02::header::HOST)
        && let Ok(host) = http02::header::HeaderValue::from_bytes(authority.as_str().as_bytes())
    {
        head.headers.insert(http02::header::HOST, host);
    }
    Ok((out, unread))
}

/// Makes a hyper response. `in_progress` is dropped when the body has been taken by hyper.
pub(super) fn response<G>(response: HttpResponse, in_progress: G) -> http::Response<ResponseBody<G>> {
    let (head, body) = response.into_parts();
    let body = match body.try_into_bytes() {
        Ok(bytes) => BridgedContent::Whole((!bytes.is_empty()).then_some(bytes)),
        Err(stream) => BridgedContent::Stream(stream),
    };
    let mut out = http::Response::new(ResponseBody {
        content: body,
        in_progress,
    });
    *out.status_mut() =
        http::StatusCode::from_u16(head.status().as_u16()).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
    let headers = out.headers_mut();
    headers.reserve(head.headers().len());
    for (name, value) in head.headers() {
        let name = http::HeaderName::from_bytes(name.as_str().as_bytes());
        let value = http::HeaderValue::from_bytes(value.as_bytes());
        if let (Ok(name), Ok(value)) = (name, value) {
            headers.append(name, value);
        }
    }
    out
}

/// Answers HEAD with the head alone and the length of the body that GET would get. Over HTTP/1.1 hyper sees to that; over
/// HTTP/2 it sends the body all the same, which breaks the protocol.
pub(super) fn head_of<G: Fetched + Unpin>(
    mut response: http::Response<ResponseBody<G>>,
) -> http::Response<ResponseBody<G>> {
    let body = response.body();
    if let (false, Some(length)) = (body.is_end_stream(), body.size_hint().exact()) {
        let headers = response.headers_mut();
        headers.entry(http::header::CONTENT_LENGTH).or_insert(length.into());
    }
    response.body_mut().content = BridgedContent::Whole(None);
    response
}

/// The answer to a request with a [`BadHead`]. Nothing that follows such a head is taken for a request.
pub(super) fn refusal<H: Handler, G>(handler: &H, error: BadHead, in_progress: G) -> http::Response<ResponseBody<G>> {
    let mut out = response(handler.refuse(error), in_progress);
    end_connection(&mut out);
    out
}

/// Lets a connection of HTTP/1.1 end with this answer.
pub(super) fn end_connection<B>(response: &mut http::Response<B>) {
    if response.status() != http::StatusCode::SWITCHING_PROTOCOLS {
        let close = http::HeaderValue::from_static("close");
        response.headers_mut().insert(http::header::CONNECTION, close);
    }
}

/// A request body as actix-web reads it.
struct IncomingStream(Rc<RefCell<Incoming>>);

impl Stream for IncomingStream {
    type Item = Result<Bytes, PayloadError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            return match Pin::new(&mut *self.0.borrow_mut()).poll_frame(cx) {
                Poll::Pending => Poll::Pending,
                Poll::Ready(None) => Poll::Ready(None),
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(bytes) => Poll::Ready(Some(Ok(bytes))),
                    Err(_trailers) => continue,
                },
                Poll::Ready(Some(Err(error))) => Poll::Ready(Some(Err(PayloadError::Io(std::io::Error::other(error))))),
            };
        }
    }
}

/// An answer's body as hyper reads it.
pub(super) struct ResponseBody<G> {
    content: BridgedContent,
    in_progress: G,
}

enum BridgedContent {
    Whole(Option<Bytes>),
    Stream(BoxBody),
}

/// A body that broke off; hyper resets the stream or closes the connection, so that the client does not take what it
/// got for all.
#[derive(Debug, thiserror::Error)]
#[error("the body broke off: {0}")]
pub(super) struct BrokenBody(String);

impl<G: Fetched + Unpin> Body for ResponseBody<G> {
    type Data = Bytes;
    type Error = BrokenBody;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BrokenBody>>> {
        let next = match &mut self.content {
            BridgedContent::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            BridgedContent::Stream(body) => Pin::new(body)
                .poll_next(cx)
                .map(|next| next.map(|chunk| chunk.map(Frame::data).map_err(|error| BrokenBody(error.to_string())))),
        };
        if next.is_ready() {
            self.in_progress.waits();
        } else {
            self.in_progress.idles();
        }
        next
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            BridgedContent::Whole(bytes) => bytes.is_none(),
            BridgedContent::Stream(body) => matches!(body.size(), BodySize::None | BodySize::Sized(0)),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            BridgedContent::Whole(bytes) => SizeHint::with_exact(
                bytes
                    .as_ref()
                    .map_or(0, |bytes| u64::try_from(bytes.len()).unwrap_or(u64::MAX)),
            ),
            BridgedContent::Stream(body) => match body.size() {
                BodySize::None => SizeHint::with_exact(0),
                BodySize::Sized(size) => SizeHint::with_exact(size),
                BodySize::Stream => SizeHint::default(),
            },
        }
    }
}
