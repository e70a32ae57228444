//! Requests for certificates of pods: for a pod that runs on the node, under its service account.

use serde_json::Value;
use trireme_machinery::{ApiError, Feature, Reason, go_text::quote};
use trireme_registry::Operation;

use super::{NodeRestriction, NodeWrite, operation_name, text};

const MIRROR: &str = "kubernetes.io/config.mirror";

/// An error that may be over in a moment, when a cache has caught up: unlike a refusal it is worth another attempt.
fn retriable<T>(why: String) -> Result<T, ApiError> {
    Err(ApiError::new(Reason::InternalError, why))
}

impl NodeRestriction {
    /// As upstream's `admitPodCertificateRequest`.
    pub(super) async fn pod_certificate_request(&self, node: &NodeWrite<'_>) -> Result<(), ApiError> {
        if !self.features.has(Feature::PodCertificateRequest) {
            return node.forbid("PodCertificateRequest feature gate is disabled");
        }
        if node.attributes.operation != Operation::Create {
            let operation = operation_name(node.attributes.operation);
            return node.forbid(format!("unexpected operation {operation}"));
        }
        if !node.subresource().is_empty() {
            return node.forbid(format!("unexpected subresource {}", node.subresource()));
        }
        let spec = &node.object()["spec"];
        let named = text(spec, &["nodeName"]);
        if named != node.name {
            let (named, own) = (quote(named), quote(node.name));
            return node.forbid(format!(
                "PodCertificateRequest.Spec.NodeName={named}, which is not the requesting node {own}"
            ));
        }
        self.requesting_node(node, spec).await?;
        self.certified_pod(node, spec).await?;
        self.certified_account(node, spec).await
    }

    async fn requesting_node(&self, node: &NodeWrite<'_>, spec: &Value) -> Result<(), ApiError> {
        let (name, uid) = (text(spec, &["nodeName"]), text(spec, &["nodeUID"]));
        let Some(found) = self.objects.nodes.find("", name).await? else {
            let name = quote(name);
            return retriable(format!(
                "while retrieving node {name} named in the PodCertificateRequest: node {name} not found"
            ));
        };
        let running = text(&found, &["metadata", "uid"]);
        if running == uid {
            return Ok(());
        }
        let (namespace, pod) = (node.attributes.namespace(), text(spec, &["podName"]));
        retriable(format!(
            "PodCertificateRequest for pod {} names node UID {}, inconsistent with the running node ({})",
            quote(&format!("{namespace}/{pod}")),
            quote(uid),
            quote(running)
        ))
    }

    async fn certified_pod(&self, node: &NodeWrite<'_>, spec: &Value) -> Result<(), ApiError> {
        let (namespace, name) = (node.attributes.namespace(), text(spec, &["podName"]));
        let shown = quote(&format!("{namespace}/{name}"));
        let Some(pod) = self.objects.pods.find(namespace, name).await? else {
            let name = quote(name);
            return retriable(format!(
                "while retrieving pod {shown} named in the PodCertificateRequest: pod {name} not found"
            ));
        };
        let (wanted, running) = (text(spec, &["podUID"]), text(&pod, &["metadata", "uid"]));
        if wanted != running {
            let (wanted, running) = (quote(wanted), quote(running));
            return retriable(format!(
                "PodCertificateRequest for pod {shown} contains pod UID ({wanted}) which differs from running pod {running}"
            ));
        }
        if text(&pod, &["spec", "nodeName"]) != node.name {
            let named = quote(node.name);
            return node.forbid(format!(
                "pod {shown} is not running on node {named} named in the PodCertificateRequest"
            ));
        }
        if !pod["metadata"]["annotations"][MIRROR].is_null() {
            return node.forbid(format!("pod {shown} is a mirror pod"));
        }
        let wanted = text(spec, &["serviceAccountName"]);
        let running = text(&pod, &["spec", "serviceAccountName"]);
        if wanted != running {
            let (wanted, running) = (quote(wanted), quote(running));
            return node.forbid(format!(
                "PodCertificateRequest for pod {shown} contains serviceAccountName ({wanted}) that differs from running pod ({running})"
            ));
        }
        Ok(())
    }

    async fn certified_account(&self, node: &NodeWrite<'_>, spec: &Value) -> Result<(), ApiError> {
        let (namespace, name) = (node.attributes.namespace(), text(spec, &["serviceAccountName"]));
        let Some(account) = self.objects.accounts.find(namespace, name).await? else {
            let (shown, name) = (quote(&format!("{namespace}/{name}")), quote(name));
            return retriable(format!(
                "while retrieving service account {shown} named in the PodCertificateRequest: serviceaccount {name} not found"
            ));
        };
        let (wanted, running) = (text(spec, &["serviceAccountUID"]), text(&account, &["metadata", "uid"]));
        if wanted == running {
            return Ok(());
        }
        retriable(format!(
            "PodCertificateRequest for pod {} names service account UID {}, which differs from the running service account ({})",
            quote(&format!("{namespace}/{}", text(spec, &["podName"]))),
            quote(wanted),
            quote(running)
        ))
    }
}
