//! Requests that another API server answers: passed on in the user's name, and answered as it answers.

use std::time::Duration;

use actix_web::{
    HttpRequest, HttpResponse,
    http::{StatusCode, header as header02},
    web,
};
use trireme_aggregation::{
    Forwarded, REDIRECTED, RemoteBackend, RemoteError, absolute_location, is_redirect, remove_hop_by_hop,
};
use trireme_http::client::{ClientError, HeaderValue, IncomingBody, OutboundBody, Protocols, Request, Response};
use trireme_registry::{ProxiedVersion, request::UserInfo};

use crate::{
    api::EdgeShared,
    exchange::Exchange,
    metrics,
    passing::{self, Pump},
    respond,
};

/// The timeout of discovery requests, which clients make before anything else.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(5);
const SWITCHING_PROTOCOLS: u16 = 101;

/// Passes a request on in the name of its user.
pub(super) async fn forward(
    exchange: &Exchange,
    api: &EdgeShared,
    http: &HttpRequest,
    payload: web::Payload,
    proxied: &ProxiedVersion,
) -> HttpResponse {
    let Some(user) = exchange.acting_user() else {
        let code = StatusCode::INTERNAL_SERVER_ERROR;
        metrics::record_not_proxied(exchange, &proxied.group_version, code);
        return respond::text(code, "missing user\n");
    };
    let answered = async {
        let backend = api.aggregation.available(&proxied.service).await?;
        let passed = PassedRequest {
            exchange,
            api,
            backend: &backend,
        };
        // Much larger than what serves the resources of this server, with which it shares its callers.
        Box::pin(passed.pass(user, http, payload)).await
    };
    answered
        .await
        .unwrap_or_else(|error| refusal(exchange, proxied, &error))
}

fn refusal(exchange: &Exchange, proxied: &ProxiedVersion, error: &RemoteError) -> HttpResponse {
    let code = match error {
        RemoteError::Unavailable | RemoteError::Unreachable(_) | RemoteError::NotSwitched(_) => {
            StatusCode::SERVICE_UNAVAILABLE
        }
        RemoteError::Trust(_) => StatusCode::INTERNAL_SERVER_ERROR,
    };
    // One that was called and did not answer has not been kept from it.
    if !matches!(error, RemoteError::Unreachable(_) | RemoteError::NotSwitched(_)) {
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
        let upgrade = passing::upgrade(http);
        let asks_to_switch = upgrade.is_some();
        let (body, pump) = passing::body(http, payload, asks_to_switch);
        let request = self.request(user, http, body, upgrade)?;
        let protocols = if asks_to_switch {
            Protocols::Http1
        } else {
            Protocols::Any
        };
        // The other server does the work from here on; when it has sent the first events of a watch is not known here.
        if self.exchange.info.is_long_running() {
            drop(self.exchange.seat.take());
        }
        let sent = self.backend.send(request, protocols, self.timeout());
        let (sent, pump) = passing::with_body(sent, pump).await;
        let response = sent.map_err(|error| self.unreachable(&error))?;
        if asks_to_switch {
            return self.switched(response).await;
        }
        if self.backend.rejects_redirects() && is_redirect(&response) {
            return Ok(HttpResponse::BadGateway()
                .insert_header((header02::CONTENT_TYPE, "text/plain; charset=utf-8"))
                .body(REDIRECTED));
        }
        if response.status().as_u16() == SWITCHING_PROTOCOLS {
            let why = "backend tried to switch protocol when none was requested";
            return Err(RemoteError::Unreachable(why.to_owned()));
        }
        Ok(self.answer(response, pump))
    }

    fn request(
        &self,
        user: &UserInfo,
        http: &HttpRequest,
        body: OutboundBody,
        upgrade: Option<HeaderValue>,
    ) -> Result<Request<OutboundBody>, RemoteError> {
        let mut request = Request::new(body);
        let unwritable = |error: &dyn std::fmt::Display| RemoteError::Unreachable(error.to_string());
        let method = self.exchange.method.as_str().as_bytes();
        *request.method_mut() = trireme_http::client::Method::from_bytes(method).map_err(|error| unwritable(&error))?;
        let target = format!("{}{}", http.uri().path(), passing::encoded(self.exchange.query.pairs()));
        *request.uri_mut() = target.parse().map_err(|error| unwritable(&error))?;
        let headers = request.headers_mut();
        *headers = passing::headers_of(http.headers());
        let peer = self.exchange.peer.as_ref();
        let forwarded = Forwarded {
            user,
            client: peer.map(|peer| peer.address.ip().to_canonical().to_string()),
            path: self.exchange.info.path(),
            authority: &self.backend.authority(),
            audit_id: self.exchange.audit_id.as_str(),
            upgrade,
        };
        forwarded.prepare(headers);
        Ok(request)
    }

    /// Answers a request for another protocol: the server goes on with it, or says why not.
    async fn switched(&self, response: Response<IncomingBody>) -> Result<HttpResponse, RemoteError> {
        match response.status().as_u16() {
            SWITCHING_PROTOCOLS => {
                let switched = passing::switch(self.exchange, response).await;
                switched.map_err(|error| self.unreachable(&error))
            }
            code if code < 400 => Err(RemoteError::NotSwitched(code)),
            _ => Ok(self.answer(response, None)),
        }
    }

    fn answer(&self, mut response: Response<IncomingBody>, pump: Option<Pump>) -> HttpResponse {
        remove_hop_by_hop(response.headers_mut());
        absolute_location(response.headers_mut(), &self.backend.authority());
        passing::answer(self.exchange, response, pump)
    }

    fn unreachable(&self, error: &ClientError) -> RemoteError {
        RemoteError::Unreachable(self.backend.failure(error))
    }

    /// The time that is left for the whole answer.
    fn timeout(&self) -> Option<Duration> {
        let left = passing::time_left(self.exchange, self.api.clock.now())?;
        let is_discovery = !self.exchange.info.is_resource;
        Some(if is_discovery {
            left.min(DISCOVERY_TIMEOUT)
        } else {
            left
        })
    }
}
