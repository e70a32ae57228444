//! `NamespaceExists` and `NamespaceAutoProvision`: a namespace that is missing is an error, or is made
//! (`plugin/pkg/admission/namespace`).

use futures_util::{FutureExt as _, future::BoxFuture};
use serde_json::json;
use trireme_machinery::{ApiError, Reason};
use trireme_registry::{Admission, Attributes, Operation, OwnObjects, ResourceLookup, WriteRequest};

use crate::{attributes::forbidden, namespaces::Namespaces};

fn is_in_namespace(request: &WriteRequest) -> bool {
    !request.target.namespace.is_empty() && &*request.resource.resource != "namespaces"
}

/// The plugin that refuses.
pub(crate) struct NamespaceExists {
    namespaces: Namespaces,
}

impl NamespaceExists {
    /// Looks at these namespaces.
    pub(crate) fn new(namespaces: Namespaces) -> Self {
        Self { namespaces }
    }
}

impl Admission for NamespaceExists {
    fn handles(&self, request: &WriteRequest) -> bool {
        is_in_namespace(request) && request.operation != Operation::Connect
    }

    fn validate<'a>(&'a self, attributes: &'a Attributes) -> BoxFuture<'a, Result<(), ApiError>> {
        let found = self.namespaces.find(&attributes.target.namespace);
        found.map(|found| found.map(drop)).boxed()
    }
}

/// The plugin that makes namespaces.
pub(crate) struct NamespaceAutoProvision {
    namespaces: Namespaces,
    resource: ResourceLookup,
}

impl NamespaceAutoProvision {
    /// Looks at namespaces, and makes those that are missing.
    pub(crate) fn new(namespaces: Namespaces, resource: ResourceLookup) -> Self {
        Self { namespaces, resource }
    }

    async fn provide(&self, attributes: &Attributes) -> Result<(), ApiError> {
        let name = &attributes.target.namespace;
        match self.namespaces.find(name).await {
            Ok(_) => return Ok(()),
            Err(error) if error.reason == Reason::NotFound => {}
            Err(error) => return Err(forbidden(attributes, error)),
        }
        let own = OwnObjects::new(self.resource.registry()?, "kube-apiserver");
        let made = own.create("", &json!({ "metadata": { "name": name } })).await;
        made.map(drop).map_err(|error| forbidden(attributes, error))
    }
}

impl Admission for NamespaceAutoProvision {
    fn handles(&self, request: &WriteRequest) -> bool {
        is_in_namespace(request) && request.operation == Operation::Create && !request.context.dry_run
    }

    fn mutate<'a>(&'a self, attributes: &'a mut Attributes) -> BoxFuture<'a, Result<(), ApiError>> {
        self.provide(attributes).boxed()
    }
}
