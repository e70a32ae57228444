//! Secrets (`pkg/registry/core/secret`).

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value;
use trireme_machinery::field::{Error, ErrorList, Path};
use trireme_registry::{Strategy, WriteContext};

use super::configmaps::{decoded_len, validate_config_map_key, validate_immutable_data};
use crate::{
    certificates::{
        pem::blocks,
        x509::{leaf_certificate_error, private_key_error},
    },
    columns::{self, column, documented},
    kind::Kind,
    values::{entries, set_default, struct_mut, text},
};

const TYPE: &str = "io.k8s.api.core.v1.Secret";
const CERTIFICATE: &str = "CERTIFICATE";
/// The size of all values together.
const MAX_BYTES: usize = 1024 * 1024;
const SERVICE_ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";

/// The kind's parts.
pub(crate) fn kind() -> Kind {
    Kind::new("", "secrets", Secrets).columns(vec![
        columns::name(),
        column("Type", "string", documented(TYPE, "type"), |object| {
            Value::from(text(object, "type"))
        }),
        column("Data", "string", documented(TYPE, "data"), |object| {
            Value::from(entries(object, "data").count())
        }),
        columns::age(),
    ])
}

struct Secrets;

impl Strategy for Secrets {
    fn default(&self, object: &mut Value) {
        move_string_data(object);
        if let Some(fields) = object.as_object_mut() {
            set_default(fields, "type", "Opaque");
        }
    }

    fn validate(&self, _context: &WriteContext, object: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        let path = Path::new("data");
        let mut bytes = 0;
        for (key, value) in entries(object, "data") {
            validate_config_map_key(&path.key(key), key, &mut errors);
            bytes += decoded_len(value.as_str().unwrap_or_default());
        }
        if bytes > MAX_BYTES {
            errors.push(Error::too_long(&path, MAX_BYTES));
        }
        validate_secret_type(object, &path, &mut errors);
        errors
    }

    fn prepare_for_update(&self, _context: &WriteContext, new: &mut Value, old: &Value) {
        // An empty type is taken for the old one.
        let unset = text(new, "type").is_empty();
        if let Some(kept) = old.get("type").filter(|_| unset) {
            new["type"] = kept.clone();
        }
    }

    fn validate_update(&self, context: &WriteContext, new: &Value, old: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        if new.get("type") != old.get("type") {
            errors.push(Error::invalid_str(
                &Path::new("type"),
                text(new, "type"),
                "field is immutable",
            ));
        }
        errors.extend(validate_immutable_data(new, old, &["data"]));
        errors.extend(self.validate(context, new));
        errors
    }

    fn warnings(&self, new: &Value, _old: Option<&Value>) -> Vec<String> {
        if text(new, "type") != "kubernetes.io/tls" {
            return Vec::new();
        }
        let value = |key: &str| {
            let data = new.get("data").map_or("", |data| text(data, key));
            STANDARD.decode(data).unwrap_or_default()
        };
        x509_key_pair_error(&value("tls.crt"), &value("tls.key"))
            .into_iter()
            .collect()
    }
}

/// `stringData` is for writing only: it wins over `data` and is never seen again.
fn move_string_data(object: &mut Value) {
    let Some(Value::Object(given)) = object.as_object_mut().and_then(|fields| fields.remove("stringData")) else {
        return;
    };
    if given.is_empty() {
        return;
    }
    let data = struct_mut(object, "data");
    for (key, value) in given {
        data.insert(key, STANDARD.encode(value.as_str().unwrap_or_default()).into());
    }
}

fn validate_secret_type(object: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let data = object.get("data");
    let has = |key: &str| data.is_some_and(|data| data.get(key).is_some());
    let is_empty = |key: &str| data.is_none_or(|data| text(data, key).is_empty());
    let mut require = |key: &str| errors.push(Error::required(&path.key(key), ""));
    match text(object, "type") {
        "kubernetes.io/basic-auth" if !has("username") && !has("password") => {
            require("username");
            require("password");
        }
        "kubernetes.io/ssh-auth" if is_empty("ssh-privatekey") => require("ssh-privatekey"),
        "kubernetes.io/tls" => {
            ["tls.crt", "tls.key"]
                .into_iter()
                .filter(|key| !has(key))
                .for_each(&mut require);
        }
        "kubernetes.io/service-account-token" => {
            let annotations = object.pointer("/metadata/annotations");
            if annotations.is_none_or(|annotations| text(annotations, SERVICE_ACCOUNT_NAME).is_empty()) {
                let path = Path::new("metadata.annotations");
                errors.push(Error::required(&path.key(SERVICE_ACCOUNT_NAME), ""));
            }
        }
        "kubernetes.io/dockercfg" => validate_docker_config(data, ".dockercfg", path, errors),
        "kubernetes.io/dockerconfigjson" => validate_docker_config(data, ".dockerconfigjson", path, errors),
        _ => {}
    }
}

fn validate_docker_config(data: Option<&Value>, key: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(value) = data.and_then(|data| data.get(key)).and_then(Value::as_str) else {
        errors.push(Error::required(&path.key(key), ""));
        return;
    };
    let decoded = STANDARD.decode(value).unwrap_or_default();
    let failure = match trireme_machinery::json::decode(&decoded) {
        Ok(config) => {
            let kind = match config.value {
                Value::Object(_) | Value::Null => return,
                Value::Array(_) => "array",
                Value::String(_) => "string",
                Value::Number(_) => "number",
                Value::Bool(_) => "bool",
            };
            format!("json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}")
        }
        Err(error) => error.to_string(),
    };
    errors.push(Error::invalid_shown(
        &path.key(key),
        "\"<secret contents redacted>\"",
        &failure,
    ));
}

/// The error of Go's `tls.X509KeyPair` for a certificate and a key that it does not find or cannot read. That they belong
/// together is not looked at.
fn x509_key_pair_error(certificate: &[u8], key: &[u8]) -> Option<String> {
    let (certificate, key) = (String::from_utf8_lossy(certificate), String::from_utf8_lossy(key));
    let is_key = |kind: &str| kind == "PRIVATE KEY" || kind.ends_with(" PRIVATE KEY");
    let pair = first_block(&certificate, |kind| kind == CERTIFICATE)
        .map_err(|skipped| no_certificate(&skipped))
        .and_then(|leaf| match first_block(&key, is_key) {
            Ok(key) => Ok((leaf, key)),
            Err(skipped) => Err(no_key(&skipped)),
        });
    match pair {
        Err(error) => Some(error),
        Ok((leaf, key)) => leaf_certificate_error(&leaf)
            .or_else(|| private_key_error(&key))
            .map(str::to_owned),
    }
}

/// Returns the content of the first block of that kind, or the kinds of the blocks that there are.
fn first_block(text: &str, is_wanted: impl Fn(&str) -> bool) -> Result<Vec<u8>, Vec<String>> {
    let mut skipped = Vec::new();
    for block in blocks(text) {
        if is_wanted(block.kind) {
            return Ok(block.content);
        }
        skipped.push(block.kind.to_owned());
    }
    Err(skipped)
}

fn no_certificate(skipped: &[String]) -> String {
    match skipped {
        [] => "tls: failed to find any PEM data in certificate input".to_owned(),
        [one] if one.ends_with("PRIVATE KEY") => {
            "tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs \
             may have been switched"
                .to_owned()
        }
        kinds => format!(
            "tls: failed to find \"CERTIFICATE\" PEM block in certificate input after skipping PEM blocks of the \
             following types: [{}]",
            kinds.join(" ")
        ),
    }
}

fn no_key(skipped: &[String]) -> String {
    match skipped {
        [] => "tls: failed to find any PEM data in key input".to_owned(),
        [one] if one == CERTIFICATE => {
            "tls: found a certificate rather than a key in the PEM for the private key".to_owned()
        }
        kinds => format!(
            "tls: failed to find PEM block with type ending in \"PRIVATE KEY\" in key input after skipping PEM blocks \
             of the following types: [{}]",
            kinds.join(" ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A certificate of `CN=x`, of which no one has the key.
    const LEAF: &str = "\
        MIIBbzCCARWgAwIBAgIUCUY+b7c+uoa2aDyO3jTzwEx2hi8wCgYIKoZIzj0EAwIwDDEKMAgGA1UEAwwBeDAgFw0yNjExMjIxMjA1\
        NTRaGA8yMTI2MTAyOTEyMDU1NFowDDEKMAgGA1UEAwwBeDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABOPgETdFCmucd1p8IyBI\
        LdXUi/7lgdsmI2b85fsTRU0F18MhIMb5a/6T72r0pkAEll5wDhZhMSyPOWyG8T1qCS+jUzBRMB0GA1UdDgQWBBQ4M5akZbsUBQAV\
        znJ/rMOKbYrpGzAfBgNVHSMEGDAWgBQ4M5akZbsUBQAVznJ/rMOKbYrpGzAPBgNVHRMBAf8EBTADAQH/MAoGCCqGSM49BAMCA0gA\
        MEUCIHDn3qMIFSaQodTCJy6SiUZWH2b6YyNjvgIxQwT5GhDfAiEA7GiMn+5/oVLcjrwmqkXa8fpFYppCbg0fcTZ5Q9zHiB4=";

    #[test]
    fn unreadable_pairs_are_reported() {
        let block = |kind: &str, content: &str| format!("-----BEGIN {kind}-----\n{content}\n-----END {kind}-----\n");
        let error = |certificate: &str, key: &str| {
            let (certificate, key) = (block(CERTIFICATE, certificate), block("PRIVATE KEY", key));
            x509_key_pair_error(certificate.as_bytes(), key.as_bytes())
        };
        assert_eq!(
            error("AAAA", "MAMCAQE=").as_deref(),
            Some("x509: malformed certificate")
        );
        assert_eq!(error(LEAF, "AAAA").as_deref(), Some("tls: failed to parse private key"));
        assert_eq!(error(LEAF, "MAMCAQE="), None);
    }

    #[test]
    fn pairs_with_a_missing_half_are_reported() {
        let block = |kind: &str| format!("-----BEGIN {kind}-----\nAAAA\n-----END {kind}-----\n");
        let (certificate, key) = (block("CERTIFICATE"), block("RSA PRIVATE KEY"));
        let other = block("PUBLIC KEY");
        let cases = [
            ("", "", Some("tls: failed to find any PEM data in certificate input")),
            (
                &key,
                &certificate,
                Some(
                    "tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM \
                     inputs may have been switched",
                ),
            ),
            (
                &other,
                &key,
                Some(
                    "tls: failed to find \"CERTIFICATE\" PEM block in certificate input after skipping PEM blocks of \
                     the following types: [PUBLIC KEY]",
                ),
            ),
            (&certificate, "x", Some("tls: failed to find any PEM data in key input")),
            (
                &certificate,
                &certificate,
                Some("tls: found a certificate rather than a key in the PEM for the private key"),
            ),
            (
                &certificate,
                &format!("{other}{certificate}"),
                Some(
                    "tls: failed to find PEM block with type ending in \"PRIVATE KEY\" in key input after skipping PEM \
                     blocks of the following types: [PUBLIC KEY CERTIFICATE]",
                ),
            ),
            (
                &format!("{other}{certificate}"),
                &key,
                Some("x509: malformed certificate"),
            ),
        ];
        for (certificate, key, expected) in cases {
            let error = x509_key_pair_error(certificate.as_bytes(), key.as_bytes());
            assert_eq!(error.as_deref(), expected, "{certificate} {key}");
        }
    }
}
