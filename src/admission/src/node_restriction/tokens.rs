//! Tokens of service accounts: for a pod on the node, with an audience that the pod asks for.

use serde_json::Value;
use trireme_machinery::{ApiError, Feature, go_text::quote};
use trireme_registry::Operation;

use super::{NodeRestriction, NodeWrite, not_found, text};
use crate::permissions::PermissionRequest;

/// Volume sources that are served by CSI drivers instead.
const MIGRATED: [(&str, &str); 7] = [
    ("awsElasticBlockStore", "ebs.csi.aws.com"),
    ("azureDisk", "disk.csi.azure.com"),
    ("azureFile", "file.csi.azure.com"),
    ("cinder", "cinder.csi.openstack.org"),
    ("gcePersistentDisk", "pd.csi.storage.gke.io"),
    ("portworxVolume", "pxd.portworx.com"),
    ("vsphereVolume", "csi.vsphere.vmware.com"),
];

impl NodeRestriction {
    pub(super) async fn service_account(&self, node: &NodeWrite<'_>) -> Result<(), ApiError> {
        if node.attributes.operation != Operation::Create || node.subresource() != "token" {
            return Ok(());
        }
        let spec = &node.object()["spec"];
        let bound = &spec["boundObjectRef"];
        let [version, kind, name, uid] = ["apiVersion", "kind", "name", "uid"].map(|field| text(bound, &[field]));
        if [version, kind] != ["v1", "Pod"] || name.is_empty() {
            return node.forbid("node requested token not bound to a pod");
        }
        if uid.is_empty() {
            return node.forbid("node requested token with a pod binding without a uid");
        }
        let pod = self.objects.pods.find(node.attributes.namespace(), name).await?;
        let pod = pod.ok_or_else(|| not_found("pod", name))?;
        if text(&pod, &["metadata", "uid"]) != uid {
            return node.forbid(format!(
                "the UID in the bound object reference ({uid}) does not match the UID in record. The object might \
                 have been deleted and then recreated"
            ));
        }
        if text(&pod, &["spec", "nodeName"]) != node.name {
            return node.forbid("node requested token bound to a pod scheduled on a different node");
        }
        match self.features.has(Feature::ServiceAccountNodeAudienceRestriction) {
            true => self.audience(node, &pod).await,
            false => Ok(()),
        }
    }

    /// Checks that the pod asks for tokens of this audience, or the node may ask for them anyway.
    async fn audience(&self, node: &NodeWrite<'_>, pod: &Value) -> Result<(), ApiError> {
        let audiences = node.object()["spec"]["audiences"].as_array();
        let audience = match audiences.map_or(&[][..], Vec::as_slice) {
            [] => "",
            [one] => one.as_str().unwrap_or_default(),
            _ => return node.forbid("node may only request 0 or 1 audiences"),
        };
        let shown = quote(audience);
        match self.asks_for(pod, audience).await {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(error) => return node.forbid(format!("error validating audience {shown}: {}", error.message)),
        }
        let user = &node.attributes.context.user;
        let access = PermissionRequest {
            user,
            verb: "request-serviceaccounts-token-audience",
            group: "",
            version: "v1",
            resource: audience,
            subresource: "",
            namespace: node.attributes.namespace(),
            name: &node.attributes.name,
        };
        if self.permissions.allow(access).await {
            return Ok(());
        }
        let user = &user.name;
        node.forbid(format!(
            "audience {shown} not found in pod spec volume, {user} is not authorized to request tokens for this audience"
        ))
    }

    /// Reports whether a volume of the pod needs tokens of this audience, itself or through its driver. What cannot be looked up
    /// counts only if no other volume does.
    async fn asks_for(&self, pod: &Value, audience: &str) -> Result<bool, ApiError> {
        let mut failed = None;
        for volume in pod["spec"]["volumes"].as_array().into_iter().flatten() {
            if is_projected_for(volume, audience) {
                return Ok(true);
            }
            match self.driver_asks_for(pod, volume, audience).await {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        failed.map_or(Ok(false), Err)
    }

    async fn driver_asks_for(&self, pod: &Value, volume: &Value, audience: &str) -> Result<bool, ApiError> {
        let driver = if volume["ephemeral"]["volumeClaimTemplate"].is_object() {
            let claim = format!("{}-{}", text(pod, &["metadata", "name"]), text(volume, &["name"]));
            self.driver_of_claim(pod, &claim).await?
        } else if volume["persistentVolumeClaim"].is_object() {
            let claim = text(volume, &["persistentVolumeClaim", "claimName"]);
            self.driver_of_claim(pod, claim).await?
        } else {
            driver_of(volume).to_owned()
        };
        if driver.is_empty() {
            return Ok(false);
        }
        let found = self.objects.drivers.find("", &driver).await?;
        let found = found.ok_or_else(|| not_found("csidriver.storage.k8s.io", &driver))?;
        let mut requests = found["spec"]["tokenRequests"].as_array().into_iter().flatten();
        Ok(requests.any(|request| text(request, &["audience"]) == audience))
    }

    async fn driver_of_claim(&self, pod: &Value, claim: &str) -> Result<String, ApiError> {
        let namespace = text(pod, &["metadata", "namespace"]);
        let found = self.objects.claims.find(namespace, claim).await?;
        let found = found.ok_or_else(|| not_found("persistentvolumeclaim", claim))?;
        let volume = text(&found, &["spec", "volumeName"]);
        let found = self.objects.volumes.find("", volume).await?;
        let found = found.ok_or_else(|| not_found("persistentvolume", volume))?;
        Ok(driver_of(&found["spec"]).to_owned())
    }
}

fn is_projected_for(volume: &Value, audience: &str) -> bool {
    let mut sources = volume["projected"]["sources"].as_array().into_iter().flatten();
    sources.any(|source| {
        source["serviceAccountToken"].is_object() && text(source, &["serviceAccountToken", "audience"]) == audience
    })
}

/// The CSI driver of a volume's source; empty if it has none.
fn driver_of(source: &Value) -> &str {
    let of_csi = text(source, &["csi", "driver"]);
    if !of_csi.is_empty() {
        return of_csi;
    }
    let migrated = MIGRATED.iter().find(|(field, _)| !source[*field].is_null());
    migrated.map_or("", |(_, driver)| driver)
}
