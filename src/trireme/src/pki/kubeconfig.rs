//! The admin kubeconfig, with everything embedded so that it can be copied elsewhere.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// A kubeconfig for the API at `server`. All values are base64, plain words or URLs, so no YAML quoting is needed.
pub(super) fn render(server: &str, ca: &str, certificate: &str, key: &str) -> String {
    let (ca, certificate, key) = (STANDARD.encode(ca), STANDARD.encode(certificate), STANDARD.encode(key));
    format!(
        "apiVersion: v1
kind: Config
clusters:
- name: trireme
  cluster:
    server: {server}
    certificate-authority-data: {ca}
users:
- name: kubernetes-admin
  user:
    client-certificate-data: {certificate}
    client-key-data: {key}
contexts:
- name: kubernetes-admin@trireme
  context:
    cluster: trireme
    user: kubernetes-admin
current-context: kubernetes-admin@trireme
"
    )
}
