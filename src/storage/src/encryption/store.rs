//! A store whose values are encrypted in the store below it.

use std::{borrow::Cow, sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use bytes::Bytes;
use futures_util::{StreamExt as _, future::BoxFuture};

use super::{UNDECRYPTED_PREFIX, providers::EncryptionProviders, resources::KeyResources};
use crate::{
    Compare, Event, Fence, KeyValue, LeaseId, PutOptions, RangePage, RangeRequest, Revision, Storage, StorageError,
    WatchBatch, WatchStream, WriteOutcome,
};

/// The providers that are in use; others may take their place while the server runs.
pub type CurrentProviders = Arc<ArcSwap<EncryptionProviders>>;

/// A [`Storage`] that encrypts what it puts into another one.
pub struct EncryptedStore {
    inner: Arc<dyn Storage>,
    codec: Codec,
}

#[derive(Clone)]
struct Codec {
    providers: CurrentProviders,
    resources: Arc<KeyResources>,
}

impl EncryptedStore {
    /// Stands before a store.
    pub fn new(inner: Arc<dyn Storage>, providers: CurrentProviders, resources: KeyResources) -> Self {
        let resources = Arc::new(resources);
        Self {
            inner,
            codec: Codec { providers, resources },
        }
    }
}

impl Codec {
    fn encrypt(&self, key: &str, value: Bytes) -> Result<Bytes, StorageError> {
        let Some(resource) = self.resources.of(key) else {
            return Ok(value);
        };
        let providers = self.providers.load();
        let Some(chain) = providers.of(&resource) else {
            return Ok(value);
        };
        let encrypted = chain.encrypt(&value, &resource, key);
        encrypted.map(Bytes::from).map_err(|error| {
            tracing::error!(%resource, %error, "a value could not be encrypted");
            StorageError::Failed(format!("failed to encrypt data: {error}"))
        })
    }

    /// The entry with its plain text, or with the reason why there is none.
    fn decrypt(&self, mut entry: KeyValue) -> KeyValue {
        let Some(resource) = self.resources.of(&entry.key) else {
            return entry;
        };
        let providers = self.providers.load();
        let Some(chain) = providers.of(&resource) else {
            return entry;
        };
        let decrypted = match chain.decrypt(&entry.value, &resource, &entry.key) {
            Ok(plain) => match plain.value {
                Cow::Borrowed(_) => None,
                Cow::Owned(value) => Some(value),
            },
            Err(error) => Some([UNDECRYPTED_PREFIX, error.to_string().as_bytes()].concat()),
        };
        if let Some(value) = decrypted {
            entry.value = value.into();
        }
        entry
    }

    fn decrypt_outcome(&self, outcome: WriteOutcome) -> WriteOutcome {
        match outcome {
            WriteOutcome::Conflict(entry) => WriteOutcome::Conflict(entry.map(|entry| self.decrypt(entry))),
            committed @ WriteOutcome::Committed(_) => committed,
        }
    }

    fn decrypt_event(&self, event: Event) -> Event {
        let decrypt = |entry: Option<KeyValue>| entry.map(|entry| self.decrypt(entry));
        match event {
            Event::Put { entry, previous } => Event::Put {
                entry: self.decrypt(entry),
                previous: decrypt(previous),
            },
            Event::Delete {
                key,
                revision,
                previous,
            } => Event::Delete {
                key,
                revision,
                previous: decrypt(previous),
            },
        }
    }

    fn decrypt_batch(&self, batch: WatchBatch) -> WatchBatch {
        WatchBatch {
            events: batch
                .events
                .into_iter()
                .map(|event| self.decrypt_event(event))
                .collect(),
            ..batch
        }
    }
}

impl Storage for EncryptedStore {
    fn get<'a>(
        &'a self,
        key: &'a str,
        revision: Option<Revision>,
    ) -> BoxFuture<'a, Result<(Option<KeyValue>, Revision), StorageError>> {
        Box::pin(async move {
            let (entry, newest) = self.inner.get(key, revision).await?;
            Ok((entry.map(|entry| self.codec.decrypt(entry)), newest))
        })
    }

    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<RangePage, StorageError>> {
        Box::pin(async move {
            let page = self.inner.range(request).await?;
            let entries = page.entries.into_iter().map(|entry| self.codec.decrypt(entry));
            Ok(RangePage {
                entries: entries.collect(),
                ..page
            })
        })
    }

    fn put<'a>(
        &'a self,
        key: &'a str,
        value: Bytes,
        compare: Compare,
        options: PutOptions,
    ) -> BoxFuture<'a, Result<WriteOutcome, StorageError>> {
        Box::pin(async move {
            let value = self.codec.encrypt(key, value)?;
            let outcome = self.inner.put(key, value, compare, options).await?;
            Ok(self.codec.decrypt_outcome(outcome))
        })
    }

    fn delete<'a>(
        &'a self,
        key: &'a str,
        revision: Revision,
        fence: Option<Fence>,
    ) -> BoxFuture<'a, Result<WriteOutcome, StorageError>> {
        Box::pin(async move {
            let outcome = self.inner.delete(key, revision, fence).await?;
            Ok(self.codec.decrypt_outcome(outcome))
        })
    }

    fn watch<'a>(&'a self, prefix: &'a str, after: Revision) -> BoxFuture<'a, Result<WatchStream, StorageError>> {
        Box::pin(async move {
            let stream = self.inner.watch(prefix, after).await?;
            let codec = self.codec.clone();
            let stream = stream.map(move |batch| batch.map(|batch| codec.decrypt_batch(batch)));
            Ok(Box::pin(stream) as WatchStream)
        })
    }

    fn is_stale<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<bool, StorageError>> {
        Box::pin(async move {
            let (Some(resource), providers) = (self.codec.resources.of(key), self.codec.providers.load()) else {
                return Ok(false);
            };
            let Some(chain) = providers.of(&resource) else {
                return Ok(false);
            };
            let (entry, _) = self.inner.get(key, None).await?;
            let is_stale = |entry: KeyValue| {
                chain
                    .decrypt(&entry.value, &resource, key)
                    .is_ok_and(|plain| plain.stale)
            };
            Ok(entry.is_some_and(is_stale))
        })
    }

    fn read_index(&self) -> BoxFuture<'_, Result<Revision, StorageError>> {
        self.inner.read_index()
    }

    fn grant_lease(&self, ttl: Duration) -> BoxFuture<'_, Result<LeaseId, StorageError>> {
        self.inner.grant_lease(ttl)
    }

    fn revoke_lease(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), StorageError>> {
        self.inner.revoke_lease(lease)
    }

    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<(), StorageError>> {
        self.inner.compact(revision)
    }

    fn compacted(&self) -> Revision {
        self.inner.compacted()
    }
}
