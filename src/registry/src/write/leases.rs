//! Leases of objects that expire, shared by those that are written shortly after each other: a lease costs the store as
//! much as a write (`lease_manager.go` of `k8s.io/apiserver/pkg/storage/etcd3`).

use std::{sync::Arc, time::Instant};

use tokio::sync::Mutex;
use trireme_storage::{LeaseId, Storage, StorageError, WriteOutcome};

use crate::time_to_live::TimeToLive;

/// The number of objects that share a lease at most: when it ends they are all deleted at once.
const MOST_OBJECTS: usize = 1000;

/// The lease that the next object of a resource gets. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct LeasePool(Arc<Mutex<Option<SharedLease>>>);

struct SharedLease {
    id: LeaseId,
    ends: Instant,
    /// Objects that have it, or may have.
    objects: usize,
}

impl SharedLease {
    /// Records how many objects it was for, now that no other gets it.
    fn record_objects(&self) {
        let objects = u32::try_from(self.objects).unwrap_or(u32::MAX);
        metrics::histogram!("etcd_lease_object_counts").record(f64::from(objects));
    }
}

impl LeasePool {
    /// A lease for one object that is about to be written. All who ask at once wait for one grant.
    pub(super) async fn take(
        &self,
        store: &dyn Storage,
        life: TimeToLive,
        now: Instant,
    ) -> Result<LeaseId, StorageError> {
        let mut current = self.0.lock().await;
        let after = |time| now.checked_add(time).unwrap_or(now);
        let (wanted, newest) = (after(life.ttl), after(life.ttl.saturating_add(life.window())));
        if let Some(lease) = current.as_mut()
            && (wanted..=newest).contains(&lease.ends)
            && lease.objects < MOST_OBJECTS
        {
            lease.objects += 1;
            return Ok(lease.id);
        }
        let id = store.grant_lease(life.ttl.saturating_add(life.window())).await?;
        if let Some(before) = current.as_ref() {
            before.record_objects();
        }
        *current = Some(SharedLease {
            id,
            ends: newest,
            objects: 1,
        });
        Ok(id)
    }

    /// Notes what became of the write that a lease was taken for.
    pub(super) async fn settle(
        &self,
        store: &dyn Storage,
        lease: LeaseId,
        written: &Result<WriteOutcome, StorageError>,
    ) {
        match written {
            Ok(WriteOutcome::Committed(_)) | Err(StorageError::UnknownOutcome(_)) => {}
            Err(StorageError::LeaseNotFound) => self.forget(lease).await,
            Ok(WriteOutcome::Conflict(_)) | Err(_) => self.give_back(store, lease).await,
        }
    }

    /// The store has ended it.
    async fn forget(&self, lease: LeaseId) {
        let mut current = self.0.lock().await;
        if let Some(ended) = current.take_if(|shared| shared.id == lease) {
            ended.record_objects();
        }
    }

    /// Counts one object less; a lease without objects ends.
    async fn give_back(&self, store: &dyn Storage, lease: LeaseId) {
        let mut current = self.0.lock().await;
        let Some(shared) = current.as_mut().filter(|shared| shared.id == lease) else {
            return;
        };
        shared.objects = shared.objects.saturating_sub(1);
        if shared.objects > 0 {
            return;
        }
        *current = None;
        drop(current);
        if let Err(error) = store.revoke_lease(lease).await {
            tracing::debug!(%error, "a lease without objects could not be revoked; it ends by itself");
        }
    }
}
