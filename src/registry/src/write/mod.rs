//! Writes: from a decoded request to a committed object.
//!
//! One file a verb. All that start from the object as it is share the loop in [`update_loop`]: read, compute, compare-and-put,
//! and again with the fresh object if somebody was faster. The current object comes from the watch cache first; a
//! stale one costs one more round, never a wrong result.

mod command;
mod commit;
mod create;
pub(crate) mod decode;
mod delete;
mod delete_collection;
mod finalizers;
pub(crate) mod metadata;
pub(crate) mod object;
pub(crate) mod patch;
mod prepare;
mod scale;
#[cfg(test)]
mod tests;
mod update;
mod update_loop;

use std::sync::Arc;

use arc_swap::ArcSwap;
use jiff::Timestamp;
use trireme_actors::Clock;
use trireme_machinery::ApiError;
use trireme_storage::Storage;

use crate::{
    admission::{Admission, Attributes, Operation},
    definition::{ResourceDefinition, ServedVersion},
    known_kinds::KnownKinds,
    reads::Reader,
    request::{Subresource, Target},
    strategy::WriteContext,
};

/// All that the writes of one resource need.
pub(crate) struct Writer {
    pub(crate) info: Arc<ResourceDefinition>,
    pub(crate) reader: Reader,
    pub(crate) store: Arc<dyn Storage>,
    pub(crate) admission: Arc<dyn Admission>,
    pub(crate) clock: Clock,
    /// Every kind that this server knows, to tell a wrong kind from an unknown one.
    pub(crate) known_kinds: Arc<ArcSwap<KnownKinds>>,
}

impl Writer {
    /// The writes of the same resource by another definition.
    pub(crate) fn redefined(&self, definition: Arc<ResourceDefinition>) -> Self {
        Self {
            reader: self.reader.redefined(definition.clone()),
            info: definition,
            store: self.store.clone(),
            admission: self.admission.clone(),
            clock: self.clock.clone(),
            known_kinds: self.known_kinds.clone(),
        }
    }

    fn version(&self, target: &Target) -> Result<&ServedVersion, ApiError> {
        self.info
            .versions
            .get(target.version)
            .ok_or_else(|| ApiError::internal("the version is not served"))
    }

    /// The wall clock.
    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::try_from(self.clock.wall()).unwrap_or(Timestamp::UNIX_EPOCH)
    }

    fn context(&self, target: &Target, dry_run: bool) -> WriteContext {
        let version = self.info.versions.get(target.version).unwrap_or(self.info.stored());
        WriteContext {
            user: target.user.clone(),
            version: version.group_version.clone(),
            now: self.now(),
            dry_run,
        }
    }

    fn storage_key(&self, namespace: &str, name: &str) -> String {
        self.info.storage_key(namespace, name)
    }

    fn attributes(&self, operation: Operation, target: &Target, subresource: Subresource, dry_run: bool) -> Attributes {
        let stored = self.info.stored();
        Attributes {
            operation,
            kind: self.info.kind_in(stored),
            resource: stored.group_version.with_resource(&self.info.resource.resource),
            subresource: subresource.name().to_owned(),
            namespace: target.namespace.clone(),
            name: target.name.clone(),
            user: target.user.clone(),
            dry_run,
            object: None,
            old_object: None,
            warnings: Vec::new(),
        }
    }
}
