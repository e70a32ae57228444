//! Requests that another API server answers: passed on in the user's name, and answered as it answers.

use std::{io, pin::pin, time::Duration};

use actix_web::{
    HttpRequest, HttpResponse,
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
use trireme_aggregation::{
    Forwarded, REDIRECTED, RemoteBackend, RemoteError, absolute_location, is_redirect, remove_hop_by_hop,
};
use trireme_http::{
    client::{
        HeaderMap, HeaderValue, IncomingBody, OutboundBody, Protocols, Request, Response, UpgradedStream, header,
    },
    server::Upgrade,
    splice,
};
use trireme_registry::{ProxiedVersion, request::UserInfo};

use crate::{api::EdgeShared, exchange::Exchange, metrics, query::Query, respond};

/// The timeout of discovery requests, which clients make before anything else.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(5);
/// The user that asks other servers for their OpenAPI documents.
const AGGREGATOR: &str = "system:aggregator";
/// Pieces of a body that are on their way to the other server: enough that neither end waits for the other.
const PIECES: usize = 4;

/// Moves the body of a request to where it is sent from.
type Pump = LocalBoxFuture<'static, ()>;

/// Passes a request on in the name of its user.
pub(super) async fn forward(
    exchange: &Exchange,
    api: &EdgeShared,
    http: &HttpRequest,
    payload: web::Payload,
    proxied: &ProxiedVersion,
) -> HttpResponse {
    match exchange.acting_user() {
        Some(user) => forward_as(user, exchange, api, http, payload, proxied).await,
        None => {
            let code = StatusCode::INTERNAL_SERVER_ERROR;
            metrics::record_not_proxied(exchange, &proxied.group_version, code);
            respond::text(code, "missing user\n")
        }
    }
}

/// Passes a request on in the name of this server: for documents that it merges with its own.
pub(super) async fn forward_own(
    exchange: &Exchange,
    api: &EdgeShared,
    http: &HttpRequest,
    payload: web::Payload,
    proxied: &ProxiedVersion,
) -> HttpResponse {
    let user = UserInfo {
        name: AGGREGATOR.to_owned(),
        ..UserInfo::default()
    };
    forward_as(&user, exchange, api, http, payload, proxied).await
}

async fn forward_as(
    user: &UserInfo,
    exchange: &Exchange,
    api: &EdgeShared,
    http: &HttpRequest,
    payload: web::Payload,
    proxied: &ProxiedVersion,
) -> HttpResponse {
    let answered = async {
        let backend = api.aggregation.available(&proxied.service).await?;
        let passed = PassedRequest {
            exchange,
            api,
            backend: &backend,
        };
        passed.pass(user, http, payload).await
    };
    answered
        .await
        .unwrap_or_else(|error| refusal(exchange, proxied, &error))
}

fn refusal(exchange: &Exchange, proxied: &ProxiedVersion, error: &RemoteError) -> HttpResponse {
    let code = match error {
        RemoteError::Unavailable | RemoteError::Unreachable(_) => StatusCode::SERVICE_UNAVAILABLE,
        RemoteError::Trust(_) => StatusCode::INTERNAL_SERVER_ERROR,
    };
    // One that was called and did not answer has not been kept from it.
    if !matches!(error, RemoteError::Unreachable(_)) {
        metrics::record_not_proxied(exchange, &proxied.group_version, code);
    }
    respond::text(code, format!("{error}\n"))
}

/// A request on its way to another server.
struct PassedRequest<'p> {
    exchange: &'p Exchange,
    api: &'p EdgeShared,
    backend: &'p RemoteBackend,
}

impl PassedRequest<'_> {
    async fn pass(
        &self,
        user: &UserInfo,
        http: &HttpRequest,
        payload: web::Payload,
    ) -> Result<HttpResponse, RemoteError> {
        let upgrade = upgrade(http);
        let authority = self.backend.authority();
        let (body, pump) = body(http, payload, upgrade.is_some());
        let mut request = Request::new(body);
        let unwritable = |error: &dyn std::fmt::Display| RemoteError::Unreachable(error.to_string());
        let method = self.exchange.method.as_str().as_bytes();
        *request.method_mut() = trireme_http::client::Method::from_bytes(method).map_err(|error| unwritable(&error))?;
        let target = format!("{}{}", http.uri().path(), encoded(&self.exchange.query));
        *request.uri_mut() = target.parse().map_err(|error| unwritable(&error))?;
        let headers = request.headers_mut();
        *headers = headers_of(http.headers());
        let peer = self.exchange.peer.as_ref();
        let forwarded = Forwarded {
            user,
            client: peer.map(|peer| peer.address.ip().to_canonical().to_string()),
            path: self.exchange.info.path(),
            authority: &authority,
            audit_id: self.exchange.audit_id.as_str(),
            upgrade: upgrade.clone(),
        };
        forwarded.prepare(headers);
        let protocols = if upgrade.is_some() {
            Protocols::Http1
        } else {
            Protocols::Any
        };
        let (response, pump) = self.send(request, protocols, pump).await?;
        if self.backend.rejects_redirects() && is_redirect(&response) {
            return Ok(HttpResponse::BadGateway()
                .insert_header((header02::CONTENT_TYPE, "text/plain; charset=utf-8"))
                .body(REDIRECTED));
        }
        if response.status().as_u16() == 101 {
            return self.switch(response).await;
        }
        Ok(self.answer(response, pump, &authority))
    }

    /// Sends a request and its body until the head of the answer is there; the rest of the body is still to be moved then.
    async fn send(
        &self,
        request: Request<OutboundBody>,
        protocols: Protocols,
        mut pump: Option<Pump>,
    ) -> Result<(Response<IncomingBody>, Option<Pump>), RemoteError> {
        let mut sent = pin!(self.backend.send(request, protocols, self.timeout()));
        let answered = loop {
            let Some(moving) = &mut pump else { break sent.await };
            match future::select(&mut sent, moving).await {
                future::Either::Left((answered, _)) => break answered,
                future::Either::Right(_) => pump = None,
            }
        };
        let response = answered.map_err(|error| RemoteError::Unreachable(self.backend.failure(&error)))?;
        Ok((response, pump))
    }

    /// The time that is left for the whole answer.
    fn timeout(&self) -> Option<Duration> {
        let deadline = self.exchange.deadline.get()?;
        let left = deadline.saturating_duration_since(self.api.clock.now());
        let is_discovery = !self.exchange.info.is_resource;
        Some(if is_discovery {
            left.min(DISCOVERY_TIMEOUT)
        } else {
            left
        })
    }

    fn answer(&self, response: Response<IncomingBody>, pump: Option<Pump>, authority: &str) -> HttpResponse {
        let (mut head, body) = response.into_parts();
        remove_hop_by_hop(&mut head.headers);
        absolute_location(&mut head.headers, authority);
        let code = StatusCode::from_u16(head.status.as_u16()).unwrap_or(StatusCode::BAD_GATEWAY);
        let mut answer = HttpResponse::build(code);
        copy_headers(&head.headers, &mut answer);
        let has_length = head.headers.get(header::CONTENT_LENGTH).map(HeaderValue::as_bytes);
        if has_length == Some(b"0") || self.exchange.method == Method::HEAD || code == StatusCode::NO_CONTENT {
            return answer.finish();
        }
        let body = moving(pump, body);
        if !self.exchange.info.is_long_running() {
            return answer.streaming(body);
        }
        let ending = self.exchange.peer.as_ref().map(|peer| peer.ending.clone());
        let ending = ending.unwrap_or_default();
        answer.streaming(body.take_until(ending.watches().clone().cancelled_owned()))
    }

    /// Lets the client's connection go on as the other server's does.
    async fn switch(&self, response: Response<IncomingBody>) -> Result<HttpResponse, RemoteError> {
        let mut answer = HttpResponse::SwitchingProtocols();
        let mut headers = response.headers().clone();
        let protocol = headers.get(header::UPGRADE).cloned();
        remove_hop_by_hop(&mut headers);
        if let Some(protocol) = protocol {
            headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
            headers.insert(header::UPGRADE, protocol);
        }
        copy_headers(&headers, &mut answer);
        let server = UpgradedStream::of(response).await;
        let server = server.map_err(|error| RemoteError::Unreachable(self.backend.failure(&error)))?;
        let ending = self.exchange.peer.as_ref().map(|peer| peer.ending.clone());
        let ending = ending.unwrap_or_default();
        let mut answer = answer.finish();
        let upgrade = Upgrade::new(move |client| splice(client, server, ending));
        answer.extensions_mut().insert(upgrade);
        Ok(answer)
    }
}

/// The protocol that the client wants to go on with over this connection.
fn upgrade(http: &HttpRequest) -> Option<HeaderValue> {
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
fn body(http: &HttpRequest, mut payload: web::Payload, is_upgrade: bool) -> (OutboundBody, Option<Pump>) {
    let length = http.headers().get(header02::CONTENT_LENGTH);
    let is_chunked = http.headers().contains_key(header02::TRANSFER_ENCODING) || http.version() == Version::HTTP_2;
    let is_empty = length.map_or(!is_chunked, |length| length.as_bytes() == b"0");
    let has_none = [Method::GET, Method::HEAD].contains(http.method()) && length.is_none();
    if is_empty || has_none || is_upgrade {
        return (OutboundBody::empty(), None);
    }
    let (sender, receiver) = mpsc::channel(PIECES);
    let pump = async move {
        while let Some(piece) = payload.next().await {
            let piece = piece.map_err(|error: PayloadError| io::Error::other(error.to_string()));
            if sender.send(piece).await.is_err() {
                // The other end has gone: its answer says why, or that there is none.
                return;
            }
        }
    };
    let pieces = stream::unfold(receiver, async |mut receiver: mpsc::Receiver<_>| {
        let piece = receiver.recv().await?;
        Some((piece, receiver))
    });
    (OutboundBody::stream(pieces), Some(pump.boxed_local()))
}

/// A body that goes on while the rest of the request is moved.
fn moving(
    mut pump: Option<Pump>,
    mut body: IncomingBody,
) -> impl Stream<Item = Result<Bytes, trireme_http::client::ClientError>> {
    stream::poll_fn(move |cx| {
        if let Some(moving) = &mut pump
            && moving.poll_unpin(cx).is_ready()
        {
            pump = None;
        }
        body.poll_next_unpin(cx)
    })
}

fn headers_of(headers: &header02::HeaderMap) -> HeaderMap {
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

/// A query as Go writes it: sorted by name.
fn encoded(query: &Query) -> String {
    let mut pairs: Vec<&(String, String)> = query.pairs().iter().collect();
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
    use super::*;

    #[test]
    fn a_query_is_passed_on_sorted_and_encoded_as_go_does_it() {
        let query = |raw: &str| encoded(&Query::parse(Some(raw)).expect("a query"));
        assert_eq!(query("x=1&y=a%20b&x=2"), "?x=1&x=2&y=a+b");
        assert_eq!(query("q"), "?q=");
        assert_eq!(
            query("labelSelector=a%3Db,c!=%C3%A4"),
            "?labelSelector=a%3Db%2Cc%21%3D%C3%A4"
        );
        assert_eq!(query(""), "");
    }
}
