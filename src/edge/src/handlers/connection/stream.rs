//! A client's connection as one to a backend: `exec`, `attach` and `portforward`, over SPDY or WebSocket.
//!
//! The bytes after the upgrade are passed on as they are: both ends must speak the same protocol. kube-apiserver translates the
//! newest protocols over WebSocket into SPDY for kubelets that do not know them; here such a kubelet refuses the upgrade, upon
//! which kubectl tries SPDY.

use trireme_http::client::StatusCode;
use trireme_machinery::ApiError;

use super::{ResourceCall, proxy::PassedHead};
use crate::{backends::FoundBackend, passing, respond::HandlerResult};

/// Passes the connection on.
pub(super) async fn pass(call: &ResourceCall, backend: &FoundBackend, target: &str) -> HandlerResult {
    let Some(protocol) = passing::upgrade(&call.http) else {
        return Err(ApiError::bad_request("Upgrade request required"));
    };
    upgrade(call, backend, target, protocol).await
}

/// Asks the backend to go on with a protocol, and lets the client go on with it.
pub(super) async fn upgrade(
    call: &ResourceCall,
    backend: &FoundBackend,
    target: &str,
    protocol: trireme_http::client::HeaderValue,
) -> HandlerResult {
    let failed = |why: String| ApiError::unspecified(why);
    let head = PassedHead {
        call,
        target,
        upgrade: Some(protocol),
        uri: None,
    };
    let request = head.request(trireme_http::client::OutboundBody::empty())?;
    let sent = backend.send(request).await;
    let mut response = sent.map_err(|error| failed(format!("error dialing backend: {}", backend.failure(&error))))?;
    match response.status() {
        StatusCode::SWITCHING_PROTOCOLS => {
            let switched = passing::switch(&call.exchange, response).await;
            switched.map_err(|error| failed(format!("error dialing backend: {}", backend.failure(&error))))
        }
        status if status.as_u16() >= 400 => {
            trireme_aggregation::remove_hop_by_hop(response.headers_mut());
            Ok(passing::answer(&call.exchange, response, None))
        }
        status => Err(failed(format!(
            "invalid upgrade response: status code {}",
            status.as_u16()
        ))),
    }
}
