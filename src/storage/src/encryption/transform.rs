//! One provider: its prefix, and what it makes of a value.

use std::borrow::Cow;

use super::{
    ENCRYPTED_PREFIX,
    aes::{AesCbc, AesGcm},
    config::{NamedKey, Provider},
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
    /// Several keys have the value's prefix, and none of them is right.
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
}

impl EncryptionError {
    /// The one error of several.
    pub(super) fn of_several(mut errors: Vec<Self>) -> Option<Self> {
        match errors.len() {
            0 => None,
            1 => errors.pop(),
            _ => Some(Self::Several(errors.iter().map(ToString::to_string).collect())),
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
    pub(super) prefix: &'static str,
    /// The name of the provider in messages.
    name: &'static str,
    keys: Vec<KeyCipher>,
}

impl Transformer {
    pub(super) fn new(provider: &Provider) -> Result<Self, EncryptionError> {
        let (prefix, name) = match provider {
            Provider::Identity => ("", "identity"),
            Provider::AesCbc(_) => ("k8s:enc:aescbc:v1:", "AES"),
            Provider::AesGcm(_) => ("k8s:enc:aesgcm:v1:", "AES"),
            Provider::Secretbox(_) => ("k8s:enc:secretbox:v1:", "Secretbox"),
        };
        let ciphers = |keys: &[NamedKey], make: fn(&[u8]) -> Result<Cipher, EncryptionError>| {
            let key = |key: &NamedKey| {
                Ok(KeyCipher {
                    prefix: format!("{}:", key.name),
                    cipher: make(&key.secret)?,
                })
            };
            keys.iter().map(key).collect::<Result<Vec<_>, EncryptionError>>()
        };
        let keys = match provider {
            Provider::Identity => Vec::new(),
            Provider::AesCbc(keys) => ciphers(keys, |key| {
                AesCbc::new(key).map(|cipher| Cipher::AesCbc(Box::new(cipher)))
            })?,
            Provider::AesGcm(keys) => ciphers(keys, |key| {
                AesGcm::new(key).map(|cipher| Cipher::AesGcm(Box::new(cipher)))
            })?,
            Provider::Secretbox(keys) => ciphers(keys, |key| Secretbox::new(key).map(Cipher::Secretbox))?,
        };
        Ok(Self { prefix, name, keys })
    }

    /// Reports whether values are left as they are.
    pub(super) fn is_identity(&self) -> bool {
        self.prefix.is_empty()
    }

    /// Decrypts what follows the prefix. All keys are tried whose name fits: a key may have been exchanged under its name.
    pub(super) fn decrypt<'v>(&self, data: &'v [u8], place: &str) -> Result<PlainValue<'v>, EncryptionError> {
        if self.is_identity() {
            if data.starts_with(ENCRYPTED_PREFIX) {
                return Err(EncryptionError::Value(
                    "identity transformer tried to read encrypted data",
                ));
            }
            let value = Cow::Borrowed(data);
            return Ok(PlainValue { value, stale: false });
        }
        let mut errors = Vec::new();
        for (at, key) in self.keys.iter().enumerate() {
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
        Err(EncryptionError::of_several(errors).unwrap_or(EncryptionError::NoKey(self.name)))
    }

    /// Encrypts a value, and puts the prefixes before it.
    pub(super) fn encrypt(&self, data: &[u8], place: &str) -> Result<Vec<u8>, EncryptionError> {
        let Some(key) = self.keys.first() else {
            return Ok(data.to_vec());
        };
        let encrypted = key.cipher.encrypt(data, place)?;
        Ok([self.prefix.as_bytes(), key.prefix.as_bytes(), &encrypted].concat())
    }
}
