//! Pods: mirror pods of the node itself are created, pods that are bound to it are reported on, evicted and deleted.

use serde_json::Value;
use trireme_machinery::{ApiError, go_text::quote};
use trireme_registry::Operation;

use super::{NodeRestriction, NodeWrite, not_found, operation_name, text};
use crate::attributes::annotation;

const MIRROR: &str = "kubernetes.io/config.mirror";

/// Volume sources that do not need the API.
const LOCAL_SOURCES: [&str; 22] = [
    "awsElasticBlockStore",
    "azureDisk",
    "cephfs",
    "cinder",
    "downwardAPI",
    "emptyDir",
    "fc",
    "flexVolume",
    "flocker",
    "gcePersistentDisk",
    "gitRepo",
    "hostPath",
    "image",
    "iscsi",
    "nfs",
    "photonPersistentDisk",
    "portworxVolume",
    "quobyte",
    "rbd",
    "scaleIO",
    "storageos",
    "vsphereVolume",
];
/// Volume sources that do, with how the refusal names the resource.
const API_SOURCES: [(&str, &str); 7] = [
    ("configMap", "configmaps (via configmap volumes)"),
    ("secret", "secrets (via secret volumes)"),
    ("csi", "csidrivers (via CSI volumes)"),
    ("glusterfs", "endpoints (via glusterFS volumes)"),
    ("persistentVolumeClaim", "persistentvolumeclaims"),
    ("ephemeral", "persistentvolumeclaims (via ephemeral volumes)"),
    ("azureFile", "secrets (via azureFile volumes)"),
];
/// The same of projected volumes.
const PROJECTED_SOURCES: [(&str, &str); 5] = [
    ("configMap", "configmaps (via projected volumes)"),
    ("secret", "secrets (via projected volumes)"),
    ("serviceAccountToken", "serviceaccounts (via projected volumes)"),
    ("clusterTrustBundle", "clustertrustbundles"),
    ("podCertificate", "podcertificates"),
];

impl NodeRestriction {
    pub(super) async fn pod(&self, node: &NodeWrite<'_>) -> Result<(), ApiError> {
        let operation = node.attributes.operation;
        match (node.subresource(), operation) {
            ("", Operation::Create) => self.mirror_pod(node).await,
            ("", Operation::Delete) => {
                let pod = self.bound_pod(node, &node.attributes.name).await?;
                if text(&pod, &["spec", "nodeName"]) != node.name {
                    return node.forbid_node("can only delete pods with spec.nodeName set to itself");
                }
                Ok(())
            }
            ("", _) => {
                let (operation, name) = (quote(operation_name(operation)), quote(node.name));
                node.forbid(format!(
                    "unexpected operation {operation}, node {name} can only create and delete mirror pods"
                ))
            }
            ("status", Operation::Update) => status(node),
            ("eviction", Operation::Create) => self.eviction(node).await,
            ("status" | "eviction", _) => node.forbid_operation(),
            (other, _) => node.forbid(format!(
                "unexpected pod subresource {}, only 'status' and 'eviction' are allowed",
                quote(other)
            )),
        }
    }

    async fn bound_pod(&self, node: &NodeWrite<'_>, name: &str) -> Result<Value, ApiError> {
        let found = self.objects.pods.find(node.attributes.namespace(), name).await?;
        found.ok_or_else(|| not_found("pod", name))
    }

    async fn eviction(&self, node: &NodeWrite<'_>) -> Result<(), ApiError> {
        let of_url = node.attributes.target.name.as_str();
        let name = match of_url {
            "" => text(node.object(), &["metadata", "name"]),
            _ => of_url,
        };
        if name.is_empty() {
            return node.forbid("could not determine pod from request data");
        }
        let pod = self.bound_pod(node, name).await?;
        if text(&pod, &["spec", "nodeName"]) != node.name {
            let node_name = node.name;
            return node.forbid(format!(
                "node {node_name} can only evict pods with spec.nodeName set to itself"
            ));
        }
        Ok(())
    }

    async fn mirror_pod(&self, node: &NodeWrite<'_>) -> Result<(), ApiError> {
        let (pod, name) = (node.object(), quote(node.name));
        if annotation(pod, MIRROR).is_none() {
            return node.forbid(format!(
                "pod does not have {} annotation, node {name} can only create mirror pods",
                quote(MIRROR)
            ));
        }
        if text(pod, &["spec", "nodeName"]) != node.name {
            return node.forbid_node("can only create pods with spec.nodeName set to itself");
        }
        self.owner(node).await?;
        match api_reference(pod) {
            Ok(None) => Ok(()),
            Ok(Some(resource)) => node.forbid_node(format!("can not create pods that reference {resource}")),
            Err(why) => node.forbid(format!("error checking mirror pod for API references: {why}")),
        }
    }

    /// Checks that the Node, as it is, owns the pod.
    async fn owner(&self, node: &NodeWrite<'_>) -> Result<(), ApiError> {
        let owners = node.object()["metadata"]["ownerReferences"].as_array();
        let owner = match owners.map_or(&[][..], Vec::as_slice) {
            [owner] => owner,
            [] => return node.forbid_node("can only create pods with an owner reference set to itself"),
            _ => return node.forbid_node("can only create pods with a single owner reference set to itself"),
        };
        if ["apiVersion", "kind", "name"].map(|field| text(owner, &[field])) != ["v1", "Node", node.name] {
            return node.forbid_node("can only create pods with an owner reference set to itself");
        }
        if owner["controller"] != true {
            return node.forbid_node("can only create pods with a controller owner reference set to itself");
        }
        if owner["blockOwnerDeletion"] == true {
            return node.forbid_node("must not set blockOwnerDeletion on an owner reference");
        }
        let known = self.objects.nodes.find("", node.name).await?;
        let known = known.ok_or_else(|| not_found("node", node.name))?;
        let (given, uid) = (text(owner, &["uid"]), text(&known, &["metadata", "uid"]));
        if given != uid {
            let name = node.name;
            return node.forbid(format!("node {name} UID mismatch: expected {given} got {uid}"));
        }
        Ok(())
    }
}

fn status(node: &NodeWrite<'_>) -> Result<(), ApiError> {
    let (new, old) = (node.object(), node.old_object());
    if text(old, &["spec", "nodeName"]) != node.name {
        return node.forbid_node("can only update pod status for pods with spec.nodeName set to itself");
    }
    let labels = |pod: &Value| pod["metadata"]["labels"].as_object().cloned().unwrap_or_default();
    if labels(new) != labels(old) {
        return node.forbid_node("cannot update labels through pod status");
    }
    let claims = |pod: &Value| {
        pod["status"]["resourceClaimStatuses"]
            .as_array()
            .cloned()
            .unwrap_or_default()
    };
    if claims(new) != claims(old) {
        return node.forbid_node("cannot update resource claim statues");
    }
    let extended = |pod: &Value| pod["status"]["extendedResourceClaimStatus"].clone();
    if extended(new) != extended(old) {
        return node.forbid_node("cannot update extended resource claim status");
    }
    Ok(())
}

fn items<'v>(value: &'v Value, field: &str) -> impl Iterator<Item = &'v Value> {
    value[field].as_array().into_iter().flatten()
}

/// The first resource of the API that a pod refers to (`HasAPIObjectReference`).
///
/// # Errors
/// If it has a volume of an unknown source.
pub(super) fn api_reference(pod: &Value) -> Result<Option<&'static str>, String> {
    let spec = &pod["spec"];
    if !text(spec, &["serviceAccountName"]).is_empty() {
        return Ok(Some("serviceaccounts"));
    }
    for (resource, of_env, of_key, source, name) in [
        ("secrets", "secretRef", "secretKeyRef", "secret", "secretName"),
        ("configmaps", "configMapRef", "configMapKeyRef", "configMap", "name"),
    ] {
        let pulls = resource == "secrets" && items(spec, "imagePullSecrets").any(|it| !text(it, &["name"]).is_empty());
        if pulls || container_refers(spec, of_env, of_key) || volume_refers(spec, source, name) {
            return Ok(Some(resource));
        }
    }
    if items(spec, "resourceClaims").next().is_some() {
        return Ok(Some("resourceclaims"));
    }
    for volume in items(spec, "volumes") {
        if let Some(resource) = volume_reference(volume)? {
            return Ok(Some(resource));
        }
    }
    Ok(None)
}

fn container_refers(spec: &Value, of_env: &str, of_key: &str) -> bool {
    let lists = ["initContainers", "containers", "ephemeralContainers"];
    lists.iter().flat_map(|list| items(spec, list)).any(|container| {
        items(container, "envFrom").any(|from| !text(from, &[of_env, "name"]).is_empty())
            || items(container, "env").any(|variable| !text(variable, &["valueFrom", of_key, "name"]).is_empty())
    })
}

/// Reports whether a volume names such an object; secrets may also be credentials of a volume.
fn volume_refers(spec: &Value, source: &str, name: &str) -> bool {
    let credentials = |volume: &Value| {
        let refs = ["cephfs", "cinder", "flexVolume", "rbd", "scaleIO", "iscsi", "storageos"];
        !text(volume, &["azureFile", "secretName"]).is_empty()
            || !text(volume, &["csi", "nodePublishSecretRef", "name"]).is_empty()
            || refs
                .iter()
                .any(|it| !text(volume, &[it, "secretRef", "name"]).is_empty())
    };
    items(spec, "volumes").any(|volume| {
        !text(volume, &[source, name]).is_empty()
            || items(&volume["projected"], "sources").any(|it| !text(it, &[source, "name"]).is_empty())
            || (source == "secret" && credentials(volume))
    })
}

fn volume_reference(volume: &Value) -> Result<Option<&'static str>, String> {
    let has = |source: &str| !volume[source].is_null();
    let name = || quote(text(volume, &["name"]));
    if LOCAL_SOURCES.iter().any(|source| has(source)) {
        return Ok(None);
    }
    if let Some((_, resource)) = API_SOURCES.iter().find(|(source, _)| has(source)) {
        return Ok(Some(resource));
    }
    if !has("projected") {
        return Err(format!("unknown volume type for volume  {}", name()));
    }
    for projected in items(&volume["projected"], "sources") {
        let known = PROJECTED_SOURCES
            .iter()
            .find(|(source, _)| !projected[*source].is_null());
        if let Some((_, resource)) = known {
            return Ok(Some(resource));
        }
        if projected["downwardAPI"].is_null() {
            return Err(format!("unknown source for projected volume {}", name()));
        }
    }
    Ok(None)
}
