//! Resources that are served but not stored.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::Value;
use trireme_machinery::ApiError;

use super::ApiSurface;
use crate::{
    admission::{Attributes, Operation, WriteRecord, WriteRequest},
    admission_stages::AdmissionStages,
    definition::ResourceDefinition,
    posted::{Posted, PostedKind},
    request::{CreateRequest, Selection, Subresource, Target, WarningRecorder, WriteContext},
    subresource::SubresourceCreated,
    write::metadata,
};

/// Answers requests for a resource that is not stored: reviews, bindings, component statuses. Its definition says which
/// verbs are served; the others are never called.
pub trait VirtualResource: Send + Sync + 'static {
    /// Answers a POST.
    fn create<'a>(
        &'a self,
        call: VirtualCall,
        _request: CreateRequest,
    ) -> BoxFuture<'a, Result<SubresourceCreated, ApiError>> {
        drop(call);
        Box::pin(async { Err(ApiError::method_not_allowed()) })
    }

    /// Gives one object of the served version.
    fn get<'a>(&'a self, call: VirtualCall, _target: Target) -> BoxFuture<'a, Result<Value, ApiError>> {
        drop(call);
        Box::pin(async { Err(ApiError::method_not_allowed()) })
    }

    /// Gives the objects that are selected.
    fn list<'a>(
        &'a self,
        call: VirtualCall,
        _target: Target,
        _selection: Selection,
    ) -> BoxFuture<'a, Result<Vec<Value>, ApiError>> {
        drop(call);
        Box::pin(async { Err(ApiError::method_not_allowed()) })
    }
}

/// The circumstances of a request for a virtual resource.
#[derive(Clone)]
pub struct VirtualCall {
    /// The resource.
    pub definition: Arc<ResourceDefinition>,
    /// Everything that is served, for those that stand for a part of another resource.
    pub surface: Arc<ApiSurface>,
    /// The admission chain.
    pub admission: AdmissionStages,
}

/// A handler, and the admission chain that its creations pass.
#[derive(Clone)]
pub struct VirtualBackend {
    /// The handler.
    pub handler: Arc<dyn VirtualResource>,
    /// The chain.
    pub admission: AdmissionStages,
}

impl VirtualCall {
    /// Reads the object of a POST and brings it through mutating admission. Its handler checks it then, lets it be
    /// [validated](Self::validate) and answers.
    ///
    /// # Errors
    /// 400 for a body that cannot be read, and what admission refuses.
    pub async fn admit(&self, request: CreateRequest) -> Result<Attributes, ApiError> {
        let CreateRequest { target, body, options } = request;
        let definition = &self.definition;
        let version = definition.versions.get(target.version);
        let version = version.ok_or_else(|| ApiError::internal("the version is not served"))?;
        let (kind, now) = (definition.kind_in(version), self.admission.now());
        let posted = PostedKind {
            kind: kind.clone(),
            type_id: version.type_id,
            types: &definition.types,
            known_kinds: self.surface.known_kinds().clone(),
        };
        let Posted { object, warnings } = posted.read(&body, &target, &options, now)?;
        let request = WriteRequest {
            definition: Arc::clone(definition),
            operation: Operation::Create,
            subresource: Subresource::None,
            kind,
            resource: version.group_version.with_resource(&definition.resource.resource),
            context: WriteContext {
                user: target.user.clone(),
                version: version.group_version.clone(),
                now,
                dry_run: options.dry_run,
                warnings: WarningRecorder::default(),
            },
            target,
            options,
            deletion: None,
        };
        let mut write = Attributes::new(&Arc::new(request), None, None).with_record(WriteRecord { warnings });
        metadata::text(&object, "name").clone_into(&mut write.name);
        write.object = Some(object);
        self.admission.mutate(&mut write).await?;
        Ok(write)
    }

    /// Brings an object that its handler has checked through validating admission.
    ///
    /// # Errors
    /// What admission refuses.
    pub async fn validate(&self, write: &Attributes) -> Result<(), ApiError> {
        self.admission.validate(write).await
    }
}
