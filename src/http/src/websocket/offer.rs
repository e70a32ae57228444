//! The subprotocols that a request for a WebSocket offers.

#![cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use actix_http::header::{self, HeaderMap};

/// Reports whether a request asks for a WebSocket.
pub fn is_offered(headers: &HeaderMap) -> bool {
    let has = |name, wanted: &str| {
        let values = headers.get_all(name).filter_map(|value| value.to_str().ok());
        let mut words = values.flat_map(|value| value.split(','));
        words.any(|word| word.trim().eq_ignore_ascii_case(wanted))
    };
    has(header::UPGRADE, "websocket") && has(header::CONNECTION, "upgrade")
}

/// The subprotocols that are offered, in order.
pub fn protocols(headers: &HeaderMap) -> impl Iterator<Item = &str> {
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
        assert!(is_offered(&with(&[])));
        for missing in [header::UPGRADE, header::CONNECTION] {
            let mut headers = with(&[]);
            headers.remove(&missing);
            assert!(!is_offered(&headers), "without {missing}");
        }
        let mut other = with(&[]);
        other.insert(header::UPGRADE, header::HeaderValue::from_static("h2c"));
        assert!(!is_offered(&other));
    }

    #[test]
    fn subprotocols_keep_their_order() {
        let headers = with(&["a, b,", "c"]);
        assert_eq!(protocols(&headers).collect::<Vec<_>>(), ["a", "b", "c"]);
    }
}
