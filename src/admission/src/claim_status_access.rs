//! `ClaimStatusAccess`: who may write which part of a ResourceClaim's status (`pkg/registry/resource/utils.go`, KEP 4817).
//!
//! Beside `resourceclaims/status`, a change of the allocation or of who it is reserved for needs `resourceclaims/binding`, and a
//! change of a driver's devices `resourceclaims/driver` of the driver's name. kube-apiserver reports this together with
//! the other errors of a claim; here it is reported before them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use futures_util::{FutureExt as _, future::BoxFuture};
use serde_json::Value;
use trireme_machinery::{
    ApiError, Feature, Features, GroupKind,
    field::{Error, ErrorList, Path},
    names,
};
use trireme_registry::{Admission, Attributes, Operation, WriteRequest, request::UserInfo};

use crate::permissions::{PermissionRequest, Permissions};

const NODE_NAME: &str = "authentication.kubernetes.io/node-name";
const SERVICE_ACCOUNTS: &str = "system:serviceaccount:";
/// For a service account of a pod on the node that has the devices.
const ON_THE_NODE: &str = "associated-node:";
const ON_ANY_NODE: &str = "arbitrary-node:";

/// The plugin.
pub struct ClaimStatusAccess {
    permissions: Arc<dyn Permissions>,
    features: Features,
}

impl ClaimStatusAccess {
    /// Asks these authorizers.
    pub fn new(permissions: Arc<dyn Permissions>, features: Features) -> Self {
        Self { permissions, features }
    }

    async fn check(&self, attributes: &Attributes) -> Result<(), ApiError> {
        let none = Value::Null;
        let (new, old) = (attributes.object.as_ref(), attributes.old_object.as_deref());
        let [new, old] = [new, old].map(|claim| claim.and_then(|claim| claim.get("status")).unwrap_or(&none));
        let mut errors = ErrorList::new();
        if ["allocation", "reservedFor"]
            .iter()
            .any(|part| new.get(part) != old.get(part))
        {
            errors.extend(self.binding(attributes).await);
        }
        if self.features.has(Feature::DraResourceClaimDeviceStatus) && new.get("allocation").is_some() {
            let verbs = driver_verbs(attributes, new);
            for driver in changed_drivers(new, old) {
                errors.extend(self.driver(attributes, &verbs, driver).await);
            }
        }
        if errors.is_empty() {
            return Ok(());
        }
        let kind = GroupKind {
            group: attributes.kind.group.clone(),
            kind: attributes.kind.kind.clone(),
        };
        Err(ApiError::invalid(&kind, &attributes.name, &errors))
    }

    async fn binding(&self, attributes: &Attributes) -> Option<Error> {
        let verb = verb(attributes);
        let access = PermissionRequest {
            subresource: "binding",
            namespace: "",
            ..access(attributes, verb)
        };
        let why = self.permissions.require(access).await.err()?;
        let detail = format!(
            "changing status.allocation or status.reservedFor requires resource=\"resourceclaims/binding\", \
             verb=\"{verb}\" permission: {why}"
        );
        Some(Error::forbidden(&Path::new("status.allocation"), &detail))
    }

    /// One of the verbs is enough.
    async fn driver(&self, attributes: &Attributes, verbs: &[String], name: &str) -> Option<Error> {
        let mut refused = None;
        for verb in verbs {
            let access = PermissionRequest {
                subresource: "driver",
                name,
                ..access(attributes, verb)
            };
            match self.permissions.require(access).await {
                Ok(()) => return None,
                Err(why) => refused = refused.or(Some(why)),
            }
        }
        let detail = format!(
            "changing status.devices requires resource=\"resourceclaims/driver\", verb=\"[{}]\" permission: {}",
            verbs.join(" "),
            refused.unwrap_or_default()
        );
        Some(Error::forbidden(&Path::new("status.devices"), &detail))
    }
}

fn verb(request: &WriteRequest) -> &'static str {
    if request.options.is_patch { "patch" } else { "update" }
}

fn access<'a>(attributes: &'a Attributes, verb: &'a str) -> PermissionRequest<'a> {
    PermissionRequest {
        user: &attributes.context.user,
        verb,
        group: &attributes.resource.group,
        version: &attributes.resource.version,
        resource: &attributes.resource.resource,
        subresource: "",
        namespace: attributes.namespace(),
        name: "",
    }
}

/// The verbs that let a user write the devices of a driver.
fn driver_verbs(attributes: &Attributes, status: &Value) -> Vec<String> {
    let verb = verb(attributes);
    let is_on_the_node = allocated_node(status).is_some_and(|node| runs_on(&attributes.context.user, node));
    let on_the_node = is_on_the_node.then(|| format!("{ON_THE_NODE}{verb}"));
    on_the_node
        .into_iter()
        .chain([format!("{ON_ANY_NODE}{verb}")])
        .collect()
}

/// The one node that an allocation is for.
fn allocated_node(status: &Value) -> Option<&str> {
    let terms = status
        .pointer("/allocation/nodeSelector/nodeSelectorTerms")?
        .as_array()?;
    let [term] = &terms[..] else { return None };
    let expressions = term.get("matchExpressions").and_then(Value::as_array);
    if expressions.is_some_and(|expressions| !expressions.is_empty()) {
        return None;
    }
    let fields = term.get("matchFields")?.as_array()?;
    let [field] = &fields[..] else { return None };
    let values = field.get("values")?.as_array()?;
    let [node] = &values[..] else { return None };
    let is_by_name = field["key"] == "metadata.name" && field["operator"] == "In";
    node.as_str().filter(|_| is_by_name)
}

/// Reports whether a user is the service account of a pod on this node.
fn runs_on(user: &UserInfo, node: &str) -> bool {
    let nodes = user.extra.get(NODE_NAME).map_or(&[][..], Vec::as_slice);
    let is_there = matches!(nodes, [one] if one == node && names::dns1123_subdomain(one).is_empty());
    is_there && user.name.starts_with(SERVICE_ACCOUNTS)
}

/// The drivers whose devices are there anew, are gone, or have another state.
fn changed_drivers<'a>(new: &'a Value, old: &'a Value) -> BTreeSet<&'a str> {
    let (new, old) = (devices(new), devices(old));
    let changed = new.iter().filter(|(key, device)| old.get(*key) != Some(device));
    let gone = old.keys().filter(|key| !new.contains_key(*key));
    let driver = |[driver, ..]: &[&'a str; 4]| *driver;
    changed.map(|(key, _)| driver(key)).chain(gone.map(driver)).collect()
}

/// The states of devices by driver, pool, device and share.
fn devices(status: &Value) -> BTreeMap<[&str; 4], &Value> {
    let listed = status.get("devices").and_then(Value::as_array);
    let keyed = listed.into_iter().flatten().map(|device| {
        let part = |field: &str| device.get(field).and_then(Value::as_str).unwrap_or_default();
        (["driver", "pool", "device", "shareID"].map(part), device)
    });
    keyed.collect()
}

impl Admission for ClaimStatusAccess {
    fn handles(&self, request: &WriteRequest) -> bool {
        &*request.resource.group == "resource.k8s.io"
            && &*request.resource.resource == "resourceclaims"
            && request.subresource.name() == "status"
            && request.operation == Operation::Update
            && self.features.has(Feature::DraResourceClaimGranularStatusAuthorization)
    }

    fn mutate<'a>(&'a self, attributes: &'a mut Attributes) -> BoxFuture<'a, Result<(), ApiError>> {
        self.check(attributes).boxed()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn allocation(field: Value) -> Value {
        let terms = json!([{ "matchFields": [field] }]);
        json!({ "allocation": { "nodeSelector": { "nodeSelectorTerms": terms } } })
    }

    #[test]
    fn an_allocation_is_for_one_node_if_it_says_so_by_name() {
        let by_name = |values: Value| json!({ "key": "metadata.name", "operator": "In", "values": values });
        assert_eq!(allocated_node(&allocation(by_name(json!(["n1"])))), Some("n1"));
        assert_eq!(allocated_node(&allocation(by_name(json!(["n1", "n2"])))), None);
        let mut other = by_name(json!(["n1"]));
        other["operator"] = "NotIn".into();
        assert_eq!(allocated_node(&allocation(other)), None);
        let mut labelled = allocation(by_name(json!(["n1"])));
        labelled["allocation"]["nodeSelector"]["nodeSelectorTerms"][0]["matchExpressions"] = json!([{ "key": "a" }]);
        assert_eq!(allocated_node(&labelled), None);
        assert_eq!(allocated_node(&json!({ "allocation": {} })), None);
    }

    #[test]
    fn a_user_is_on_a_node_as_the_service_account_of_its_pod() {
        let user = |name: &str, nodes: &[&str]| UserInfo {
            name: name.to_owned(),
            extra: [(
                NODE_NAME.to_owned(),
                nodes.iter().map(|node| (*node).to_owned()).collect(),
            )]
            .into(),
            ..UserInfo::default()
        };
        let account = "system:serviceaccount:drivers:gpu";
        assert!(runs_on(&user(account, &["n1"]), "n1"));
        assert!(!runs_on(&user(account, &["n2"]), "n1"));
        assert!(!runs_on(&user(account, &["n1", "n1"]), "n1"));
        assert!(!runs_on(&user("jane", &["n1"]), "n1"));
        assert!(!runs_on(
            &UserInfo {
                name: account.to_owned(),
                ..UserInfo::default()
            },
            "n1"
        ));
    }

    #[test]
    fn drivers_are_asked_for_whose_devices_have_changed() {
        let device = |driver: &str, name: &str, data: &str| json!({ "driver": driver, "pool": "p", "device": name, "data": data });
        let status = |devices: &[Value]| json!({ "devices": devices });
        let old = status(&[device("a", "1", "x"), device("b", "1", "x"), device("c", "1", "x")]);
        let new = status(&[device("a", "1", "x"), device("b", "1", "y"), device("d", "1", "x")]);
        assert_eq!(
            changed_drivers(&new, &old).into_iter().collect::<Vec<_>>(),
            ["b", "c", "d"]
        );
        assert!(changed_drivers(&old, &old).is_empty());
    }
}
