//! DELETE of a value that cannot be read, on purpose (`ignoreStoreReadErrorWithClusterBreakingPotential`).
//!
//! The value cannot be decoded, so nothing is read from it: no preconditions, finalizers, admission or grace period,
//! and what the object held beside itself stays held. As `corruptObjectDeleter` of `k8s.io/apiserver` does it.

use serde_json::Value;
use trireme_machinery::{
    ApiError, GroupKind,
    field::{Error, Path},
};
use trireme_storage::WriteOutcome;

use super::{Writer, update_loop::too_busy};
use crate::{fence::WriteFence, item::Item, key_locks::HeldKey, request::Target, store_error};

/// After so many lost races the client is asked to come back.
const MAX_ROUNDS: usize = 8;

impl Writer {
    /// Deletes the value, if there is one that cannot be read.
    pub(crate) async fn delete_unreadable(&self, target: &Target, mut key: HeldKey) -> Result<(), ApiError> {
        let storage_key = self.storage_key(&target.namespace, &target.name);
        key.lock().await?;
        for _ in 0..MAX_ROUNDS {
            let (entry, _) = self.store.get(&storage_key, None).await.map_err(store_error)?;
            let Some(entry) = entry else {
                return Err(self.is_readable(target));
            };
            let revision = entry.mod_revision;
            if Item::from_stored(&self.info, &storage_key, entry.value, revision).is_ok() {
                return Err(self.is_readable(target));
            }
            if let Some(why) = self.info.strategy.refuse_deletion(&target.name) {
                return Err(ApiError::forbidden(&self.info.resource, &target.name, why));
            }
            let fence = target.fence.as_ref();
            let outcome = self
                .store
                .delete(&storage_key, revision, fence.map(WriteFence::at))
                .await;
            WriteFence::note(fence, &outcome);
            if let WriteOutcome::Committed(_) = outcome.map_err(store_error)? {
                tracing::warn!(
                    key = storage_key,
                    revision,
                    "deleted a value that cannot be read, as asked for"
                );
                key.leave(None);
                return Ok(());
            }
        }
        Err(too_busy())
    }

    /// The option is for nothing else. kube-apiserver names the resource where the kind belongs.
    fn is_readable(&self, target: &Target) -> ApiError {
        let resource = &self.info.resource;
        let kind = GroupKind {
            group: resource.group.clone(),
            kind: resource.resource.clone(),
        };
        let detail = "is exclusively used to delete corrupt object(s), try again by removing this option";
        let path = Path::new("ignoreStoreReadErrorWithClusterBreakingPotential");
        let error = Error::invalid(&path, &Value::Bool(true), detail);
        ApiError::invalid(&kind, &target.name, &vec![error])
    }
}
