//! Bindings: a POST to the collection does what one to the `binding` subresource of the pod does that the body names; admission
//! sees it as what it is, the creation of a binding.

use futures_util::future::BoxFuture;
use trireme_machinery::ApiError;
use trireme_registry::{
    SubresourceCreateRequest, VirtualCall, VirtualResource, request::CreateRequest, subresource::SubresourceCreated,
};

/// Passes bindings on to the pods.
#[derive(Debug, Clone, Copy, Default)]
pub struct PodBindings;

impl VirtualResource for PodBindings {
    fn create<'a>(
        &'a self,
        call: VirtualCall,
        request: CreateRequest,
    ) -> BoxFuture<'a, Result<SubresourceCreated, ApiError>> {
        Box::pin(async move {
            let pods = call.surface.find("", "v1", "pods");
            let pods = pods.ok_or_else(|| ApiError::internal("pods are not served"))?;
            let command = SubresourceCreateRequest {
                target: request.target,
                subresource: "binding".to_owned(),
                collection: Some(call.definition),
                body: request.body,
                options: request.options,
                routes: call.surface,
            };
            pods.registry.create_subresource(command).await
        })
    }
}
