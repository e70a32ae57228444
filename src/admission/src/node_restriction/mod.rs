//! `NodeRestriction`: a kubelet writes only what is its own (`plugin/pkg/admission/noderestriction`).
//!
//! The Node authorizer says which resources a node may write; this plugin looks at the objects, old and new.

mod nodes;
mod pod_certificates;
mod pods;
pub(crate) mod requests;
mod tokens;

use std::{fmt, sync::Arc};

use futures_util::{FutureExt as _, future::BoxFuture};
use serde_json::Value;
use trireme_machinery::{ApiError, Feature, Features, GroupResource, go_text::quote};
use trireme_registry::{Admission, Attributes, Operation, WriteRequest};

use crate::{attributes::forbidden, object_lookup::ObjectLookup, permissions::Permissions};

/// The objects that the plugin looks up.
pub(crate) struct RestrictedObjects {
    pub(crate) pods: ObjectLookup,
    pub(crate) nodes: ObjectLookup,
    pub(crate) claims: ObjectLookup,
    pub(crate) volumes: ObjectLookup,
    pub(crate) drivers: ObjectLookup,
    pub(crate) accounts: ObjectLookup,
}

/// The plugin.
pub(crate) struct NodeRestriction {
    objects: RestrictedObjects,
    permissions: Arc<dyn Permissions>,
    features: Features,
}

impl NodeRestriction {
    /// A plugin that looks at these objects and asks these authorizers.
    pub(crate) fn new(objects: RestrictedObjects, permissions: Arc<dyn Permissions>, features: Features) -> Self {
        Self {
            objects,
            permissions,
            features,
        }
    }

    fn takes_any_signing_request(&self) -> bool {
        self.features
            .has(Feature::AllowInsecureKubeletCertificateSigningRequests)
    }

    async fn check(&self, attributes: &Attributes) -> Result<(), ApiError> {
        let Some(name) = attributes.context.user.node_name() else {
            return Ok(());
        };
        if name.is_empty() {
            let user = quote(&attributes.context.user.name);
            return Err(forbidden(
                attributes,
                format!("could not determine node from user {user}"),
            ));
        }
        let node = NodeWrite { name, attributes };
        match (&*attributes.resource.group, &*attributes.resource.resource) {
            ("", "pods") => self.pod(&node).await,
            ("", "nodes") => nodes::check(&node),
            ("", "persistentvolumeclaims") => requests::claim(&node),
            ("", "serviceaccounts") => self.service_account(&node).await,
            ("coordination.k8s.io", "leases") => requests::lease(&node),
            ("storage.k8s.io", "csinodes") => requests::csi_node(&node),
            ("resource.k8s.io", "resourceslices") => requests::resource_slice(&node),
            ("certificates.k8s.io", "podcertificaterequests") => self.pod_certificate_request(&node).await,
            ("certificates.k8s.io", "certificatesigningrequests") if !self.takes_any_signing_request() => {
                requests::signing_request(&node)
            }
            _ => Ok(()),
        }
    }
}

impl Admission for NodeRestriction {
    fn handles(&self, request: &WriteRequest) -> bool {
        request.operation != Operation::Connect && request.context.user.node_name().is_some()
    }

    fn mutate<'a>(&'a self, attributes: &'a mut Attributes) -> BoxFuture<'a, Result<(), ApiError>> {
        self.check(attributes).boxed()
    }
}

/// A write by a node.
struct NodeWrite<'a> {
    /// The node's name.
    name: &'a str,
    attributes: &'a Attributes,
}

impl NodeWrite<'_> {
    fn forbid<T>(&self, why: impl fmt::Display) -> Result<T, ApiError> {
        Err(forbidden(self.attributes, why))
    }

    /// Forbids it with the node's name before the reason.
    fn forbid_node<T>(&self, why: impl fmt::Display) -> Result<T, ApiError> {
        self.forbid(format!("node {} {why}", quote(self.name)))
    }

    fn object(&self) -> &Value {
        self.attributes.object.as_ref().unwrap_or(&Value::Null)
    }

    fn old_object(&self) -> &Value {
        self.attributes.old_object.as_deref().unwrap_or(&Value::Null)
    }

    fn subresource(&self) -> &'static str {
        self.attributes.subresource.name()
    }

    fn forbid_operation<T>(&self) -> Result<T, ApiError> {
        let operation = quote(operation_name(self.attributes.operation));
        self.forbid(format!("unexpected operation {operation}"))
    }
}

fn operation_name(operation: Operation) -> &'static str {
    match operation {
        Operation::Create => "CREATE",
        Operation::Update => "UPDATE",
        Operation::Delete => "DELETE",
        Operation::Connect => "CONNECT",
    }
}

/// The text at a path of fields; empty if it is absent.
fn text<'v>(value: &'v Value, path: &[&str]) -> &'v str {
    let found = path.iter().fold(value, |value, field| &value[*field]);
    found.as_str().unwrap_or_default()
}

/// The error of an object that the server looked for itself: such errors name the kind in lower case.
fn not_found(kind: &str, name: &str) -> ApiError {
    let kind = GroupResource {
        group: "".into(),
        resource: kind.into(),
    };
    ApiError::not_found(&kind, name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_kubernetes_are_for_others_but_for_the_known_ones() {
        let forbidden = |label: &str| nodes::is_forbidden_label(label);
        for label in [
            "a",
            "example.com/a",
            "kubernetes.io/hostname",
            "topology.kubernetes.io/zone",
            "beta.kubernetes.io/os",
            "kubelet.kubernetes.io/a",
            "a.node.kubernetes.io/b",
        ] {
            assert!(!forbidden(label), "{label}");
        }
        for label in [
            "kubernetes.io/a",
            "a.kubernetes.io/b",
            "k8s.io/a",
            "a.k8s.io/b",
            "node-role.kubernetes.io/master",
            "node-restriction.kubernetes.io/a",
            "a.node-restriction.kubernetes.io/b",
        ] {
            assert!(forbidden(label), "{label}");
        }
    }

    #[test]
    fn a_mirror_pod_refers_to_nothing_in_the_api() {
        let refers = |spec: Value| pods::api_reference(&serde_json::json!({"spec": spec})).ok().flatten();
        let volume = |source: Value| refers(serde_json::json!({"volumes": [source]}));
        assert_eq!(refers(serde_json::json!({"containers": [{"name": "c"}]})), None);
        assert_eq!(volume(serde_json::json!({"name": "v", "hostPath": {}})), None);
        assert_eq!(
            volume(serde_json::json!({"name": "v", "projected": {"sources": [{"downwardAPI": {}}]}})),
            None
        );
        assert_eq!(
            refers(serde_json::json!({"serviceAccountName": "a"})),
            Some("serviceaccounts")
        );
        assert_eq!(
            refers(serde_json::json!({"containers": [{"env": [{"valueFrom": {"secretKeyRef": {"name": "s"}}}]}]})),
            Some("secrets")
        );
        assert_eq!(
            volume(serde_json::json!({"name": "v", "configMap": {"name": "c"}})),
            Some("configmaps")
        );
        assert_eq!(
            volume(serde_json::json!({"name": "v", "ephemeral": {}})),
            Some("persistentvolumeclaims (via ephemeral volumes)")
        );
        assert_eq!(
            volume(serde_json::json!({"name": "v", "projected": {"sources": [{"serviceAccountToken": {}}]}})),
            Some("serviceaccounts (via projected volumes)")
        );
        let unknown = serde_json::json!({"spec": {"volumes": [{"name": "v", "later": {}}]}});
        assert!(pods::api_reference(&unknown).is_err());
    }
}
