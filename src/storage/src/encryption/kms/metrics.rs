//! Metrics by kube-apiserver's names (`envelope/metrics`).

use std::{
    collections::HashSet,
    fmt::Write as _,
    sync::{Arc, Mutex, PoisonError},
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

/// The sets of labels with a key id's hash that each metric has at most, as in kube-apiserver.
const SHOWN_KEY_IDS: usize = 100;
/// Stands for all key ids beyond. kube-apiserver drops the series that was used least recently instead; here no series ends.
const OTHER_KEY_IDS: &str = "other";

/// The key ids that have series of their own: the first ones. What is read from a store may be under any number of them.
#[derive(Debug, Clone, Default)]
pub struct ShownKeyIds(Arc<Mutex<ShownLabels>>);

#[derive(Debug, Default)]
struct ShownLabels {
    used: HashSet<String>,
    from_status: HashSet<String>,
}

impl ShownKeyIds {
    /// The label for a key id; `set` says of which metrics, and `others` are the labels beside it.
    fn label<'h>(
        &self,
        set: impl FnOnce(&mut ShownLabels) -> &mut HashSet<String>,
        others: &str,
        key_id_hash: &'h str,
    ) -> &'h str {
        let mut shown = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let set = set(&mut shown);
        let labels = format!("{others} {key_id_hash}");
        if set.contains(&labels) {
            return key_id_hash;
        }
        if set.len() >= SHOWN_KEY_IDS {
            return OTHER_KEY_IDS;
        }
        set.insert(labels);
        key_id_hash
    }
}

/// The names that stand in labels.
pub(super) struct Labels {
    pub(super) provider: String,
    /// The hash of this server's identity.
    pub(super) server: String,
    pub(super) shown: ShownKeyIds,
}

impl Labels {
    /// Counts a use of a key.
    pub(super) fn key_used(&self, kind: &'static str, key_id_hash: &str, now: SystemTime) {
        let others = format!("{kind} {}", self.provider);
        let key_id_hash = self.shown.label(|shown| &mut shown.used, &others, key_id_hash);
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
        let key_id_hash = self
            .shown
            .label(|shown| &mut shown.from_status, &self.provider, key_id_hash);
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
