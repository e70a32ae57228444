//! The other objects that a node writes: statuses of claims, its lease, its CSINode, its slices, its certificates.

use base64::Engine as _;
use serde_json::Value;
use trireme_machinery::{ApiError, go_text::quote};
use trireme_registry::Operation;
use x509_parser::{certification_request::X509CertificationRequest, pem::parse_x509_pem, prelude::FromDer as _};

use super::{NodeWrite, text};

const LEASES: &str = "kube-node-lease";
/// The signers of the certificates of kubelets.
const SIGNERS: [&str; 2] = [
    "kubernetes.io/kubelet-serving",
    "kubernetes.io/kube-apiserver-client-kubelet",
];
/// The parts of a claim's status that a kubelet writes.
const OF_KUBELET: [&str; 4] = [
    "capacity",
    "conditions",
    "allocatedResourceStatuses",
    "allocatedResources",
];

pub(super) fn claim(node: &NodeWrite<'_>) -> Result<(), ApiError> {
    if node.subresource() != "status" {
        return node.forbid("may only update PVC status");
    }
    if node.attributes.operation != Operation::Update {
        return node.forbid_operation();
    }
    let (new, old) = (
        without_kubelets_part(node.object()),
        without_kubelets_part(node.old_object()),
    );
    if new == old {
        return Ok(());
    }
    let differing = ["metadata", "spec", "status"].map(|part| (part, new[part] != old[part]));
    let differing: Vec<&str> = differing
        .iter()
        .filter(|(_, differs)| *differs)
        .map(|(part, _)| *part)
        .collect();
    node.forbid_node(format!(
        "is not allowed to update fields other than status.quantity and status.conditions: {} would change",
        differing.join(", ")
    ))
}

fn without_kubelets_part(claim: &Value) -> Value {
    let mut rest = claim.clone();
    let mut drop = |part: &str, fields: &[&str]| {
        if let Some(part) = rest.get_mut(part).and_then(Value::as_object_mut) {
            for field in fields {
                part.remove(*field);
            }
        }
    };
    drop("metadata", &["resourceVersion", "managedFields"]);
    drop("status", &OF_KUBELET);
    rest
}

/// The name of what is written; a creation has it in the body.
fn is_own_name(node: &NodeWrite<'_>) -> bool {
    match node.attributes.operation {
        Operation::Create => text(node.object(), &["metadata", "name"]) == node.name,
        _ => node.attributes.name == node.name,
    }
}

pub(super) fn lease(node: &NodeWrite<'_>) -> Result<(), ApiError> {
    if node.attributes.namespace() != LEASES {
        let namespace = quote(LEASES);
        return node.forbid(format!("can only access leases in the {namespace} system namespace"));
    }
    if !is_own_name(node) {
        return node.forbid("can only access node lease with the same name as the requesting node");
    }
    Ok(())
}

pub(super) fn csi_node(node: &NodeWrite<'_>) -> Result<(), ApiError> {
    if !is_own_name(node) {
        return node.forbid("can only access CSINode with the same name as the requesting node");
    }
    Ok(())
}

/// Checks what the authorizer cannot see: the body of a creation, and each object of a collection that is deleted.
pub(super) fn resource_slice(node: &NodeWrite<'_>) -> Result<(), ApiError> {
    let (slice, deed) = match node.attributes.operation {
        Operation::Create => (node.object(), "create"),
        Operation::Delete => (node.old_object(), "delete"),
        Operation::Update | Operation::Connect => return Ok(()),
    };
    if text(slice, &["spec", "nodeName"]) != node.name {
        return node.forbid(format!(
            "can only {deed} ResourceSlice with the same NodeName as the requesting node"
        ));
    }
    Ok(())
}

pub(super) fn signing_request(node: &NodeWrite<'_>) -> Result<(), ApiError> {
    let request = node.object();
    let is_for_kubelet = SIGNERS.contains(&text(request, &["spec", "signerName"]));
    if node.attributes.operation != Operation::Create || !is_for_kubelet {
        return Ok(());
    }
    let own = format!("system:node:{}", node.name);
    match common_name(text(request, &["spec", "request"])) {
        Ok(name) if name == own => Ok(()),
        Ok(_) => node.forbid(format!("can only create a node CSR with CN={own}")),
        Err(why) => node.forbid(format!("unable to parse csr: {why}")),
    }
}

/// The common name that a signing request is for.
pub(crate) fn common_name(request: &str) -> Result<String, &'static str> {
    const NO_PEM: &str = "PEM block type must be CERTIFICATE REQUEST";
    let pem = base64::engine::general_purpose::STANDARD.decode(request);
    let pem = pem.map_err(|_| NO_PEM)?;
    let (_, pem) = parse_x509_pem(&pem).map_err(|_| NO_PEM)?;
    if pem.label != "CERTIFICATE REQUEST" {
        return Err(NO_PEM);
    }
    let parsed = X509CertificationRequest::from_der(&pem.contents);
    let (_, parsed) = parsed.map_err(|_| "it is no PKCS #10 request")?;
    // The last one counts, as in Go.
    let name = parsed.certification_request_info.subject.iter_common_name().last();
    Ok(name.and_then(|name| name.as_str().ok()).unwrap_or_default().to_owned())
}
