//! Documents by which others check the tokens of service accounts: the issuer's OpenID Connect discovery documents.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::service_account::{PublicKey, TokenKeyError};

/// The path of the keys, below the server's address.
pub const KEYS_PATH: &str = "/openid/v1/jwks";

/// The two documents, as they are sent.
#[derive(Debug, Clone)]
pub struct IssuerDocuments {
    configuration: String,
    keys: String,
}

impl IssuerDocuments {
    /// The documents of an issuer whose tokens any of these public keys, PEM, may have signed. The keys are found at
    /// `keys_url`. `None` if the issuer's name is no URL that OpenID Connect allows, so that no client could look there.
    ///
    /// # Errors
    /// If a key is of no known kind.
    pub fn new<'k>(
        issuer: &str,
        keys_url: &str,
        public_pems: impl IntoIterator<Item = &'k [u8]>,
    ) -> Result<Option<Self>, TokenKeyError> {
        let mut keys: Vec<Value> = Vec::new();
        for pem in public_pems {
            let key = PublicKey::read(pem)?.to_jwk()?;
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        let algorithms: BTreeSet<&str> = keys.iter().filter_map(|key| key["alg"].as_str()).collect();
        let configuration = json!({
            "issuer": issuer,
            "jwks_uri": keys_url,
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": algorithms,
        });
        Ok(is_issuer_url(issuer).then(|| Self {
            configuration: configuration.to_string(),
            keys: json!({ "keys": keys }).to_string(),
        }))
    }

    /// `/.well-known/openid-configuration`
    pub fn configuration(&self) -> &str {
        &self.configuration
    }

    /// The keys, as a JSON Web Key Set.
    pub fn keys(&self) -> &str {
        &self.keys
    }
}

/// OpenID Connect Discovery, section 3: https, and neither query nor fragment.
fn is_issuer_url(issuer: &str) -> bool {
    let rest = issuer.strip_prefix("https://");
    rest.is_some_and(|rest| !rest.is_empty() && !rest.contains(['?', '#']))
}

#[cfg(test)]
mod tests {
    use jsonwebtoken::{Algorithm, DecodingKey, Validation, jwk::JwkSet};
    use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_RSA_SHA256};

    use super::*;
    use crate::TokenSigner;

    const ISSUER: &str = "https://issuer.example/path";
    const URL: &str = "https://10.0.0.1:6443/openid/v1/jwks";

    fn documents(issuer: &str, keys: &[&KeyPair]) -> Option<IssuerDocuments> {
        let pems: Vec<String> = keys.iter().map(|key| key.public_key_pem()).collect();
        IssuerDocuments::new(issuer, URL, pems.iter().map(String::as_bytes)).expect("good keys")
    }

    #[test]
    fn a_token_can_be_checked_with_the_published_key() {
        for (kind, algorithm) in [
            (&PKCS_ECDSA_P256_SHA256, Algorithm::ES256),
            (&PKCS_RSA_SHA256, Algorithm::RS256),
        ] {
            let (key, other) = (
                KeyPair::generate_for(kind).expect("a key"),
                KeyPair::generate().expect("a key"),
            );
            let (signer, _) = TokenSigner::new(key.serialize_pem().as_bytes(), ISSUER).expect("a key");
            let token = signer.sign(json!({ "sub": "s", "aud": ["a"] })).expect("signed");
            let documents = documents(ISSUER, &[&other, &key, &key]).expect("a URL");
            let keys: JwkSet = serde_json::from_str(documents.keys()).expect("a set of keys");
            assert_eq!(keys.keys.len(), 2, "each once");
            let header = jsonwebtoken::decode_header(&token).expect("a header");
            let found = keys.find(&header.kid.expect("a key id")).expect("it is published");
            let mut rules = Validation::new(algorithm);
            rules.set_audience(&["a"]);
            rules.set_required_spec_claims(&["iss", "sub"]);
            rules.validate_exp = false;
            let claims = jsonwebtoken::decode::<Value>(&token, &DecodingKey::from_jwk(found).expect("a key"), &rules);
            assert_eq!(claims.expect("it is good").claims["iss"], ISSUER);
        }
    }

    #[test]
    fn the_configuration_says_what_is_published() {
        let key = KeyPair::generate().expect("a key");
        let documents = documents(ISSUER, &[&key]).expect("a URL");
        let configuration: Value = serde_json::from_str(documents.configuration()).expect("JSON");
        assert_eq!(
            configuration,
            json!({
                "issuer": ISSUER,
                "jwks_uri": URL,
                "response_types_supported": ["id_token"],
                "subject_types_supported": ["public"],
                "id_token_signing_alg_values_supported": ["ES256"],
            })
        );
        let keys: Value = serde_json::from_str(documents.keys()).expect("JSON");
        let key = &keys["keys"][0];
        assert_eq!(
            [&key["use"], &key["kty"], &key["alg"], &key["crv"]],
            ["sig", "EC", "ES256", "P-256"]
        );
    }

    #[test]
    fn an_issuer_that_cannot_be_looked_up_publishes_nothing() {
        let key = KeyPair::generate().expect("a key");
        for issuer in [
            "kubernetes/serviceaccount",
            "http://a.example",
            "https://",
            "https://a?b",
            "https://a#b",
        ] {
            assert!(documents(issuer, &[&key]).is_none(), "{issuer}");
        }
    }
}
