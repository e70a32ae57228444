//! POST of a new object.

use std::sync::Arc;

use serde_json::Value;
use trireme_machinery::{ApiError, Reason};
use trireme_storage::{Compare, KeyValue};

use super::{
    Writer,
    commit::PutResult,
    decode::{DecodedBody, warned},
    metadata::{self, OwnersSeen},
};
use crate::{
    admission::{Attributes, Operation, WriteRecord, WriteRequest},
    item,
    request::{Answer, CreateRequest, Subresource, Written},
    versions,
};

/// The number of times that a generated name may be taken before the client gets an error.
const NAME_ATTEMPTS: usize = 8;

impl Writer {
    /// Creates an object.
    pub(crate) async fn create(&self, request: CreateRequest) -> Result<Written, ApiError> {
        let CreateRequest { target, body, options } = request;
        let request = self.request(Operation::Create, Subresource::None, target, options)?;
        let mut decoded = self.decode(&request, &body)?;
        let repeated_owners = metadata::dedup_owners(&mut decoded.object, OwnersSeen::AsSent);
        decoded.warnings.extend(repeated_owners);
        let warnings = decoded.warnings.clone();
        let created = self.create_decoded(request, decoded).await;
        created.map_err(|error| warned(error, &warnings))
    }

    async fn create_decoded(&self, request: WriteRequest, decoded: DecodedBody) -> Result<Written, ApiError> {
        let mut object = decoded.object;
        let has_namespace = metadata::has_namespace(&object);
        metadata::settle_namespace(&mut object, request.namespace())?;
        self.default_note_and_convert(&request, &mut object, has_namespace)?;
        let record = WriteRecord {
            warnings: decoded.warnings,
        };
        self.create_object(&Arc::new(request), object, record).await
    }

    /// Creates an object that is in the stored version; a PUT and an apply to a free name come here, too.
    pub(super) async fn create_object(
        &self,
        request: &Arc<WriteRequest>,
        mut object: Value,
        record: WriteRecord,
    ) -> Result<Written, ApiError> {
        if let Some(why) = self.info.strategy.refuse_creation() {
            return Err(ApiError::forbidden(
                &self.info.resource_in(request.target.version),
                metadata::text(&object, "name"),
                why,
            ));
        }
        metadata::wipe_new(&mut object);
        let mut write = Attributes::new(request, None, None).with_record(record);
        metadata::text(&object, "name").clone_into(&mut write.name);
        let client_set_revision = has_revision(&object);
        write.object = Some(object);
        let object = self.mutate(&mut write).await?;
        if !metadata::text(&object, "name").is_empty() || metadata::text(&object, "generateName").is_empty() {
            return self.try_create(write, object, client_set_revision).await?;
        }
        let record = write.take_record();
        let mut attempts = 0;
        loop {
            attempts += 1;
            let mut candidate = object.clone();
            let name = metadata::generate_name(metadata::text(&object, "generateName"));
            metadata::of(&mut candidate).insert("name".into(), name.into());
            let write = Attributes::new(request, None, None).with_record(record.clone());
            match self.try_create(write, candidate, client_set_revision).await? {
                Err(_) if attempts < NAME_ATTEMPTS => {}
                done => return done,
            }
        }
    }

    /// The stages after mutating admission; the inner error says that the name is taken.
    async fn try_create(
        &self,
        mut write: Attributes,
        object: Value,
        client_set_revision: bool,
    ) -> Result<Result<Written, ApiError>, ApiError> {
        let mut object = self.prepare_and_validate(&mut write, object).await?;
        let key = self.storage_key(&write.target.namespace, &write.name);
        if write.context.dry_run {
            return self.pretend_to_create(write, &key, object).await;
        }
        // A new object has no revision. kube-apiserver's store says so, after everything else and not in a dry run, with 500. If
        // it is the client's error and not that of a webhook, it gets 400.
        if has_revision(&object) {
            let error = match client_set_revision {
                true => ApiError::new(Reason::BadRequest, HAS_REVISION),
                false => ApiError::unspecified(HAS_REVISION),
            };
            return Err(write.with_warnings(error));
        }
        metadata::of(&mut object).remove("selfLink");
        Ok(
            match self.put(&write, &key, &mut object, None, Compare::Absent).await? {
                PutResult::Committed(item) => Ok(created(Answer::Cached(item), write.take_record())),
                PutResult::Conflict(found) => {
                    Err(write.with_warnings(self.name_taken(write.target.version, &key, &object, found)))
                }
            },
        )
    }

    fn name_taken(&self, version: usize, key: &str, object: &Value, found: Option<KeyValue>) -> ApiError {
        let mut error = ApiError::already_exists(&self.info.resource_in(version), metadata::text(object, "name"));
        if !metadata::text(object, "generateName").is_empty() {
            error
                .message
                .push_str(", the server was not able to generate a unique name for the object");
            error = error.with_retry_after(1);
        }
        let found = found.and_then(|entry| self.item_of(key, entry).ok());
        if found
            .and_then(|found| item::parse(&found).ok())
            .is_some_and(|found| metadata::is_terminating(&found))
        {
            error.message.insert_str(0, "object is being deleted: ");
        }
        error
    }

    async fn pretend_to_create(
        &self,
        mut write: Attributes,
        key: &str,
        mut object: Value,
    ) -> Result<Result<Written, ApiError>, ApiError> {
        if let Some(effects) = &self.info.side_effects {
            effects.reserve(&mut object, None, true).await?;
        }
        let (found, _) = self.store.get(key, None).await.map_err(crate::store_error)?;
        if found.is_some() {
            let taken = self.name_taken(write.target.version, key, &object, found);
            return Ok(Err(write.with_warnings(taken)));
        }
        versions::read_back(&self.info, self.version(&write.target)?, &mut object).await?;
        Ok(Ok(created(Answer::Materialized(object), write.take_record())))
    }
}

fn created(object: Answer, record: WriteRecord) -> Written {
    Written {
        object,
        created: true,
        warnings: record.warnings,
    }
}

const HAS_REVISION: &str = "resourceVersion should not be set on objects to be created";

fn has_revision(object: &Value) -> bool {
    let revision = metadata::text(object, "resourceVersion").parse::<u64>();
    revision.is_ok_and(|revision| revision != 0)
}
