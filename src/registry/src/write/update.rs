//! PUT, and what all changes of an existing object have in common.

use std::{cmp::Ordering, sync::Arc};

use futures_util::future::{self, BoxFuture};
use serde_json::Value;
use trireme_machinery::{
    ApiError, GroupKind, Reason,
    field::{Error, Path},
    go_text::parse_uint,
};

use super::{
    Writer,
    decode::{DecodedBody, warned},
    metadata::{self, OwnersSeen},
    object,
    update_loop::{CurrentObject, StoreChange, UpdateOutcome, UpdateStep, too_busy},
};
use crate::{
    admission::{Attributes, Operation, WriteRecord, WriteRequest},
    key_locks::HeldKey,
    request::{Answer, Body, Subresource, Target, UpdateRequest, Written},
    versions,
};

/// The number of times that an object that comes and goes under a PUT is tried.
const CREATE_ROUNDS: usize = 8;

/// The start of a change: the resource, the request, and the object as it is.
#[derive(Clone, Copy)]
pub(super) struct ChangeBase<'a> {
    pub(super) writer: &'a Writer,
    pub(super) request: &'a WriteRequest,
    pub(super) current: &'a CurrentObject,
}

/// The first stage of a change: what the client wants the object to be.
pub(super) trait Desired: Send + Sync {
    /// The object in the stored version, made from the one that is there; notes warnings. Waits only where the converter of
    /// the resource does.
    fn object<'a>(
        &'a mut self,
        base: ChangeBase<'a>,
        record: &'a mut WriteRecord,
    ) -> BoxFuture<'a, Result<Value, ApiError>>;

    /// The object to create if there is none.
    ///
    /// # Errors
    /// If the client expects one that is there.
    fn if_missing<'a>(
        &'a mut self,
        _writer: &'a Writer,
        _request: &'a WriteRequest,
        _record: &'a mut WriteRecord,
    ) -> BoxFuture<'a, Result<Option<Value>, ApiError>> {
        Box::pin(future::ready(Ok(None)))
    }
}

/// A decoded PUT or PATCH, ready for the loop.
pub(crate) struct PendingUpdate {
    pub(super) request: Arc<WriteRequest>,
    pub(super) desired: Box<dyn Desired>,
    /// The notes of the last round; before the first, the warnings about the body.
    pub(super) record: WriteRecord,
}

impl PendingUpdate {
    /// `warnings` are those about the body that `desired` was made of.
    pub(super) fn new(request: WriteRequest, desired: impl Desired + 'static, warnings: Vec<String>) -> Self {
        Self {
            request: Arc::new(request),
            desired: Box::new(desired),
            record: WriteRecord { warnings },
        }
    }
}

impl UpdateStep for PendingUpdate {
    fn change<'a>(
        &'a mut self,
        writer: &'a Writer,
        current: &'a CurrentObject,
    ) -> BoxFuture<'a, Result<StoreChange, ApiError>> {
        Box::pin(async move {
            let mut record = WriteRecord::default();
            let base = ChangeBase {
                writer,
                request: &self.request,
                current,
            };
            let object = self.desired.object(base, &mut record).await?;
            let mut write =
                Attributes::new(&self.request, Some(object), Some(Arc::clone(&current.object))).with_record(record);
            let change = writer.change_to(&mut write, current).await;
            self.record = write.take_record();
            change
        })
    }
}

impl Writer {
    /// Decodes a PUT.
    pub(crate) async fn decode_update(&self, request: UpdateRequest) -> Result<PendingUpdate, ApiError> {
        let UpdateRequest {
            target,
            subresource,
            body,
            options,
        } = request;
        let request = self.request(Operation::Update, subresource, target, options)?;
        if subresource == Subresource::Scale {
            return self.decode_scale(request, &body);
        }
        let DecodedBody {
            mut object,
            mut warnings,
        } = self.decode(&request, &body)?;
        warnings.extend(metadata::dedup_owners(&mut object, OwnersSeen::AsSent));
        let fitted = self.fit(&request, &mut object);
        fitted.map_err(|error| warned(error, &warnings))?;
        let replacement = Replacement {
            object: Some(object),
            body,
            warnings: warnings.clone(),
        };
        Ok(PendingUpdate::new(request, replacement, warnings))
    }

    /// Holds the object of a PUT against the URL and brings it into the version that it is written in.
    fn fit(&self, request: &WriteRequest, object: &mut Value) -> Result<(), ApiError> {
        let has_namespace = metadata::has_namespace(object);
        metadata::settle_namespace(object, request.namespace())?;
        metadata::check_name(object, &request.target.name)?;
        self.default_note_and_convert(request, object, has_namespace)
    }

    /// Changes an object, or creates it where a PUT may. A client that creates it in between turns the creation back into
    /// a change.
    pub(crate) async fn update(&self, mut update: PendingUpdate, key: HeldKey) -> Result<Written, ApiError> {
        let outcome = self.update_or_create(&mut update, key).await;
        outcome.map_err(|error| warned(error, &update.record.warnings))
    }

    async fn update_or_create(&self, update: &mut PendingUpdate, mut key: HeldKey) -> Result<Written, ApiError> {
        let request = Arc::clone(&update.request);
        for _ in 0..CREATE_ROUNDS {
            let error = match self.update_loop(&request, &mut key, update).await {
                Ok(outcome) => {
                    return self
                        .written(&request, outcome, std::mem::take(&mut update.record))
                        .await;
                }
                Err(error) if error.reason == Reason::NotFound => error,
                Err(error) => return Err(error),
            };
            let mut record = WriteRecord::default();
            let Some(mut object) = update.desired.if_missing(self, &request, &mut record).await? else {
                return Err(error);
            };
            metadata::of(&mut object).remove("resourceVersion");
            key.release();
            let mut creation = WriteRequest::clone(&request);
            creation.operation = Operation::Create;
            match self.create_object(&Arc::new(creation), object, record).await {
                Err(error) if error.reason == Reason::AlreadyExists => {}
                created => return created,
            }
        }
        Err(too_busy())
    }

    /// The answer to a change.
    async fn written(
        &self,
        request: &WriteRequest,
        outcome: UpdateOutcome,
        record: WriteRecord,
    ) -> Result<Written, ApiError> {
        let version = self.version(&request.target)?;
        let object = match (outcome, request.subresource) {
            (UpdateOutcome::Stored(item) | UpdateOutcome::Deleted(item), Subresource::Scale) => {
                let object = versions::written_value(&self.info, &item, version).await?;
                Answer::Materialized(self.scale_of(version, &object)?)
            }
            (UpdateOutcome::Synthesized(object), Subresource::Scale) => {
                Answer::Materialized(self.scale_of(version, &object)?)
            }
            (UpdateOutcome::Stored(item) | UpdateOutcome::Deleted(item), _) => Answer::Cached(item),
            (UpdateOutcome::Synthesized(mut object), _) => {
                if request.context.dry_run {
                    versions::read_back(&self.info, version, &mut object).await?;
                } else {
                    versions::from_written(&self.info, version, &mut object);
                }
                Answer::Materialized(object)
            }
        };
        Ok(Written {
            object,
            created: false,
            warnings: record.warnings,
        })
    }

    /// From the object as the client wants it to the change of the store: all stages but the commit.
    pub(super) async fn change_to(
        &self,
        write: &mut Attributes,
        current: &CurrentObject,
    ) -> Result<StoreChange, ApiError> {
        let object = self.mutate(write).await?;
        if let Some(refusal) = self.check_resource_version(&write.target, current, &object)? {
            return Ok(refusal);
        }
        let object = self.prepare_and_validate(write, object).await?;
        self.change_into(write, object, current).await
    }

    /// The change of the store that makes the current object this one, which has passed all other stages.
    pub(super) async fn change_into(
        &self,
        write: &WriteRequest,
        mut object: Value,
        current: &CurrentObject,
    ) -> Result<StoreChange, ApiError> {
        metadata::of(&mut object).insert("resourceVersion".into(), current.item.revision.to_string().into());
        self.keep_times(&mut object, &current.object);
        if write.context.dry_run {
            if let Some(effects) = &self.info.side_effects {
                effects.reserve(&mut object, Some(&current.object), true).await?;
            }
            return Ok(StoreChange::Pretend(object));
        }
        Ok(if self.ends_deletion(&object, &current.object) {
            StoreChange::RemoveAs(object)
        } else if object::same(&object, &current.object) {
            StoreChange::Nothing
        } else {
            StoreChange::Put(object)
        })
    }

    /// True if the change takes away the last thing that a deletion waited for.
    fn ends_deletion(&self, new: &Value, old: &Value) -> bool {
        metadata::is_terminating(old)
            && metadata::finalizers(new).is_empty()
            && metadata::integer(old, "deletionGracePeriodSeconds").is_none_or(|seconds| seconds == 0)
            && self.info.strategy.may_be_removed(new)
    }

    /// The uid in a PUT is a precondition; `actual` is empty if there is no object.
    pub(super) fn check_uid(&self, target: &Target, actual: &str, body: &Value) -> Result<(), ApiError> {
        let given = metadata::text(body, "uid");
        if given.is_empty() || given == actual {
            return Ok(());
        }
        let key = self.storage_key(&target.namespace, &target.name);
        let why = format!(
            "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: Precondition \
             failed: UID in precondition: {given}, UID in object meta: {actual}"
        );
        Err(ApiError::conflict(
            &self.info.resource_in(target.version),
            &target.name,
            why,
        ))
    }

    fn check_resource_version(
        &self,
        target: &Target,
        current: &CurrentObject,
        object: &Value,
    ) -> Result<Option<StoreChange>, ApiError> {
        let given = metadata::text(object, "resourceVersion");
        let revision = match given {
            "" => 0,
            text => parse_uint(text).map_err(ApiError::bad_request)?,
        };
        if revision == 0 {
            if self.info.strategy.allow_unconditional_update() {
                return Ok(None);
            }
            let path = Path::new("metadata.resourceVersion");
            let errors = vec![Error::invalid(&path, &0.into(), "must be specified for an update")];
            // Kubernetes names the resource here, where all other refusals name the kind.
            let resource = &self.info.resource;
            let named = GroupKind {
                group: resource.group.clone(),
                kind: resource.resource.clone(),
            };
            return Err(ApiError::invalid(&named, &target.name, &errors));
        }
        let modified = || ApiError::modified(&self.info.resource_in(target.version), &target.name);
        match u64::try_from(current.item.revision).unwrap_or_default().cmp(&revision) {
            Ordering::Equal => Ok(None),
            Ordering::Greater => Ok(Some(StoreChange::Refuse(modified()))),
            Ordering::Less => Err(modified()),
        }
    }
}

/// PUT: the object is the body, in the version that it is written in.
struct Replacement {
    /// Taken by the first round, which is the only one as a rule; another one reads the body again.
    object: Option<Value>,
    body: Body,
    warnings: Vec<String>,
}

impl Replacement {
    fn take(&mut self, writer: &Writer, request: &WriteRequest) -> Result<Value, ApiError> {
        if let Some(object) = self.object.take() {
            return Ok(object);
        }
        let mut object = writer.decode(request, &self.body)?.object;
        // The warning was given when the body was first decoded.
        let _ = metadata::dedup_owners(&mut object, OwnersSeen::AsSent);
        writer.fit(request, &mut object)?;
        Ok(object)
    }
}

impl Desired for Replacement {
    fn object<'a>(
        &'a mut self,
        base: ChangeBase<'a>,
        record: &'a mut WriteRecord,
    ) -> BoxFuture<'a, Result<Value, ApiError>> {
        Box::pin(async move {
            let object = self.take(base.writer, base.request)?;
            let target = &base.request.target;
            base.writer.check_uid(target, &base.current.item.uid, &object)?;
            record.warnings.clone_from(&self.warnings);
            Ok(object)
        })
    }

    fn if_missing<'a>(
        &'a mut self,
        writer: &'a Writer,
        request: &'a WriteRequest,
        _record: &'a mut WriteRecord,
    ) -> BoxFuture<'a, Result<Option<Value>, ApiError>> {
        Box::pin(async move {
            let creates = writer.info.strategy.allow_create_on_update() && request.subresource == Subresource::None;
            if !creates {
                return Ok(None);
            }
            let object = self.take(writer, request)?;
            writer.check_uid(&request.target, "", &object)?;
            Ok(Some(object))
        })
    }
}
