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
use trireme_http::client::{ClientError, Protocols, Request};
use trireme_registry::{ProxiedVersion, request::UserInfo};

use crate::{api::EdgeShared, exchange::Exchange, metrics, passing, respond};

/// The timeout of discovery requests, which clients make before anything else.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(5);
/// The user that asks other servers for their OpenAPI documents.
const AGGREGATOR: &str = "system:aggregator";
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
        // Much larger than what serves the resources of this server, with which it shares its callers.
        Box::pin(passed.pass(user, http, payload)).await
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
        let upgrade = passing::upgrade(http);
        let authority = self.backend.authority();
        let (body, pump) = passing::body(http, payload, upgrade.is_some());
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
            authority: &authority,
            audit_id: self.exchange.audit_id.as_str(),
            upgrade: upgrade.clone(),
        };
        forwarded.prepare(headers);
        let asks_to_switch = upgrade.is_some();
        let protocols = if asks_to_switch {
            Protocols::Http1
        } else {
            Protocols::Any
        };
        let sent = self.backend.send(request, protocols, self.timeout());
        let (sent, pump) = passing::with_body(sent, pump).await;
        let unreachable = |error: ClientError| RemoteError::Unreachable(self.backend.failure(&error));
        let mut response = sent.map_err(unreachable)?;
        if self.backend.rejects_redirects() && is_redirect(&response) {
            return Ok(HttpResponse::BadGateway()
                .insert_header((header02::CONTENT_TYPE, "text/plain; charset=utf-8"))
                .body(REDIRECTED));
        }
        if response.status().as_u16() == 101 {
            if !asks_to_switch {
                let why = "backend tried to switch protocol when none was requested";
                return Err(RemoteError::Unreachable(why.to_owned()));
            }
            return passing::switch(self.exchange, response).await.map_err(unreachable);
        }
        remove_hop_by_hop(response.headers_mut());
        absolute_location(response.headers_mut(), &authority);
        Ok(passing::answer(self.exchange, response, pump))
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
