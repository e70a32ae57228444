//! One provider: its prefix, and what it makes of a value.

use std::{borrow::Cow, sync::Arc};

use super::{
    ENCRYPTED_PREFIX,
    aes::{AesCbc, AesGcm},
    config::{NamedKey, Provider},
    kms::{KmsCallError, KmsOptions, KmsPlugin},
    secretbox::Secretbox,
};

/// The reason that a value could not be encrypted or decrypted, in kube-apiserver's words where it has any.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EncryptionError {
    /// The value is not what the key has encrypted.
    #[error("{0}")]
    Value(&'static str),
    /// The value is of no provider of its resource.
    #[error("no matching prefix found")]
    NoProvider,
    /// The value is of none of the provider's keys.
    #[error("no matching key was found for the provided {0} transformer")]
    NoKey(&'static str),
    /// Several keys have the value's prefix, and none of them is right: what each of them says.
    #[error("[{}]", .0.join(", "))]
    Several(Vec<String>),
    /// A key of a length that the cipher does not have.
    #[error("invalid key size {0}")]
    KeyLength(usize),
    /// The cipher failed.
    #[error("the cipher failed")]
    Cipher,
    /// The configuration names a resource that an earlier rule has for itself.
    #[error("resource {0:?} is masked by earlier rule {1:?}")]
    Masked(String, String),
    /// A value of KMS v2 is malformed, or the plugin's answer is.
    #[error("{0}")]
    Envelope(String),
    /// The plugin has decrypted a seed that is none.
    #[error("invalid seed length {0} used for key generation")]
    SeedLength(usize),
    /// The plugin did not decrypt a key.
    #[error("failed to decrypt DEK, error: {0}")]
    DecryptDek(KmsCallError),
    /// The plugin did not encrypt a key.
    #[error("failed to encrypt DEK, error: {0}")]
    EncryptDek(KmsCallError),
    /// The plugin has not been well yet.
    #[error("got unexpected nil transformer")]
    NotPrimed,
    /// The plugin has not been well for so long that its key must not be used to write.
    #[error("encryptedDEKSource with keyID hash {key_id_hash:?} expired at {expired} (current time is {now})")]
    DekExpired {
        /// The hash of the key's id.
        key_id_hash: String,
        /// Since when.
        expired: String,
        /// The time.
        now: String,
    },
}

impl EncryptionError {
    /// The one error of several; each text is in it once, as in `utilerrors.NewAggregate`.
    pub(super) fn of_several(errors: Vec<Self>) -> Option<Self> {
        let mut texts = Vec::new();
        for error in &errors {
            let of_it = match error {
                Self::Several(texts) => texts.clone(),
                other => vec![other.to_string()],
            };
            for text in of_it {
                if !texts.contains(&text) {
                    texts.push(text);
                }
            }
        }
        if texts.len() > 1 {
            Some(Self::Several(texts))
        } else {
            errors.into_iter().next()
        }
    }

    /// Reports whether the plugin does not answer.
    pub(super) fn is_unreachable(&self) -> bool {
        matches!(self, Self::DecryptDek(error) if error.is_unreachable())
    }

    /// The word for it in metrics.
    pub(super) fn status(&self) -> String {
        match self {
            Self::DecryptDek(error) | Self::EncryptDek(error) => error.code(),
            _ => "unknown-non-grpc".to_owned(),
        }
    }
}

/// A decrypted value.
pub(super) struct PlainValue<'v> {
    pub(super) value: Cow<'v, [u8]>,
    /// True if it would be encrypted otherwise if it were written now.
    pub(super) stale: bool,
}

enum Cipher {
    AesCbc(Box<AesCbc>),
    AesGcm(Box<AesGcm>),
    Secretbox(Secretbox),
}

impl Cipher {
    fn decrypt(&self, data: &[u8], place: &str) -> Result<Vec<u8>, EncryptionError> {
        match self {
            Self::AesCbc(cipher) => cipher.decrypt(data),
            Self::AesGcm(cipher) => cipher.decrypt(data, place),
            Self::Secretbox(cipher) => cipher.decrypt(data),
        }
    }

    fn encrypt(&self, data: &[u8], place: &str) -> Result<Vec<u8>, EncryptionError> {
        match self {
            Self::AesCbc(cipher) => cipher.encrypt(data),
            Self::AesGcm(cipher) => cipher.encrypt(data, place),
            Self::Secretbox(cipher) => cipher.encrypt(data),
        }
    }
}

/// A key and the prefix that its values have after that of the provider.
struct KeyCipher {
    prefix: String,
    cipher: Cipher,
}

/// A provider that is ready to work.
pub(super) struct Transformer {
    /// The beginning of its values; empty for the one that encrypts nothing.
    pub(super) prefix: String,
    method: Method,
}

enum Method {
    Identity,
    Keys {
        /// The name of the provider in messages.
        name: &'static str,
        keys: Vec<KeyCipher>,
    },
    Kms(Arc<KmsPlugin>),
}

impl Transformer {
    pub(super) fn new(provider: &Provider, kms: &KmsOptions) -> Result<Self, EncryptionError> {
        let (prefix, method) = match provider {
            Provider::Identity => ("", Method::Identity),
            Provider::AesCbc(keys) => ("k8s:enc:aescbc:v1:", with_keys("AES", keys, aes_cbc)?),
            Provider::AesGcm(keys) => ("k8s:enc:aesgcm:v1:", with_keys("AES", keys, aes_gcm)?),
            Provider::Secretbox(keys) => ("k8s:enc:secretbox:v1:", with_keys("Secretbox", keys, secretbox)?),
            Provider::Kms(provider) => {
                return Ok(Self {
                    prefix: format!("k8s:enc:kms:v2:{}:", provider.name),
                    method: Method::Kms(KmsPlugin::new(provider, kms)),
                });
            }
        };
        Ok(Self {
            prefix: prefix.to_owned(),
            method,
        })
    }

    /// The plugin, if it is one.
    pub(super) fn plugin(&self) -> Option<&Arc<KmsPlugin>> {
        match &self.method {
            Method::Kms(plugin) => Some(plugin),
            Method::Identity | Method::Keys { .. } => None,
        }
    }

    /// Reports whether values are left as they are.
    pub(super) fn is_identity(&self) -> bool {
        matches!(self.method, Method::Identity)
    }

    /// Decrypts what follows the prefix.
    pub(super) async fn decrypt<'v>(&self, data: &'v [u8], place: &str) -> Result<PlainValue<'v>, EncryptionError> {
        match &self.method {
            Method::Identity if data.starts_with(ENCRYPTED_PREFIX) => Err(EncryptionError::Value(
                "identity transformer tried to read encrypted data",
            )),
            Method::Identity => Ok(PlainValue {
                value: Cow::Borrowed(data),
                stale: false,
            }),
            Method::Keys { name, keys } => decrypt_by_key(name, keys, data, place),
            Method::Kms(plugin) => {
                let (value, stale) = plugin.decrypt(data, place).await?;
                let value = Cow::Owned(value);
                Ok(PlainValue { value, stale })
            }
        }
    }

    /// Encrypts a value, and puts the prefixes before it.
    pub(super) fn encrypt(&self, data: &[u8], place: &str) -> Result<Vec<u8>, EncryptionError> {
        match &self.method {
            Method::Identity => Ok(data.to_vec()),
            Method::Keys { keys, .. } => {
                let Some(key) = keys.first() else {
                    return Ok(data.to_vec());
                };
                let encrypted = key.cipher.encrypt(data, place)?;
                Ok([self.prefix.as_bytes(), key.prefix.as_bytes(), &encrypted].concat())
            }
            Method::Kms(plugin) => {
                let encrypted = plugin.encrypt(data, place)?;
                Ok([self.prefix.as_bytes(), &encrypted].concat())
            }
        }
    }
}

type MakeCipher = fn(&[u8]) -> Result<Cipher, EncryptionError>;

fn aes_cbc(key: &[u8]) -> Result<Cipher, EncryptionError> {
    AesCbc::new(key).map(|cipher| Cipher::AesCbc(Box::new(cipher)))
}

fn aes_gcm(key: &[u8]) -> Result<Cipher, EncryptionError> {
    AesGcm::new(key).map(|cipher| Cipher::AesGcm(Box::new(cipher)))
}

fn secretbox(key: &[u8]) -> Result<Cipher, EncryptionError> {
    Secretbox::new(key).map(Cipher::Secretbox)
}

fn with_keys(name: &'static str, keys: &[NamedKey], make: MakeCipher) -> Result<Method, EncryptionError> {
    let key = |key: &NamedKey| {
        Ok(KeyCipher {
            prefix: format!("{}:", key.name),
            cipher: make(&key.secret)?,
        })
    };
    let keys = keys.iter().map(key).collect::<Result<Vec<_>, EncryptionError>>()?;
    Ok(Method::Keys { name, keys })
}

/// All keys are tried whose name fits: a key may have been exchanged under its name.
fn decrypt_by_key<'v>(
    name: &'static str,
    keys: &[KeyCipher],
    data: &[u8],
    place: &str,
) -> Result<PlainValue<'v>, EncryptionError> {
    let mut errors = Vec::new();
    for (at, key) in keys.iter().enumerate() {
        let Some(data) = data.strip_prefix(key.prefix.as_bytes()) else {
            continue;
        };
        match key.cipher.decrypt(data, place) {
            Ok(value) => {
                let value = Cow::Owned(value);
                return Ok(PlainValue { value, stale: at != 0 });
            }
            Err(error) => errors.push(error),
        }
    }
    Err(EncryptionError::of_several(errors).unwrap_or(EncryptionError::NoKey(name)))
}
