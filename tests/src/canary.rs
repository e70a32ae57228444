//! Secrets that every test plants in the servers that it starts, and the search for them in what servers write down.
//!
//! [`Process`](crate::process::Process) looks through the log and the audit log of each server when it ends, so a whole run of
//! the tests, at whatever verbosity, is a canary; `tests/secrets.rs` looks at metrics, debugging pages and errors too,
//! `tests/spans.rs` at spans.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use regex::Regex;
use serde_json::{Map, Value};

/// The text that tests put into Secrets, passwords, keys, kubeconfigs, and credentials of no user.
pub const PLANTED: &str = "canary-5d0c1e9f-keep-quiet";
/// The tokens of the test servers' users, those of webhooks' kubeconfigs, and the secret of bootstrap tokens. The recorded
/// scenarios have them as well, so that the planted text cannot be in their place.
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
    "hook-secret",
    "sink-token",
    "0123456789abcdef",
];
/// The beginnings of secrets that servers make themselves: the header of a signed token, a private key.
const MADE: &[&str] = &["eyJhbGciOi", "PRIVATE KEY-----"];

/// The members of an audit event with the objects of its request.
const BODIES: [&str; 2] = ["requestObject", "responseObject"];

/// The forms of all secrets, each with its secret, and a pattern of all of them.
static FORMS: LazyLock<(Vec<(String, &str)>, Regex)> = LazyLock::new(|| {
    let mut known: Vec<(String, &str)> = Vec::new();
    for secret in TOKENS.iter().chain([&PLANTED]) {
        known.extend(forms(secret).into_iter().map(|form| (form, *secret)));
    }
    known.extend(MADE.iter().map(|begin| ((*begin).to_owned(), *begin)));
    let any: Vec<String> = known.iter().map(|(form, _)| regex::escape(form)).collect();
    (known, Regex::new(&any.join("|")).expect("a valid pattern"))
});

/// A key for encryption at rest: the planted text, and a last byte that tells keys apart. Every form of it that is looked for
/// begins with that of the text.
pub fn key(last: u8) -> [u8; 32] {
    let mut key = [0; 32];
    key[..PLANTED.len()].copy_from_slice(PLANTED.as_bytes());
    key[31] = last;
    key
}

/// The lines of a text that give a secret away, as it is, in hexadecimal, as bytes or in base64; the secret comes first.
pub fn leaks(text: &str) -> Vec<String> {
    let (known, any) = &*FORMS;
    let line_leaks = |line: &str| {
        let found = any.find(line)?.as_str();
        let secret = known.iter().find(|(form, _)| form == found).map(|(_, secret)| *secret);
        let shown = line.chars().take(400).collect::<String>();
        Some(format!("{}: {shown}", secret.unwrap_or(found)))
    };
    text.lines().filter_map(line_leaks).collect()
}

/// The lines of an audit log that give a secret away, as [`leaks`] has them, beside the objects in its events: a policy may ask
/// for those, whatever is in them.
pub(crate) fn audit_leaks(log: &str) -> Vec<String> {
    let suspects = log.lines().filter(|line| !leaks(line).is_empty());
    suspects.flat_map(|line| leaks(&without_bodies(line))).collect()
}

/// An audit event without its objects; a line of the legacy format, which has none, as it is.
fn without_bodies(line: &str) -> String {
    let Ok(mut event) = serde_json::from_str::<Map<String, Value>>(line) else {
        return line.to_owned();
    };
    event.retain(|name, _| !BODIES.contains(&name.as_str()));
    Value::Object(event).to_string()
}

/// A secret as it is, in hexadecimal, as Rust shows bytes, and in base64, wherever in the encoded text it stands.
fn forms(secret: &str) -> Vec<String> {
    let each = |show: fn(&u8) -> String| secret.as_bytes().iter().map(show).collect::<Vec<_>>();
    let mut forms = vec![
        secret.to_owned(),
        each(|byte| format!("{byte:02x}")).concat(),
        each(u8::to_string).join(", "),
    ];
    for before in 0..3 {
        let mut bytes = vec![0; before];
        bytes.extend(secret.as_bytes());
        // The digits at both ends hold bits of what stands beside the secret.
        let digits = (before * 8).div_ceil(6)..bytes.len() * 8 / 6;
        for engine in [STANDARD_NO_PAD, URL_SAFE_NO_PAD] {
            forms.push(engine.encode(&bytes)[digits.clone()].to_owned());
        }
    }
    forms
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::STANDARD;
    use serde_json::json;

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
            format!("TRACE read {:?}", PLANTED.as_bytes()),
            format!("TRACE read the key {}", STANDARD.encode(key(1))),
            format!("TRACE decrypted with {:?}", key(2)),
            format!("DEBUG the token aaa001.0123456789abcdef is unknown\n{quiet}"),
            format!("TRACE asked as hook-secret\n{quiet}"),
            format!("TRACE authorization: Basic {}", STANDARD.encode(format!("m:{PLANTED}"))),
            format!(
                "TRACE authorization: Basic {}",
                STANDARD.encode(format!("user:{PLANTED}\n"))
            ),
        ] {
            assert_eq!(leaks(&leak).len(), 1, "{leak}");
        }
    }

    #[test]
    fn a_planted_leak_in_an_audit_log_is_found_beside_the_objects_that_the_policy_asks_for() {
        let shown = json!({"kind": "TokenReview", "spec": {"token": PLANTED}});
        let event = json!({"requestURI": "/apis", "requestObject": shown, "responseObject": shown});
        assert_eq!(audit_leaks(&format!("{event}\n{event}\n")), Vec::<String>::new());
        let mut leaking = event.clone();
        leaking["annotations"] = json!({"reason": format!("the token {PLANTED} is unknown")});
        let legacy = format!("2026-01-01T00:00:00Z AUDIT: uri=\"/api?token={PLANTED}\"");
        for leak in [leaking.to_string(), legacy] {
            assert_eq!(audit_leaks(&format!("{event}\n{leak}\n")).len(), 1, "{leak}");
        }
    }
}
