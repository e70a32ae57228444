//! `/proxy`: leads to the node's kubelet.

use futures_util::future::BoxFuture;
use trireme_machinery::ApiError;
use trireme_registry::subresource::{BackendHost, Connect, ConnectCall, Destination};

use crate::core::proxy;

pub(super) struct NodeProxy;

impl Connect for NodeProxy {
    fn name(&self) -> &'static str {
        "proxy"
    }

    fn find<'a>(&'a self, call: &'a ConnectCall) -> BoxFuture<'a, Result<Destination, ApiError>> {
        Box::pin(async move {
            let asked = proxy::address(&call.target.name, "node")?;
            let [name, scheme, port] = [asked.name, asked.scheme, asked.port].map(str::to_owned);
            Ok(proxy::destination(BackendHost::Node { name, scheme, port }, call))
        })
    }
}
