//! `DeviceAdminAccess`: who claims devices that others use already does so in a namespace that is marked for it
//! (`pkg/registry/resource/utils.go`).
//!
//! kube-apiserver tells this together with the other faults of a claim; here it is told before them.

use futures_util::{FutureExt as _, future::BoxFuture};
use serde_json::Value;
use trireme_machinery::{
    ApiError, GroupKind,
    field::{Error, ErrorList, Path},
};
use trireme_registry::{Admission, Attributes, Operation};

use crate::namespaces::Namespaces;

const LABEL: &str = "resource.kubernetes.io/admin-access";
const MISSING: &str = "admin access to devices requires the `resource.kubernetes.io/admin-access: true` label on the containing namespace";

/// The plugin.
pub struct DeviceAdminAccess {
    namespaces: Namespaces,
}

impl DeviceAdminAccess {
    /// Looks for the label on these namespaces.
    pub fn new(namespaces: Namespaces) -> Self {
        Self { namespaces }
    }

    async fn check(&self, attributes: &Attributes) -> Result<(), ApiError> {
        let faults = requested(attributes);
        if faults.is_empty() || self.is_marked(&attributes.namespace).await? {
            return Ok(());
        }
        let kind = GroupKind {
            group: attributes.kind.group.clone(),
            kind: attributes.kind.kind.clone(),
        };
        Err(ApiError::invalid(&kind, &attributes.name, &faults))
    }

    async fn is_marked(&self, namespace: &str) -> Result<bool, ApiError> {
        Ok(self.namespaces.find(namespace).await?.label(LABEL) == Some("true"))
    }
}

/// The first request or allocation for which the label is needed.
fn requested(attributes: &Attributes) -> ErrorList {
    if &*attributes.resource.group != "resource.k8s.io" {
        return ErrorList::new();
    }
    let resource = (&*attributes.resource.resource, attributes.subresource.as_str());
    let (pointer, path) = match (resource, attributes.operation) {
        (("resourceclaims", ""), Operation::Create) => ("/spec/devices/requests", "spec.devices.requests"),
        // A template's fault is told at the path that it has in a claim.
        (("resourceclaimtemplates", ""), Operation::Create) => ("/spec/spec/devices/requests", "spec.devices.requests"),
        (("resourceclaims", "status"), Operation::Update) => (
            "/status/allocation/devices/results",
            "status.allocation.devices.results",
        ),
        _ => return ErrorList::new(),
    };
    let first = |object: Option<&Value>| -> Option<usize> {
        let list = object?.pointer(pointer)?.as_array()?;
        list.iter().position(is_for_admins)
    };
    // What was granted stays granted.
    let granted = first(attributes.old_object.as_deref()).is_some();
    let index = first(attributes.object.as_ref()).filter(|_| !granted);
    let fault = |index| Error::forbidden(&Path::new(path).index(index).child("adminAccess"), MISSING);
    index.map(fault).into_iter().collect()
}

fn is_for_admins(item: &Value) -> bool {
    let request = item.get("exactly").unwrap_or(item);
    request.get("adminAccess").and_then(Value::as_bool) == Some(true)
}

impl Admission for DeviceAdminAccess {
    fn mutate<'a>(&'a self, attributes: &'a mut Attributes) -> BoxFuture<'a, Result<(), ApiError>> {
        self.check(attributes).boxed()
    }

    fn validate<'a>(&'a self, _attributes: &'a Attributes) -> BoxFuture<'a, Result<(), ApiError>> {
        async { Ok(()) }.boxed()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;
    use trireme_machinery::GroupVersion;
    use trireme_registry::request::UserInfo;

    use super::*;

    fn paths(resource: &str, subresource: &str, object: Value, old: Option<Value>) -> Vec<String> {
        let version = GroupVersion::new("resource.k8s.io", "v1");
        let is_update = old.is_some();
        let attributes = Attributes {
            operation: if is_update {
                Operation::Update
            } else {
                Operation::Create
            },
            kind: version.with_kind("X"),
            resource: version.with_resource(resource),
            subresource: subresource.to_owned(),
            namespace: "n".to_owned(),
            name: "x".to_owned(),
            user: UserInfo::default(),
            dry_run: false,
            object: Some(object),
            old_object: old.map(Arc::new),
            warnings: Vec::new(),
        };
        requested(&attributes).into_iter().map(|fault| fault.field).collect()
    }

    #[test]
    fn the_first_use_for_admins_needs_the_label() {
        let admin = json!({ "exactly": { "adminAccess": true } });
        let requests = json!({ "devices": { "requests": [{ "exactly": {} }, admin, admin] } });
        let claim = json!({ "spec": requests });
        let expected = ["spec.devices.requests[1].adminAccess"];
        assert_eq!(paths("resourceclaims", "", claim.clone(), None), expected);
        assert_eq!(
            paths("resourceclaimtemplates", "", json!({ "spec": claim }), None),
            expected
        );
        assert!(paths("resourceslices", "", claim.clone(), None).is_empty());
        assert!(
            paths("resourceclaims", "", claim.clone(), Some(claim)).is_empty(),
            "it cannot change"
        );
    }

    #[test]
    fn an_allocation_for_admins_is_granted_once() {
        let results = json!([{ "adminAccess": true }]);
        let allocated = json!({ "status": { "allocation": { "devices": { "results": results } } } });
        let expected = ["status.allocation.devices.results[0].adminAccess"];
        assert_eq!(
            paths("resourceclaims", "status", allocated.clone(), Some(json!({}))),
            expected
        );
        assert!(paths("resourceclaims", "status", allocated.clone(), Some(allocated)).is_empty());
    }
}
