//! PEM, and the DER in it: certificate signing requests and what they are answered with, TLS secrets, keys for tokens, files of a
//! server. An input is PEM, or DER that is put into PEM of each label.
//!
//! Invariants: it is read or refused; a signing request or a secret that is accepted keeps the promises of all objects.

use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use futures_util::future::{BoxFuture, ready};
use serde_json::{Value, json};
use trireme_actors::Clock;
use trireme_admission::testing::{common_name_of_request, is_request_for_masters};
use trireme_auth::{Objects, ServiceAccountTokens, public_keys};
use trireme_http::server::{TlsChoice, TrustedCas, tls_from_pem};
use trireme_machinery::ApiError;

use crate::kinds;

/// Checks the input as it is, and within PEM.
pub fn check(data: &[u8]) {
    let within = |label: &str| {
        let body = STANDARD.encode(data);
        format!("-----BEGIN {label}-----\n{body}\n-----END {label}-----\n").into_bytes()
    };
    signing_request(data, data);
    signing_request(&within("CERTIFICATE REQUEST"), &within("CERTIFICATE"));
    secret(data, data);
    secret(&within("CERTIFICATE"), &within("PRIVATE KEY"));
    files(data, data);
    files(&within("CERTIFICATE"), &within("PRIVATE KEY"));
    token_key(data);
    token_key(&within("PUBLIC KEY"));
}

/// A request, and a later state of it with the certificate that answers it.
fn signing_request(request: &[u8], certificate: &[u8]) {
    let request = STANDARD.encode(request);
    let mut object = json!({
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": { "name": "n" },
        "spec": { "request": request, "signerName": "example.com/s", "usages": ["client auth"] },
    });
    let before = object.to_string();
    kinds::check(before.as_bytes());
    object["status"] = json!({ "certificate": STANDARD.encode(certificate) });
    kinds::check(format!("{object}\n{before}").as_bytes());
    let name = common_name_of_request(&request);
    let organizations = is_request_for_masters(&request);
    assert!(
        name.is_err() || organizations.is_some(),
        "one plugin reads it, the other does not"
    );
}

fn secret(certificate: &[u8], key: &[u8]) {
    let object = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": { "name": "n" },
        "type": "kubernetes.io/tls",
        "data": { "tls.crt": STANDARD.encode(certificate), "tls.key": STANDARD.encode(key) },
    });
    kinds::check(object.to_string().as_bytes());
}

fn files(certificate: &[u8], key: &[u8]) {
    let own = [certificate];
    let cas = TrustedCas {
        clients: &own,
        proxies: &[],
    };
    if let Err(error) = tls_from_pem(certificate, key, cas, &TlsChoice::default()) {
        assert!(!error.to_string().is_empty());
    }
}

fn token_key(pem: &[u8]) {
    let mut tokens = ServiceAccountTokens::new(vec!["i".to_owned()], Vec::new(), Arc::new(NoObjects), Clock::system());
    match public_keys(pem) {
        Ok(keys) => {
            for key in keys {
                tokens.believe(&key).expect("it is of a known kind");
            }
        }
        Err(error) => assert!(error.to_string().starts_with("this is no PEM")),
    }
}

struct NoObjects;

impl Objects for NoObjects {
    fn note_use<'a>(
        &'a self,
        _namespace: &'a str,
        _name: &'a str,
        _uid: &'a str,
        _date: &'a str,
    ) -> BoxFuture<'a, Result<(), ApiError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn find<'a>(&'a self, _: &'a str, _: &'a str, _: &'a str, _: bool) -> BoxFuture<'a, Result<Value, ApiError>> {
        Box::pin(ready(Err(ApiError::internal("there are none"))))
    }
}
