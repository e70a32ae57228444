//! Reads the file of `--encryption-provider-config`: kube-apiserver's `EncryptionConfiguration`.
//!
//! No error shows anything of a key.

mod validation;

use std::path::PathBuf;
use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::Deserialize;
use trireme_machinery::{percent, time, url, yaml};
use trireme_storage::encryption::{
    EncryptedResources, EncryptionConfig, EncryptionProviders, KmsProvider, NamedKey, Provider, ResourceName,
};
use zeroize::Zeroizing;

use self::validation::validate_encryption_configuration;
use super::errors::SettingError;

const API_VERSION: &str = "apiserver.config.k8s.io/v1";
const KIND: &str = "EncryptionConfiguration";

/// A call of a plugin takes no longer, unless the file says otherwise.
const DEFAULT_TIMEOUT: &str = "3s";
/// The version of a plugin whose entry names none.
const DEFAULT_KMS_VERSION: &str = "v1";
const KMS_V1_IS_OFF: &str = "KMSv1 is deprecated and will only receive security updates going forward. Use KMSv2 \
                             instead.  Set --feature-gates=KMSv1=true to use the deprecated KMSv1 feature.";

/// The configuration of encryption at rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Encryption {
    /// The file.
    pub(crate) file: PathBuf,
    /// True if its changes are followed.
    pub(crate) reload: bool,
    /// True if the feature gate KMSv1 is on.
    pub(crate) kms_v1: bool,
}

/// The file as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct ConfigFile {
    api_version: String,
    kind: String,
    #[serde(default)]
    resources: Vec<ResourceEntry>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ResourceEntry {
    #[serde(default)]
    resources: Vec<String>,
    #[serde(default)]
    providers: Vec<ProviderEntry>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProviderEntry {
    aesgcm: Option<KeyList>,
    aescbc: Option<KeyList>,
    secretbox: Option<KeyList>,
    identity: Option<Empty>,
    kms: Option<KmsEntry>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct KmsEntry {
    #[serde(default, rename = "apiVersion")]
    api_version: String,
    #[serde(default)]
    name: String,
    cachesize: Option<i32>,
    #[serde(default)]
    endpoint: String,
    timeout: Option<String>,
}

impl KmsEntry {
    fn version(&self) -> &str {
        match self.api_version.as_str() {
            "" => DEFAULT_KMS_VERSION,
            version => version,
        }
    }

    fn timeout(&self) -> Result<time::Duration, time::DurationError> {
        time::Duration::parse(self.timeout.as_deref().unwrap_or(DEFAULT_TIMEOUT))
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Empty {}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyList {
    #[serde(default)]
    keys: Vec<KeyEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyEntry {
    #[serde(default)]
    name: String,
    #[serde(default)]
    secret: Zeroizing<String>,
}

impl std::fmt::Debug for KeyEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} [REDACTED]", self.name)
    }
}

impl Encryption {
    /// Reads the content of the file, or says everything that is wrong with it.
    pub(crate) fn parse(&self, content: &[u8]) -> Result<EncryptionConfig, Vec<String>> {
        let decoded = yaml::decode(content).map_err(|error| vec![error.to_string()])?;
        if !decoded.duplicates.is_empty() {
            return Err(decoded.duplicates);
        }
        let file = serde_json::from_value::<ConfigFile>(decoded.value).map_err(|error| vec![form_error(&error)])?;
        if file.api_version != API_VERSION || file.kind != KIND {
            return Err(vec![format!("give apiVersion {API_VERSION} and kind {KIND}")]);
        }
        let errors = validate_encryption_configuration(&file, self.reload);
        if !errors.is_empty() {
            return Err(errors.iter().map(ToString::to_string).collect());
        }
        let mut providers = file.resources.iter().flat_map(|rule| &rule.providers);
        if providers.any(|provider| provider.kms.as_ref().is_some_and(|kms| kms.version() == "v1")) {
            let error = if self.kms_v1 {
                "KMS plugins of version 1 are not served: use KMSv2"
            } else {
                KMS_V1_IS_OFF
            };
            return Err(vec![error.to_owned()]);
        }
        let resources = file.resources.into_iter().map(ResourceEntry::into_resources);
        Ok(EncryptionConfig {
            resources: resources.collect(),
        })
    }

    /// Reads the file when the settings are read, so that its errors are reported with all others.
    pub(super) fn check(&self, origin: &str) -> Result<(), Vec<SettingError>> {
        let error_of = |allowed: String| SettingError {
            origin: origin.to_owned(),
            value: Some(self.file.display().to_string()),
            allowed,
        };
        let content = std::fs::read(&self.file).map(Zeroizing::new);
        let content = content.map_err(|error| vec![error_of(format!("give a file that can be read ({error})"))])?;
        if content.is_empty() {
            return Err(vec![error_of("the file is empty".to_owned())]);
        }
        let config = self.parse(&content);
        let config = config.map_err(|errors| errors.into_iter().map(error_of).collect::<Vec<_>>())?;
        EncryptionProviders::check(&config).map_err(|error| vec![error_of(error.to_string())])
    }
}

/// The error of the decoder, but for the values that it shows: one of them may be a key.
fn form_error(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let is_about_names = ["unknown field", "missing field"]
        .iter()
        .any(|start| text.starts_with(start));
    if is_about_names {
        text
    } else {
        "a field is not of its type".to_owned()
    }
}

impl ResourceEntry {
    fn into_resources(self) -> EncryptedResources {
        EncryptedResources {
            resources: self.resources.iter().map(|name| ResourceName::parse(name)).collect(),
            providers: self.providers.into_iter().map(ProviderEntry::into_provider).collect(),
        }
    }
}

impl ProviderEntry {
    fn into_provider(self) -> Provider {
        match self {
            Self { aesgcm: Some(keys), .. } => Provider::AesGcm(keys.into_named()),
            Self { aescbc: Some(keys), .. } => Provider::AesCbc(keys.into_named()),
            Self {
                secretbox: Some(keys), ..
            } => Provider::Secretbox(keys.into_named()),
            Self { kms: Some(kms), .. } => Provider::Kms(kms.into_provider()),
            _ => Provider::Identity,
        }
    }
}

impl KmsEntry {
    fn into_provider(self) -> KmsProvider {
        let nanos = self.timeout().map(time::Duration::nanos).unwrap_or_default();
        let path = url::parse(&self.endpoint).map(|url| url.path).unwrap_or_default();
        let socket = percent::decode(path).map_or_else(String::new, |path| path.into_owned());
        KmsProvider {
            socket,
            timeout: Duration::from_nanos(nanos.try_into().unwrap_or_default()),
            name: self.name,
        }
    }
}

impl KeyList {
    fn into_named(self) -> Vec<NamedKey> {
        let named = self.keys.into_iter().map(|key| NamedKey {
            name: key.name,
            secret: Zeroizing::new(STANDARD.decode(key.secret.as_bytes()).unwrap_or_default()),
        });
        named.collect()
    }
}
