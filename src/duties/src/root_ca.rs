//! Keeps the ConfigMap `kube-root-ca.crt` of every namespace (`root-ca-certificate-publisher-controller`), from which
//! pods learn whom to trust as the API server.

use serde_json::{Value, json};

use crate::in_namespaces::PerNamespace;

const FILE: &str = "ca.crt";
const DESCRIPTION: &str = "kubernetes.io/description";
/// Upstream's words, by which tools know the ConfigMap.
const DESCRIBED: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal \
                         endpoints such as the internal service IP or kubernetes.default.svc. No other usage is \
                         guaranteed across distributions of Kubernetes clusters.";

/// The ConfigMap with this bundle (PEM).
pub struct RootCaConfigMap(pub String);

impl PerNamespace for RootCaConfigMap {
    const DUTY: &'static str = "root-ca-certificate-publisher-controller";
    const NAME: &'static str = "kube-root-ca.crt";

    fn object(&self) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": { "name": Self::NAME, "annotations": { DESCRIPTION: DESCRIBED } },
            "data": { FILE: self.0 },
        })
    }

    fn updated(&self, found: Value) -> Option<Value> {
        let mut changed = found.clone();
        changed["data"] = json!({ FILE: self.0 });
        let annotations = &mut changed["metadata"]["annotations"];
        if annotations.is_null() {
            *annotations = json!({});
        }
        annotations[DESCRIPTION] = DESCRIBED.into();
        (changed != found).then_some(changed)
    }
}
