//! Names of proxied objects: `name`, `name:port` or `scheme:name:port`.

use trireme_machinery::{ApiError, go_text::quote};
use trireme_registry::subresource::{BackendHost, ConnectCall, ConnectTarget, Destination, Passing};

/// A name with the scheme and the port that are asked for, which may be empty.
pub(crate) struct ProxyAddress<'a> {
    pub(crate) scheme: &'a str,
    pub(crate) name: &'a str,
    pub(crate) port: &'a str,
}

/// Takes a name apart; `what` is for the error.
///
/// # Errors
/// 400 if it is none.
pub(crate) fn address<'a>(id: &'a str, what: &str) -> Result<ProxyAddress<'a>, ApiError> {
    let mut parts = id.split(':');
    let parts = [parts.next(), parts.next(), parts.next(), parts.next()];
    let address = match parts {
        [Some(name), None, ..] => Some(("", name, "")),
        [Some(name), Some(port), None, _] => Some(("", name, port)),
        [Some(scheme @ ("" | "http" | "https")), Some(name), Some(port), None] => Some((scheme, name, port)),
        _ => None,
    };
    let address = address.map(|(scheme, name, port)| ProxyAddress { scheme, name, port });
    let address = address.filter(|address| !address.name.is_empty());
    address.ok_or_else(|| ApiError::bad_request(format!("invalid {what} request {}", quote(id))))
}

/// The destination of a proxied request: the path behind the proxy, at this host.
pub(crate) fn destination(host: BackendHost, call: &ConnectCall) -> Destination {
    Destination::Backend(ConnectTarget {
        host,
        path: clean_path(call.option("path").unwrap_or_default()),
        passing: Passing::Proxy,
    })
}

/// A path without empty and relative steps; it ends with a slash if it did so before (`JoinPreservingTrailingSlash`).
fn clean_path(path: &str) -> String {
    let mut steps: Vec<&str> = Vec::new();
    for step in path.split('/') {
        match step {
            "" | "." => {}
            ".." => drop(steps.pop()),
            step => steps.push(step),
        }
    }
    let mut clean = if path.starts_with('/') { "/" } else { "" }.to_owned();
    clean += &steps.join("/");
    if path.ends_with('/') && !clean.ends_with('/') {
        clean.push('/');
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_scheme_and_port() {
        let parts = |id| {
            let address = address(id, "pod").ok()?;
            Some((address.scheme, address.name, address.port))
        };
        assert_eq!(parts("a"), Some(("", "a", "")));
        assert_eq!(parts("a:80"), Some(("", "a", "80")));
        assert_eq!(parts("https:a:"), Some(("https", "a", "")));
        assert_eq!(parts(":a:http"), Some(("", "a", "http")));
        for id in [":80", "ftp:a:80", "http:a:80:1", ""] {
            assert_eq!(parts(id), None, "{id}");
        }
    }

    #[test]
    fn paths_have_no_empty_or_relative_steps() {
        for (path, expected) in [
            ("", ""),
            ("/", "/"),
            ("/a//b/", "/a/b/"),
            ("/a/../b/./c", "/b/c"),
            ("/../..", "/"),
            ("/a/..", "/"),
        ] {
            assert_eq!(clean_path(path), expected, "{path}");
        }
    }
}
