//! The parts of a request that another server answers: its body, its headers and its query on the way there, the answer on the way back.

use std::{error::Error, io, pin::pin, time::Duration};

use actix_web::{
    HttpRequest, HttpResponse,
    dev::Payload,
    error::PayloadError,
    http::{Method, StatusCode, Version, header as header02},
    web,
};
use bytes::Bytes;
use futures_util::{
    FutureExt, Stream, StreamExt,
    future::{self, LocalBoxFuture},
    stream,
};
use tokio::sync::mpsc;
use trireme_aggregation::remove_hop_by_hop;
use trireme_http::{
    SplicedUntil,
    client::{ClientError, HeaderMap, HeaderValue, IncomingBody, OutboundBody, Response, UpgradedStream, header},
    server::{ConnectionEnding, StreamedAnswer, Upgrade},
    splice,
};

use crate::{exchange::Exchange, filters::cache_control};

/// Pieces of a body that are on their way to the other server: enough that neither end waits for the other.
const PIECES: usize = 4;

/// Moves the body of a request to where it is sent from.
pub(crate) type Pump = LocalBoxFuture<'static, ()>;

/// The protocol that the client wants to go on with over this connection.
pub(crate) fn upgrade(http: &HttpRequest) -> Option<HeaderValue> {
    let mut wishes = http.headers().get_all(header02::CONNECTION);
    let is_wanted = wishes.any(|value| {
        let value = value.to_str().unwrap_or_default();
        value.to_ascii_lowercase().contains("upgrade")
    });
    let protocol = http.headers().get(header02::UPGRADE)?;
    let is_possible = is_wanted && http.version() == Version::HTTP_11;
    HeaderValue::from_bytes(protocol.as_bytes())
        .ok()
        .filter(|_| is_possible)
}

/// The body of a request as it is sent on, and what moves it there: payloads stay on their thread.
pub(crate) fn body(http: &HttpRequest, payload: web::Payload, is_upgrade: bool) -> (OutboundBody, Option<Pump>) {
    let length = http.headers().get(header02::CONTENT_LENGTH);
    let mut payload = payload.into_inner();
    // Over HTTP/2 the head of a request says that nothing follows it.
    let may_follow = http.version() == Version::HTTP_2 && !matches!(payload, Payload::None);
    let is_chunked = http.headers().contains_key(header02::TRANSFER_ENCODING) || may_follow;
    let is_empty = length.map_or(!is_chunked, |length| length.as_bytes() == b"0");
    let has_none = [Method::GET, Method::HEAD].contains(http.method()) && length.is_none();
    if is_empty || has_none || is_upgrade {
        return (OutboundBody::empty(), None);
    }
    let (sender, receiver) = mpsc::channel(PIECES);
    let pump = async move {
        while let Some(piece) = payload.next().await {
            let piece = piece.map_err(|error: PayloadError| io::Error::other(error.to_string()));
            if sender.send(Some(piece)).await.is_err() {
                // The other end has gone: its answer says why, or that there is none.
                return;
            }
        }
        // Without the other end there is nobody to tell.
        let _ = sender.send(None).await;
    };
    // A body that is given up half way must not end as a whole one would.
    let pieces = stream::unfold(Some(receiver), async |receiver: Option<mpsc::Receiver<_>>| {
        let mut receiver = receiver?;
        match receiver.recv().await {
            Some(Some(piece)) => Some((piece, Some(receiver))),
            Some(None) => None,
            None => Some((Err(io::Error::other("the request was given up")), None)),
        }
    });
    (OutboundBody::stream(pieces), Some(pump.boxed_local()))
}

/// A body that goes on while the rest of the request is moved.
fn moving(mut pump: Option<Pump>, mut body: IncomingBody) -> impl Stream<Item = Result<Bytes, ClientError>> {
    stream::poll_fn(move |cx| {
        if let Some(moving) = &mut pump
            && moving.poll_unpin(cx).is_ready()
        {
            pump = None;
        }
        body.poll_next_unpin(cx)
    })
}

pub(crate) fn headers_of(headers: &header02::HeaderMap) -> HeaderMap {
    let mut out = HeaderMap::with_capacity(headers.len());
    for (name, value) in headers {
        let name = header::HeaderName::from_bytes(name.as_str().as_bytes());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(value.as_bytes())) {
            out.append(name, value);
        }
    }
    out
}

fn copy_headers(headers: &HeaderMap, answer: &mut actix_web::HttpResponseBuilder) {
    for (name, value) in headers {
        answer.append_header((name.as_str(), value.as_bytes()));
    }
}

/// Waits for the head of an answer while the body of its request is moved; the rest of the body is still to be moved then.
pub(crate) async fn with_body<T>(sent: impl Future<Output = T>, mut pump: Option<Pump>) -> (T, Option<Pump>) {
    let mut sent = pin!(sent);
    loop {
        let Some(moving) = &mut pump else {
            return (sent.await, None);
        };
        match future::select(&mut sent, moving).await {
            future::Either::Left((answered, _)) => return (answered, pump),
            future::Either::Right(_) => pump = None,
        }
    }
}

/// The time that is left for the whole answer; long-running requests have any time.
pub(crate) fn time_left(exchange: &Exchange, now: std::time::Instant) -> Option<Duration> {
    exchange
        .deadline
        .get()
        .map(|deadline| deadline.saturating_duration_since(now))
}

/// Answers as the other server does. Its headers are those that the client is to see. A watch ends with the watches of its
/// connection; any other answer is finished, or breaks off with its connection.
pub(crate) fn answer(exchange: &Exchange, response: Response<IncomingBody>, pump: Option<Pump>) -> HttpResponse {
    let (head, body) = taken_apart(response, pump);
    answer_with(exchange, &head, body)
}

/// The head and the body of an answer, which goes on while the rest of its request is moved.
pub(crate) fn taken_apart(
    response: Response<IncomingBody>,
    pump: Option<Pump>,
) -> (Response<()>, impl Stream<Item = Result<Bytes, ClientError>>) {
    let (head, body) = response.into_parts();
    (Response::from_parts(head, ()), moving(pump, body))
}

/// Answers as [`answer`], with this body.
pub(crate) fn answer_with<E: Into<Box<dyn Error>> + 'static>(
    exchange: &Exchange,
    head: &Response<()>,
    body: impl Stream<Item = Result<Bytes, E>> + 'static,
) -> HttpResponse {
    let code = StatusCode::from_u16(head.status().as_u16()).unwrap_or(StatusCode::BAD_GATEWAY);
    let mut answer = HttpResponse::build(code);
    if head.headers().contains_key(header::CACHE_CONTROL) {
        // As kube-apiserver's, which is there before those of the other server are added.
        answer.append_header((header02::CACHE_CONTROL, cache_control::PRIVATE));
    }
    copy_headers(head.headers(), &mut answer);
    let has_length = head.headers().get(header::CONTENT_LENGTH).map(HeaderValue::as_bytes);
    if has_length == Some(b"0") || exchange.method == Method::HEAD || code == StatusCode::NO_CONTENT {
        return answer.finish();
    }
    if is_watch(exchange) {
        let ended = ending_of(exchange).watches().clone();
        return answer.streaming(body.take_until(ended.cancelled_owned()));
    }
    let mut answer = answer.streaming(body);
    if exchange.info.is_long_running() {
        answer.extensions_mut().insert(StreamedAnswer);
    }
    answer
}

/// Reports whether the client comes again if the answer ends before it is complete.
fn is_watch(exchange: &Exchange) -> bool {
    exchange.info.verb.as_str() == "watch"
}

fn ending_of(exchange: &Exchange) -> ConnectionEnding {
    exchange
        .peer
        .as_ref()
        .map(|peer| peer.ending.clone())
        .unwrap_or_default()
}

/// Lets the client's connection go on as the other server's does.
///
/// # Errors
/// If that breaks.
pub(crate) async fn switch(exchange: &Exchange, response: Response<IncomingBody>) -> Result<HttpResponse, ClientError> {
    let mut answer = HttpResponse::SwitchingProtocols();
    let mut headers = response.headers().clone();
    let protocol = headers.get(header::UPGRADE).cloned();
    remove_hop_by_hop(&mut headers);
    if let Some(protocol) = protocol {
        headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(header::UPGRADE, protocol);
    }
    copy_headers(&headers, &mut answer);
    let server = UpgradedStream::of(response).await?;
    let ending = ending_of(exchange);
    let until = if is_watch(exchange) {
        SplicedUntil::WatchesEnd
    } else {
        SplicedUntil::ServerCloses
    };
    let mut answer = answer.finish();
    let upgrade = Upgrade::new(move |client| splice(client, server, ending, until));
    answer.extensions_mut().insert(upgrade);
    Ok(answer)
}

/// A query as Go writes it: sorted by name.
pub(crate) fn encoded(pairs: &[(String, String)]) -> String {
    let mut pairs: Vec<&(String, String)> = pairs.iter().collect();
    pairs.sort_by(|one, other| one.0.cmp(&other.0));
    let pairs: Vec<String> = pairs
        .into_iter()
        .map(|(name, value)| format!("{}={}", escaped(name), escaped(value)))
        .collect();
    if pairs.is_empty() {
        return String::new();
    }
    format!("?{}", pairs.join("&"))
}

fn escaped(text: &str) -> String {
    text.bytes().fold(String::new(), |mut out, byte| {
        match byte {
            b' ' => out.push('+'),
            byte if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) => out.push(byte.into()),
            byte => out += &format!("%{byte:02X}"),
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use actix_web::{FromRequest as _, test::TestRequest};

    use super::*;
    use crate::query::Query;

    #[actix_web::test]
    async fn over_http2_a_body_is_passed_on_if_there_is_one() {
        let has_body = async |request: TestRequest, is_there: bool| {
            let (http, mut payload) = request.to_http_parts();
            if !is_there {
                payload = Payload::None;
            }
            let payload = web::Payload::from_request(&http, &mut payload).await.expect("a body");
            body(&http, payload, false).1.is_some()
        };
        for method in [
            Method::POST,
            Method::PUT,
            Method::PATCH,
            Method::DELETE,
            Method::OPTIONS,
        ] {
            let request = || TestRequest::default().method(method.clone()).version(Version::HTTP_2);
            assert!(!has_body(request(), false).await, "{method}");
            assert!(has_body(request(), true).await, "{method}");
        }
        let chunked = TestRequest::post().insert_header(("Transfer-Encoding", "chunked"));
        assert!(has_body(chunked, true).await);
        assert!(!has_body(TestRequest::get().version(Version::HTTP_2), true).await);
    }

    #[test]
    fn a_query_is_passed_on_sorted_and_encoded_as_go_does_it() {
        let query = |raw: &str| encoded(Query::parse(Some(raw)).expect("a query").pairs());
        assert_eq!(query("x=1&y=a%20b&x=2"), "?x=1&x=2&y=a+b");
        assert_eq!(query("q"), "?q=");
        assert_eq!(
            query("labelSelector=a%3Db,c!=%C3%A4"),
            "?labelSelector=a%3Db%2Cc%21%3D%C3%A4"
        );
        assert_eq!(query(""), "");
    }
}
