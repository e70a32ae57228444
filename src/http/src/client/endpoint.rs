//! The server that a call goes to.

use std::fmt;

use http::uri::{Authority, Scheme, Uri};

use super::error::ClientError;

/// A server: scheme, host and port, and where to dial it if that is elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Endpoint {
    scheme: Scheme,
    authority: Authority,
    host: String,
    port: u16,
    dial: Option<(String, u16)>,
}

impl Endpoint {
    /// Reads `https://host:port` or `http://host:port`.
    ///
    /// # Errors
    /// If it is none, or has more than that.
    pub fn parse(url: &str) -> Result<Self, ClientError> {
        let wrong = || ClientError::Address(url.to_owned());
        let uri: Uri = url.parse().map_err(|_| wrong())?;
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
            return Err(wrong());
        }
        let parts = uri.into_parts();
        let scheme = parts.scheme.ok_or_else(wrong)?;
        let authority = parts.authority.ok_or_else(wrong)?;
        let default_port = match scheme.as_str() {
            "https" => 443,
            "http" => 80,
            _ => return Err(wrong()),
        };
        // Credentials in an address would end up in logs.
        if authority.as_str().contains('@') || authority.host().is_empty() {
            return Err(ClientError::Address(format!("{scheme}://…")));
        }
        let host = authority
            .host()
            .trim_start_matches('[')
            .trim_end_matches(']')
            .to_owned();
        let port = match authority.as_str().strip_prefix(authority.host()) {
            Some("") => default_port,
            Some(port) => port.trim_start_matches(':').parse().map_err(|_| wrong())?,
            None => return Err(wrong()),
        };
        Ok(Self {
            scheme,
            authority,
            host,
            port,
            dial: None,
        })
    }

    /// The same server, to be reached at another host and port: the name stays what it is for TLS and in `Host`.
    #[must_use]
    pub fn dialed_at(mut self, host: impl Into<String>, port: u16) -> Self {
        self.dial = Some((host.into(), port));
        self
    }

    /// The host without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Reports whether connections are made over TLS.
    pub fn is_secure(&self) -> bool {
        self.scheme == Scheme::HTTPS
    }

    /// The host and port to connect to.
    pub(super) fn dial(&self) -> (&str, u16) {
        match &self.dial {
            Some((host, port)) => (host, *port),
            None => (&self.host, self.port),
        }
    }

    pub(super) fn scheme(&self) -> &Scheme {
        &self.scheme
    }

    pub(super) fn authority(&self) -> &Authority {
        &self.authority
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme, self.authority)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_named_by_scheme_host_and_port() {
        let read = |text: &str| {
            let endpoint = Endpoint::parse(text).ok()?;
            Some((endpoint.host().to_owned(), endpoint.port(), endpoint.is_secure()))
        };
        assert_eq!(
            read("https://a.example:6443"),
            Some(("a.example".to_owned(), 6443, true))
        );
        assert_eq!(read("https://10.0.0.1/"), Some(("10.0.0.1".to_owned(), 443, true)));
        assert_eq!(read("http://[::1]"), Some(("::1".to_owned(), 80, false)));
        for wrong in [
            "ftp://a:1",
            "a:1",
            "https://a/path",
            "https://a/?q",
            "https://",
            "https://a:x",
            "",
        ] {
            assert_eq!(read(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn credentials_in_an_address_are_refused_and_not_shown() {
        let error = Endpoint::parse("https://user:secret@a:1").expect_err("it has credentials");
        assert!(!format!("{error} {error:?}").contains("secret"));
    }
}
