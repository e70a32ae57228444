//! DELETE of one object: preconditions, grace periods, finalizers.
//!
//! The rules are those of `rest.BeforeDelete` and of the generic store's `Delete` in `k8s.io/apiserver`.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use trireme_machinery::{ApiError, GroupResource};

use super::{
    Writer, finalizers, metadata, object,
    update_loop::{CurrentObject, StoreChange, UpdateOutcome, UpdateStep},
};
use crate::{
    admission::{Attributes, Operation, WriteRecord, WriteRequest},
    encode,
    item::Item,
    key_locks::HeldKey,
    request::{DeleteOptions, DeleteRequest, Deleted, Propagation, Subresource, WriteOptions},
    strategy::Deletion,
};

impl Writer {
    /// Deletes an object, or marks it for deletion.
    pub(crate) async fn delete(
        &self,
        request: DeleteRequest,
        key: HeldKey,
        admission: DeleteAdmission,
    ) -> Result<Deleted, ApiError> {
        let name = &request.target.name;
        match self.info.strategy.refuse_deletion(name) {
            Some(why) => Err(ApiError::forbidden(
                &self.info.resource_in(request.target.version),
                name,
                why,
            )),
            None => self.delete_one(request, key, admission).await,
        }
    }

    /// As [`delete`](Self::delete), of any object: deletions of collections ask no kind, as in Kubernetes.
    pub(super) async fn delete_one(
        &self,
        request: DeleteRequest,
        mut key: HeldKey,
        admission: DeleteAdmission,
    ) -> Result<Deleted, ApiError> {
        let DeleteRequest { target, options } = request;
        let write_options = WriteOptions {
            dry_run: options.dry_run,
            ..WriteOptions::default()
        };
        let mut request = self.request(Operation::Delete, Subresource::None, target, write_options)?;
        request.deletion = Some(options.clone());
        let request = Arc::new(request);
        let mut step = Delete {
            request: Arc::clone(&request),
            options,
            admission,
            record: WriteRecord::default(),
            removes: false,
        };
        let outcome = self.update_loop(&request, &mut key, &mut step).await?;
        let returns_object = self.info.strategy.returns_deleted_object();
        let (object, removed, as_status) = match outcome {
            UpdateOutcome::Stored(object) => (object, false, false),
            UpdateOutcome::Deleted(object) => (object, true, !returns_object),
            UpdateOutcome::Synthesized(object) => {
                let key = self.storage_key(&request.target.namespace, &request.target.name);
                let bytes = encode::object(&object).into();
                let revision = metadata::text(&object, "resourceVersion").parse().unwrap_or_default();
                let item = Item::from_stored(&self.info, &key, bytes, revision).map_err(ApiError::internal)?;
                (Arc::new(item), step.removes, step.removes && !returns_object)
            }
        };
        Ok(Deleted {
            object,
            removed,
            as_status,
            warnings: step.record.warnings,
        })
    }
}

/// The deletion as admission sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeleteAdmission {
    /// With the name of the URL.
    OfObject,
    /// Without a name: the URL of a collection has none, as in kube-apiserver, whichever of its objects it is about.
    OfCollection,
    /// Not at all: it is the work of a request that has been admitted.
    Skipped,
}

struct Delete {
    request: Arc<WriteRequest>,
    options: DeleteOptions,
    admission: DeleteAdmission,
    /// The notes of the last round.
    record: WriteRecord,
    /// True if a dry run would have removed the object.
    removes: bool,
}

impl UpdateStep for Delete {
    fn change<'a>(
        &'a mut self,
        writer: &'a Writer,
        current: &'a CurrentObject,
    ) -> BoxFuture<'a, Result<StoreChange, ApiError>> {
        Box::pin(async move {
            self.check_preconditions(writer, current)?;
            self.admit(writer, current).await?;
            let change = self.decide(writer, current);
            Ok(if self.request.context.dry_run {
                self.pretend(current, change)
            } else {
                change
            })
        })
    }
}

/// The effect of the grace period.
enum Grace {
    /// Deletion is under way already, with no longer a period than asked for.
    Pending,
    /// There is no grace period, or it is over.
    None,
    /// The object is marked with this time and period.
    Marked(Timestamp, i64),
}

impl Delete {
    fn check_preconditions(&self, writer: &Writer, current: &CurrentObject) -> Result<(), ApiError> {
        let actual_version = current.item.revision.to_string();
        let checks = [
            (
                "UID",
                self.options.uid.as_deref(),
                &*current.item.uid,
                " and then recreated",
            ),
            (
                "ResourceVersion",
                self.options.resource_version.as_deref(),
                actual_version.as_str(),
                "",
            ),
        ];
        for (what, given, actual, recreated) in checks {
            if let Some(given) = given.filter(|given| *given != actual) {
                return Err(self.precondition_failed(writer, (what, given, actual), recreated));
            }
        }
        Ok(())
    }

    fn precondition_failed(
        &self,
        writer: &Writer,
        (what, given, actual): (&str, &str, &str),
        recreated: &str,
    ) -> ApiError {
        let (info, name) = (&writer.info, &self.request.target.name);
        if info.strategy.deletes_by_uid() {
            let why = format!("Precondition failed: {what} in precondition: {given}, {what} in object meta: {actual}");
            return ApiError::conflict(&info.resource_in(self.request.target.version), name, why);
        }
        let happened = if recreated.is_empty() { "modified" } else { "deleted" };
        // Kubernetes names the kind here, where all other conflicts name the resource.
        let resource = GroupResource {
            group: info.resource.group.clone(),
            resource: info.kind.clone(),
        };
        let why = format!(
            "the {what} in the precondition ({given}) does not match the {what} in record ({actual}). The object might \
             have been {happened}{recreated}"
        );
        ApiError::conflict(&resource, name, why)
    }

    async fn admit(&mut self, writer: &Writer, current: &CurrentObject) -> Result<(), ApiError> {
        if self.admission == DeleteAdmission::Skipped {
            return Ok(());
        }
        let mut write = Attributes::new(&self.request, None, Some(Arc::clone(&current.object)));
        if self.admission == DeleteAdmission::OfCollection {
            write.name.clear();
        }
        writer.admission.mutate(&mut write).await?;
        if self.admission == DeleteAdmission::OfObject && writer.info.strategy.deletes_by_uid() {
            let mut request = WriteRequest::clone(&self.request);
            if let Some(deletion) = &mut request.deletion {
                deletion.uid.get_or_insert_with(|| current.item.uid.to_string());
            }
            let record = write.take_record();
            let old_object = write.old_object.take();
            write = Attributes::new(&Arc::new(request), None, old_object).with_record(record);
        }
        writer.admission.validate(&write).await?;
        self.record = write.take_record();
        Ok(())
    }

    fn decide(&self, writer: &Writer, current: &CurrentObject) -> StoreChange {
        let grace = self.grace(writer, &current.object);
        if matches!(grace, Grace::Pending) {
            return StoreChange::Nothing;
        }
        let strategy = &writer.info.strategy;
        let is_first = !metadata::is_terminating(&current.object);
        let is_marked_before = strategy.is_marked_before_removal();
        if is_marked_before && !is_first && !strategy.may_be_removed(&current.object) {
            return StoreChange::Nothing;
        }
        let mut object = Value::clone(&current.object);
        let names = metadata::finalizers(&object);
        let asked = if strategy.may_have_dependents() {
            self.options.propagation
        } else {
            Some(Propagation::Background)
        };
        let updated = finalizers::after_delete(&names, asked, strategy.orphans_by_default());
        if let Some(updated) = updated {
            metadata::set_finalizers(&mut object, updated);
        }
        let free = is_free(writer, &object) && !(is_marked_before && is_first);
        match grace {
            Grace::Marked(at, seconds) => {
                metadata::mark_deleted(&mut object, at, seconds);
                strategy.mark_deleted(&mut object);
                if free && seconds == 0 {
                    StoreChange::PutAndRemove(object)
                } else {
                    StoreChange::Put(object)
                }
            }
            _ if free => StoreChange::Remove,
            _ => {
                let at = metadata::deletion_time(&object).filter(|at| *at <= self.request.context.now);
                metadata::mark_deleted(&mut object, at.unwrap_or(self.request.context.now), 0);
                strategy.mark_deleted(&mut object);
                if object::same(&object, &current.object) {
                    StoreChange::Nothing
                } else {
                    StoreChange::Put(object)
                }
            }
        }
    }

    fn grace(&self, writer: &Writer, object: &Value) -> Grace {
        // A negative period means one second.
        let asked = self
            .options
            .grace_period_seconds
            .map(|seconds| if seconds < 0 { 1 } else { seconds });
        let deletion = writer.info.strategy.deletion(object, asked);
        let Deletion::Graceful(seconds) = deletion else {
            return Grace::None;
        };
        if !metadata::is_terminating(object) {
            return Grace::Marked(later(self.request.context.now, seconds), seconds);
        }
        // A period that is over, or none, is what a delete leaves that was interrupted: this one goes to the end.
        let set_before = metadata::integer(object, "deletionGracePeriodSeconds").filter(|seconds| *seconds != 0);
        let Some(set_before) = set_before else {
            return Grace::None;
        };
        match (asked, metadata::deletion_time(object)) {
            (Some(shorter), Some(at)) if shorter < set_before => {
                Grace::Marked(later(at, shorter - set_before), shorter)
            }
            _ => Grace::Pending,
        }
    }

    fn pretend(&mut self, current: &CurrentObject, change: StoreChange) -> StoreChange {
        self.removes = matches!(
            change,
            StoreChange::Remove | StoreChange::RemoveAs(_) | StoreChange::PutAndRemove(_)
        );
        match change {
            StoreChange::Remove => StoreChange::Pretend(Value::clone(&current.object)),
            StoreChange::PutAndRemove(object) | StoreChange::RemoveAs(object) | StoreChange::Put(object) => {
                StoreChange::Pretend(object)
            }
            StoreChange::Nothing | StoreChange::Pretend(_) | StoreChange::Refuse(_) => change,
        }
    }
}

fn later(at: Timestamp, seconds: i64) -> Timestamp {
    at.checked_add(SignedDuration::from_secs(seconds))
        .unwrap_or(Timestamp::MAX)
}

fn is_free(writer: &Writer, object: &Value) -> bool {
    metadata::finalizers(object).is_empty() && writer.info.strategy.may_be_removed(object)
}
