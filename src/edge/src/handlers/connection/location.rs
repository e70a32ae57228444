//! Paths and addresses on their way through a proxy (`apimachinery/pkg/util/proxy`).

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

/// The part of a request's path that leads to the proxy: all before the path behind it.
pub(super) fn prefix<'p>(path: &'p str, behind: &str) -> &'p str {
    path.strip_suffix(behind).unwrap_or(path)
}

/// A path and query as they stand in a request to a backend.
///
/// # Errors
/// 400 for those that are too long, which they may only have become by escaping.
pub(super) fn uri(target: &str) -> Result<Uri, ApiError> {
    let uri = target.parse();
    uri.map_err(|error| ApiError::bad_request(format!("the path and query cannot be passed on: {error}")))
}

/// The place that a page of a backend names, as one that leads through the proxy. Other hosts and relative places stay as they
/// are. `hosts` are the backend as this server calls it, and this server as the client calls it.
pub(super) fn through_proxy(location: &str, prefix: &str, hosts: [&str; 2]) -> String {
    let unchanged = || location.to_owned();
    // `scheme://host/path…` or `/path…`; anything else is relative, or elsewhere.
    let (origin, path) = match location.split_once("://") {
        Some((scheme, rest)) if !scheme.contains('/') => {
            let (host, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
            match hosts {
                [backend, _] if host == backend => ("", path),
                [_, client] if host == client => (location.strip_suffix(path).unwrap_or_default(), path),
                _ => return unchanged(),
            }
        }
        _ => ("", location),
    };
    if !path.starts_with('/') || path.starts_with("//") {
        return unchanged();
    }
    let prefix = if path.starts_with(prefix) { "" } else { prefix };
    format!("{origin}{prefix}{path}")
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
    fn places_of_the_backend_lead_through_the_proxy() {
        let through = |location: &str| through_proxy(location, "/p/proxy", ["10.0.0.1:80", "k8s:6443"]);
        for (location, expected) in [
            ("/a/b/", "/p/proxy/a/b/"),
            ("/a?x=/y", "/p/proxy/a?x=/y"),
            ("http://10.0.0.1:80/a?x", "/p/proxy/a?x"),
            ("https://k8s:6443/a", "https://k8s:6443/p/proxy/a"),
            ("https://k8s:6443/p/proxy/a", "https://k8s:6443/p/proxy/a"),
            ("http://10.0.0.1:80/a#part", "/p/proxy/a#part"),
            ("//elsewhere/a", "//elsewhere/a"),
            ("/p/proxy/a", "/p/proxy/a"),
            ("http://elsewhere/a", "http://elsewhere/a"),
            ("a/b", "a/b"),
            ("?x", "?x"),
        ] {
            assert_eq!(through(location), expected, "{location}");
        }
    }

    #[test]
    fn a_proxy_ends_where_the_path_behind_it_begins() {
        assert_eq!(prefix("/p/proxy/a/b", "/a/b"), "/p/proxy");
        assert_eq!(prefix("/p/proxy/", "/"), "/p/proxy");
        assert_eq!(prefix("/p/proxy", ""), "/p/proxy");
    }
}
    #[test]
    fn what_grows_too_long_by_escaping_is_refused() {
        let exclamations = |count| uri(&proxied(&format!("/{}", "!".repeat(count)), None));
        assert!(exclamations(20_000).is_ok());
        let error = exclamations(22_000).expect_err("it is longer than 65,534 bytes");
        assert_eq!(error.message, "the path and query cannot be passed on: uri too long");
    }

