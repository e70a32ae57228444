//! Counts the certificates whose requests wish for a duration, and those of them that have it
//! (`pkg/registry/certificates/certificates/storage/metrics.go`): a signer may give another one than was asked for.

use std::future::ready;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use futures_util::future::BoxFuture;
use jiff::SignedDuration;
use metrics::counter;
use serde_json::Value;
use trireme_machinery::ApiError;
use trireme_registry::{SideEffects, strategy::Reservation};
use x509_parser::{certificate::X509Certificate, prelude::FromDer as _};

use super::pem::blocks;
use crate::values::{integer_at, text_at};

/// Signers date certificates back by this much.
const BACKDATING: SignedDuration = SignedDuration::from_mins(5);
/// The part of the duration by which a certificate may miss it.
const TOLERANCE: i32 = 20;

/// The keys of a [`Reservation`] that stand for certificates to be counted; the name of the signer follows.
const REQUESTED: &str = "requested/";
const HONORED: &str = "honored/";

/// Counts when a certificate is stored that was not there before.
pub(super) struct DurationCounts;

/// The counts that a change of a request calls for.
fn counts(new: &Value, old: &Value) -> Vec<String> {
    let issued = text_at(new, "/status/certificate");
    let seconds = integer_at(old, "/spec/expirationSeconds");
    let (Some(seconds), true, false) = (
        seconds,
        text_at(old, "/status/certificate").is_empty(),
        issued.is_empty(),
    ) else {
        return Vec::new();
    };
    let signer = known_signer(text_at(old, "/spec/signerName"));
    let mut counts = vec![format!("{REQUESTED}{signer}")];
    if lifetime(issued).is_some_and(|lifetime| is_honored(SignedDuration::from_secs(seconds), lifetime)) {
        counts.push(format!("{HONORED}{signer}"));
    }
    counts
}

/// Signers of Kubernetes are told apart, and no others: those have any number of names.
fn known_signer(name: &str) -> &str {
    if name.starts_with("kubernetes.io/") {
        name
    } else {
        "other"
    }
}

/// The lifetime of the first certificate of a chain, PEM in base64.
fn lifetime(chain: &str) -> Option<SignedDuration> {
    let chain = STANDARD.decode(chain).ok()?;
    let chain = String::from_utf8_lossy(&chain);
    let blocks = blocks(&chain);
    let first = blocks
        .iter()
        .find(|block| block.kind == "CERTIFICATE" && !block.has_headers)?;
    let (_, certificate) = X509Certificate::from_der(&first.content).ok()?;
    let validity = certificate.validity();
    let seconds = validity
        .not_after
        .timestamp()
        .checked_sub(validity.not_before.timestamp())?;
    Some(SignedDuration::from_secs(seconds))
}

fn is_honored(wanted: SignedDuration, lifetime: SignedDuration) -> bool {
    let missed = wanted.saturating_sub(lifetime).abs();
    missed < BACKDATING.saturating_add(wanted / TOLERANCE)
}

fn count(key: &str) {
    if let Some(signer) = key.strip_prefix(REQUESTED) {
        counter!("apiserver_certificates_registry_csr_requested_duration_total", "signerName" => signer.to_owned())
            .increment(1);
    } else if let Some(signer) = key.strip_prefix(HONORED) {
        counter!("apiserver_certificates_registry_csr_honored_duration_total", "signerName" => signer.to_owned())
            .increment(1);
    }
}

impl SideEffects for DurationCounts {
    fn reserve<'a>(
        &'a self,
        new: &'a mut Value,
        old: Option<&'a Value>,
        dry_run: bool,
    ) -> BoxFuture<'a, Result<Reservation, ApiError>> {
        let counted = old.filter(|_| !dry_run).map(|old| counts(new, old));
        Box::pin(ready(Ok(Reservation {
            taken: Vec::new(),
            dropped: counted.unwrap_or_default(),
        })))
    }

    fn release<'a>(&'a self, _object: &'a Value) -> BoxFuture<'a, ()> {
        Box::pin(ready(()))
    }

    fn finish(&self, reservation: Reservation, committed: bool) -> BoxFuture<'_, ()> {
        if committed {
            reservation.dropped.iter().for_each(|key| count(key));
        }
        Box::pin(ready(()))
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use metrics_exporter_prometheus::PrometheusBuilder;
    use serde_json::json;

    use super::*;

    /// A certificate for one day.
    const DAY: &str = "\
        MIIBbTCCAROgAwIBAgIUaFA4F74kekKiOs63nk4+S9uuPSkwCgYIKoZIzj0EAwIwDDEKMAgGA1UEAwwBYzAeFw0yNjExMjYxOTA3MzZaFw0yNj\
        ExMjcxOTA3MzZaMAwxCjAIBgNVBAMMAWMwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAASnhuHVm7ZdL9jpD5IWeESVLq0gnV5uYtZJdo9laXI1\
        9TJgcR1R/iEsp49ISTEef7tgbAC09qwHQfYdJe8Z1jGko1MwUTAdBgNVHQ4EFgQULQbJD724o0e7WtXcTqPAujRHP28wHwYDVR0jBBgwFoAULQ\
        bJD724o0e7WtXcTqPAujRHP28wDwYDVR0TAQH/BAUwAwEB/zAKBggqhkjOPQQDAgNIADBFAiEAgp8jiP3iJonD9CNE390Lk6oZ9bxRckFpfEbF\
        U5uV5oMCIFn7MzZ5SfHugtr5iIY0cwlmPlkyRH36sRJboiyhlybO";

    fn chain() -> String {
        STANDARD.encode(format!(
            "-----BEGIN CERTIFICATE-----\n{DAY}\n-----END CERTIFICATE-----\n"
        ))
    }

    fn request(signer: &str, seconds: Value, certificate: &str) -> Value {
        json!({
            "spec": { "signerName": signer, "expirationSeconds": seconds },
            "status": { "certificate": certificate },
        })
    }

    /// Issues a certificate, and stores it or not.
    fn issue(old: &Value, dry_run: bool, committed: bool) {
        let mut new = old.clone();
        new["status"]["certificate"] = chain().into();
        let reserved = DurationCounts.reserve(&mut new, Some(old), dry_run).now_or_never();
        let reserved = reserved.and_then(Result::ok).expect("nothing is waited for");
        DurationCounts
            .finish(reserved, committed)
            .now_or_never()
            .expect("nothing is waited for");
    }

    #[test]
    fn certificates_that_are_stored_count_once_if_their_duration_was_requested() {
        let recorder = PrometheusBuilder::new().build_recorder();
        let client = "kubernetes.io/kube-apiserver-client";
        metrics::with_local_recorder(&recorder, || {
            issue(&request(client, 86_400.into(), ""), false, true);
            issue(&request(client, 600.into(), ""), false, true);
            issue(&request("example.com/s", 86_000.into(), ""), false, true);
            // None of these is a new certificate of a requested duration.
            issue(&request(client, Value::Null, ""), false, true);
            issue(&request(client, 86_400.into(), &chain()), false, true);
            issue(&request(client, 86_400.into(), ""), true, true);
            issue(&request(client, 86_400.into(), ""), false, false);
        });
        let page = recorder.handle().render();
        let mut series: Vec<&str> = page.lines().filter(|line| line.contains('{')).collect();
        series.sort_unstable();
        assert_eq!(
            series,
            [
                r#"apiserver_certificates_registry_csr_honored_duration_total{signerName="kubernetes.io/kube-apiserver-client"} 1"#,
                r#"apiserver_certificates_registry_csr_honored_duration_total{signerName="other"} 1"#,
                r#"apiserver_certificates_registry_csr_requested_duration_total{signerName="kubernetes.io/kube-apiserver-client"} 2"#,
                r#"apiserver_certificates_registry_csr_requested_duration_total{signerName="other"} 1"#,
            ]
        );
    }

    #[test]
    fn a_duration_is_honored_within_five_minutes_and_a_twentieth() {
        let is_honored =
            |wanted, lifetime| is_honored(SignedDuration::from_secs(wanted), SignedDuration::from_secs(lifetime));
        assert!(is_honored(86_400, 86_400) && is_honored(86_400, 86_400 + 4_619) && is_honored(86_400, 86_400 - 4_619));
        assert!(!is_honored(86_400, 86_400 + 4_620) && !is_honored(86_400, 86_400 - 4_620));
        assert!(is_honored(600, 929) && !is_honored(600, 930));
    }
}
