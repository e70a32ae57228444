//! The settings for browsers: which pages may read answers, and that they are to come over TLS only.

use trireme_edge::AllowedOrigins;

use super::SettingsReader;
use crate::settings::BrowserSettings;
use crate::settings::values::list;

impl SettingsReader {
    pub(super) fn browsers(&mut self) -> BrowserSettings {
        let allowed_origins = self.optional(
            "cors-allowed-origins",
            "give regular expressions, separated by commas, that pin the start of the host (^ or //) and its end ($ or :)",
            |text| AllowedOrigins::parse(text.split(',')),
        );
        let directives = self.optional(
            "strict-transport-security-directives",
            "give max-age=SECONDS, includeSubDomains and preload, separated by commas",
            |text| {
                let all: Vec<&str> = list(text).collect();
                (!all.is_empty() && all.iter().all(|directive| is_directive(directive))).then(|| all.join("; "))
            },
        );
        BrowserSettings {
            allowed_origins: allowed_origins.unwrap_or_default(),
            strict_transport_security: directives,
        }
    }
}

/// A directive of RFC 6797, 6.1.
fn is_directive(text: &str) -> bool {
    let seconds = text.strip_prefix("max-age=");
    matches!(text, "includeSubDomains" | "preload") || seconds.is_some_and(|seconds| seconds.parse::<u64>().is_ok())
}
