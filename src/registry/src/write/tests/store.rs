//! A real store whose writes a test can hold back, make uncertain or forestall.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU8, AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use tokio::sync::Semaphore;
use trireme_storage::{
    Compare, Fence, KeyValue, LeaseId, PutOptions, RangePage, RangeRequest, Revision, Storage, StorageError,
    WatchStream, WriteOutcome,
};

/// The fate of puts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Puts {
    Pass,
    /// Committed, but the answer is lost.
    CommittedUnheard,
    /// Not committed, and the answer is lost.
    LostUnheard,
    /// Surely not committed.
    Refused,
    /// Not committed, because the key is taken.
    Taken,
}

/// The act of another replica right before a delete, once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meddling {
    /// It writes the object again as it is.
    Touch,
    /// It removes the object.
    Remove,
}

pub(super) struct Moody {
    inner: Arc<dyn Storage>,
    puts: AtomicU8,
    meddling: Mutex<Option<Meddling>>,
    /// A put takes a permit for good.
    pub(super) gate: Semaphore,
    /// The leases that were granted, in order.
    pub(super) granted: Mutex<Vec<Duration>>,
    leases: Mutex<Vec<LeaseId>>,
    /// The number of leases that were revoked.
    pub(super) revoked: AtomicUsize,
    /// The number of puts that had a lease.
    pub(super) leased: AtomicUsize,
    /// The number of times that an object was read.
    pub(super) gets: AtomicUsize,
    /// Gets a permit for each put that has come to the gate.
    pub(super) arrived: Semaphore,
}

impl Moody {
    /// With an open gate.
    pub(super) fn over(inner: Arc<dyn Storage>) -> Arc<Self> {
        Arc::new(Self {
            inner,
            puts: AtomicU8::new(Puts::Pass as u8),
            meddling: Mutex::new(None),
            gate: Semaphore::new(1000),
            granted: Mutex::default(),
            leases: Mutex::default(),
            revoked: AtomicUsize::new(0),
            leased: AtomicUsize::new(0),
            gets: AtomicUsize::new(0),
            arrived: Semaphore::new(0),
        })
    }

    pub(super) fn next_puts(&self, puts: Puts) {
        self.puts.store(puts as u8, Ordering::SeqCst);
    }
}

impl Moody {
    pub(super) fn meddle(&self, how: Meddling) {
        *self.meddling.lock().expect("no test panics here") = Some(how);
    }

    /// Ends all leases behind the server's back.
    pub(super) async fn end_leases(&self) {
        let leases = std::mem::take(&mut *self.leases.lock().expect("no test panics here"));
        for lease in leases {
            self.inner.revoke_lease(lease).await.expect("it is there");
        }
    }

    async fn be_faster(&self, how: Meddling, key: &str) -> Result<(), StorageError> {
        let (entry, _) = self.inner.get(key, None).await?;
        let entry = entry.expect("it is there until now");
        let at = entry.mod_revision;
        let written = match how {
            Meddling::Touch => {
                let compare = Compare::ModRevision(at);
                self.inner.put(key, entry.value, compare, PutOptions::default()).await?
            }
            Meddling::Remove => self.inner.delete(key, at, None).await?,
        };
        assert!(matches!(written, WriteOutcome::Committed(_)));
        Ok(())
    }
}

impl Storage for Moody {
    fn put<'a>(
        &'a self,
        key: &'a str,
        value: Bytes,
        compare: Compare,
        options: PutOptions,
    ) -> BoxFuture<'a, Result<WriteOutcome, StorageError>> {
        Box::pin(async move {
            self.arrived.add_permits(1);
            self.leased
                .fetch_add(usize::from(options.lease.is_some()), Ordering::SeqCst);
            self.gate
                .acquire()
                .await
                .expect("the gate is never closed for good")
                .forget();
            let unknown = || StorageError::UnknownOutcome("the connection broke".to_owned());
            match self.puts.load(Ordering::SeqCst) {
                mood if mood == Puts::CommittedUnheard as u8 => {
                    self.inner.put(key, value, compare, options).await?;
                    Err(unknown())
                }
                mood if mood == Puts::LostUnheard as u8 => Err(unknown()),
                mood if mood == Puts::Refused as u8 => Err(StorageError::Unavailable("no connection".to_owned())),
                mood if mood == Puts::Taken as u8 => Ok(WriteOutcome::Conflict(None)),
                _ => self.inner.put(key, value, compare, options).await,
            }
        })
    }

    fn get<'a>(
        &'a self,
        key: &'a str,
        revision: Option<Revision>,
    ) -> BoxFuture<'a, Result<(Option<KeyValue>, Revision), StorageError>> {
        self.gets.fetch_add(1, Ordering::SeqCst);
        self.inner.get(key, revision)
    }

    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<RangePage, StorageError>> {
        self.inner.range(request)
    }

    fn delete<'a>(
        &'a self,
        key: &'a str,
        revision: Revision,
        fence: Option<Fence>,
    ) -> BoxFuture<'a, Result<WriteOutcome, StorageError>> {
        Box::pin(async move {
            let how = self.meddling.lock().expect("no test panics here").take();
            if let Some(how) = how {
                self.be_faster(how, key).await?;
            }
            self.inner.delete(key, revision, fence).await
        })
    }

    fn watch<'a>(&'a self, prefix: &'a str, after: Revision) -> BoxFuture<'a, Result<WatchStream, StorageError>> {
        self.inner.watch(prefix, after)
    }

    fn read_index(&self) -> BoxFuture<'_, Result<Revision, StorageError>> {
        self.inner.read_index()
    }

    fn grant_lease(&self, ttl: Duration) -> BoxFuture<'_, Result<LeaseId, StorageError>> {
        Box::pin(async move {
            let lease = self.inner.grant_lease(ttl).await?;
            self.granted.lock().expect("no test panics here").push(ttl);
            self.leases.lock().expect("no test panics here").push(lease);
            Ok(lease)
        })
    }

    fn revoke_lease(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), StorageError>> {
        self.revoked.fetch_add(1, Ordering::SeqCst);
        self.inner.revoke_lease(lease)
    }

    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<(), StorageError>> {
        self.inner.compact(revision)
    }

    fn compacted(&self) -> Revision {
        self.inner.compacted()
    }
}
