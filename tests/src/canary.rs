//! Secrets that every test plants in the servers that it starts, and the search for them in what servers write down.
//!
//! [`Process`](crate::process::Process) looks through the log of each server when it ends, so a whole run of the tests, at
//! whatever verbosity, is a canary; `tests/secrets.rs` looks at metrics, errors and spans too.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};

/// The text that tests put into Secrets and into credentials of no user.
pub const PLANTED: &str = "canary-5d0c1e9f-keep-quiet";
/// The tokens of the test servers' users.
const TOKENS: &[&str] = &[
    "admin-token",
    "user-token",
    "bob-token",
    "node1-token",
    "node2-token",
    "kcm-token",
    "sched-token",
    "proxy-token",
    "mon-token",
];
/// The beginnings of secrets that servers make themselves: the header of a signed token, a private key.
const MADE: &[&str] = &["eyJhbGciOi", "PRIVATE KEY-----"];

/// The lines of a text that give a secret away, as it is or in base64; the secret comes first.
pub fn leaks(text: &str) -> Vec<String> {
    let mut patterns: Vec<(String, &str)> = Vec::new();
    for secret in TOKENS.iter().chain([&PLANTED]) {
        patterns.push(((*secret).to_owned(), secret));
        patterns.push((STANDARD.encode(secret).trim_end_matches('=').to_owned(), secret));
        patterns.push((URL_SAFE_NO_PAD.encode(secret), secret));
    }
    patterns.extend(MADE.iter().map(|begin| ((*begin).to_owned(), *begin)));
    let line_leaks = |line: &str| {
        let found = patterns.iter().find(|(pattern, _)| line.contains(pattern.as_str()));
        found.map(|(_, secret)| format!("{secret}: {}", line.chars().take(400).collect::<String>()))
    };
    text.lines().filter_map(line_leaks).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_planted_leak_is_found() {
        let quiet = "INFO GET /api/v1/namespaces/default/secrets/canary 200\nDEBUG tokens.csv was read";
        assert_eq!(leaks(quiet), Vec::<String>::new());
        for leak in [
            format!(
                "{quiet}\nTRACE stored {{\"data\":{{\"key\":\"{}\"}}}}",
                STANDARD.encode(PLANTED)
            ),
            format!("TRACE authorization: Bearer {PLANTED}\n{quiet}"),
            format!("{quiet}\nDEBUG the token admin-token is unknown"),
            format!("{quiet}\nDEBUG signed eyJhbGciOiJSUzI1NiIsImtpZCI6IiJ9.e30.c2ln"),
            format!("{quiet}\n-----BEGIN RSA PRIVATE KEY-----"),
        ] {
            assert_eq!(leaks(&leak).len(), 1, "{leak}");
        }
    }
}
