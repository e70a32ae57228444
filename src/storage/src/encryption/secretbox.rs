//! NaCl's secretboxes: `nonce || tag || ciphertext` (`k8s.io/apiserver/pkg/storage/value/encrypt/secretbox`).

#![cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use crypto_secretbox::{KeyInit as _, Nonce, XSalsa20Poly1305, aead::Aead as _};

use super::{aes::random, transform::EncryptionError};

const NONCE: usize = 24;
const TAG: usize = 16;

/// The key is overwritten when this is dropped.
pub(super) struct Secretbox(XSalsa20Poly1305);

impl Secretbox {
    pub(super) fn new(key: &[u8]) -> Result<Self, EncryptionError> {
        let cipher = XSalsa20Poly1305::new_from_slice(key);
        Ok(Self(cipher.map_err(|_| EncryptionError::KeyLength(key.len()))?))
    }

    pub(super) fn decrypt(&self, data: &[u8]) -> Result<Vec<u8>, EncryptionError> {
        let (nonce, data) = data
            .split_first_chunk::<NONCE>()
            .filter(|(_, data)| data.len() >= TAG)
            .ok_or(EncryptionError::Value(
                "the stored data was shorter than the required size",
            ))?;
        let opened = self.0.decrypt(Nonce::from_slice(nonce), data);
        // kube-apiserver's words for a value that is not of this key, or was damaged.
        opened.map_err(|_| EncryptionError::Value("output array was not large enough for encryption"))
    }

    pub(super) fn encrypt(&self, data: &[u8]) -> Result<Vec<u8>, EncryptionError> {
        let nonce = random::<NONCE>()?;
        let sealed = self.0.encrypt(Nonce::from_slice(&nonce), data);
        let sealed = sealed.map_err(|_| EncryptionError::Cipher)?;
        Ok([nonce.as_slice(), &sealed].concat())
    }
}
