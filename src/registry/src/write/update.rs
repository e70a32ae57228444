//! PUT, and what all changes of an existing object have in common.

use std::{cmp::Ordering, sync::Arc};

use futures_util::future::BoxFuture;
use serde_json::Value;
use trireme_machinery::{
    ApiError, GroupKind, Reason,
    field::{Error, Path},
};

use super::{
    Writer, metadata, object,
    update_loop::{Change, Current, Outcome, Step, too_busy},
};
use crate::{
    admission::Operation,
    item::Item,
    request::{Answer, Subresource, Target, UpdateRequest, Written},
    strategy::WriteContext,
    trace::TraceStep,
    versions,
};

/// How often an object that comes and goes under a PUT is tried.
const CREATE_ROUNDS: usize = 8;

impl Writer {
    /// Replaces an object or part of it.
    pub(crate) async fn update(&self, request: UpdateRequest, latest: Option<Arc<Item>>) -> Result<Written, ApiError> {
        if request.subresource == Subresource::Scale {
            return self.update_scale(request, latest).await;
        }
        let version = self.version(&request.target)?;
        let decoded = self
            .wanted(version)
            .decode(&request.body, request.options.field_validation)?;
        request.target.trace.pass(TraceStep::Decoded);
        self.check_convertible(version, &decoded.object)?;
        let mut wanted = decoded.object;
        self.check_identity(&request.target, &mut wanted)?;
        let target = &request.target;
        let may_create = self.info.strategy.allow_create_on_update() && request.subresource == Subresource::None;
        let original = may_create.then(|| wanted.clone());
        self.settle(version, &mut wanted).await?;
        let mut step = Replace {
            writer: self,
            target,
            subresource: request.subresource,
            context: self.context(target, request.options.dry_run),
            wanted,
            warnings: Vec::new(),
        };
        let mut written = self.replace_or_create(&mut step, latest, original).await?;
        written.warnings.splice(0..0, decoded.warnings);
        Ok(written)
    }

    /// Replaces the object, or creates it from `original` if there is none. Whoever else creates it in between turns
    /// the creation back into a replacement.
    async fn replace_or_create(
        &self,
        step: &mut Replace<'_>,
        mut latest: Option<Arc<Item>>,
        original: Option<Value>,
    ) -> Result<Written, ApiError> {
        let target = step.target;
        for _ in 0..CREATE_ROUNDS {
            let outcome = self.update_loop(target, latest.take(), step).await;
            if outcome.as_ref().is_err_and(|error| error.reason == Reason::NotFound) {
                self.check_uid(target, "", &step.wanted)?;
            }
            let object = match (&outcome, &original) {
                (Err(error), Some(object)) if error.reason == Reason::NotFound => object,
                _ => return self.written(target, outcome?, std::mem::take(&mut step.warnings)).await,
            };
            match self.create_object(target, object.clone(), step.context.dry_run).await {
                Err(error) if error.reason == Reason::AlreadyExists => {}
                created => return created,
            }
        }
        Err(too_busy())
    }

    /// The answer to a change.
    pub(super) async fn written(
        &self,
        target: &Target,
        outcome: Outcome,
        warnings: Vec<String>,
    ) -> Result<Written, ApiError> {
        let object = match outcome {
            Outcome::Is(item) | Outcome::Gone(item) => Answer::Stored(item),
            Outcome::Made(mut object) => {
                versions::to_served_version(&self.info, self.version(target)?, &mut object).await?;
                Answer::Made(object)
            }
        };
        Ok(Written {
            object,
            created: false,
            warnings,
        })
    }

    /// From the object as it is wanted, in the stored version, to the change of the store: admission, revision,
    /// validation.
    pub(super) async fn change_to(
        &self,
        target: &Target,
        subresource: Subresource,
        context: &WriteContext,
        current: &Current,
        wanted: Value,
        warnings: &mut Vec<String>,
    ) -> Result<Change, ApiError> {
        let mut attributes = self.attributes(Operation::Update, target, subresource, context.dry_run);
        attributes.object = Some(wanted);
        attributes.old_object = Some(current.object.clone());
        self.admission.mutate(&mut attributes).await?;
        target.trace.pass(TraceStep::Mutated);
        let mut wanted = attributes.object.take().unwrap_or_default();
        if let Some(refusal) = self.check_resource_version(target, current, &wanted)? {
            return Ok(refusal);
        }
        warnings.clear();
        warnings.append(&mut attributes.warnings);
        warnings.extend(self.before_update(context, subresource, &mut wanted, &current.object)?);
        attributes.object = Some(wanted);
        self.admission.validate(&attributes).await?;
        target.trace.pass(TraceStep::Validated);
        let mut wanted = attributes.object.take().unwrap_or_default();
        metadata::of(&mut wanted).insert("resourceVersion".into(), current.item.revision.to_string().into());
        if context.dry_run {
            if let Some(effects) = &self.info.side_effects {
                effects.reserve(&mut wanted, Some(&current.object), true).await?;
            }
            return Ok(Change::Pretend(wanted));
        }
        Ok(if self.ends_deletion(&wanted, &current.object) {
            Change::RemoveAs(wanted)
        } else if object::same(&wanted, &current.object) {
            Change::Nothing
        } else {
            Change::Put(wanted)
        })
    }

    /// Whether the change takes away the last thing that a deletion waited for.
    fn ends_deletion(&self, new: &Value, old: &Value) -> bool {
        metadata::is_terminating(old)
            && metadata::finalizers(new).is_empty()
            && metadata::integer(old, "deletionGracePeriodSeconds").is_none_or(|seconds| seconds == 0)
            && self.info.strategy.may_be_removed(new)
    }

    /// The uid in a PUT is a precondition; `actual` is empty if there is no object.
    pub(super) fn check_uid(&self, target: &Target, actual: &str, wanted: &Value) -> Result<(), ApiError> {
        let given = metadata::text(wanted, "uid");
        if given.is_empty() || given == actual {
            return Ok(());
        }
        let key = self.storage_key(&target.namespace, &target.name);
        let why = format!(
            "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: Precondition \
             failed: UID in precondition: {given}, UID in object meta: {actual}"
        );
        Err(ApiError::conflict(&self.info.resource, &target.name, why))
    }

    fn check_resource_version(
        &self,
        target: &Target,
        current: &Current,
        wanted: &Value,
    ) -> Result<Option<Change>, ApiError> {
        let given = metadata::text(wanted, "resourceVersion");
        let revision = match given {
            "" => 0,
            text => text
                .parse::<u64>()
                .map_err(|_| ApiError::bad_request(format!("strconv.ParseUint: parsing \"{text}\": invalid syntax")))?,
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
        let modified = || ApiError::modified(&self.info.resource, &target.name);
        match u64::try_from(current.item.revision).unwrap_or_default().cmp(&revision) {
            Ordering::Equal => Ok(None),
            Ordering::Greater => Ok(Some(Change::Refuse(modified()))),
            Ordering::Less => Err(modified()),
        }
    }
}

/// PUT: the wanted object is the body.
struct Replace<'w> {
    writer: &'w Writer,
    target: &'w Target,
    subresource: Subresource,
    context: WriteContext,
    wanted: Value,
    warnings: Vec<String>,
}

impl Step for Replace<'_> {
    fn change<'a>(&'a mut self, current: &'a Current) -> BoxFuture<'a, Result<Change, ApiError>> {
        Box::pin(async move {
            self.writer.check_uid(self.target, &current.item.uid, &self.wanted)?;
            let wanted = self.wanted.clone();
            self.writer
                .change_to(
                    self.target,
                    self.subresource,
                    &self.context,
                    current,
                    wanted,
                    &mut self.warnings,
                )
                .await
        })
    }
}
