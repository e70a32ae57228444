//! `--cors-allowed-origins`: the pages of other origins that may read answers.

use actix_http::{HttpMessage as _, Request};
use actix_web::http::header::{HeaderValue, ORIGIN};
use trireme_machinery::go_regex::GoRegex;

/// The origins whose pages may read answers.
#[derive(Debug, Clone, Default)]
pub struct AllowedOrigins(Vec<GoRegex>);

impl AllowedOrigins {
    /// Compiles patterns, one of which must match an origin somewhere; `None` if one is no pattern or does not pin both ends of
    /// the host, without which it would match the hosts of others.
    pub fn parse<'a>(patterns: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        let pattern = |text: &str| {
            let pins_start = text.contains('^') || text.contains("//");
            let pins_end = text.contains('$') || text.contains(':');
            GoRegex::new(text).ok().filter(|_| pins_start && pins_end)
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

#[cfg(test)]
mod tests {
    use super::AllowedOrigins;

    #[test]
    fn a_pattern_pins_both_ends_of_the_host() {
        let is_good = |pattern| AllowedOrigins::parse([pattern]).is_some();
        for good in [
            r"^https://ok\.example$",
            "//localhost(:|$)",
            "://ok.example:",
            "https://ok",
            "^.*$",
            r"^https://[\w-.]+\.example$",
        ] {
            assert!(is_good(good), "{good}");
        }
        for bad in ["example.com", "^https", "[", "", "ok$", "(?x)^https://ok$"] {
            assert!(!is_good(bad), "{bad}");
        }
    }
}
