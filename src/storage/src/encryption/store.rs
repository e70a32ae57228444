//! A store whose values are encrypted in the store below it.

use std::{borrow::Cow, sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use bytes::Bytes;
use futures_util::{StreamExt as _, future::BoxFuture};
use tokio::sync::watch;

use super::{UNDECRYPTED_PREFIX, kms::ReadableSignal, providers::EncryptionProviders, resources::KeyResources};
use crate::{
    Compare, Event, Fence, KeyValue, LeaseId, PutOptions, RangePage, RangeRequest, Revision, Storage, StorageError,
    WatchBatch, WatchStream, WriteOutcome,
};

/// The providers that are in use; others may take their place while the server runs.
pub struct CurrentProviders {
    providers: ArcSwap<EncryptionProviders>,
    readable: ReadableSignal,
}

impl CurrentProviders {
    /// These, whose plugins raise this signal.
    pub fn new(providers: EncryptionProviders, readable: ReadableSignal) -> Arc<Self> {
        Arc::new(Self {
            providers: ArcSwap::from_pointee(providers),
            readable,
        })
    }

    /// The providers now.
    pub fn load(&self) -> Arc<EncryptionProviders> {
        self.providers.load_full()
    }

    /// Puts others in their place. They may be able to decrypt what these could not.
    pub fn replace(&self, providers: EncryptionProviders) {
        self.providers.store(Arc::new(providers));
        self.readable.raise();
    }
}

/// A [`Storage`] that encrypts what it puts into another one.
pub struct EncryptedStore {
    inner: Arc<dyn Storage>,
    codec: Codec,
}

#[derive(Clone)]
struct Codec {
    providers: Arc<CurrentProviders>,
    resources: Arc<KeyResources>,
}

impl EncryptedStore {
    /// Stands before a store.
    pub fn new(inner: Arc<dyn Storage>, providers: Arc<CurrentProviders>, resources: KeyResources) -> Self {
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
            tracing::error!(%resource, %error, "failed to encrypt data");
            StorageError::Encryption(error.to_string())
        })
    }

    /// The entry with its plain text, or with the reason why there is none.
    async fn decrypt(&self, mut entry: KeyValue) -> KeyValue {
        let Some(resource) = self.resources.of(&entry.key) else {
            return entry;
        };
        let providers = self.providers.load();
        let Some(chain) = providers.of(&resource) else {
            return entry;
        };
        let decrypted = match chain.decrypt(&entry.value, &resource, &entry.key).await {
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

    async fn decrypt_opt(&self, entry: Option<KeyValue>) -> Option<KeyValue> {
        match entry {
            Some(entry) => Some(self.decrypt(entry).await),
            None => None,
        }
    }

    async fn decrypt_outcome(&self, outcome: WriteOutcome) -> WriteOutcome {
        match outcome {
            WriteOutcome::Conflict(entry) => WriteOutcome::Conflict(self.decrypt_opt(entry).await),
            committed @ WriteOutcome::Committed(_) => committed,
        }
    }

    async fn decrypt_event(&self, event: Event) -> Event {
        match event {
            Event::Put { entry, previous } => Event::Put {
                entry: self.decrypt(entry).await,
                previous: self.decrypt_opt(previous).await,
            },
            Event::Delete {
                key,
                revision,
                previous,
            } => Event::Delete {
                key,
                revision,
                previous: self.decrypt_opt(previous).await,
            },
        }
    }

    async fn decrypt_batch(&self, batch: WatchBatch) -> WatchBatch {
        let mut events = Vec::with_capacity(batch.events.len());
        for event in batch.events {
            events.push(self.decrypt_event(event).await);
        }
        WatchBatch { events, ..batch }
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
            Ok((self.codec.decrypt_opt(entry).await, newest))
        })
    }

    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<RangePage, StorageError>> {
        Box::pin(async move {
            let page = self.inner.range(request).await?;
            let mut entries = Vec::with_capacity(page.entries.len());
            for entry in page.entries {
                entries.push(self.codec.decrypt(entry).await);
            }
            Ok(RangePage { entries, ..page })
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
            Ok(self.codec.decrypt_outcome(outcome).await)
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
            Ok(self.codec.decrypt_outcome(outcome).await)
        })
    }

    fn watch<'a>(&'a self, prefix: &'a str, after: Revision) -> BoxFuture<'a, Result<WatchStream, StorageError>> {
        Box::pin(async move {
            let stream = self.inner.watch(prefix, after).await?;
            let codec = self.codec.clone();
            let stream = stream.then(move |batch| {
                let codec = codec.clone();
                async move {
                    match batch {
                        Ok(batch) => Ok(codec.decrypt_batch(batch).await),
                        Err(error) => Err(error),
                    }
                }
            });
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
            let Some(entry) = entry else {
                return Ok(false);
            };
            let plain = chain.decrypt(&entry.value, &resource, key).await;
            Ok(plain.is_ok_and(|plain| plain.stale))
        })
    }

    fn readable_anew(&self) -> Option<watch::Receiver<u64>> {
        Some(self.codec.providers.readable.subscribe())
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

    fn size_bytes(&self) -> BoxFuture<'_, Result<Option<u64>, StorageError>> {
        self.inner.size_bytes()
    }

    fn write_failure(&self) -> Option<String> {
        self.inner.write_failure()
    }
}
