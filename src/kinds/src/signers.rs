//! Signers of certificates: their names, those of ClusterTrustBundles, which begin with them, the annotations that users give them,
//! and how long their certificates may last
//! (`pkg/apis/core/validation/names.go`).

use serde_json::{Map, Value};
use trireme_machinery::{
    field::{Error, ErrorList, Path},
    names,
};

/// The longest domain, a slash, and the longest label of a path with a dot and a name of the longest length.
const MAX_SIGNER: usize = 571;
const MAX_SECONDS: i64 = 91 * 24 * 60 * 60;
const MAX_SECONDS_OF_KUBERNETES: i64 = 24 * 60 * 60;
const MAX_ANNOTATIONS_BYTES: usize = 256 * 1024;

/// The longest lifetime of a certificate of this signer.
pub(crate) fn most_seconds(signer: &str) -> i64 {
    if is_kubernetes_signer_name(signer) {
        MAX_SECONDS_OF_KUBERNETES
    } else {
        MAX_SECONDS
    }
}

/// Validates a name such as `domain.example/name`.
/// Upstream: `ValidateSignerName`.
pub(crate) fn validate_signer_name(signer: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if signer.is_empty() {
        errors.push(Error::required(path, ""));
        return;
    }
    let segments: Vec<&str> = signer.split('/').collect();
    let [domain, name] = segments.as_slice() else {
        let detail = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        errors.push(Error::invalid_str(path, signer, detail));
        return;
    };
    if domain.len() > names::DNS1123_SUBDOMAIN_MAX_LENGTH {
        errors.push(Error::too_long(path, names::DNS1123_SUBDOMAIN_MAX_LENGTH));
    }
    validate_name_parts(path, domain, names::dns1123_label, errors);
    if !domain.contains('.') {
        let detail = "should be a domain with at least two segments separated by dots";
        errors.push(Error::invalid_str(path, domain, detail));
    }
    validate_name_parts(path, name, names::dns1123_subdomain, errors);
    if signer.len() > MAX_SIGNER {
        errors.push(Error::too_long(path, MAX_SIGNER));
    }
}

/// Reports the first part of a dotted name that is not valid.
fn validate_name_parts(path: &Path<'_>, name: &str, check: fn(&str) -> Vec<String>, errors: &mut ErrorList) {
    let parts = name.split('.').map(|part| (part, check(part)));
    if let Some((part, messages)) = parts.into_iter().find(|(_, messages)| !messages.is_empty()) {
        for error in messages {
            errors.push(Error::invalid_str(
                path,
                name,
                &format!("validating label {part:?}: {error}"),
            ));
        }
    }
}

/// Reports whether Kubernetes itself has reserved the signer (`IsKubernetesSignerName`).
pub(crate) fn is_kubernetes_signer_name(signer: &str) -> bool {
    let domain = signer.split('/').next().unwrap_or_default();
    domain == "kubernetes.io" || domain.ends_with(".kubernetes.io")
}

/// The errors of the name of a bundle of this signer, or of none (`ValidateClusterTrustBundleName`). The flag says that the
/// name is a `generateName`.
pub(crate) fn cluster_trust_bundle_name(signer: &str, name: &str, is_prefix: bool) -> Vec<String> {
    if signer.is_empty() {
        return match name.contains(':') {
            true => vec![r#"ClusterTrustBundle without signer name must not have ":" in its name"#.to_owned()],
            false => names::name_is_dns_subdomain(name, is_prefix),
        };
    }
    let prefix = format!("{}:", signer.replace('/', ":"));
    match name.strip_prefix(&prefix) {
        Some(rest) => names::name_is_dns_subdomain(rest, is_prefix),
        None => vec![format!(
            "ClusterTrustBundle for signerName {signer} must be named with prefix {prefix}"
        )],
    }
}

/// The signer that the name of a bundle begins with; empty if there is none.
pub(crate) fn signer_of_bundle(name: &str) -> String {
    name.rsplit_once(':')
        .map_or_else(String::new, |(signer, _)| signer.replace(':', "/"))
}

/// Validates what the user of a pod tells a signer (`ValidateUserAnnotations`).
pub(crate) fn validate_user_annotations(annotations: &Map<String, Value>, path: &Path<'_>, errors: &mut ErrorList) {
    for key in annotations.keys().map(|key| key.to_lowercase()) {
        if key.is_empty() {
            errors.push(Error::required(path, ""));
            continue;
        }
        let mut messages = names::qualified_name(&key);
        if messages.is_empty() && !key.contains('/') {
            messages.push(r#"must be a domain-prefixed key (such as "acme.io/foo")"#.to_owned());
        }
        errors.extend(messages.iter().map(|error| Error::invalid_str(path, &key, error)));
    }
    let sizes = annotations
        .iter()
        .map(|(key, value)| key.len() + value.as_str().map_or(0, str::len));
    if sizes.sum::<usize>() > MAX_ANNOTATIONS_BYTES {
        errors.push(Error::too_long(path, MAX_ANNOTATIONS_BYTES));
    }
}
