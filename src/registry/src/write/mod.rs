//! Writes: from a decoded request to a committed object.
//!
//! Every write, from a client, through a subresource or from the server itself, is one
//! [`WriteRequest`] and passes the stages of [`stages`] in one order:
//!
//! ```text
//!  create   decode ─ default ─ convert ──────────────┐
//!  PUT      decode ─ default ─ convert ─ key ────────┤
//!  PATCH    decode ─ key ─ patch ─ default ─ convert ┼─ managed ─ mutating ─ prepare ─ validate ─ validating ─ commit
//!  scale    decode ─ key ─ into the object ──────────┘  fields    admission                       admission
//!  DELETE            key ───────────────────────────────────────  admission ─ mark or remove ───────────────── commit
//! ```
//!
//! *Convert* brings an object into the version that it is
//! [written](crate::definition::ResourceDefinition::written_version) in: the stored one for built-in kinds, that of the request for
//! custom resources, which the commit stores in theirs.
//!
//! One file a verb. All that start from the object as it is share the loop in [`update_loop`]: read, compute,
//! compare-and-put, and again with the fresh object if somebody was faster. The current object comes from the watch cache
//! first; a stale one costs one more round, never a wrong result. The key is held while the loop computes and commits,
//! and let go of as soon as admission has to wait.

mod apply;
mod commit;
mod connect;
mod create;
mod create_subresource;
pub(crate) mod decode;
mod delete;
mod delete_collection;
mod delete_unreadable;
mod finalizers;
pub(crate) mod in_kind;
mod leases;
pub(crate) mod managed;
mod managed_versions;
pub(crate) mod metadata;
pub(crate) mod object;
pub(crate) mod patch;
pub(crate) mod prepare;
mod rule;
mod scale;
mod scale_managers;
mod stages;
#[cfg(test)]
mod tests;
mod update;
mod update_loop;

use std::sync::Arc;

pub use self::delete_collection::DeletedCollection;
pub(crate) use self::{
    connect::AdmittedOptions, create_subresource::PostedBody, delete::DeleteAdmission, leases::LeasePool,
};

use arc_swap::ArcSwap;
use jiff::Timestamp;
use trireme_actors::Clock;
use trireme_machinery::ApiError;
use trireme_storage::Storage;

use crate::{
    admission::{Operation, WriteRequest},
    admission_stages::AdmissionStages,
    definition::{ResourceDefinition, ServedVersion},
    item::ItemKey,
    key_locks::{HeldKey, KeyLocks, WritePermit},
    known_kinds::KnownKinds,
    reads::Reader,
    request::{Subresource, Target, WarningRecorder, WriteContext, WriteOptions},
};

/// All that the writes of one resource need.
pub(crate) struct Writer {
    pub(crate) info: Arc<ResourceDefinition>,
    pub(crate) reader: Reader,
    pub(crate) store: Arc<dyn Storage>,
    pub(crate) admission: AdmissionStages,
    pub(crate) clock: Clock,
    pub(crate) locks: KeyLocks,
    pub(crate) leases: LeasePool,
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
            locks: self.locks.clone(),
            leases: self.leases.clone(),
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
        self.admission.now()
    }

    /// A write of this resource.
    fn request(
        &self,
        operation: Operation,
        subresource: Subresource,
        target: Target,
        options: WriteOptions,
    ) -> Result<WriteRequest, ApiError> {
        let version = self.version(&target)?;
        Ok(WriteRequest {
            definition: Arc::clone(&self.info),
            operation,
            subresource,
            kind: in_kind::kind_of(&self.info, subresource, &version.group_version),
            resource: version.group_version.with_resource(&self.info.resource.resource),
            context: WriteContext {
                user: target.user.clone(),
                version: version.group_version.clone(),
                now: self.now(),
                dry_run: options.dry_run,
                warnings: WarningRecorder::default(),
            },
            target,
            options,
            deletion: None,
        })
    }

    fn storage_key(&self, namespace: &str, name: &str) -> String {
        self.info.storage_key(namespace, name)
    }

    /// The key of an object within its resource, to be held by a write that has a permit.
    pub(crate) fn key(&self, permit: WritePermit, target: &Target) -> HeldKey {
        let key: ItemKey = if self.info.namespaced {
            format!("{}/{}", target.namespace, target.name).into()
        } else {
            target.name.as_str().into()
        };
        self.locks.key(permit, key, target.deadline, target.trace.clone())
    }
}
