//! `NamespaceLifecycle`: nothing is created in a namespace that is missing or being deleted, and the system's own
//! namespaces stay (`k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle`).

use futures_util::{FutureExt as _, future::BoxFuture};
use trireme_machinery::{ApiError, GroupResource};
use trireme_registry::{Admission, Attributes, Operation, WriteRequest};

use crate::namespaces::Namespaces;

const PROTECTED: [&str; 3] = ["default", "kube-system", "kube-public"];

/// The plugin. Cheap to clone: all clones look at the same namespaces.
#[derive(Clone)]
pub(crate) struct NamespaceLifecycle {
    namespaces: Namespaces,
}

impl NamespaceLifecycle {
    /// Looks at these namespaces.
    pub(crate) fn new(namespaces: Namespaces) -> Self {
        Self { namespaces }
    }

    async fn check(&self, attributes: &Attributes) -> Result<(), ApiError> {
        let is_namespace = &*attributes.resource.resource == "namespaces" && attributes.resource.group.is_empty();
        if is_namespace {
            protect(attributes)?;
            if attributes.operation == Operation::Delete && !attributes.context.dry_run {
                self.namespaces.doubt(&attributes.name);
            }
            return Ok(());
        }
        if attributes.target.namespace.is_empty() || attributes.operation == Operation::Delete {
            return Ok(());
        }
        // What becomes of a namespace is no business of those who may ask for access to it.
        if is_local_access_review(attributes) {
            return Ok(());
        }
        let namespace = self.namespaces.find(&attributes.target.namespace).await?;
        if namespace.is_terminating && attributes.operation == Operation::Create {
            return Err(terminating(attributes));
        }
        Ok(())
    }
}

fn is_local_access_review(request: &WriteRequest) -> bool {
    &*request.resource.group == "authorization.k8s.io" && &*request.resource.resource == "localsubjectaccessreviews"
}

fn protect(attributes: &Attributes) -> Result<(), ApiError> {
    if attributes.operation == Operation::Delete && PROTECTED.contains(&attributes.name.as_str()) {
        let resource = attributes.resource.group_resource();
        return Err(ApiError::forbidden(
            &resource,
            &attributes.name,
            "this namespace may not be deleted",
        ));
    }
    Ok(())
}

fn terminating(attributes: &Attributes) -> ApiError {
    let namespace = &attributes.target.namespace;
    let resource: GroupResource = attributes.resource.group_resource();
    let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
    ApiError::forbidden(&resource, &attributes.name, why).with_cause(
        "NamespaceTerminating",
        format!("namespace {namespace} is being terminated"),
        "metadata.namespace",
    )
}

impl Admission for NamespaceLifecycle {
    fn handles(&self, request: &WriteRequest) -> bool {
        request.operation != Operation::Connect
    }

    fn mutate<'a>(&'a self, attributes: &'a mut Attributes) -> BoxFuture<'a, Result<(), ApiError>> {
        self.check(attributes).boxed()
    }
}
