//! For fuzzing: ID tokens and the keys of issuers, without an issuer.

use std::time::SystemTime;

use serde_json::Value;

use super::{
    SUPPORTED_ALGORITHMS,
    id_token::{ParsedToken, untrusted_issuer},
    provider,
};

/// The claims of a token, if they are those of `issuer` for one of `audiences`, now. Its signature is not looked at.
///
/// # Errors
/// As a client would get it.
pub fn id_token_claims(token: &str, issuer: &str, audiences: &[String], now: SystemTime) -> Result<Value, String> {
    let algorithms: Vec<_> = SUPPORTED_ALGORITHMS
        .iter()
        .filter_map(|name| name.parse().ok())
        .collect();
    let _ = untrusted_issuer(token);
    let claims = ParsedToken::parse(token, &algorithms)?.claims(issuer, audiences, now)?;
    Ok(claims.for_expressions())
}

/// Reports whether a key of an issuer's set is one that tokens are verified with.
pub fn is_verification_key(key: &Value) -> bool {
    provider::is_verification_key(key)
}
