//! ClusterTrustBundles (`pkg/registry/certificates/clustertrustbundle`), behind the gate of their name.
//!
//! The right to attest for their signer is looked at by the admission plugin ClusterTrustBundleAttest.

use std::collections::BTreeMap;

use serde_json::Value;
use trireme_machinery::{
    field::{Error, ErrorList, Path},
    meta::validate_immutable_field,
    names::{self, NameCheck},
};
use trireme_registry::{ResetFields, Strategy, WriteContext, request::Subresource};

use super::{
    pem::{PemBlock, blocks},
    x509::{Anchor, anchor},
};
use crate::{
    checks::push_invalid,
    columns::{self, column, described, or_none},
    kind::Kind,
    signers::{cluster_trust_bundle_name, validate_signer_name},
    values::text_at,
};

const SIGNER: &str = "/spec/signerName";
const BUNDLE: &str = "/spec/trustBundle";
const MAX_BUNDLE_BYTES: usize = 1024 * 1024;
const SIGNER_DESCRIPTION: &str = "signerName indicates the associated signer, if any.\n\nIn order to create or update a ClusterTrustBundle that sets signerName, you must have the following cluster-scoped permission: group=certificates.k8s.io resource=signers resourceName=<the signer name> verb=attest.\n\nIf signerName is not empty, then the ClusterTrustBundle object must be named with the signer name as a prefix (translating slashes to colons). For example, for the signer name `example.com/foo`, valid ClusterTrustBundle object names include `example.com:foo:abc` and `example.com:foo:v1`.\n\nIf signerName is empty, then the ClusterTrustBundle object's name must not have such a prefix.\n\nList/watch requests for ClusterTrustBundles can filter on this field using a `spec.signerName=NAME` field selector.";

/// The kind's parts.
pub(crate) fn kind() -> Kind {
    Kind::new("certificates.k8s.io", "clustertrustbundles", TrustBundles).columns(vec![
        columns::name(),
        column("SignerName", "string", described(SIGNER_DESCRIPTION), |object| {
            or_none(text_at(object, SIGNER))
        }),
    ])
}

struct TrustBundles;

impl Strategy for TrustBundles {
    /// The names that are valid depend on the signer.
    fn name_check(&self) -> NameCheck {
        names::name_is_path_segment
    }

    fn reset_fields(&self, _subresource: Subresource) -> ResetFields {
        ResetFields(&[])
    }

    fn validate(&self, _context: &WriteContext, object: &Value) -> ErrorList {
        validate_cluster_trust_bundle(object, true)
    }

    fn validate_update(&self, _context: &WriteContext, new: &Value, old: &Value) -> ErrorList {
        let mut errors = validate_cluster_trust_bundle(new, text_at(new, BUNDLE) != text_at(old, BUNDLE));
        // The signer is a text, not a pointer to one.
        let [new, old] = [new, old].map(|object| Value::from(text_at(object, SIGNER)));
        errors.extend(validate_immutable_field(
            Some(&new),
            Some(&old),
            &Path::new("spec.signerName"),
        ));
        errors
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }
}

/// Validates a bundle (`ValidateClusterTrustBundle`), what it holds only if `parses`.
fn validate_cluster_trust_bundle(object: &Value, parses: bool) -> ErrorList {
    let mut errors = ErrorList::new();
    let signer = text_at(object, SIGNER);
    let metadata = Path::new("metadata");
    let generated = text_at(object, "/metadata/generateName");
    if !generated.is_empty() {
        let messages = cluster_trust_bundle_name(signer, generated, true);
        push_invalid(&metadata.child("generateName"), generated, messages, &mut errors);
    }
    let name = text_at(object, "/metadata/name");
    push_invalid(
        &metadata.child("name"),
        name,
        cluster_trust_bundle_name(signer, name, false),
        &mut errors,
    );
    let spec = Path::new("spec");
    if !signer.is_empty() {
        validate_signer_name(signer, &spec.child("signerName"), &mut errors);
    }
    if parses {
        validate_trust_bundle(text_at(object, BUNDLE), &spec.child("trustBundle"), &mut errors);
    }
    errors
}

/// Checks that a bundle holds certificates of CAs, at least one, and each once (`validateTrustBundle`).
fn validate_trust_bundle(bundle: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if bundle.len() > MAX_BUNDLE_BYTES {
        errors.push(Error::too_long(path, MAX_BUNDLE_BYTES));
        return;
    }
    let invalid = |detail: &str| Error::invalid_str(path, "<value omitted>", detail);
    let blocks = blocks(bundle);
    let mut places: BTreeMap<&[u8], Vec<usize>> = BTreeMap::new();
    let mut malformed = ErrorList::new();
    for (index, block) in blocks.iter().enumerate() {
        match entry_error(block) {
            Some(error) => malformed.push(invalid(&format!("entry {index} {error}"))),
            None => places.entry(block.content.as_slice()).or_default().push(index),
        }
    }
    if !malformed.is_empty() {
        errors.extend(malformed);
        return;
    }
    if places.is_empty() {
        errors.push(invalid("at least one trust anchor must be provided"));
    }
    for places in places.values().filter(|places| places.len() > 1) {
        let places: Vec<String> = places.iter().map(ToString::to_string).collect();
        errors.push(invalid(&format!(
            "duplicate trust anchor (indices [{}])",
            places.join(" ")
        )));
    }
}

fn entry_error(block: &PemBlock<'_>) -> Option<String> {
    if block.kind != "CERTIFICATE" {
        return Some(format!("has bad block type: {}", block.kind));
    }
    if block.has_headers {
        return Some("has PEM block headers".to_owned());
    }
    match anchor(&block.content) {
        Anchor::Authority => None,
        Anchor::Other => Some("does not have the CA bit set".to_owned()),
        Anchor::Malformed => Some("does not parse as X.509".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{Trial, named};

    /// That of an authority with a key of P-256.
    const CA: &str = "\
        -----BEGIN CERTIFICATE-----\nMIIBbzCCARWgAwIBAgIUTzaQbJGxbKIbyol7NO3yJKbTrdkwCgYIKoZIzj0EAwIw\nDTELM\
        AkGA1UEAwwCY2EwHhcNMjYxMTI0MTcwNzE5WhcNMzYxMTIxMTcwNzE5WjAN\nMQswCQYDVQQDDAJjYTBZMBMGByqGSM49AgEGCCq\
        GSM49AwEHA0IABHMllibAS+9F\nvEnWQ3UXrmcBLInR8jciauARKCcbc8/n0uBf3jXEC/ctC7dGJBYxOCXjU5M5uNEO\nLNPS0WN\
        ZZI6jUzBRMB0GA1UdDgQWBBSbQU+CIiOIiwiC1hH7NGswQeOtHDAfBgNV\nHSMEGDAWgBSbQU+CIiOIiwiC1hH7NGswQeOtHDAPB\
        gNVHRMBAf8EBTADAQH/MAoG\nCCqGSM49BAMCA0gAMEUCIQDQ7SgKtO5e5K80Kgn7iPXc3f9S2mtQSaG+mDEk7bfw\nzQIgM4r25\
        K9zxpikwfQBbawDyUxfRk9cReuk1iG0XTMwGGo=\n-----END CERTIFICATE-----\n";
    /// The same, but of no authority.
    const LEAF: &str = "\
        -----BEGIN CERTIFICATE-----\nMIIBajCCARCgAwIBAgIUOrGObKPh6KdOEfcw6pMeB6AR+z8wCgYIKoZIzj0EAwIw\nDDEKM\
        AgGA1UEAwwBeDAeFw0yNjExMjQxNzA3MTlaFw0zNjExMjExNzA3MTlaMAwx\nCjAIBgNVBAMMAXgwWTATBgcqhkjOPQIBBggqhkj\
        OPQMBBwNCAARzJZYmwEvvRbxJ\n1kN1F65nASyJ0fI3ImrgESgnG3PP59LgX941xAv3LQu3RiQWMTgl41OTObjRDizT\n0tFjWWS\
        Oo1AwTjAdBgNVHQ4EFgQUm0FPgiIjiIsIgtYR+zRrMEHjrRwwHwYDVR0j\nBBgwFoAUm0FPgiIjiIsIgtYR+zRrMEHjrRwwDAYDV\
        R0TAQH/BAIwADAKBggqhkjO\nPQQDAgNIADBFAiBwmP5D6ahBpddP+b0jMEX8OrGX3RIB6xKclC2zRPdBGQIhAP4q\n7azhVys4X\
        y/FguziYMZT/d0X5Bj4Wyxzg2Ft/fXq\n-----END CERTIFICATE-----\n";

    fn trial() -> Trial {
        Trial::new("certificates.k8s.io", "clustertrustbundles", kind())
    }

    fn bundle(name: &str, signer: &str, bundle: &str) -> Value {
        named(name, json!({ "signerName": signer, "trustBundle": bundle }))
    }

    #[test]
    fn what_is_no_bundle_of_authorities_is_refused() {
        let block =
            |kind: &str, headers: &str| format!("-----BEGIN {kind}-----\n{headers}AAAA\n-----END {kind}-----\n");
        let omitted = |error: &str| format!("spec.trustBundle: Invalid value: \"<value omitted>\": {error}");
        let of = |text: &str| trial().errors(bundle("n", "", text));
        assert_eq!(of(""), [omitted("at least one trust anchor must be provided")]);
        let text = block("KEY", "") + &block("CERTIFICATE", "A: b\n\n") + &block("CERTIFICATE", "");
        assert_eq!(
            of(&text),
            [
                omitted("entry 0 has bad block type: KEY"),
                omitted("entry 1 has PEM block headers"),
                omitted("entry 2 does not parse as X.509"),
            ]
        );
        assert_eq!(of(CA), [""; 0]);
        assert_eq!(of(LEAF), [omitted("entry 0 does not have the CA bit set")]);
        assert_eq!(of(&CA.repeat(2)), [omitted("duplicate trust anchor (indices [0 1])")]);
        assert_eq!(
            of(&"x".repeat(MAX_BUNDLE_BYTES + 1)),
            ["spec.trustBundle: Too long: may not be more than 1048576 bytes"]
        );
    }

    #[test]
    fn a_name_begins_with_its_signer() {
        let of = |name: &str, signer: &str| {
            let mut errors = trial().errors(bundle(name, signer, ""));
            errors.retain(|error| !error.starts_with("spec.trustBundle"));
            errors
        };
        assert_eq!(of("a.com:s:n", "a.com/s"), [""; 0]);
        assert_eq!(of("n", ""), [""; 0]);
        assert_eq!(
            of("n", "a.com/s"),
            [
                r#"metadata.name: Invalid value: "n": ClusterTrustBundle for signerName a.com/s must be named with prefix a.com:s:"#
            ]
        );
        assert_eq!(
            of("a:n", ""),
            [
                r#"metadata.name: Invalid value: "a:n": ClusterTrustBundle without signer name must not have ":" in its name"#
            ]
        );
    }
}
