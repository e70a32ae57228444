//! `DeviceAdminAccess`: who claims devices that others use already does so in a namespace that is marked for it
//! (`pkg/registry/resource/utils.go`).
//!
//! kube-apiserver reports this together with the other errors of a claim; here it is reported before them.

use futures_util::{FutureExt as _, future::BoxFuture};
use serde_json::Value;
use trireme_machinery::{
    ApiError, GroupKind, GroupVersionResource,
    field::{Error, ErrorList, Path},
};
use trireme_registry::{Admission, Attributes, Operation, WriteRequest};

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
        let errors = requested(attributes, attributes.object.as_ref(), attributes.old_object.as_deref());
        if errors.is_empty() || self.is_marked(&attributes.target.namespace).await? {
            return Ok(());
        }
        let kind = GroupKind {
            group: attributes.kind.group.clone(),
            kind: attributes.kind.kind.clone(),
        };
        Err(ApiError::invalid(&kind, &attributes.name, &errors))
    }

    async fn is_marked(&self, namespace: &str) -> Result<bool, ApiError> {
        Ok(self.namespaces.find(namespace).await?.label(LABEL) == Some("true"))
    }
}

/// The first request or allocation for which the label is needed.
fn requested(request: &WriteRequest, object: Option<&Value>, old: Option<&Value>) -> ErrorList {
    requested_of(
        &request.resource,
        request.subresource.name(),
        request.operation,
        object,
        old,
    )
}

fn requested_of(
    resource: &GroupVersionResource,
    subresource: &str,
    operation: Operation,
    object: Option<&Value>,
    old: Option<&Value>,
) -> ErrorList {
    if &*resource.group != "resource.k8s.io" {
        return ErrorList::new();
    }
    let (pointer, path) = match ((&*resource.resource, subresource), operation) {
        (("resourceclaims", ""), Operation::Create) => ("/spec/devices/requests", "spec.devices.requests"),
        // A template's error is reported at the path that it has in a claim.
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
    let granted = first(old).is_some();
    let index = first(object).filter(|_| !granted);
    let error = |index| Error::forbidden(&Path::new(path).index(index).child("adminAccess"), MISSING);
    index.map(error).into_iter().collect()
}

fn is_for_admins(item: &Value) -> bool {
    let request = item.get("exactly").unwrap_or(item);
    request.get("adminAccess").and_then(Value::as_bool) == Some(true)
}

impl Admission for DeviceAdminAccess {
    fn mutate<'a>(&'a self, attributes: &'a mut Attributes) -> BoxFuture<'a, Result<(), ApiError>> {
        self.check(attributes).boxed()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use trireme_machinery::GroupVersion;

    use super::*;

    fn paths(resource: &str, subresource: &str, object: Value, old: Option<Value>) -> Vec<String> {
        let version = GroupVersion::new("resource.k8s.io", "v1");
        let operation = if old.is_some() {
            Operation::Update
        } else {
            Operation::Create
        };
        requested_of(
            &version.with_resource(resource),
            subresource,
            operation,
            Some(&object),
            old.as_ref(),
        )
        .into_iter()
        .map(|error| error.field)
        .collect()
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
