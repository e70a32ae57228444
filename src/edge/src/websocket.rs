//! WebSockets as kube-apiserver has them: a subprotocol may be a token, as browsers cannot send `Authorization` with a
//! WebSocket; refusals are a `Status`.

use actix_http::header::HeaderMap;
use actix_web::{
    HttpRequest, HttpResponse,
    http::header::{self, HeaderValue},
};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use trireme_http::websocket::{Handshake, Refused, Subprotocols, is_offered, protocols};
use trireme_machinery::{ApiError, Reason};

use crate::status::{self, ErrorStyle};

/// The token follows, in base64 for URLs and without padding.
const TOKEN_PREFIX: &str = "base64url.bearer.authorization.k8s.io.";

/// A token among the subprotocols that cannot be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadToken {
    #[error("more than one subprotocol holds a token")]
    Several,
    #[error("the token in a subprotocol is not in base64 for URLs without padding")]
    Encoding,
    #[error("the token in a subprotocol is no text")]
    NoText,
    /// Browsers close a WebSocket whose server takes none of the subprotocols, and the token is never sent back.
    #[error("beside the token, another subprotocol must be offered")]
    Alone,
}

/// The token that a request for a WebSocket brings; `None` for other requests.
///
/// # Errors
/// If there is one that cannot be taken.
pub(crate) fn token(headers: &HeaderMap) -> Result<Option<String>, BadToken> {
    if !is_offered(headers) {
        return Ok(None);
    }
    let mut tokens = protocols(headers).filter_map(|protocol| protocol.strip_prefix(TOKEN_PREFIX));
    let Some(token) = tokens.next() else { return Ok(None) };
    if tokens.next().is_some() {
        return Err(BadToken::Several);
    }
    let token = URL_SAFE_NO_PAD.decode(token).map_err(|_| BadToken::Encoding)?;
    let token = String::from_utf8(token).map_err(|_| BadToken::NoText)?;
    match token.as_str() {
        "" => Ok(None),
        _ if protocols(headers).all(is_token) => Err(BadToken::Alone),
        _ => Ok(Some(token)),
    }
}

/// Takes the token out of the subprotocols.
pub(crate) fn take_out_token(headers: &mut HeaderMap) {
    if !protocols(headers).any(is_token) {
        return;
    }
    let others: Vec<&str> = protocols(headers).filter(|protocol| !is_token(protocol)).collect();
    let others = HeaderValue::from_str(&others.join(", "));
    headers.remove(header::SEC_WEBSOCKET_PROTOCOL);
    if let Ok(others) = others
        && !others.is_empty()
    {
        headers.insert(header::SEC_WEBSOCKET_PROTOCOL, others);
    }
}

/// Reports whether a subprotocol is none, but a token.
fn is_token(protocol: &str) -> bool {
    protocol.starts_with(TOKEN_PREFIX)
}

/// Reads a request for a WebSocket; `None` if it asks for none.
///
/// # Errors
/// If it does and cannot have it.
pub(crate) fn handshake(request: &HttpRequest, subprotocols: Subprotocols) -> Result<Option<Handshake>, Refused> {
    Handshake::of(request, subprotocols, is_token)
}

/// The answer to a request for a WebSocket that is refused.
pub(crate) fn refusal(refused: Refused, style: ErrorStyle) -> HttpResponse {
    let reason = match refused {
        Refused::Origin | Refused::Unsupported => Reason::Forbidden,
        Refused::Version | Refused::Key | Refused::Protocols => Reason::BadRequest,
    };
    let mut response = status::response(&ApiError::new(reason, refused.to_string()), style);
    refused.set_headers(&mut response);
    response
}

#[cfg(test)]
mod tests {
    use actix_web::{http::header, test::TestRequest};

    use super::*;

    fn with(protocols: &[&str]) -> HeaderMap {
        let upgrade = TestRequest::get()
            .insert_header(("Upgrade", "WebSocket"))
            .insert_header(("Connection", "keep-alive, Upgrade"));
        let request = protocols
            .iter()
            .fold(upgrade, |request, protocols| {
                request.append_header(("Sec-WebSocket-Protocol", *protocols))
            })
            .to_http_request();
        request.headers().clone()
    }

    #[test]
    fn the_token_is_distinguished_from_the_other_subprotocols() {
        let headers = with(&["base64url.bearer.authorization.k8s.io.YWRtaW4, a", "b"]);
        assert_eq!(token(&headers), Ok(Some("admin".to_owned())));
        assert_eq!(
            protocols(&headers)
                .filter(|protocol| !is_token(protocol))
                .collect::<Vec<_>>(),
            ["a", "b"]
        );
        assert_eq!(token(&with(&["a"])), Ok(None));
        assert_eq!(token(&with(&["base64url.bearer.authorization.k8s.io."])), Ok(None));
    }

    #[test]
    fn tokens_that_cannot_be_decoded_are_reported() {
        let token_of = |protocols: String| token(&with(&[&protocols]));
        let prefix = "base64url.bearer.authorization.k8s.io.";
        assert_eq!(token_of(format!("{prefix}YQ, {prefix}Yg, x")), Err(BadToken::Several));
        assert_eq!(token_of(format!("{prefix}YWRtaW4=, x")), Err(BadToken::Encoding));
        assert_eq!(token_of(format!("{prefix}_w, x")), Err(BadToken::NoText));
        assert_eq!(token_of(format!("{prefix}YQ")), Err(BadToken::Alone));
    }

    #[test]
    fn only_requests_for_a_websocket_bring_a_token_so() {
        let mut headers = with(&["base64url.bearer.authorization.k8s.io.YQ, x"]);
        headers.remove(header::UPGRADE);
        assert_eq!(token(&headers), Ok(None));
    }

    #[test]
    fn refusals_have_the_codes_of_kube_apiserver() {
        let response = refusal(Refused::Version, ErrorStyle::default());
        let version = response.headers().get(header::SEC_WEBSOCKET_VERSION);
        assert_eq!((response.status().as_u16(), version.is_some()), (400, true));
        for refused in [Refused::Origin, Refused::Unsupported] {
            assert_eq!(refusal(refused, ErrorStyle::default()).status().as_u16(), 403);
        }
    }
}
