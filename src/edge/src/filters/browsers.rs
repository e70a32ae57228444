//! Headers for browsers: which pages of other origins may read the answers (`--cors-allowed-origins`), and that they are to come over
//! TLS only (`--strict-transport-security-directives`).

use actix_http::{HttpMessage as _, Request};
use actix_web::{
    HttpResponse,
    http::{
        Method,
        header::{
            ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
            ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, HeaderName, HeaderValue, ORIGIN,
            STRICT_TRANSPORT_SECURITY,
        },
    },
};
use regex::Regex;

/// Those for pages of an allowed origin, beside its name.
const FOR_ALLOWED: [(HeaderName, &str); 4] = [
    (ACCESS_CONTROL_ALLOW_METHODS, "POST, GET, OPTIONS, PUT, DELETE, PATCH"),
    (
        ACCESS_CONTROL_ALLOW_HEADERS,
        "Content-Type, Content-Length, Accept-Encoding, X-CSRF-Token, Authorization, X-Requested-With, If-Modified-Since",
    ),
    (ACCESS_CONTROL_EXPOSE_HEADERS, "Date"),
    (ACCESS_CONTROL_ALLOW_CREDENTIALS, "true"),
];

/// The origins whose pages may read answers.
#[derive(Debug, Clone, Default)]
pub struct AllowedOrigins(Vec<Regex>);

impl AllowedOrigins {
    /// Compiles patterns, one of which must match an origin somewhere; `None` if one is no pattern or does not pin both ends of
    /// the host, without which it would match the hosts of others.
    pub fn parse<'a>(patterns: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        let pattern = |text: &str| {
            let pins_start = text.contains('^') || text.contains("//");
            let pins_end = text.contains('$') || text.contains(':');
            Regex::new(text).ok().filter(|_| pins_start && pins_end)
        };
        patterns.into_iter().map(pattern).collect::<Option<_>>().map(Self)
    }

    /// The origin of a request, if its pages may read the answer.
    pub(crate) fn of(&self, request: &Request) -> Option<HeaderValue> {
        if self.0.is_empty() {
            return None;
        }
        let origin = request.headers().get(ORIGIN)?;
        let text = origin.to_str().ok()?;
        self.0
            .iter()
            .any(|pattern| pattern.is_match(text))
            .then(|| origin.clone())
    }
}

/// The answer to a browser that asks before it sends what a page wants; it may come without credentials.
pub(crate) fn preflight(request: &Request, allowed: Option<&HeaderValue>) -> Option<HttpResponse> {
    let is_preflight = allowed.is_some() && request.method() == Method::OPTIONS;
    is_preflight.then(|| HttpResponse::NoContent().finish())
}

/// Lets a page of an allowed origin read the answer.
pub(crate) fn allow(response: &mut HttpResponse, origin: Option<HeaderValue>) {
    let Some(origin) = origin else { return };
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    for (name, value) in FOR_ALLOWED {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

/// Has browsers come over TLS only, unless the answer is another server's that says so itself.
pub(crate) fn insist_on_tls(response: &mut HttpResponse, directives: Option<&HeaderValue>) {
    if let Some(directives) = directives
        && !response.headers().contains_key(STRICT_TRANSPORT_SECURITY)
    {
        response
            .headers_mut()
            .insert(STRICT_TRANSPORT_SECURITY, directives.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::AllowedOrigins;

    #[test]
    fn a_pattern_pins_both_ends_of_the_host() {
        let is_good = |pattern| AllowedOrigins::parse([pattern]).is_some();
        for good in [r"^https://ok\.example$", "//localhost(:|$)", "://ok.example:", "^.*$"] {
            assert!(is_good(good), "{good}");
        }
        for bad in ["example.com", "^https", "https://ok", "[", "", "ok$"] {
            assert!(!is_good(bad), "{bad}");
        }
    }
}
