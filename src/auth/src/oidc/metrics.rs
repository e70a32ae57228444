//! Metrics of issuers and their tokens, with upstream's names.

use std::time::{Duration, UNIX_EPOCH};

use sha2::{Digest as _, Sha256};
use trireme_actors::Clock;

const LATENCY: &str = "apiserver_authentication_jwt_authenticator_latency_seconds";
const JWKS_FETCHED: &str = "apiserver_authentication_jwt_authenticator_jwks_fetch_last_timestamp_seconds";

/// Records that a token of an issuer was judged.
pub(super) fn record_latency(issuer: &str, is_good: bool, took: Duration) {
    let labels = [("result", result(is_good)), ("jwt_issuer_hash", hash(issuer))];
    metrics::histogram!(LATENCY, &labels).record(took.as_secs_f64());
}

/// Records that keys were fetched.
pub(super) fn record_jwks_fetch(issuer: &str, clock: &Clock, is_good: bool) {
    let labels = [("result", result(is_good)), ("jwt_issuer_hash", hash(issuer))];
    let now = clock.wall().duration_since(UNIX_EPOCH).unwrap_or_default();
    metrics::gauge!(JWKS_FETCHED, &labels).set(now.as_secs_f64());
}

fn result(is_good: bool) -> String {
    if is_good { "success" } else { "failure" }.to_owned()
}

/// The hash that stands for a text in labels: texts of users are neither bounded nor public.
pub(super) fn hash(text: &str) -> String {
    let digest = Sha256::digest(text);
    let digits: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{digits}")
}
