//! The server's side of the handshake (RFC 6455, section 4.2).
//!
//! As kube-apiserver, except that clients need not send `Origin`: there 403 is what programs see that are no browsers and
//! do not know of it.

#![cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use actix_web::{
    HttpRequest, HttpResponse,
    http::{Version, header},
};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use super::offer;
use crate::server::{Upgrade, Upgraded};

/// Both have the frames that are spoken here.
const VERSIONS: [&str; 2] = ["13", "8"];
/// The version that clients are answered that offer another one.
const PREFERRED_VERSION: &str = "13";

/// The subprotocols that a handler speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subprotocols {
    /// One at most is offered, and taken whatever its name.
    Any,
    /// The first offered one of these is taken. None need be offered.
    Known(&'static [&'static str]),
}

impl Subprotocols {
    fn choose<'p>(self, mut offered: impl Iterator<Item = &'p str>) -> Result<Option<&'p str>, Refused> {
        let Some(first) = offered.next() else { return Ok(None) };
        match self {
            Self::Any if offered.next().is_some() => Err(Refused::Protocols),
            Self::Any => Ok(Some(first)),
            Self::Known(known) => {
                let mut all = std::iter::once(first).chain(offered);
                let chosen = all.find(|protocol| known.contains(protocol));
                chosen.map(Some).ok_or(Refused::Unsupported)
            }
        }
    }
}

/// A request for a WebSocket that can be answered.
#[derive(Debug, PartialEq, Eq)]
pub struct Handshake {
    accept: String,
    protocol: Option<String>,
}

/// The reason that a request for a WebSocket is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Not the version that is spoken here.
    #[error("cannot upgrade to a WebSocket: Sec-WebSocket-Version must be 13")]
    Version,
    /// There is nothing to prove the handshake with.
    #[error("cannot upgrade to a WebSocket: Sec-WebSocket-Key is missing")]
    Key,
    /// kube-apiserver does not choose either.
    #[error("cannot upgrade to a WebSocket: at most one subprotocol may be offered in Sec-WebSocket-Protocol")]
    Protocols,
    /// None of the subprotocols is spoken here.
    #[error("cannot upgrade to a WebSocket: no subprotocol in Sec-WebSocket-Protocol is supported")]
    Unsupported,
    /// `Origin` is sent, and names no origin.
    #[error("cannot upgrade to a WebSocket: Origin must be a URL")]
    Origin,
}

impl Handshake {
    /// Reads a request; `None` if it asks for no WebSocket. Subprotocols for which `is_hidden` holds count as not
    /// offered.
    ///
    /// # Errors
    /// If it does and cannot have it.
    pub fn of(
        request: &HttpRequest,
        subprotocols: Subprotocols,
        is_hidden: impl Fn(&str) -> bool,
    ) -> Result<Option<Self>, Refused> {
        let headers = request.headers();
        if request.version() != Version::HTTP_11 || !offer::is_offered(headers) {
            return Ok(None);
        }
        let text = |name| headers.get(name).map_or("", |value| value.to_str().unwrap_or_default());
        let key = text(header::SEC_WEBSOCKET_KEY);
        if key.is_empty() {
            return Err(Refused::Key);
        }
        if !VERSIONS.contains(&text(header::SEC_WEBSOCKET_VERSION)) {
            return Err(Refused::Version);
        }
        if headers.contains_key(header::ORIGIN) && !is_url(text(header::ORIGIN)) {
            return Err(Refused::Origin);
        }
        let offered = offer::protocols(headers).filter(|protocol| !is_hidden(protocol));
        let protocol = subprotocols.choose(offered)?;
        Ok(Some(Self {
            accept: derive_accept_key(key.as_bytes()),
            protocol: protocol.map(str::to_owned),
        }))
    }

    /// The subprotocol that is taken.
    pub fn protocol(&self) -> Option<&str> {
        self.protocol.as_deref()
    }

    /// The answer after which `serve` has the connection. Its future comes to the bytes that were sent.
    pub fn switch<F: Future<Output = u64> + 'static>(
        self,
        serve: impl FnOnce(Upgraded) -> F + 'static,
    ) -> HttpResponse {
        let mut response = HttpResponse::SwitchingProtocols();
        response
            .insert_header((header::CONNECTION, "Upgrade"))
            .insert_header((header::UPGRADE, "websocket"))
            .insert_header((header::SEC_WEBSOCKET_ACCEPT, self.accept));
        if let Some(protocol) = self.protocol {
            response.insert_header((header::SEC_WEBSOCKET_PROTOCOL, protocol));
        }
        let mut response = response.finish();
        response.extensions_mut().insert(Upgrade::new(serve));
        response
    }
}

/// Reports whether Go takes this for the URL of a request: absolute, or a path.
fn is_url(origin: &str) -> bool {
    origin.starts_with('/') || origin.split_once(':').is_some_and(|(scheme, _)| !scheme.is_empty())
}

impl Refused {
    /// Sets the header with the supported version, if that is the reason of the refusal.
    pub fn set_headers(self, response: &mut HttpResponse) {
        if self == Self::Version {
            let version = header::HeaderValue::from_static(PREFERRED_VERSION);
            response.headers_mut().insert(header::SEC_WEBSOCKET_VERSION, version);
        }
    }
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    fn request(more: &[(&str, &str)]) -> HttpRequest {
        let plain = TestRequest::get()
            .insert_header(("Upgrade", "websocket"))
            .insert_header(("Connection", "Upgrade"))
            .insert_header(("Sec-WebSocket-Version", "13"))
            .insert_header(("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="));
        more.iter()
            .fold(plain, |request, header| request.insert_header(*header))
            .to_http_request()
    }

    fn protocol_of(offered: &str, subprotocols: Subprotocols) -> Result<Option<String>, Refused> {
        let request = request(&[("Sec-WebSocket-Protocol", offered)]);
        let handshake = Handshake::of(&request, subprotocols, |protocol| protocol == "hidden");
        handshake.map(|handshake| handshake.and_then(|handshake| handshake.protocol))
    }

    fn handshake_of(request: &HttpRequest) -> Result<Option<Handshake>, Refused> {
        Handshake::of(request, Subprotocols::Any, |_| false)
    }

    #[test]
    fn the_key_is_answered_as_the_standard_says() {
        let handshake = handshake_of(&request(&[])).ok().flatten();
        let accept = handshake.map(|handshake| handshake.accept);
        // The example of RFC 6455, section 1.3.
        assert_eq!(accept.as_deref(), Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
    }

    #[test]
    fn one_subprotocol_is_taken_and_more_are_refused() {
        let protocol_of = |offered| protocol_of(offered, Subprotocols::Any);
        assert_eq!(protocol_of("v1.k8s.io"), Ok(Some("v1.k8s.io".to_owned())));
        assert_eq!(protocol_of("hidden, mine"), Ok(Some("mine".to_owned())));
        assert_eq!(protocol_of("hidden"), Ok(None));
        assert_eq!(protocol_of("a, b"), Err(Refused::Protocols));
        assert_eq!(protocol_of(""), Ok(None));
    }

    #[test]
    fn of_several_subprotocols_the_first_known_one_is_taken() {
        let protocol_of = |offered| protocol_of(offered, Subprotocols::Known(&["a", "b"]));
        let taken = |protocol: &str| Ok(Some(protocol.to_owned()));
        assert_eq!(protocol_of("a"), taken("a"));
        assert_eq!(protocol_of("other, hidden, b, a"), taken("b"));
        assert_eq!(protocol_of(""), Ok(None));
        assert_eq!(protocol_of("hidden"), Ok(None));
        assert_eq!(protocol_of("other"), Err(Refused::Unsupported));
    }

    #[test]
    fn what_cannot_be_upgraded_is_refused_with_its_reason() {
        let refusal = |name, value| handshake_of(&request(&[(name, value)])).err();
        assert_eq!(refusal("Sec-WebSocket-Version", "12"), Some(Refused::Version));
        assert_eq!(refusal("Sec-WebSocket-Key", ""), Some(Refused::Key));
        assert_eq!(refusal("Origin", "null"), Some(Refused::Origin));
        for good in [("Origin", "https://console.example"), ("Sec-WebSocket-Version", "8")] {
            assert_eq!(refusal(good.0, good.1), None, "{good:?}");
        }
        let has_version_header = |refused: Refused| {
            let mut response = HttpResponse::BadRequest().finish();
            refused.set_headers(&mut response);
            response.headers().contains_key(header::SEC_WEBSOCKET_VERSION)
        };
        assert_eq!(
            (has_version_header(Refused::Version), has_version_header(Refused::Key)),
            (true, false)
        );
    }

    #[test]
    fn other_requests_are_none_of_its_business() {
        let plain = TestRequest::get().to_http_request();
        assert_eq!(handshake_of(&plain), Ok(None));
        let other = request(&[("Upgrade", "h2c")]);
        assert_eq!(handshake_of(&other), Ok(None));
    }
}
