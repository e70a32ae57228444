//! Finds out who asks.

use std::rc::Rc;

use actix_http::{HttpMessage, Request};
use actix_web::http::header;
use trireme_auth::{CertificateError, CertificateIdentity, Credentials, anonymous};
use trireme_http::server::ClientCertificate;
use trireme_machinery::{ApiError, Reason};

use crate::{
    exchange::{Exchange, header_text},
    state::ChainState,
    websocket,
};

/// Sets the exchange's user.
///
/// # Errors
/// 401 for credentials that are bad or of no known kind. A request with none at all comes from nobody, if such requests are
/// admitted: what that may do is the authorizer's business.
pub(crate) async fn authenticate(state: &ChainState, exchange: &Exchange, request: &Request) -> Result<(), ApiError> {
    let authorization = header_text(request.headers(), header::AUTHORIZATION);
    let offers_nothing = !request.headers().contains_key(header::AUTHORIZATION);
    let in_header = authorization.as_deref().and_then(bearer_token);
    let in_protocol = match in_header {
        Some(_) => Ok(None),
        None => websocket::token(request.headers()),
    };
    let certificate = exchange.peer.as_ref().and_then(|peer| peer.certificate.as_ref());
    let verdict = certificate.and_then(identify);
    let identity = verdict.as_ref().map(|verdict| match verdict {
        Ok(read) => read.as_ref().as_ref().map_err(|why| *why),
        Err(why) => Err(*why),
    });
    let credentials = Credentials {
        bearer_token: in_header.or(in_protocol.as_ref().ok().and_then(Option::as_deref)),
        certificate: identity,
    };
    let user = match state.authenticator.authenticate(credentials).await {
        Ok(Some(user)) => user,
        Ok(None) if state.anonymous && offers_nothing && matches!(in_protocol, Ok(None)) => anonymous(),
        Ok(None) => return Err(unauthorized()),
        Err(why) => {
            tracing::debug!(audit_id = %exchange.audit_id, %why, "credentials rejected");
            return Err(unauthorized());
        }
    };
    // Set once: the chain authenticates a request once.
    let _ = exchange.user.set(user);
    Ok(())
}

/// The identity in a certificate, or the reason that it cannot be read.
type Identity = Result<CertificateIdentity, CertificateError>;

/// The identity in a client's certificate, if a client CA stands for it; `None` if certificates count no more.
fn identify(certificate: &ClientCertificate) -> Option<Result<Rc<Identity>, CertificateError>> {
    let verdict = certificate.verdict()?.map_err(|_| CertificateError::Untrusted);
    Some(verdict.map(|()| certificate.read_once(CertificateIdentity::from_der)))
}

pub(crate) fn bearer_token(header: &str) -> Option<&str> {
    let (scheme, token) = header.trim().split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

fn unauthorized() -> ApiError {
    ApiError::new(Reason::Unauthorized, "Unauthorized")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_those_of_the_bearer_scheme() {
        assert_eq!(bearer_token("Bearer abc"), Some("abc"));
        assert_eq!(bearer_token("bearer  abc "), Some("abc"));
        for header in ["Basic abc", "Bearer", "Bearer ", "abc", ""] {
            assert_eq!(bearer_token(header), None, "{header:?}");
        }
    }
}
