//! The seeds that are known, by their encrypted form.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use super::{dek::Dek, envelope::CacheKey};

/// An entry is dropped after this, as soon as another one is put in. Until then it is used, however old it is.
const TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// A seed that is known.
pub(super) struct KnownDek {
    pub(super) dek: Dek,
    /// The hash of the key id that it is under.
    pub(super) key_id_hash: String,
}

/// Grows with the seeds that are read: about one for each start of a server and each key of the plugin.
#[derive(Default)]
pub(super) struct DekCache(Mutex<HashMap<CacheKey, (Arc<KnownDek>, Instant)>>);

impl DekCache {
    pub(super) fn get(&self, key: &CacheKey) -> Option<Arc<KnownDek>> {
        let entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.get(key).map(|(dek, _)| dek.clone())
    }

    /// Puts an entry in, or keeps it for longer; says how many there are.
    pub(super) fn set(&self, key: CacheKey, dek: Arc<KnownDek>) -> usize {
        let now = Instant::now();
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.insert(key, (dek, now)).is_none() {
            entries.retain(|_, (_, put)| now.saturating_duration_since(*put) < TTL);
        }
        entries.len()
    }
}
