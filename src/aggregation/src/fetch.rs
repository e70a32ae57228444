//! Calls of other servers for their documents.

use std::time::Duration;

use trireme_http::client::{OutboundBody, Protocols, RemoteAnswer, Request};

use crate::remote::RemoteBackend;

/// The time that a document may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Sends a request and reads the whole answer.
///
/// # Errors
/// If there is none.
pub(crate) async fn fetch(backend: &RemoteBackend, request: Request<OutboundBody>) -> Result<RemoteAnswer, String> {
    let response = backend.send(request, Protocols::Any, Some(TIMEOUT)).await;
    let response = response.map_err(|error| backend.failure(&error))?;
    RemoteAnswer::read(response)
        .await
        .map_err(|error| backend.failure(&error))
}
