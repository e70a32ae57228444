//! `/proxy`: leads to the node's kubelet.

use futures_util::future::BoxFuture;
use trireme_machinery::ApiError;
use trireme_registry::subresource::{Connect, ConnectCall, Destination};

use crate::core::proxy;

pub(super) struct NodeProxy;

impl Connect for NodeProxy {
    fn name(&self) -> &'static str {
        "proxy"
    }

    fn find<'a>(&'a self, call: &'a ConnectCall) -> BoxFuture<'a, Result<Destination, ApiError>> {
        Box::pin(async move {
            call.object(proxy::address(&call.target.name, "node")?.name).await?;
            Ok(Destination::Backend)
        })
    }
}
