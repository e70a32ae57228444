//! Paths and addresses on their way through a proxy (`apimachinery/pkg/util/proxy`).

use std::borrow::Cow;

use trireme_http::client::Uri;
use trireme_machinery::ApiError;

use crate::passing;

/// A path, decoded, with a query, as a request names it.
pub(super) fn target(path: &str, query: &[(String, String)]) -> String {
    format!("{}{}", escaped(path), passing::encoded(query))
}

/// A path, decoded, with the query of a request as it was sent.
pub(super) fn proxied(path: &str, query: Option<&str>) -> String {
    let path = if path.is_empty() { "/" } else { path };
    let query = query.map_or(String::new(), |query| format!("?{query}"));
    format!("{}{query}", escaped(path))
}

/// A path as Go writes it.
pub(super) fn escaped(path: &str) -> String {
    path.bytes().fold(String::new(), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@".contains(&byte) {
            out.push(byte.into());
        } else {
            out += &format!("%{byte:02X}");
        }
        out
    })
}

/// A path and query as they stand in a request to a backend.
///
/// # Errors
/// 400 for those that are too long, which they may only have become by escaping.
pub(super) fn uri(target: &str) -> Result<Uri, ApiError> {
    let uri = target.parse();
    uri.map_err(|error| ApiError::bad_request(format!("the path and query cannot be passed on: {error}")))
}

/// The part of a request's path that leads to the proxy: all before the path behind it.
pub(super) fn prefix<'p>(path: &'p str, behind: &str) -> &'p str {
    path.strip_suffix(behind).unwrap_or(path)
}

/// The proxy that a backend is behind.
#[derive(Debug, Clone)]
pub(super) struct ProxiedPlace {
    /// The part of the path that leads to the proxy.
    pub(super) prefix: String,
    /// The backend as this server calls it: host and port.
    pub(super) backend: String,
    /// This server as the client calls it.
    pub(super) client: String,
}

impl ProxiedPlace {
    /// A place that the backend names, as one that leads through the proxy. Other hosts and relative places stay as they are.
    pub(super) fn through<'l>(&self, location: &'l str) -> Cow<'l, str> {
        let (origin, place) = match host_of(location) {
            None => ("", location),
            Some((host, place)) if host == self.backend => ("", place),
            Some((host, place)) if host == self.client => (location.strip_suffix(place).unwrap_or_default(), place),
            Some(_) => return location.into(),
        };
        if !place.starts_with('/') || place.contains(|character: char| character.is_control()) {
            return location.into();
        }
        let prefix = if place.starts_with(&self.prefix) {
            ""
        } else {
            &self.prefix
        };
        let (path, rest) = place.split_at(place.find(['?', '#']).unwrap_or(place.len()));
        let through = format!("{origin}{prefix}{}{rest}", safe(path));
        if through == location {
            return location.into();
        }
        through.into()
    }
}

/// The host that a place names, as in `scheme://host/path` and `//host/path`, and what follows it.
fn host_of(location: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = location.split_once("//")?;
    let is_of_scheme = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    let has_scheme = scheme
        .strip_suffix(':')
        .is_some_and(|scheme| scheme.bytes().all(is_of_scheme));
    let has_host = scheme.is_empty() || has_scheme;
    has_host.then(|| rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len())))
}

/// A path that is escaped where it was not and should have been.
fn safe(path: &str) -> Cow<'_, str> {
    let is_unsafe = |byte: u8| !byte.is_ascii_graphic() || b"\"<>\\^`{|}".contains(&byte);
    if !path.bytes().any(is_unsafe) {
        return path.into();
    }
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        if is_unsafe(byte) {
            out += &format!("%{byte:02X}");
        } else {
            out.push(byte.into());
        }
    }
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_escaped_and_queries_sorted() {
        let query = [("b", "2 3"), ("a", "1")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(target("/a b/ä", &query), "/a%20b/%C3%A4?a=1&b=2+3");
        assert_eq!(target("/a:1/$x", &[]), "/a:1/$x");
    }

    #[test]
    fn what_grows_too_long_by_escaping_is_refused() {
        let exclamations = |count| uri(&proxied(&format!("/{}", "!".repeat(count)), None));
        assert!(exclamations(20_000).is_ok());
        let error = exclamations(22_000).expect_err("it is longer than 65,534 bytes");
        assert_eq!(error.message, "the path and query cannot be passed on: uri too long");
    }

    #[test]
    fn places_of_the_backend_lead_through_the_proxy() {
        let place = ProxiedPlace {
            prefix: "/p/proxy".to_owned(),
            backend: "10.0.0.1:80".to_owned(),
            client: "k8s:6443".to_owned(),
        };
        for (location, expected) in [
            ("/a/b/", "/p/proxy/a/b/"),
            ("/a?x=/y", "/p/proxy/a?x=/y"),
            ("http://10.0.0.1:80/a?x", "/p/proxy/a?x"),
            ("https://k8s:6443/a", "https://k8s:6443/p/proxy/a"),
            ("https://k8s:6443/p/proxy/a", "https://k8s:6443/p/proxy/a"),
            ("http://10.0.0.1:80/a#part", "/p/proxy/a#part"),
            ("//elsewhere/a", "//elsewhere/a"),
            ("//10.0.0.1:80/a", "/p/proxy/a"),
            ("//k8s:6443/a/", "//k8s:6443/p/proxy/a/"),
            ("http://10.0.0.1:80//a", "/p/proxy//a"),
            ("http://10.0.0.1:80", "http://10.0.0.1:80"),
            ("a?to=http://10.0.0.1:80/b", "a?to=http://10.0.0.1:80/b"),
            ("/a?to=http://elsewhere/b", "/p/proxy/a?to=http://elsewhere/b"),
            ("/a%2Fb%00<i>ä", "/p/proxy/a%2Fb%00%3Ci%3E%C3%A4"),
            ("/a\nb", "/a\nb"),
            ("/p/proxy/a", "/p/proxy/a"),
            ("http://elsewhere/a", "http://elsewhere/a"),
            ("a/b", "a/b"),
            ("?x", "?x"),
        ] {
            assert_eq!(place.through(location), expected, "{location}");
        }
    }

    #[test]
    fn a_proxy_ends_where_the_path_behind_it_begins() {
        assert_eq!(prefix("/p/proxy/a/b", "/a/b"), "/p/proxy");
        assert_eq!(prefix("/p/proxy/", "/"), "/p/proxy");
        assert_eq!(prefix("/p/proxy", ""), "/p/proxy");
    }
}
