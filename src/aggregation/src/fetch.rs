//! Calls of other servers in this one's own name.

use std::time::Duration;

use trireme_http::client::{OutboundBody, RemoteAnswer, Request, Uri};
use trireme_registry::request::UserInfo;

use crate::{forward, remote::RemoteBackend};

/// A user that servers see, with its groups.
pub(crate) type OwnUser = (&'static str, &'static [&'static str]);

/// The user that looks at what a server serves, with the right to do so.
pub(crate) const MASTER: OwnUser = (KUBE_AGGREGATOR, &["system:masters"]);
/// The user that asks for the resources of one version.
pub(crate) const DISCOVERER: OwnUser = (KUBE_AGGREGATOR, &[]);
/// The user that asks for OpenAPI documents.
pub(crate) const OPENAPI_READER: OwnUser = ("system:aggregator", &[]);

const KUBE_AGGREGATOR: &str = "system:kube-aggregator";

/// A GET in the name of this server.
pub(crate) fn own_request(
    (name, groups): OwnUser,
    path: &str,
    accept: Option<&'static str>,
) -> Result<Request<OutboundBody>, String> {
    let mut request = Request::new(OutboundBody::empty());
    *request.uri_mut() = path.parse::<Uri>().map_err(|error| error.to_string())?;
    let user = UserInfo {
        name: name.to_owned(),
        groups: groups.iter().map(|group| (*group).to_owned()).collect(),
        ..UserInfo::default()
    };
    forward::set_user(request.headers_mut(), &user);
    if let Some(accept) = accept {
        forward::set(request.headers_mut(), "accept", accept);
    }
    Ok(request)
}

/// Sends a request and reads the whole answer, up to the bound of a document.
///
/// # Errors
/// If there is none, or it is larger.
pub(crate) async fn fetch(
    backend: &RemoteBackend,
    request: Request<OutboundBody>,
    timeout: Duration,
) -> Result<RemoteAnswer, String> {
    let answered = async { RemoteAnswer::read(backend.ask_for_document(request, timeout).await?).await };
    answered.await.map_err(|error| backend.failure(&error))
}
