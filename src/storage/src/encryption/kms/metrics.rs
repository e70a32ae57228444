//! Metrics by kube-apiserver's names (`envelope/metrics`).

use std::{
    fmt::Write as _,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use aws_lc_rs::digest;
use metrics::{counter, gauge, histogram};

use super::service::KmsCallError;

/// `sha256:…`; empty for an empty text.
pub(super) fn hash(text: &str) -> String {
    if text.is_empty() {
        return String::new();
    }
    let mut hash = "sha256:".to_owned();
    for byte in digest::digest(&digest::SHA256, text.as_bytes()).as_ref() {
        // Writing to a string does not fail.
        let _ = write!(hash, "{byte:02x}");
    }
    hash
}

/// The names that stand in labels.
pub(super) struct Labels {
    pub(super) provider: String,
    /// The hash of this server's identity.
    pub(super) server: String,
}

impl Labels {
    /// Counts a use of a key.
    pub(super) fn key_used(&self, kind: &'static str, key_id_hash: &str, now: SystemTime) {
        let labels = [
            ("transformation_type", kind.to_owned()),
            ("provider_name", self.provider.clone()),
            ("key_id_hash", key_id_hash.to_owned()),
            ("apiserver_id_hash", self.server.clone()),
        ];
        counter!("apiserver_envelope_encryption_key_id_hash_total", &labels).increment(1);
        gauge!(
            "apiserver_envelope_encryption_key_id_hash_last_timestamp_seconds",
            &labels
        )
        .set(seconds(now));
    }

    /// Notes the key that the plugin writes with.
    pub(super) fn key_from_status(&self, key_id_hash: &str, now: SystemTime) {
        gauge!(
            "apiserver_envelope_encryption_key_id_hash_status_last_timestamp_seconds",
            "provider_name" => self.provider.clone(),
            "key_id_hash" => key_id_hash.to_owned(),
            "apiserver_id_hash" => self.server.clone(),
        )
        .set(seconds(now));
    }

    /// Counts a key id that is none.
    pub(super) fn invalid_key_id(&self, error: &'static str) {
        counter!(
            "apiserver_envelope_encryption_invalid_key_id_from_status_total",
            "provider_name" => self.provider.clone(),
            "error" => error,
        )
        .increment(1);
    }

    /// Notes the number of known seeds.
    pub(super) fn cache_size(&self, entries: usize) {
        // No cache has more entries than a float can count.
        #[expect(clippy::cast_precision_loss, reason = "a number of keys")]
        let entries = entries as f64;
        gauge!("apiserver_envelope_encryption_dek_source_cache_size", "provider_name" => self.provider.clone())
            .set(entries);
    }
}

/// Counts a seed that has to be decrypted by its plugin.
pub(super) fn cache_miss() {
    counter!("apiserver_storage_envelope_transformation_cache_misses_total").increment(1);
}

/// Records that a seed was made, or could not be.
pub(super) fn key_generated(took: Duration, is_made: bool) {
    if is_made {
        histogram!("apiserver_storage_data_key_generation_duration_seconds").record(took.as_secs_f64());
    } else {
        counter!("apiserver_storage_data_key_generation_failures_total").increment(1);
    }
}

/// Records a call.
pub(super) fn operation(provider: &str, method: &'static str, took: Duration, error: Option<&KmsCallError>) {
    histogram!(
        "apiserver_envelope_encryption_kms_operations_latency_seconds",
        "provider_name" => provider.to_owned(),
        "method_name" => method,
        "grpc_status_code" => error.map_or_else(|| "OK".to_owned(), KmsCallError::code),
    )
    .record(took.as_secs_f64());
}

fn seconds(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}
