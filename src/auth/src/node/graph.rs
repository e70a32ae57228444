//! The graph from objects to the nodes whose pods need them.
//!
//! ```text
//! node ◄── pod ◄── secret, configmap, service account, resource claim
//!            ◄── volume claim ◄── volume ◄── secret
//! node ◄── volume attachment, resource slice, request for a pod's certificate
//! ```
//!
//! All but the last two steps of the longest path are folded into one: for each object the nodes that it leads to are counted.

use std::{collections::HashMap as StdHashMap, sync::Arc};

use imbl::{HashMap, HashSet};
use serde_json::Value;
use trireme_registry::{Fold, Item, ItemKey};

use super::references;

/// The sources of the view, in the order of its numbers: group and plural.
pub(super) const SOURCES: [(&str, &str); 4] = [
    ("", "pods"),
    ("", "persistentvolumes"),
    ("storage.k8s.io", "volumeattachments"),
    ("resource.k8s.io", "resourceslices"),
];

/// The last source, where it is served: group, version and plural.
pub(super) const POD_CERTIFICATE_REQUESTS: (&str, &str, &str) =
    ("certificates.k8s.io", "v1beta1", "podcertificaterequests");

/// The kind of an object in the graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Vertex {
    ConfigMap,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodCertificateRequest,
    ResourceClaim,
    ResourceSlice,
    Secret,
    ServiceAccount,
    VolumeAttachment,
}

/// A step of the graph. Keys are `namespace/name`, or `name` at the cluster scope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum GraphEdge {
    /// A pod of the node needs the object, or the object is the node's.
    OfNode {
        vertex: Vertex,
        key: Arc<str>,
        node: Arc<str>,
    },
    /// A volume is bound to a claim.
    VolumeOfClaim { volume: Arc<str>, claim: Arc<str> },
    /// A kubelet needs the secret to mount the volume.
    SecretOfVolume { secret: Arc<str>, volume: Arc<str> },
}

/// The nodes that an object leads to, with the number of edges.
type NodeCounts = HashMap<Arc<str>, usize>;

/// The graph. Persistent: a clone costs nothing, and a change touches the edges of one object.
#[derive(Debug, Clone, Default)]
pub(super) struct NodeGraph {
    nodes: HashMap<(Vertex, Arc<str>), NodeCounts>,
    claims: HashMap<Arc<str>, Arc<str>>,
    volumes_of_secret: HashMap<Arc<str>, HashSet<Arc<str>>>,
}

/// The key of an object.
pub(super) fn key(namespace: &str, name: &str) -> Arc<str> {
    match namespace {
        "" => name.into(),
        _ => format!("{namespace}/{name}").into(),
    }
}

impl NodeGraph {
    /// Reports whether an object leads to a node.
    pub(super) fn has_path(&self, node: &str, vertex: Vertex, namespace: &str, name: &str) -> bool {
        let key = key(namespace, name);
        match vertex {
            Vertex::PersistentVolume => self.volume_leads_to(node, &key),
            Vertex::Secret => {
                let volumes = self.volumes_of_secret.get(&key).into_iter().flatten();
                self.leads_to(node, vertex, key.clone()) || volumes.into_iter().any(|it| self.volume_leads_to(node, it))
            }
            _ => self.leads_to(node, vertex, key),
        }
    }

    fn leads_to(&self, node: &str, vertex: Vertex, key: Arc<str>) -> bool {
        let nodes = self.nodes.get(&(vertex, key));
        nodes.is_some_and(|nodes| nodes.contains_key(node))
    }

    fn volume_leads_to(&self, node: &str, volume: &str) -> bool {
        let claim = self.claims.get(volume);
        claim.is_some_and(|claim| self.leads_to(node, Vertex::PersistentVolumeClaim, claim.clone()))
    }

    fn add(&mut self, edge: &GraphEdge) {
        match edge {
            GraphEdge::OfNode { vertex, key, node } => {
                let nodes = self.nodes.entry((*vertex, key.clone())).or_default();
                *nodes.entry(node.clone()).or_default() += 1;
            }
            GraphEdge::VolumeOfClaim { volume, claim } => {
                self.claims.insert(volume.clone(), claim.clone());
            }
            GraphEdge::SecretOfVolume { secret, volume } => {
                let volumes = self.volumes_of_secret.entry(secret.clone()).or_default();
                volumes.insert(volume.clone());
            }
        }
    }

    fn forget(&mut self, edge: &GraphEdge) {
        match edge {
            GraphEdge::OfNode { vertex, key, node } => self.forget_node((*vertex, key.clone()), node),
            GraphEdge::VolumeOfClaim { volume, .. } => {
                self.claims.remove(volume);
            }
            GraphEdge::SecretOfVolume { secret, volume } => {
                if let Some(volumes) = self.volumes_of_secret.get_mut(secret) {
                    volumes.remove(volume);
                    if volumes.is_empty() {
                        self.volumes_of_secret.remove(secret);
                    }
                }
            }
        }
    }

    fn forget_node(&mut self, object: (Vertex, Arc<str>), node: &Arc<str>) {
        let Some(nodes) = self.nodes.get_mut(&object) else {
            return;
        };
        match nodes.get_mut(node) {
            Some(count) if *count > 1 => *count -= 1,
            _ => {
                nodes.remove(node);
            }
        }
        if nodes.is_empty() {
            self.nodes.remove(&object);
        }
    }
}

/// Takes in pods, volumes, attachments and slices one at a time.
#[derive(Default)]
pub(super) struct GraphFold {
    graph: NodeGraph,
    /// The edges that each object has brought.
    edges: StdHashMap<(usize, ItemKey), Vec<GraphEdge>>,
}

impl GraphFold {
    pub(super) fn put_object(&mut self, source: usize, key: &ItemKey, object: &Value) {
        let edges = match source {
            0 => references::of_pod(object),
            1 => references::of_volume(object),
            2 => references::of_node(Vertex::VolumeAttachment, object),
            3 => references::of_node(Vertex::ResourceSlice, object),
            _ => references::of_node(Vertex::PodCertificateRequest, object),
        };
        // Most changes are of a status.
        if self.edges.get(&(source, key.clone())) == Some(&edges) {
            return;
        }
        self.remove(source, key);
        edges.iter().for_each(|edge| self.graph.add(edge));
        if !edges.is_empty() {
            self.edges.insert((source, key.clone()), edges);
        }
    }
}

impl Fold for GraphFold {
    type Value = NodeGraph;

    fn put(&mut self, source: usize, item: &Arc<Item>) {
        // One that cannot be read leads nowhere.
        let object = serde_json::from_slice(&item.bytes).unwrap_or_default();
        self.put_object(source, &item.key, &object);
    }

    fn remove(&mut self, source: usize, key: &ItemKey) {
        let edges = self.edges.remove(&(source, key.clone()));
        edges.iter().flatten().for_each(|edge| self.graph.forget(edge));
    }

    fn value(&self) -> NodeGraph {
        self.graph.clone()
    }
}
