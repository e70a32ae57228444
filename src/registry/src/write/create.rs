//! POST of a new object.

use serde_json::Value;
use trireme_machinery::{ApiError, Reason};
use trireme_storage::{Compare, KeyValue};

use super::{
    Writer,
    commit::{Place, Put},
    decode::Wanted,
    metadata, object,
};
use crate::{
    admission::{Attributes, Operation},
    definition::ServedVersion,
    request::{Answer, CreateRequest, Subresource, Target, Written},
    strategy::WriteContext,
    trace::TraceStep,
    versions,
};

/// How often a generated name may be taken before the client is told.
const NAME_ATTEMPTS: usize = 8;

impl Writer {
    /// What a body sent to this resource must be.
    pub(super) fn wanted<'a>(&'a self, version: &ServedVersion) -> Wanted<'a> {
        Wanted {
            types: &self.info.types,
            type_id: version.type_id,
            kind: self.info.kind_in(version),
            also: &[],
            known_kinds: self.known_kinds.load_full(),
        }
    }

    /// Refuses a decoded body that Kubernetes could not convert, as its decoder does.
    pub(super) fn check_convertible(&self, version: &ServedVersion, object: &Value) -> Result<(), ApiError> {
        let wanted = self.wanted(version);
        match self.info.strategy.conversion_fault(object) {
            Some(why) => Err(wanted.unfit(&wanted.kind, &why)),
            None => Ok(()),
        }
    }

    /// Creates an object.
    pub(crate) async fn create(&self, request: CreateRequest) -> Result<Written, ApiError> {
        let version = self.version(&request.target)?;
        let decoded = self
            .wanted(version)
            .decode(&request.body, request.options.field_validation)?;
        request.target.trace.pass(TraceStep::Decoded);
        self.check_convertible(version, &decoded.object)?;
        let mut object = decoded.object;
        let namespace = if self.info.namespaced {
            request.target.namespace.as_str()
        } else {
            ""
        };
        metadata::settle_namespace(&mut object, namespace)?;
        refuse_resource_version(&object)?;
        let mut written = self
            .create_object(&request.target, object, request.options.dry_run)
            .await?;
        written.warnings.splice(0..0, decoded.warnings);
        Ok(written)
    }

    /// Creates a decoded object of the target's version; also what a PUT to a free name comes to.
    pub(super) async fn create_object(
        &self,
        target: &Target,
        mut object: Value,
        dry_run: bool,
    ) -> Result<Written, ApiError> {
        let version = self.version(target)?;
        self.settle(version, &mut object);
        let context = self.context(target, dry_run);
        metadata::fill_new(&mut object, context.now, self.info.strategy.has_generation());
        let mut attributes = self.attributes(Operation::Create, target, Subresource::None, dry_run);
        attributes.name = metadata::text(&object, "name").to_owned();
        attributes.object = Some(object);
        self.admission.mutate(&mut attributes).await?;
        target.trace.pass(TraceStep::Mutated);
        let object = attributes.object.take().unwrap_or_default();
        if !metadata::text(&object, "name").is_empty() || metadata::text(&object, "generateName").is_empty() {
            return self.try_create(target, version, &context, attributes, object).await?;
        }
        let mut attempts = 0;
        loop {
            attempts += 1;
            let mut candidate = object.clone();
            let name = metadata::generate_name(metadata::text(&object, "generateName"));
            metadata::of(&mut candidate).insert("name".into(), name.into());
            match self
                .try_create(target, version, &context, attributes.clone(), candidate)
                .await?
            {
                Err(_) if attempts < NAME_ATTEMPTS => {}
                done => return done,
            }
        }
    }

    /// Validation and the write; the inner error says that the name is taken.
    async fn try_create(
        &self,
        target: &Target,
        version: &ServedVersion,
        context: &WriteContext,
        mut attributes: Attributes,
        mut object: Value,
    ) -> Result<Result<Written, ApiError>, ApiError> {
        let mut warnings = std::mem::take(&mut attributes.warnings);
        warnings.extend(self.before_create(context, &mut object)?);
        attributes.name = metadata::text(&object, "name").to_owned();
        attributes.object = Some(object);
        self.admission.validate(&attributes).await?;
        target.trace.pass(TraceStep::Validated);
        let mut object = attributes.object.take().unwrap_or_default();
        let key = self.storage_key(&target.namespace, &attributes.name);
        if context.dry_run {
            return self.pretend_to_create(version, &key, object, warnings).await;
        }
        let place = Place { key, target };
        Ok(match self.put(&place, &mut object, None, Compare::Absent).await? {
            Put::Committed(item) => Ok(Written {
                object: Answer::Stored(item),
                created: true,
                warnings,
            }),
            Put::Conflict(found) => Err(self.name_taken(&place.key, &object, found)),
        })
    }

    fn name_taken(&self, key: &str, object: &Value, found: Option<KeyValue>) -> ApiError {
        let mut error = ApiError::already_exists(&self.info.resource, metadata::text(object, "name"));
        if !metadata::text(object, "generateName").is_empty() {
            error
                .message
                .push_str(", the server was not able to generate a unique name for the object");
            error = error.with_retry_after(1);
        }
        let found = found.and_then(|entry| self.item_of(key, entry).ok());
        if found
            .and_then(|item| object::parse(&item).ok())
            .is_some_and(|found| metadata::is_terminating(&found))
        {
            error.message.insert_str(0, "object is being deleted: ");
        }
        error
    }

    async fn pretend_to_create(
        &self,
        version: &ServedVersion,
        key: &str,
        mut object: Value,
        warnings: Vec<String>,
    ) -> Result<Result<Written, ApiError>, ApiError> {
        if let Some(effects) = &self.info.side_effects {
            effects.reserve(&mut object, None, true).await?;
        }
        let (found, _) = self.store.get(key, None).await.map_err(crate::store_error)?;
        if found.is_some() {
            return Ok(Err(self.name_taken(key, &object, found)));
        }
        versions::from_stored(&self.info, version, &mut object);
        Ok(Ok(Written {
            object: Answer::Made(object),
            created: true,
            warnings,
        }))
    }
}

/// A new object has no revision. kube-apiserver answers 500 here; the fault is the client's, so it is told so.
fn refuse_resource_version(object: &Value) -> Result<(), ApiError> {
    match metadata::text(object, "resourceVersion").parse::<u64>() {
        Ok(revision) if revision != 0 => Err(ApiError::new(
            Reason::BadRequest,
            "resourceVersion should not be set on objects to be created",
        )),
        _ => Ok(()),
    }
}
