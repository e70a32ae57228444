//! The edges that objects bring into the graph: what a pod, a volume, an attachment or a slice refers to
//! (`Graph.AddPod`, `AddPV`, `AddVolumeAttachment`, `AddResourceSlice`; `VisitPodSecretNames`, `VisitPVSecretNames`).

use std::sync::Arc;

use serde_json::Value;

use super::graph::{GraphEdge, Vertex, key};

/// A kubelet makes such pods itself: they must not give its node any rights.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// The volume sources of a pod whose secret is at `secretRef`.
const WITH_SECRET_REF: [&str; 7] = ["cephfs", "cinder", "flexVolume", "rbd", "scaleIO", "iscsi", "storageos"];

fn at<'v>(value: &'v Value, path: &[&str]) -> &'v Value {
    path.iter().fold(value, |value, field| &value[*field])
}

fn text<'v>(value: &'v Value, path: &[&str]) -> &'v str {
    at(value, path).as_str().unwrap_or_default()
}

fn items<'v>(value: &'v Value, path: &[&str]) -> impl Iterator<Item = &'v Value> {
    at(value, path).as_array().into_iter().flatten()
}

/// The edges of a pod; none before it is bound to a node.
pub(super) fn of_pod(pod: &Value) -> Vec<GraphEdge> {
    let node: Arc<str> = text(pod, &["spec", "nodeName"]).into();
    if node.is_empty() {
        return Vec::new();
    }
    let namespace = text(pod, &["metadata", "namespace"]);
    let edge = |vertex, name: &str| GraphEdge::OfNode {
        vertex,
        key: key(namespace, name),
        node: node.clone(),
    };
    let own = edge(Vertex::Pod, text(pod, &["metadata", "name"]));
    if at(pod, &["metadata", "annotations"]).get(MIRROR).is_some() {
        return vec![own];
    }
    let needed = needed_by(pod).into_iter().filter(|(_, name)| !name.is_empty());
    std::iter::once(own)
        .chain(needed.map(|(vertex, name)| edge(vertex, &name)))
        .collect()
}

/// The objects of its namespace that a pod needs.
fn needed_by(pod: &Value) -> Vec<(Vertex, String)> {
    let mut needed = Vec::new();
    let mut need = |vertex, name: &str| needed.push((vertex, name.to_owned()));
    need(Vertex::ServiceAccount, text(pod, &["spec", "serviceAccountName"]));
    for secret in items(pod, &["spec", "imagePullSecrets"]) {
        need(Vertex::Secret, text(secret, &["name"]));
    }
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for container in items(pod, &["spec", list]) {
            for from in items(container, &["envFrom"]) {
                need(Vertex::Secret, text(from, &["secretRef", "name"]));
                need(Vertex::ConfigMap, text(from, &["configMapRef", "name"]));
            }
            for variable in items(container, &["env"]) {
                need(Vertex::Secret, text(variable, &["valueFrom", "secretKeyRef", "name"]));
                need(
                    Vertex::ConfigMap,
                    text(variable, &["valueFrom", "configMapKeyRef", "name"]),
                );
            }
        }
    }
    for volume in items(pod, &["spec", "volumes"]) {
        of_pod_volume(pod, volume, &mut need);
    }
    for claim in items(pod, &["spec", "resourceClaims"]) {
        need(Vertex::ResourceClaim, resource_claim(pod, claim));
    }
    need(
        Vertex::ResourceClaim,
        text(pod, &["status", "extendedResourceClaimStatus", "resourceClaimName"]),
    );
    needed
}

fn of_pod_volume(pod: &Value, volume: &Value, need: &mut impl FnMut(Vertex, &str)) {
    need(Vertex::Secret, text(volume, &["secret", "secretName"]));
    need(Vertex::Secret, text(volume, &["azureFile", "secretName"]));
    need(Vertex::Secret, text(volume, &["csi", "nodePublishSecretRef", "name"]));
    for source in WITH_SECRET_REF {
        need(Vertex::Secret, text(volume, &[source, "secretRef", "name"]));
    }
    need(Vertex::ConfigMap, text(volume, &["configMap", "name"]));
    for source in items(volume, &["projected", "sources"]) {
        need(Vertex::Secret, text(source, &["secret", "name"]));
        need(Vertex::ConfigMap, text(source, &["configMap", "name"]));
    }
    need(
        Vertex::PersistentVolumeClaim,
        text(volume, &["persistentVolumeClaim", "claimName"]),
    );
    if volume["ephemeral"].is_object() {
        let claim = format!("{}-{}", text(pod, &["metadata", "name"]), text(volume, &["name"]));
        need(Vertex::PersistentVolumeClaim, &claim);
    }
}

/// The claim that a pod's entry stands for; empty if it has not been made yet.
fn resource_claim<'v>(pod: &'v Value, claim: &'v Value) -> &'v str {
    let given = text(claim, &["resourceClaimName"]);
    if !given.is_empty() {
        return given;
    }
    let mut made = items(pod, &["status", "resourceClaimStatuses"]);
    let made = made.find(|made| made["name"] == claim["name"]);
    made.map_or("", |made| text(made, &["resourceClaimName"]))
}

/// The edges of a volume; none before it is bound to a claim.
pub(super) fn of_volume(volume: &Value) -> Vec<GraphEdge> {
    let spec = &volume["spec"];
    let claim = &spec["claimRef"];
    if !claim.is_object() {
        return Vec::new();
    }
    let name: Arc<str> = text(volume, &["metadata", "name"]).into();
    let of_claim = GraphEdge::VolumeOfClaim {
        volume: name.clone(),
        claim: key(text(claim, &["namespace"]), text(claim, &["name"])),
    };
    let secrets = secrets_of(spec, text(claim, &["namespace"]));
    let secrets = secrets.filter(|(_, secret)| !secret.is_empty());
    std::iter::once(of_claim)
        .chain(secrets.map(|(namespace, secret)| GraphEdge::SecretOfVolume {
            secret: key(namespace, secret),
            volume: name.clone(),
        }))
        .collect()
}

/// The secrets that a kubelet needs for a volume: namespace and name.
fn secrets_of<'v>(spec: &'v Value, of_claim: &'v str) -> impl Iterator<Item = (&'v str, &'v str)> {
    let or_of_claim = move |namespace: &'v str| if namespace.is_empty() { of_claim } else { namespace };
    let azure = (
        or_of_claim(text(spec, &["azureFile", "secretNamespace"])),
        text(spec, &["azureFile", "secretName"]),
    );
    let by_reference = ["cephfs", "flexVolume", "rbd", "scaleIO", "iscsi"].map(|source| {
        let secret = &spec[source]["secretRef"];
        (or_of_claim(text(secret, &["namespace"])), text(secret, &["name"]))
    });
    let strictly = [
        &spec["cinder"]["secretRef"],
        &spec["storageos"]["secretRef"],
        &spec["csi"]["nodePublishSecretRef"],
        &spec["csi"]["nodeStageSecretRef"],
        &spec["csi"]["nodeExpandSecretRef"],
    ]
    .map(|secret| (text(secret, &["namespace"]), text(secret, &["name"])));
    std::iter::once(azure).chain(by_reference).chain(strictly)
}

/// The edge of an object that names its node; none without one.
pub(super) fn of_node(vertex: Vertex, object: &Value) -> Vec<GraphEdge> {
    let node = text(object, &["spec", "nodeName"]);
    let edge = || GraphEdge::OfNode {
        vertex,
        key: key(
            text(object, &["metadata", "namespace"]),
            text(object, &["metadata", "name"]),
        ),
        node: node.into(),
    };
    (!node.is_empty()).then(edge).into_iter().collect()
}
