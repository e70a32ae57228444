//! What a request for a WebSocket offers: subprotocols, and among them maybe a token, as browsers cannot send
//! `Authorization` with a WebSocket.

use actix_http::header::{self, HeaderMap};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};

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

/// Whether a request asks for a WebSocket.
pub(super) fn is_made(headers: &HeaderMap) -> bool {
    let has = |name, wanted: &str| {
        let values = headers.get_all(name).filter_map(|value| value.to_str().ok());
        let mut words = values.flat_map(|value| value.split(','));
        words.any(|word| word.trim().eq_ignore_ascii_case(wanted))
    };
    has(header::UPGRADE, "websocket") && has(header::CONNECTION, "upgrade")
}

/// The subprotocols but those that hold a token, in order.
pub(super) fn protocols(headers: &HeaderMap) -> Vec<&str> {
    offered(headers)
        .filter(|protocol| !protocol.starts_with(TOKEN_PREFIX))
        .collect()
}

/// The token that a request for a WebSocket brings; `None` for other requests.
///
/// # Errors
/// If there is one that cannot be taken.
pub(crate) fn token(headers: &HeaderMap) -> Result<Option<String>, BadToken> {
    if !is_made(headers) {
        return Ok(None);
    }
    let mut tokens = offered(headers).filter_map(|protocol| protocol.strip_prefix(TOKEN_PREFIX));
    let Some(token) = tokens.next() else { return Ok(None) };
    if tokens.next().is_some() {
        return Err(BadToken::Several);
    }
    let token = URL_SAFE_NO_PAD.decode(token).map_err(|_| BadToken::Encoding)?;
    let token = String::from_utf8(token).map_err(|_| BadToken::NoText)?;
    match token.as_str() {
        "" => Ok(None),
        _ if protocols(headers).is_empty() => Err(BadToken::Alone),
        _ => Ok(Some(token)),
    }
}

fn offered(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    headers
        .get_all(header::SEC_WEBSOCKET_PROTOCOL)
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .filter(|protocol| !protocol.is_empty())
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

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
    fn an_offer_has_both_headers() {
        assert!(is_made(&with(&[])));
        for missing in [header::UPGRADE, header::CONNECTION] {
            let mut headers = with(&[]);
            headers.remove(&missing);
            assert!(!is_made(&headers), "without {missing}");
        }
        let mut other = with(&[]);
        other.insert(header::UPGRADE, header::HeaderValue::from_static("h2c"));
        assert!(!is_made(&other));
    }

    #[test]
    fn the_token_is_told_apart_from_the_other_subprotocols() {
        let headers = with(&["base64url.bearer.authorization.k8s.io.YWRtaW4, a", "b"]);
        assert_eq!(token(&headers), Ok(Some("admin".to_owned())));
        assert_eq!(protocols(&headers), ["a", "b"]);
        assert_eq!(token(&with(&["a"])), Ok(None));
        assert_eq!(token(&with(&["base64url.bearer.authorization.k8s.io."])), Ok(None));
    }

    #[test]
    fn tokens_that_cannot_be_taken_are_told() {
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
}
