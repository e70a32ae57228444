//! The rules of `k8s.io/apiserver/pkg/apis/apiserver/validation`, in its words.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::json;
use trireme_machinery::field::{Error, ErrorList, Path};
use trireme_storage::encryption::ResourceName;

use super::{ConfigFile, KeyEntry, KeyList, ProviderEntry};

const AES_KEY_BYTES: &[usize] = &[16, 24, 32];
const SECRETBOX_KEY_BYTES: &[usize] = &[32];
const WITHOUT_API: [&str; 3] = ["apiserveripinfo", "serviceipallocations", "servicenodeportallocations"];

pub(super) fn validate_encryption_configuration(config: &ConfigFile) -> ErrorList {
    let mut errors = ErrorList::new();
    let root = Path::new("resources");
    let one_required = |path: &Path<'_>| Error::required(path, &format!("at least one {path} is required"));
    if config.resources.is_empty() {
        errors.push(one_required(&root));
    }
    for (at, rule) in config.resources.iter().enumerate() {
        let path = root.index(at);
        let (resources, providers) = (path.child("resources"), path.child("providers"));
        if rule.resources.is_empty() {
            errors.push(one_required(&resources));
        }
        validate_resource_overlap(&rule.resources, &resources, &mut errors);
        validate_resource_names(&rule.resources, &resources, &mut errors);
        if rule.providers.is_empty() {
            errors.push(one_required(&providers));
        }
        for (at, provider) in rule.providers.iter().enumerate() {
            validate_provider(provider, &providers.index(at), &mut errors);
        }
    }
    errors
}

fn validate_resource_overlap(resources: &[String], path: &Path<'_>, errors: &mut ErrorList) {
    let names: Vec<ResourceName> = resources.iter().map(|name| ResourceName::parse(name)).collect();
    let pairs = || {
        let others = |at: usize| names.iter().enumerate().filter(move |(other, _)| *other != at);
        names
            .iter()
            .enumerate()
            .flat_map(move |(at, one)| others(at).map(move |(_, other)| (one, other)))
    };
    if pairs().any(|(one, other)| one == other) {
        let detail = "the same resource cannot be specified multiple times";
        errors.push(Error::invalid(path, &json!(resources), detail));
    }
    let is_any = |name: &ResourceName| name.resource == "*" && name.group == "*";
    let overlaps = |(one, other): (&ResourceName, &ResourceName)| {
        one != other && (is_any(one) || one.group == other.group && (one.resource == "*" || other.resource == "*"))
    };
    if pairs().any(overlaps) {
        let detail = "using overlapping resources such as 'secrets' and '*.' in the same resource list is not allowed \
                      as they will be masked";
        errors.push(Error::invalid(path, &json!(resources), detail));
    }
}

fn validate_resource_names(resources: &[String], path: &Path<'_>, errors: &mut ErrorList) {
    for (at, name) in resources.iter().enumerate() {
        let ResourceName { resource, group } = ResourceName::parse(name);
        let detail = if name.to_lowercase() != *name {
            "resource name should not contain capital letters"
        } else if name == "*" {
            "use '*.' to encrypt all the resources from core API group or *.* to encrypt all resources"
        } else if WITHOUT_API.contains(&name.as_str()) {
            "resources which do not have REST API/s cannot be encrypted"
        } else if group == "events.k8s.io" {
            "'*.events.k8s.io' objects are stored using the 'events' API group in etcd. Use 'events' instead in the \
             config file"
        } else if group == "extensions" {
            "'extensions' group has been removed and cannot be used for encryption"
        } else if group == "*" && resource != "*" {
            "encrypting the same resource across groups is not supported"
        } else {
            continue;
        };
        errors.push(Error::invalid_str(&path.index(at), name, detail));
    }
}

fn validate_provider(provider: &ProviderEntry, path: &Path<'_>, errors: &mut ErrorList) {
    let ProviderEntry {
        aesgcm,
        aescbc,
        secretbox,
        identity,
        kms,
    } = provider;
    let given = [
        aesgcm.is_some(),
        aescbc.is_some(),
        secretbox.is_some(),
        identity.is_some(),
        kms.is_some(),
    ];
    let detail = match given.iter().filter(|given| **given).count() {
        0 => "provider does not contain any of the expected providers: KMS, AESGCM, AESCBC, Secretbox, Identity",
        1 => "",
        _ => "more than one provider specified in a single element, should split into different list elements",
    };
    if !detail.is_empty() {
        errors.push(Error::invalid_str(path, "REDACTED", detail));
    }
    if kms.is_some() {
        errors.push(Error::forbidden(&path.child("kms"), "KMS plugins are not there yet"));
    }
    for (name, keys, lengths) in [
        ("aesgcm", aesgcm, AES_KEY_BYTES),
        ("aescbc", aescbc, AES_KEY_BYTES),
        ("secretbox", secretbox, SECRETBOX_KEY_BYTES),
    ] {
        if let Some(keys) = keys {
            validate_keys(keys, &path.child(name).child("keys"), lengths, errors);
        }
    }
}

fn validate_keys(keys: &KeyList, path: &Path<'_>, lengths: &[usize], errors: &mut ErrorList) {
    if keys.keys.is_empty() {
        errors.push(Error::required(path, "at least one keys is required"));
    }
    for (at, key) in keys.keys.iter().enumerate() {
        validate_key(key, &path.index(at), lengths, errors);
    }
}

fn validate_key(key: &KeyEntry, path: &Path<'_>, lengths: &[usize], errors: &mut ErrorList) {
    if key.name.is_empty() {
        errors.push(Error::required(
            &path.child("name"),
            "name is a mandatory field for a key",
        ));
    }
    let secret = path.child("secret");
    if key.secret.is_empty() {
        errors.push(Error::required(&secret, "secret is a mandatory field for a key"));
        return;
    }
    let Ok(bytes) = STANDARD.decode(key.secret.as_bytes()).map(zeroize::Zeroizing::new) else {
        errors.push(Error::invalid_str(
            &secret,
            "REDACTED",
            "secrets must be base64 encoded",
        ));
        return;
    };
    if !lengths.contains(&bytes.len()) {
        let names: Vec<String> = lengths.iter().map(ToString::to_string).collect();
        let detail = format!(
            "secret is not of the expected length, got {}, expected one of [{}]",
            bytes.len(),
            names.join(" ")
        );
        errors.push(Error::invalid_str(&secret, "REDACTED", &detail));
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse;

    fn rule(resources: &str, provider: &str) -> String {
        format!(
            "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: {resources}\n  \
             providers: [{provider}]\n"
        )
    }

    fn errors(resources: &str, provider: &str) -> Vec<String> {
        parse(rule(resources, provider).as_bytes()).expect_err("it is wrong")
    }

    const IDENTITY: &str = "{identity: {}}";

    #[test]
    fn each_rule_has_kube_apiservers_words() {
        let key = |secret: &str| format!("{{aescbc: {{keys: [{{name: key1, secret: {secret}}}]}}}}");
        for (found, expected) in [
            (
                errors("[secrets]", &key("c2VjcmV0")),
                "resources[0].providers[0].aescbc.keys[0].secret: Invalid value: \"REDACTED\": secret is not of the \
                 expected length, got 6, expected one of [16 24 32]",
            ),
            (
                errors("[secrets]", &key("'%%%'")),
                "resources[0].providers[0].aescbc.keys[0].secret: Invalid value: \"REDACTED\": secrets must be base64 \
                 encoded",
            ),
            (
                errors(
                    "[secrets]",
                    "{secretbox: {keys: [{name: a, secret: AAAAAAAAAAAAAAAAAAAAAA==}]}}",
                ),
                "resources[0].providers[0].secretbox.keys[0].secret: Invalid value: \"REDACTED\": secret is not of the \
                 expected length, got 16, expected one of [32]",
            ),
            (
                errors("[secrets]", "{aesgcm: {keys: []}}"),
                "resources[0].providers[0].aesgcm.keys: Required value: at least one keys is required",
            ),
            (
                errors("[secrets, secrets]", IDENTITY),
                "resources[0].resources: Invalid value: [\"secrets\",\"secrets\"]: the same resource cannot be \
                 specified multiple times",
            ),
            (
                errors("[secrets, '*.']", IDENTITY),
                "resources[0].resources: Invalid value: [\"secrets\",\"*.\"]: using overlapping resources such as \
                 'secrets' and '*.' in the same resource list is not allowed as they will be masked",
            ),
            (
                errors("['*']", IDENTITY),
                "resources[0].resources[0]: Invalid value: \"*\": use '*.' to encrypt all the resources from core API \
                 group or *.* to encrypt all resources",
            ),
            (
                errors("[serviceipallocations]", IDENTITY),
                "resources[0].resources[0]: Invalid value: \"serviceipallocations\": resources which do not have REST \
                 API/s cannot be encrypted",
            ),
            (
                errors("[]", IDENTITY),
                "resources[0].resources: Required value: at least one resources[0].resources is required",
            ),
            (
                errors("[secrets]", "{kms: {name: a}}"),
                "resources[0].providers[0].kms: Forbidden: KMS plugins are not there yet",
            ),
        ] {
            assert_eq!(found, [expected]);
        }
    }

    #[test]
    fn what_is_right_is_taken() {
        let provider = "{aesgcm: {keys: [{name: a, secret: AAAAAAAAAAAAAAAAAAAAAA==}]}}, {identity: {}}";
        let config = parse(rule("[secrets, pandas.example.com, '*.apps']", provider).as_bytes()).expect("it is right");
        let names: Vec<String> = config.resources[0].resources.iter().map(ToString::to_string).collect();
        assert_eq!(names, ["secrets", "pandas.example.com", "*.apps"]);
        assert_eq!(config.resources[0].providers.len(), 2);
    }

    #[test]
    fn no_error_shows_a_key() {
        for provider in [
            "{aescbc: {keys: [TopSecret]}}",
            "{aescbc: {keys: TopSecret}}",
            "{aescbc: {keys: [{name: a, secret: TopSecret}]}}",
            "{aescbc: {keys: [{name: a, secret: [TopSecret]}]}}",
            "{aescbc: {keys: [{name: a, secret: TopSecret}]}, identity: {}}",
        ] {
            let text = errors("[secrets]", provider).join("\n");
            assert!(!text.is_empty() && !text.contains("TopSecret"), "{text}");
        }
    }
}
