//! `OwnerReferencesPermissionEnforcement`: who makes an object depend on another may delete the one, and may set finalizers on
//! the other if it is to wait (`plugin/pkg/admission/gc`).

use std::sync::Arc;

use futures_util::{FutureExt as _, future::BoxFuture};
use serde_json::Value;
use trireme_machinery::{ApiError, GroupVersion};
use trireme_registry::{Admission, Attributes, Operation, PublishedSurface, WriteRequest};

use crate::{
    attributes::forbidden,
    permissions::{PermissionRequest, Permissions},
};

const NOT_DELETED: &str = "cannot set an ownerRef on a resource you can't delete: , <nil>";
const NOT_FINALIZED: &str =
    "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: , <nil>";

/// The plugin.
pub(crate) struct OwnerReferencesPermissionEnforcement {
    permissions: Arc<dyn Permissions>,
    surface: PublishedSurface,
}

impl OwnerReferencesPermissionEnforcement {
    /// Asks for the resources of owners on this surface.
    pub(crate) fn new(permissions: Arc<dyn Permissions>, surface: PublishedSurface) -> Self {
        Self { permissions, surface }
    }

    async fn check(&self, attributes: &Attributes) -> Result<(), ApiError> {
        let old = attributes.old_object.as_deref();
        let (new, old) = (owners(attributes.object.as_ref()), owners(old));
        if new == old {
            return Ok(());
        }
        if attributes.operation != Operation::Create && !self.may_delete(attributes).await {
            return Err(forbidden(attributes, NOT_DELETED));
        }
        let is_blocking = |owner: &Value| owner.get("blockOwnerDeletion") == Some(&Value::Bool(true));
        let was_blocking = |owner: &Value| {
            old.iter()
                .any(|old| old.get("uid") == owner.get("uid") && is_blocking(old))
        };
        let blocking: Vec<&Value> = new
            .iter()
            .filter(|owner| is_blocking(owner) && !was_blocking(owner))
            .collect();
        if blocking.is_empty() || self.may_finalize(attributes, "*", "*", "*", "", "*").await {
            return Ok(());
        }
        for owner in blocking {
            self.check_owner(attributes, owner).await?;
        }
        Ok(())
    }

    async fn may_delete(&self, attributes: &Attributes) -> bool {
        let request = PermissionRequest {
            user: &attributes.context.user,
            verb: "delete",
            group: &attributes.resource.group,
            version: &attributes.resource.version,
            resource: &attributes.resource.resource,
            subresource: attributes.subresource.name(),
            namespace: attributes.namespace(),
            name: &attributes.name,
        };
        self.permissions.allow(request).await
    }

    async fn may_finalize(
        &self,
        attributes: &Attributes,
        group: &str,
        version: &str,
        resource: &str,
        namespace: &str,
        name: &str,
    ) -> bool {
        let request = PermissionRequest {
            user: &attributes.context.user,
            verb: "update",
            group,
            version,
            resource,
            subresource: "finalizers",
            namespace,
            name,
        };
        self.permissions.allow(request).await
    }

    async fn check_owner(&self, attributes: &Attributes, owner: &Value) -> Result<(), ApiError> {
        let text = |field: &str| owner.get(field).and_then(Value::as_str).unwrap_or_default();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        let version = match api_version.split_once('/') {
            Some((group, version)) => GroupVersion::new(group, version),
            None => GroupVersion::new("", api_version),
        };
        let Some((resource, namespaced)) = self.surface.resource_of_kind(&version, kind) else {
            let why = format!(
                "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion {api_version} \
                 Kind {kind}: no matches for kind \"{kind}\" in version \"{api_version}\""
            );
            return Err(forbidden(attributes, why));
        };
        let namespace = if namespaced { attributes.namespace() } else { "" };
        let may = self.may_finalize(
            attributes,
            &version.group,
            &version.version,
            &resource,
            namespace,
            text("name"),
        );
        match may.await {
            true => Ok(()),
            false => Err(forbidden(attributes, NOT_FINALIZED)),
        }
    }
}

fn owners(object: Option<&Value>) -> &[Value] {
    let owners = object.and_then(|object| object.pointer("/metadata/ownerReferences")?.as_array());
    owners.map_or(&[], Vec::as_slice)
}

impl Admission for OwnerReferencesPermissionEnforcement {
    fn handles(&self, request: &WriteRequest) -> bool {
        // Status of pods and what nodes report are written by those who may not delete.
        let is_pod_status = &*request.resource.resource == "pods" && request.subresource.name() == "status";
        matches!(request.operation, Operation::Create | Operation::Update) && !is_pod_status
    }

    fn validate<'a>(&'a self, attributes: &'a Attributes) -> BoxFuture<'a, Result<(), ApiError>> {
        self.check(attributes).boxed()
    }
}
