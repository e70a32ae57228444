//! A request as it is, for what listens on a node or on an address of a pod.

use std::borrow::Cow;

use actix_web::{
    HttpResponse,
    http::{Method, header as header02},
    web,
};
use trireme_aggregation::{append_client, ask_to_switch, remove_hop_by_hop};
use trireme_http::client::{HeaderValue, OutboundBody, Request, StatusCode, header};
use trireme_machinery::ApiError;

use super::{
    ResourceCall,
    location::{self, ProxiedPlace},
    page, stream,
};
use crate::{
    backends::{FoundBackend, unreachable_service},
    passing,
    respond::HandlerResult,
};

/// Headers of answers that would let pages of a backend be read by others as those of this server.
const OF_OTHER_ORIGINS: [&str; 4] = [
    "access-control-allow-credentials",
    "access-control-allow-headers",
    "access-control-allow-methods",
    "access-control-allow-origin",
];

/// Passes the request on, with this path.
pub(super) async fn pass(
    call: &ResourceCall,
    backend: &FoundBackend,
    path: &str,
    payload: web::Payload,
) -> HandlerResult {
    let exchange = &call.exchange;
    let target = location::proxied(path, call.http.uri().query());
    if let Some(protocol) = passing::upgrade(&call.http) {
        return stream::upgrade(call, backend, &target, protocol).await;
    }
    if path.is_empty() && matches!(exchange.method, Method::GET | Method::HEAD) {
        return Ok(with_slash(call));
    }
    let prefix = location::prefix(exchange.info.path(), path);
    let head = PassedHead {
        call,
        target: &target,
        upgrade: None,
        uri: Some(format!("{prefix}{}", location::escaped(path))),
    };
    let (body, pump) = passing::body(&call.http, payload, false);
    let request = head.request(body)?;
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    let host = host.unwrap_or_default().to_owned();
    let (sent, pump) = passing::with_body(backend.send(request), pump).await;
    let mut response = sent.map_err(|error| unreachable_service(&backend.failure(&error)))?;
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        let why = "backend tried to switch protocol when none was requested";
        return Err(ApiError::unspecified(why));
    }
    let headers = response.headers_mut();
    remove_hop_by_hop(headers);
    for name in OF_OTHER_ORIGINS {
        headers.remove(name);
    }
    let place = ProxiedPlace {
        prefix: prefix.to_owned(),
        backend: backend.authority(),
        client: host,
    };
    let there = headers.get(header::LOCATION).and_then(|value| value.to_str().ok());
    if let Some(Cow::Owned(through)) = there.map(|there| place.through(there)) {
        let through = HeaderValue::try_from(through).map_err(ApiError::internal)?;
        headers.insert(header::LOCATION, through);
    }
    let Some(coding) = page::coding_of(&response, &place) else {
        return Ok(passing::answer(exchange, response, pump));
    };
    // It becomes another one.
    response.headers_mut().remove(header::CONTENT_LENGTH);
    let (head, body) = passing::taken_apart(response, pump);
    Ok(passing::answer_with(
        exchange,
        &head,
        page::rewritten(body, coding, place),
    ))
}

/// Sends the client to the root behind the proxy: relative links of its page would lead elsewhere otherwise.
fn with_slash(call: &ResourceCall) -> HttpResponse {
    let uri = call.http.uri();
    let query = uri.query().map_or(String::new(), |query| format!("?{query}"));
    HttpResponse::MovedPermanently()
        .insert_header((header02::LOCATION, format!("{}/{query}", uri.path())))
        .finish()
}

/// The head of a request on its way to a backend.
pub(super) struct PassedHead<'p> {
    pub(super) call: &'p ResourceCall,
    /// Path and query there.
    pub(super) target: &'p str,
    /// The protocol to go on with.
    pub(super) upgrade: Option<HeaderValue>,
    /// The path that was asked for, if the backend is to know it.
    pub(super) uri: Option<String>,
}

impl PassedHead<'_> {
    /// The request with this body. Neither the client's credentials nor a user to impersonate are among its headers any more.
    pub(super) fn request(self, body: OutboundBody) -> Result<Request<OutboundBody>, ApiError> {
        let exchange = &self.call.exchange;
        let mut request = Request::new(body);
        let method = exchange.method.as_str().as_bytes();
        *request.method_mut() = trireme_http::client::Method::from_bytes(method).map_err(ApiError::internal)?;
        *request.uri_mut() = location::uri(self.target)?;
        let mut headers = passing::headers_of(self.call.http.headers());
        remove_hop_by_hop(&mut headers);
        headers.remove(header::EXPECT);
        if let Some(peer) = &exchange.peer {
            append_client(&mut headers, &peer.address.ip().to_canonical().to_string());
        }
        if let Some(uri) = self.uri
            && let Ok(uri) = HeaderValue::from_str(&uri)
        {
            headers.insert("x-forwarded-uri", uri);
        }
        if let Some(protocol) = self.upgrade {
            ask_to_switch(&mut headers, protocol);
        }
        *request.headers_mut() = headers;
        Ok(request)
    }
}
