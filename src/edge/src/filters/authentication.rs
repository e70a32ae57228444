//! Finds out who asks.

use std::{rc::Rc, sync::OnceLock};

use actix_http::{HttpMessage, Request};
use actix_web::http::header::{self, HeaderMap, HeaderName};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use trireme_auth::{CertificateError, CertificateIdentity, Credentials, FrontProxyHeaders, RequestHeaders, anonymous};
use trireme_http::server::{ClientCertificate, Untrusted};
use trireme_machinery::{ApiError, Reason};
use trireme_registry::request::UserInfo;

use crate::{
    exchange::{Exchange, header_text},
    metrics::access::{self, TimedFilter, Unauthenticated},
    state::ChainState,
    websocket,
};

/// As kube-apiserver warns.
const EXTRA_SPACE: &str =
    "the provided Authorization header contains extra space before the bearer token, and is ignored";

/// Sets the exchange's user, and removes the credentials and the identity headers from the request: no later stage is to see or trust
/// them.
///
/// # Errors
/// 401 for credentials that are bad. A request without known ones is anonymous, if such requests are admitted: its permissions
/// are the authorizer's business.
pub(crate) async fn authenticate(
    state: &ChainState,
    exchange: &Exchange,
    request: &mut Request,
) -> Result<(), ApiError> {
    let user = user(state, exchange, request.headers()).await;
    let took = exchange.lap(&state.clock);
    access::record_authentication(user.as_ref().map(|user| user.name.as_str()).map_err(|why| *why), took);
    access::record_filter(TimedFilter::Authentication, took);
    let user = user.map_err(|_| ApiError::new(Reason::Unauthorized, "Unauthorized"))?;
    // Set once: the chain authenticates a request once.
    let _ = exchange.user.set(user);
    take_out(&state.front_proxy, request.headers_mut());
    Ok(())
}

async fn user(state: &ChainState, exchange: &Exchange, headers: &HeaderMap) -> Result<UserInfo, Unauthenticated> {
    let authorization = header_text(headers, header::AUTHORIZATION);
    let in_header = authorization.as_deref().and_then(bearer_token);
    if in_header.is_none() && authorization.as_deref().is_some_and(has_extra_space) {
        exchange.warn(EXTRA_SPACE);
    }
    let in_protocol = match in_header {
        Some(_) => Ok(None),
        None => websocket::token(headers),
    };
    let password = authorization.as_deref().and_then(basic);
    let certificate = exchange.peer.as_ref().and_then(|peer| peer.certificate.as_ref());
    let identities = certificate.map(Identities::of).unwrap_or_default();
    let headers = HeadersOfRequest(headers);
    let notes = OnceLock::new();
    let credentials = Credentials {
        bearer_token: in_header.or(in_protocol.as_ref().ok().and_then(Option::as_deref)),
        password: password.as_deref().and_then(|decoded| decoded.split_once(':')),
        certificate: Identities::credential(&identities.client),
        proxy_certificate: Identities::credential(&identities.proxy),
        headers: Some(&headers),
        notes: Some(&notes),
    };
    let found = state.authenticator.authenticate(credentials).await;
    if let Some(notes) = notes.into_inner() {
        notes.warnings.iter().for_each(|warning| exchange.warn(*warning));
        // Set once: the chain authenticates a request once.
        let _ = exchange.token_annotations.set(notes.annotations);
    }
    match found {
        Ok(Some(user)) => Ok(user),
        Ok(None) if in_protocol.is_ok() && state.anonymous.admits(exchange.info.path()) => Ok(anonymous()),
        // A token that cannot be taken from its subprotocol is a bad one, not none.
        Ok(None) if in_protocol.is_err() => Err(Unauthenticated::Error),
        Ok(None) => Err(Unauthenticated::Failure),
        Err(why) => {
            tracing::debug!(audit_id = %exchange.audit_id, %why, "credentials rejected");
            Err(Unauthenticated::Error)
        }
    }
}

/// The headers of a request, as authenticators look at them.
struct HeadersOfRequest<'a>(&'a HeaderMap);

impl RequestHeaders for HeadersOfRequest<'_> {
    fn visit(&self, visitor: &mut dyn FnMut(&str, &[u8])) {
        for (name, value) in self.0 {
            visitor(name.as_str(), value.as_bytes());
        }
    }
}

/// Takes out the token, and what a proxy says of the user, whether it was believed or not.
fn take_out(front_proxy: &FrontProxyHeaders, headers: &mut HeaderMap) {
    headers.remove(header::AUTHORIZATION);
    websocket::take_out_token(headers);
    let names_user = |name: &&HeaderName| front_proxy.has(name.as_str());
    let removed: Vec<HeaderName> = headers.keys().filter(names_user).cloned().collect();
    for name in removed {
        headers.remove(name);
    }
}

/// The identity in a certificate, or the reason that it cannot be read.
type PeerCertificate = Result<CertificateIdentity, CertificateError>;
/// The identity in a client's certificate, if a CA stands for it; `None` if there are no such CAs.
type JudgedIdentity = Option<Result<Rc<PeerCertificate>, CertificateError>>;

/// A client's certificate by the CAs of clients and by those of proxies.
#[derive(Default)]
struct Identities {
    client: JudgedIdentity,
    proxy: JudgedIdentity,
}

impl Identities {
    fn of(certificate: &ClientCertificate) -> Self {
        let read = |verdict: Option<Result<(), Untrusted>>| {
            let verdict = verdict?.map_err(|_| CertificateError::Untrusted);
            Some(verdict.map(|()| certificate.read_once(CertificateIdentity::from_der)))
        };
        Self {
            client: read(certificate.verdict()),
            proxy: read(certificate.proxy_verdict()),
        }
    }

    fn credential(judged: &JudgedIdentity) -> Option<Result<&CertificateIdentity, CertificateError>> {
        judged.as_ref().map(|verdict| match verdict {
            Ok(read) => read.as_ref().as_ref().map_err(|why| *why),
            Err(why) => Err(*why),
        })
    }
}

/// The token of an `Authorization` of the bearer scheme: what follows one space, up to the next.
pub(crate) fn bearer_token(header: &str) -> Option<&str> {
    let mut parts = header.trim().splitn(3, ' ');
    let (scheme, token) = (parts.next()?, parts.next()?);
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// The user and the password of an `Authorization` of the basic scheme, `user:password`.
fn basic(header: &str) -> Option<String> {
    let (scheme, encoded) = header.trim().split_once(' ')?;
    let decoded = scheme
        .eq_ignore_ascii_case("basic")
        .then(|| STANDARD.decode(encoded.trim()))?;
    String::from_utf8(decoded.ok()?).ok()
}

/// Reports whether a token stands behind one space too many.
fn has_extra_space(header: &str) -> bool {
    let mut parts = header.trim().splitn(3, ' ');
    let is_bearer = parts.next().is_some_and(|scheme| scheme.eq_ignore_ascii_case("bearer"));
    is_bearer && parts.next() == Some("") && parts.next().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_those_of_the_bearer_scheme() {
        for header in ["Bearer abc", "bearer abc ", " BEARER abc", "Bearer abc more"] {
            assert_eq!(bearer_token(header), Some("abc"), "{header:?}");
        }
        for header in [
            "Basic abc",
            "Bearer",
            "Bearer ",
            "Bearer  abc",
            "Bearer\tabc",
            "abc",
            "",
        ] {
            assert_eq!(bearer_token(header), None, "{header:?}");
        }
        assert!(has_extra_space("Bearer  abc"));
        assert!(!has_extra_space("Bearer abc") && !has_extra_space("Basic  abc"));
    }

    #[test]
    fn passwords_are_those_of_the_basic_scheme() {
        assert_eq!(basic("Basic YTpiOmM=").as_deref(), Some("a:b:c"));
        for header in ["Basic", "Basic a", "Bearer YTpi", "Basic /w=="] {
            assert_eq!(basic(header), None, "{header:?}");
        }
    }

    #[test]
    fn credentials_and_identity_headers_are_removed() {
        let mut headers = HeaderMap::new();
        for name in [
            "authorization",
            "x-remote-user",
            "x-remote-extra-a%2fb",
            "x-proxy-user",
            "accept",
        ] {
            let name = HeaderName::from_static(name);
            headers.append(name, header::HeaderValue::from_static("x"));
        }
        let mut front_proxy = FrontProxyHeaders::standard();
        front_proxy.username.push("X-Proxy-User".to_owned());
        take_out(&front_proxy, &mut headers);
        let left: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
        assert_eq!(left, ["accept"]);
    }
}
