//! Stored values of KMS v2, and what is checked of them.

use std::collections::BTreeMap;

use aws_lc_rs::digest;
use prost::Message as _;

use super::{
    annotations::validate_annotations,
    api::{DecryptRequest, EncryptResponse, EncryptedObject},
    dek::DekSourceType,
};
use crate::encryption::transform::EncryptionError;

const KEY_ID_BYTES: usize = 1024;
const DEK_SOURCE_BYTES: usize = 1024;

/// Identifies a [`DekSource`].
pub(super) type CacheKey = [u8; 32];

/// An encrypted key or seed, with all that the plugin wants to decrypt it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DekSource {
    pub(super) kind: DekSourceType,
    pub(super) encrypted: Vec<u8>,
    pub(super) key_id: String,
    pub(super) annotations: BTreeMap<String, Vec<u8>>,
}

impl DekSource {
    /// The seed that the plugin has encrypted.
    pub(super) fn of_seed(response: EncryptResponse) -> Result<Self, EncryptionError> {
        let EncryptResponse {
            ciphertext,
            key_id,
            annotations,
        } = response;
        let source = Self {
            kind: DekSourceType::HkdfSeed,
            encrypted: ciphertext,
            key_id,
            annotations,
        };
        source.validate()?;
        Ok(source)
    }

    /// `ValidateEncryptedObject`, but for the data.
    fn validate(&self) -> Result<(), EncryptionError> {
        let invalid = |of: &str, why: String| Err(EncryptionError::Envelope(format!("failed to validate {of}: {why}")));
        match self.encrypted.len() {
            0 => return invalid("encrypted DEK source", "encrypted DEK source is empty".to_owned()),
            length if length > DEK_SOURCE_BYTES => {
                let why =
                    format!("encrypted DEK source is {length} bytes, which exceeds the max size of {DEK_SOURCE_BYTES}");
                return invalid("encrypted DEK source", why);
            }
            _ => {}
        }
        if let Err(error) = validate_key_id(&self.key_id) {
            return invalid("key id", error.to_string());
        }
        validate_annotations(&self.annotations).or_else(|why| invalid("annotations", why))
    }

    /// The hash of `generateCacheKey`.
    pub(super) fn cache_key(&self) -> CacheKey {
        let mut context = digest::Context::new(&digest::SHA256);
        context.update(&self.kind.number().to_be_bytes());
        let mut add = |bytes: &[u8]| {
            context.update(&bytes.len().to_be_bytes());
            context.update(bytes);
        };
        add(&self.encrypted);
        add(self.key_id.as_bytes());
        for (name, value) in &self.annotations {
            add(name.as_bytes());
            add(value);
        }
        let mut key = CacheKey::default();
        key.copy_from_slice(context.finish().as_ref());
        key
    }

    /// The call that decrypts it.
    pub(super) fn decrypt_request(&self, uid: String) -> DecryptRequest {
        DecryptRequest {
            ciphertext: self.encrypted.clone(),
            uid,
            key_id: self.key_id.clone(),
            annotations: self.annotations.clone(),
        }
    }

    /// Takes a stored value apart: how to get its key, and the data.
    pub(super) fn open(value: &[u8]) -> Result<(Self, Vec<u8>), EncryptionError> {
        let object =
            EncryptedObject::decode(value).map_err(|error| EncryptionError::Envelope(format!("proto: {error}")))?;
        let number = object.encrypted_dek_source_type;
        let kind = DekSourceType::of(number)
            .ok_or_else(|| EncryptionError::Envelope(format!("unknown encryptedDEKSourceType: {number}")))?;
        if object.encrypted_data.is_empty() {
            return Err(EncryptionError::Value("encrypted data is empty"));
        }
        let source = Self {
            kind,
            encrypted: object.encrypted_dek_source,
            key_id: object.key_id,
            annotations: object.annotations,
        };
        source.validate()?;
        Ok((source, object.encrypted_data))
    }

    /// Puts a stored value together.
    pub(super) fn seal(&self, encrypted_data: Vec<u8>) -> Vec<u8> {
        let object = EncryptedObject {
            encrypted_data,
            key_id: self.key_id.clone(),
            encrypted_dek_source: self.encrypted.clone(),
            annotations: self.annotations.clone(),
            encrypted_dek_source_type: self.kind.number(),
        };
        object.encode_to_vec()
    }
}

/// The reason that a key id is none.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum KeyIdError {
    #[error("keyID is empty")]
    Empty,
    #[error("keyID is {0} bytes, which exceeds the max size of {KEY_ID_BYTES}")]
    TooLong(usize),
}

impl KeyIdError {
    /// The word for it in metrics.
    pub(super) fn code(&self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::TooLong(_) => "too_long",
        }
    }
}

/// `ValidateKeyID`
pub(super) fn validate_key_id(key_id: &str) -> Result<(), KeyIdError> {
    match key_id.len() {
        0 => Err(KeyIdError::Empty),
        length if length > KEY_ID_BYTES => Err(KeyIdError::TooLong(length)),
        _ => Ok(()),
    }
}
