//! Resources that are served but not stored.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::Value;
use trireme_machinery::ApiError;

use super::ApiSurface;
use crate::{
    definition::ResourceDefinition,
    request::{CreateRequest, Selection, Target},
    subresource::SubresourceCreated,
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
}
