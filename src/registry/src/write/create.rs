//! POST of a new object.

use serde_json::Value;
use trireme_machinery::{ApiError, Reason};
use trireme_storage::Compare;

use super::{Writer, commit::Put, decode::Wanted, metadata, object};
use crate::{
    admission::Operation,
    info::ServedVersion,
    request::{Answer, CreateRequest, Subresource, Target, Written},
    strategy::{Reservation, WriteContext},
    versions,
};

/// How often a generated name may be taken before the client is told.
const NAME_ATTEMPTS: usize = 8;

impl Writer {
    /// What a body sent to this resource must be.
    pub(super) fn wanted<'a>(&'a self, version: &ServedVersion) -> Wanted<'a> {
        Wanted {
            types: self.info.types,
            type_id: version.type_id,
            kind: self.info.kind_in(version),
            known_kinds: &self.known_kinds,
        }
    }

    /// Creates an object.
    pub(crate) async fn create(&self, request: CreateRequest) -> Result<Written, ApiError> {
        let version = self.version(&request.target)?;
        let decoded = self.wanted(version).decode(&request.body, request.options.field_validation)?;
        let mut object = decoded.object;
        let namespace = if self.info.namespaced { request.target.namespace.as_str() } else { "" };
        metadata::settle_namespace(&mut object, namespace)?;
        let mut written = self.create_object(&request.target, object, request.options.dry_run).await?;
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
        refuse_resource_version(&object)?;
        let version = self.version(target)?;
        self.settle(version, &mut object);
        let context = self.context(target, dry_run);
        metadata::fill_new(&mut object, context.now, self.info.strategy.has_generation());
        let generated_from = match metadata::text(&object, "name") {
            "" => metadata::text(&object, "generateName").to_owned(),
            _ => String::new(),
        };
        if generated_from.is_empty() {
            return match self.try_create(target, version, &context, object).await? {
                Ok(written) => Ok(written),
                Err(name) => Err(ApiError::already_exists(&self.info.resource, &name)),
            };
        }
        let mut taken = String::new();
        for _ in 0..NAME_ATTEMPTS {
            let mut candidate = object.clone();
            metadata::of(&mut candidate).insert("name".into(), metadata::generate_name(&generated_from).into());
            match self.try_create(target, version, &context, candidate).await? {
                Ok(written) => return Ok(written),
                Err(name) => taken = name,
            }
        }
        Err(ApiError::already_exists(&self.info.resource, &taken).with_retry_after(1))
    }

    /// Admission, validation and the write; the inner error is the name that is taken.
    async fn try_create(
        &self,
        target: &Target,
        version: &ServedVersion,
        context: &WriteContext,
        object: Value,
    ) -> Result<Result<Written, String>, ApiError> {
        let mut attributes = self.attributes(Operation::Create, target, Subresource::None, context.dry_run);
        attributes.name = metadata::text(&object, "name").to_owned();
        attributes.object = Some(object);
        self.admission.mutate(&mut attributes).await?;
        let mut object = attributes.object.take().unwrap_or_default();
        let mut warnings = std::mem::take(&mut attributes.warnings);
        warnings.extend(self.before_create(context, &mut object)?);
        attributes.object = Some(object);
        self.admission.validate(&attributes).await?;
        let mut object = attributes.object.take().unwrap_or_default();

        let reservation = match &self.info.side_effects {
            Some(effects) => effects.reserve(&mut object, None, context.dry_run).await?,
            None => Reservation::default(),
        };
        let name = metadata::text(&object, "name").to_owned();
        let key = self.storage_key(&target.namespace, &name);
        if context.dry_run {
            return self.pretend_to_create(version, &key, object, warnings, name).await;
        }
        let put = self.put(&key, &object, Compare::Absent).await;
        if let Some(effects) = &self.info.side_effects {
            effects.finish(reservation, matches!(put, Ok(Put::Committed(_)))).await;
        }
        Ok(match put? {
            Put::Committed(item) => Ok(Written { object: Answer::Stored(item), created: true, warnings }),
            Put::Conflict(found) => {
                if let Some(entry) = found
                    && self.item_of(&key, entry).and_then(|item| object::parse(&item)).is_ok_and(|found| metadata::is_terminating(&found))
                {
                    return Err(self.being_deleted(&name));
                }
                Err(name)
            }
        })
    }

    fn being_deleted(&self, name: &str) -> ApiError {
        let mut error = ApiError::already_exists(&self.info.resource, name);
        error.message.insert_str(0, "object is being deleted: ");
        error
    }

    async fn pretend_to_create(
        &self,
        version: &ServedVersion,
        key: &str,
        mut object: Value,
        warnings: Vec<String>,
        name: String,
    ) -> Result<Result<Written, String>, ApiError> {
        let (found, _) = self.store.get(key, None).await.map_err(crate::store_error)?;
        if found.is_some() {
            return Ok(Err(name));
        }
        versions::from_stored(&self.info, version, &mut object);
        Ok(Ok(Written { object: Answer::Made(object), created: true, warnings }))
    }
}

/// A new object has no revision. kube-apiserver answers 500 here; the fault is the client's, so it is told so.
fn refuse_resource_version(object: &Value) -> Result<(), ApiError> {
    match metadata::text(object, "resourceVersion").parse::<u64>() {
        Ok(revision) if revision != 0 => {
            Err(ApiError::new(Reason::BadRequest, "resourceVersion should not be set on objects to be created"))
        }
        _ => Ok(()),
    }
}
