//! The rules of `k8s.io/apiserver/pkg/apis/apiserver/validation`, in its words.

use std::collections::BTreeSet;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::json;
use trireme_machinery::{
    field::{Error, ErrorList, Path},
    url,
};
use trireme_storage::encryption::ResourceName;

use super::{ConfigFile, KeyEntry, KeyList, KmsEntry, ProviderEntry};

const AES_KEY_BYTES: &[usize] = &[16, 24, 32];
const SECRETBOX_KEY_BYTES: &[usize] = &[32];
const WITHOUT_API: [&str; 3] = ["apiserveripinfo", "serviceipallocations", "servicenodeportallocations"];

pub(super) fn validate_encryption_configuration(config: &ConfigFile, reload: bool) -> ErrorList {
    let mut errors = ErrorList::new();
    let mut kms_names = BTreeSet::new();
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
            let path = providers.index(at);
            validate_provider(provider, &path, &mut errors);
            if let Some(kms) = &provider.kms {
                validate_kms_configuration(
                    kms,
                    &path.child("kms"),
                    !kms_names.insert(&*kms.name),
                    reload,
                    &mut errors,
                );
            }
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
    let double = pairs().position(|(one, other)| one == other);
    if double.is_some() {
        let detail = "the same resource cannot be specified multiple times";
        errors.push(Error::invalid(path, &json!(resources), detail));
    }
    let is_any = |name: &ResourceName| name.resource == "*" && name.group == "*";
    let overlaps = |one: &ResourceName, other: &ResourceName| {
        is_any(one) || one.group == other.group && (one.resource == "*" || other.resource == "*")
    };
    // Only the first pair of the same names is not looked at again, so a wildcard that is given twice is both.
    let mut others = pairs().enumerate().filter(|(at, _)| Some(*at) != double);
    if others.any(|(_, (one, other))| overlaps(one, other)) {
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
    let lists = [
        ("aesgcm", aesgcm, AES_KEY_BYTES),
        ("aescbc", aescbc, AES_KEY_BYTES),
        ("secretbox", secretbox, SECRETBOX_KEY_BYTES),
    ];
    let given = |(name, keys, lengths)| Option::as_ref(keys).map(|keys| (name, keys, lengths));
    // Of several only the first one is looked into, and none beside a plugin.
    if let Some((name, keys, lengths)) = lists.into_iter().find_map(given).filter(|_| kms.is_none()) {
        validate_keys(keys, &path.child(name).child("keys"), lengths, errors);
    }
}

fn validate_kms_configuration(kms: &KmsEntry, path: &Path<'_>, is_known: bool, reload: bool, errors: &mut ErrorList) {
    let is_v1 = kms.version() == "v1";
    validate_kms_config_name(kms, &path.child("name"), is_known && (reload || !is_v1), errors);
    let timeout = path.child("timeout");
    let given = || kms.timeout.as_deref().unwrap_or_default();
    match kms.timeout() {
        Ok(time) if time.nanos() <= 0 => {
            let value = json!(time.to_string());
            errors.push(Error::invalid(&timeout, &value, "timeout should be a positive value"));
        }
        Ok(_) => {}
        Err(error) => errors.push(Error::invalid_str(&timeout, given(), &error.to_string())),
    }
    validate_kms_endpoint(&kms.endpoint, &path.child("endpoint"), errors);
    let cache_size = path.child("cachesize");
    match kms.cachesize {
        Some(size) if !is_v1 => {
            errors.push(Error::invalid(
                &cache_size,
                &json!(size),
                "cachesize is not supported in v2",
            ));
        }
        Some(0) => {
            let detail = "cachesize should be a positive value, or negative to disable";
            errors.push(Error::invalid(&cache_size, &json!(0), detail));
        }
        _ => {}
    }
    if !["v1", "v2"].contains(&kms.version()) {
        let detail = "unsupported apiVersion apiVersion for KMS provider, only v1 and v2 are supported";
        errors.push(Error::invalid_str(&path.child("apiVersion"), kms.version(), detail));
    }
}

fn validate_kms_config_name(kms: &KmsEntry, path: &Path<'_>, is_double: bool, errors: &mut ErrorList) {
    let name = &*kms.name;
    if name.is_empty() {
        errors.push(Error::required(path, "name is a mandatory field for a provider"));
    }
    if kms.version() != "v1" && name.contains(':') {
        let detail = format!("invalid KMS provider name {name}, must not contain ':'");
        errors.push(Error::invalid_str(path, name, &detail));
    }
    if is_double {
        let detail = format!("duplicate KMS provider name {name}, names must be unique");
        errors.push(Error::invalid_str(path, name, &detail));
    }
}

fn validate_kms_endpoint(endpoint: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let detail = match url::parse(endpoint) {
        _ if endpoint.is_empty() => "endpoint is a mandatory field for a kms".to_owned(),
        Ok(url) if url.scheme == "unix" => return,
        Ok(url) => format!(
            "unsupported scheme {:?} for KMS provider, only unix is supported",
            url.scheme
        ),
        Err(error) => format!("invalid endpoint for kms provider, error: {error}"),
    };
    errors.push(Error::invalid_str(path, endpoint, &detail));
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
    use std::time::Duration;

    use trireme_storage::encryption::{KmsProvider, Provider};

    use super::super::{Encryption, KeyEntry};

    fn encryption(kms_v1: bool) -> Encryption {
        Encryption {
            file: "encryption.yaml".into(),
            reload: false,
            kms_v1,
        }
    }

    fn rule(resources: &str, provider: &str) -> String {
        format!(
            "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: {resources}\n  \
             providers: [{provider}]\n"
        )
    }

    fn errors(resources: &str, provider: &str) -> Vec<String> {
        let content = rule(resources, provider);
        encryption(false).parse(content.as_bytes()).expect_err("it is wrong")
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
        ] {
            assert_eq!(found, [expected]);
        }
    }

    #[test]
    fn several_errors_of_a_rule_are_those_of_kube_apiserver() {
        let double = "resources[0].resources: Invalid value: [\"*.apps\",\"*.apps\"]: the same resource cannot be \
                      specified multiple times";
        let masked = "resources[0].resources: Invalid value: [\"*.apps\",\"*.apps\"]: using overlapping resources such as \
                      'secrets' and '*.' in the same resource list is not allowed as they will be masked";
        assert_eq!(errors("['*.apps', '*.apps']", IDENTITY), [double, masked]);
        let secrets = errors("[secrets, secrets, secrets]", IDENTITY);
        assert_eq!(secrets.len(), 1, "{secrets:?}");
        let both = "resources[0].providers[0]: Invalid value: \"REDACTED\": more than one provider specified in a single \
                    element, should split into different list elements";
        let empty = "resources[0].providers[0].aesgcm.keys: Required value: at least one keys is required";
        let found = errors("[secrets]", "{aescbc: {keys: []}, aesgcm: {keys: []}}");
        assert_eq!(found, [both, empty]);
    }

    #[test]
    fn each_rule_of_plugins_has_kube_apiservers_words() {
        let endpoint = "endpoint: unix:///kms.sock";
        let kms = |fields: &str| errors("[secrets]", &format!("{{kms: {{apiVersion: v2, {fields}}}}}"));
        let at = |field: &str, error: &str| format!("resources[0].providers[0].kms.{field}: {error}");
        for (found, expected) in [
            (
                kms(endpoint),
                at("name", "Required value: name is a mandatory field for a provider"),
            ),
            (
                kms(&format!("name: 'a:b', {endpoint}")),
                at(
                    "name",
                    "Invalid value: \"a:b\": invalid KMS provider name a:b, must not contain ':'",
                ),
            ),
            (
                kms(&format!("name: a, {endpoint}, timeout: -1s")),
                at("timeout", "Invalid value: \"-1s\": timeout should be a positive value"),
            ),
            (
                kms(&format!("name: a, {endpoint}, timeout: soon")),
                at("timeout", "Invalid value: \"soon\": time: invalid duration \"soon\""),
            ),
            (
                kms("name: a"),
                at(
                    "endpoint",
                    "Invalid value: \"\": endpoint is a mandatory field for a kms",
                ),
            ),
            (
                kms("name: a, endpoint: 'tcp://127.0.0.1:1'"),
                at(
                    "endpoint",
                    "Invalid value: \"tcp://127.0.0.1:1\": unsupported scheme \"tcp\" for KMS provider, only unix is supported",
                ),
            ),
            (
                kms("name: a, endpoint: ':x'"),
                at(
                    "endpoint",
                    "Invalid value: \":x\": invalid endpoint for kms provider, error: parse \":x\": missing protocol scheme",
                ),
            ),
            (
                kms(&format!("name: a, {endpoint}, cachesize: 10")),
                at("cachesize", "Invalid value: 10: cachesize is not supported in v2"),
            ),
            (
                errors("[secrets]", &format!("{{kms: {{name: a, cachesize: 0, {endpoint}}}}}")),
                at(
                    "cachesize",
                    "Invalid value: 0: cachesize should be a positive value, or negative to disable",
                ),
            ),
            (
                errors(
                    "[secrets]",
                    &format!("{{kms: {{apiVersion: v3, name: a, {endpoint}}}}}"),
                ),
                at(
                    "apiVersion",
                    "Invalid value: \"v3\": unsupported apiVersion apiVersion for KMS provider, only v1 and v2 are supported",
                ),
            ),
        ] {
            assert_eq!(found, [expected]);
        }
        let twice = format!("{{kms: {{apiVersion: v2, name: a, {endpoint}}}}}");
        let expected = "resources[0].providers[1].kms.name: Invalid value: \"a\": duplicate KMS provider name a, names must be unique";
        assert_eq!(errors("[secrets]", &format!("{twice}, {twice}")), [expected]);
    }

    #[test]
    fn plugins_of_version_1_are_refused() {
        let content = rule("[secrets]", "{kms: {name: a, endpoint: unix:///kms.sock}}");
        let error = |kms_v1| encryption(kms_v1).parse(content.as_bytes()).expect_err("it is refused");
        assert_eq!(
            error(false),
            [
                "KMSv1 is deprecated and will only receive security updates going forward. Use KMSv2 instead.  Set \
                 --feature-gates=KMSv1=true to use the deprecated KMSv1 feature."
            ]
        );
        assert_eq!(error(true), ["KMS plugins of version 1 are not served: use KMSv2"]);
    }

    #[test]
    fn a_plugin_has_a_socket_and_a_timeout() {
        for (fields, socket, timeout) in [
            ("endpoint: unix:///var/run/kms.sock", "/var/run/kms.sock", 3_000),
            ("endpoint: unix:///%6bms.sock, timeout: 500ms", "/kms.sock", 500),
            ("endpoint: 'unix:///@kms', timeout: 1m", "/@kms", 60_000),
        ] {
            let content = rule("[secrets]", &format!("{{kms: {{apiVersion: v2, name: a, {fields}}}}}"));
            let config = encryption(false).parse(content.as_bytes()).expect("it is right");
            let expected = KmsProvider {
                name: "a".to_owned(),
                socket: socket.to_owned(),
                timeout: Duration::from_millis(timeout),
            };
            assert_eq!(config.resources[0].providers, [Provider::Kms(expected)]);
        }
    }

    #[test]
    fn what_is_right_is_taken() {
        let provider = "{aesgcm: {keys: [{name: a, secret: AAAAAAAAAAAAAAAAAAAAAA==}]}}, {identity: {}}";
        let content = rule("[secrets, pandas.example.com, '*.apps']", provider);
        let config = encryption(false).parse(content.as_bytes()).expect("it is right");
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

    #[test]
    fn keys_of_the_file_are_overwritten_when_they_are_given_up() {
        fn overwritten<T: zeroize::ZeroizeOnDrop>(_: &T) {}
        let key: KeyEntry = serde_json::from_value(serde_json::json!({ "secret": "hush" })).expect("a key");
        overwritten(&key.secret);
    }
}
