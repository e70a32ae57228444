//! Names of proxied objects: `name`, `name:port` or `scheme:name:port`.

use trireme_machinery::{ApiError, go_text::quote};

/// A name with the port that is asked for, which may be empty.
pub(crate) struct ProxyAddress<'a> {
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
        [Some(name), None, ..] => Some(ProxyAddress { name, port: "" }),
        [Some(name), Some(port), None, _] => Some(ProxyAddress { name, port }),
        [Some("" | "http" | "https"), Some(name), Some(port), None] => Some(ProxyAddress { name, port }),
        _ => None,
    };
    let address = address.filter(|address| !address.name.is_empty());
    address.ok_or_else(|| ApiError::bad_request(format!("invalid {what} request {}", quote(id))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_scheme_and_port() {
        let parts = |id| address(id, "pod").map(|address| (address.name, address.port)).ok();
        assert_eq!(parts("a"), Some(("a", "")));
        assert_eq!(parts("a:80"), Some(("a", "80")));
        assert_eq!(parts("https:a:"), Some(("a", "")));
        assert_eq!(parts(":a:http"), Some(("a", "http")));
        for id in [":80", "ftp:a:80", "http:a:80:1", ""] {
            assert_eq!(parts(id), None, "{id}");
        }
    }
}
