//! The Node authorizer: a kubelet may do what the pods on its node need (`plugin/pkg/auth/authorizer/node`).
//!
//! ```text
//! pods, persistentvolumes,        ┌── GraphFold ──► NodeGraph (immutable) ◄── NodeAuthorizer: requests of system:node:<name>
//! volumeattachments,        ──view─┘
//! resourceslices,
//! podcertificaterequests
//! ```
//!
//! Promise: a request is answered from one snapshot without a lock. Those who are no nodes are no business of this authorizer. It does
//! not look into bodies: the admission plugin NodeRestriction does.

mod graph;
mod references;
mod rules;

use std::sync::Arc;

use trireme_actors::ActorSystem;
use trireme_machinery::{Feature, Features, go_text::quote};
use trireme_registry::{PublishedSurface, Readiness, View, request::UserInfo};

use self::graph::{GraphFold, NodeGraph, Vertex};
use crate::{
    authenticator::BoxFuture,
    authorizer::{Attributes, AuthorizationRequest, Authorizer, Decision, RequestSelectors},
    rules::{RuleResolver, Rules},
};

/// The namespace of the leases by which nodes say that they are alive.
const LEASES: &str = "kube-node-lease";

/// Answers for nodes. Cheap to clone.
#[derive(Clone)]
pub struct NodeAuthorizer {
    graph: View<NodeGraph>,
    features: Features,
}

impl NodeAuthorizer {
    /// Starts to follow what the graph is made of as soon as it is served; `has_pod_certificates` says that requests for
    /// certificates of pods will be.
    pub fn start(
        system: &ActorSystem,
        served: &PublishedSurface,
        features: Features,
        has_pod_certificates: bool,
    ) -> Self {
        let sources = graph::SOURCES
            .iter()
            .map(|(group, plural)| served.resource(group, "v1", plural));
        let (group, version, plural) = graph::POD_CERTIFICATE_REQUESTS;
        let gated = has_pod_certificates.then(|| served.resource(group, version, plural));
        let sources = sources.chain(gated).collect();
        Self {
            graph: View::start_when_served(system, "node-graph", sources, GraphFold::default),
            features,
        }
    }

    /// The view, for readiness.
    pub fn view(&self) -> Arc<dyn Readiness> {
        Arc::new(self.graph.clone())
    }
}

impl Authorizer for NodeAuthorizer {
    fn authorize<'a>(&'a self, attributes: Attributes<'a>) -> BoxFuture<'a, Decision> {
        let decision = match attributes.user.node_name() {
            None => no(""),
            Some("") => {
                let user = quote(&attributes.user.name);
                no(format!("unknown node for user {user}"))
            }
            Some(node) => {
                let request = NodeRequest::of(node, &attributes);
                request.map_or_else(|| no(""), |asked| asked.decide(self.features, &self.graph.load()))
            }
        };
        Box::pin(std::future::ready(decision))
    }
}

impl RuleResolver for NodeAuthorizer {
    fn rules<'a>(&'a self, user: &'a UserInfo, _: &'a str) -> BoxFuture<'a, Rules> {
        let is_node = user.node_name().is_some();
        Box::pin(std::future::ready(Rules {
            is_incomplete: is_node,
            error: is_node.then(|| "node authorizer does not support user rule resolution".to_owned()),
            ..Rules::default()
        }))
    }
}

fn no(why: impl Into<String>) -> Decision {
    Decision::NoOpinion(why.into())
}

fn allow() -> Decision {
    Decision::Allow(String::new())
}

fn allow_if(may: bool, why_not: &str) -> Decision {
    if may { allow() } else { no(why_not) }
}

/// A request of a node for objects.
struct NodeRequest<'a> {
    node: &'a str,
    verb: &'a str,
    group: &'a str,
    resource: &'a str,
    subresource: &'a str,
    namespace: &'a str,
    name: &'a str,
    selectors: RequestSelectors<'a>,
}

impl<'a> NodeRequest<'a> {
    /// `None` for paths that are no resources: nodes have no rights of their own there.
    fn of(node: &'a str, attributes: &Attributes<'a>) -> Option<Self> {
        match attributes.wanted {
            AuthorizationRequest::Path(_) => None,
            AuthorizationRequest::Resource {
                group,
                resource,
                subresource,
                namespace,
                name,
                ..
            } => Some(Self {
                node,
                verb: attributes.verb,
                group,
                resource,
                subresource,
                namespace,
                name,
                selectors: attributes.selectors,
            }),
        }
    }

    fn decide(&self, features: Features, graph: &NodeGraph) -> Decision {
        match (self.group, self.resource) {
            ("", "secrets") => self.read_in_namespace(graph, Vertex::Secret),
            ("", "configmaps") => self.read_in_namespace(graph, Vertex::ConfigMap),
            ("", "persistentvolumeclaims") if self.subresource == "status" => match self.verb {
                "update" | "patch" => self.related(graph, Vertex::PersistentVolumeClaim),
                _ => no("can only get/update/patch this type"),
            },
            ("", "persistentvolumeclaims") => self.get(graph, Vertex::PersistentVolumeClaim),
            ("", "persistentvolumes") => self.get(graph, Vertex::PersistentVolume),
            ("resource.k8s.io", "resourceclaims") => self.get(graph, Vertex::ResourceClaim),
            ("storage.k8s.io", "volumeattachments") => self.get(graph, Vertex::VolumeAttachment),
            ("", "serviceaccounts") => self.service_account(graph),
            ("coordination.k8s.io", "leases") => self.lease(),
            ("storage.k8s.io", "csinodes") => self.csi_node(),
            ("resource.k8s.io", "resourceslices") => self.resource_slice(graph),
            ("", "nodes") => self.own_node(),
            ("", "pods") => self.pod(graph),
            ("certificates.k8s.io", "podcertificaterequests") if features.has(Feature::PodCertificateRequest) => {
                self.pod_certificate_request(graph)
            }
            ("certificates.k8s.io", "podcertificaterequests") => no(""),
            ("certificates.k8s.io", "clustertrustbundles") => {
                let is_read = self.subresource.is_empty() && matches!(self.verb, "get" | "list" | "watch");
                allow_if(is_read && features.has(Feature::ClusterTrustBundle), "")
            }
            _ => allow_if(rules::allow(self.verb, self.group, self.resource, self.subresource), ""),
        }
    }

    /// Allows it if the graph has a path from the object to the node (`authorize`).
    fn related(&self, graph: &NodeGraph, vertex: Vertex) -> Decision {
        if self.name.is_empty() {
            return no("No Object name found");
        }
        self.reaches_node(graph, vertex)
    }

    fn reaches_node(&self, graph: &NodeGraph, vertex: Vertex) -> Decision {
        if graph.has_path(self.node, vertex, self.namespace, self.name) {
            return allow();
        }
        no(format!(
            "no relationship found between node '{}' and this object",
            self.node
        ))
    }

    /// `authorizeGet`
    fn get(&self, graph: &NodeGraph, vertex: Vertex) -> Decision {
        if self.verb != "get" {
            return no("can only get individual resources of this type");
        }
        if !self.subresource.is_empty() {
            return no("cannot get subresource");
        }
        self.related(graph, vertex)
    }

    /// `authorizeReadNamespacedObject`
    fn read_in_namespace(&self, graph: &NodeGraph, vertex: Vertex) -> Decision {
        if !matches!(self.verb, "get" | "list" | "watch") {
            return no("can only read resources of this type");
        }
        if !self.subresource.is_empty() {
            return no("cannot read subresource");
        }
        if self.namespace.is_empty() {
            return no("can only read namespaced object of this type");
        }
        self.related(graph, vertex)
    }

    fn service_account(&self, graph: &NodeGraph) -> Decision {
        if self.verb == "get" && self.subresource.is_empty() {
            return self.read_in_namespace(graph, Vertex::ServiceAccount);
        }
        if self.verb != "create" || self.name.is_empty() {
            return no("can only create tokens for individual service accounts");
        }
        if self.subresource != "token" {
            return no("can only create token subresource of serviceaccount");
        }
        self.reaches_node(graph, Vertex::ServiceAccount)
    }

    /// Reports whether the request is for one object that exists, or will, and leaves others alone.
    fn is_for_one(&self) -> bool {
        matches!(self.verb, "get" | "create" | "update" | "patch" | "delete")
    }

    /// Reports whether it is for the object that has the node's name. A creation has its name in the body, which admission looks at.
    fn is_for_own_name(&self) -> bool {
        self.verb == "create" || self.name == self.node
    }

    fn lease(&self) -> Decision {
        if !self.is_for_one() {
            return no("can only get, create, update, patch, or delete a node lease");
        }
        if self.namespace != LEASES {
            let namespace = quote(LEASES);
            return no(format!("can only access leases in the {namespace} system namespace"));
        }
        let why_not = "can only access node lease with the same name as the requesting node";
        allow_if(self.is_for_own_name(), why_not)
    }

    fn csi_node(&self) -> Decision {
        if !self.is_for_one() {
            return no("can only get, create, update, patch, or delete a CSINode");
        }
        if !self.subresource.is_empty() {
            return no("cannot authorize CSINode subresources");
        }
        let why_not = "can only access CSINode with the same name as the requesting node";
        allow_if(self.is_for_own_name(), why_not)
    }

    fn resource_slice(&self, graph: &NodeGraph) -> Decision {
        if !self.subresource.is_empty() {
            return no("cannot authorize ResourceSlice subresources");
        }
        match self.verb {
            "create" => allow(),
            "get" | "update" | "patch" | "delete" => self.related(graph, Vertex::ResourceSlice),
            "watch" | "list" | "deletecollection" => allow_if(
                self.selectors.require_field("spec.nodeName", self.node),
                "can only list/watch/deletecollection resourceslices with nodeName field selector",
            ),
            _ => no(
                "only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, \
                 delete, deletecollection",
            ),
        }
    }

    fn pod_certificate_request(&self, graph: &NodeGraph) -> Decision {
        if !self.subresource.is_empty() {
            return no("nodes may not access the status subresource of PodCertificateRequests");
        }
        match self.verb {
            // NodeRestriction looks at what is requested.
            "create" => allow(),
            "get" => self.related(graph, Vertex::PodCertificateRequest),
            "list" | "watch" => allow_if(
                self.selectors.require_field("spec.nodeName", self.node),
                "can only list/watch podcertificaterequests with nodeName field selector",
            ),
            verb => no(format!("nodes may not {verb} podcertificaterequests")),
        }
    }

    /// Its own Node is known by its name, not by the graph: a kubelet looks for it before it is there.
    fn own_node(&self) -> Decision {
        match (self.subresource, self.verb) {
            ("", "create" | "update" | "patch") | ("status", "update" | "patch") => allow(),
            ("", "get" | "list" | "watch") if self.name == self.node => allow(),
            ("", "get" | "list" | "watch") if self.name.is_empty() => no(format!(
                "node '{}' cannot read all nodes, only its own Node object",
                self.node
            )),
            ("", "get" | "list" | "watch") => no(format!(
                "node '{}' cannot read '{}', only its own Node object",
                self.node, self.name
            )),
            _ => no(""),
        }
    }

    fn pod(&self, graph: &NodeGraph) -> Decision {
        match (self.subresource, self.verb) {
            ("", "get") => self.get(graph, Vertex::Pod),
            ("", "list" | "watch") if self.selectors.require_field("spec.nodeName", self.node) => allow(),
            ("", "list" | "watch") if !self.name.is_empty() => self.related(graph, Vertex::Pod),
            ("", "list" | "watch") => no("can only list/watch pods with spec.nodeName field selector"),
            ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create") => allow(),
            _ => no(""),
        }
    }
}

#[cfg(test)]
mod tests;
