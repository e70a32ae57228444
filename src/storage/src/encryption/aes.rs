//! AES in its two modes (`k8s.io/apiserver/pkg/storage/value/encrypt/aes`).

#![cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use aws_lc_rs::{
    aead::{self, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    cipher::{self, DecryptingKey, DecryptionContext, EncryptionContext, PaddedBlockEncryptingKey, UnboundCipherKey},
    iv::FixedLength,
};
use rand::{TryRngCore as _, rngs::OsRng};

use super::transform::EncryptionError;

const BLOCK: usize = 16;
const TOO_SHORT: EncryptionError = EncryptionError::Value("the stored data was shorter than the required size");

/// `IV || ciphertext`, padded as PKCS#7 says.
pub(super) struct AesCbc {
    encrypting: PaddedBlockEncryptingKey,
    decrypting: DecryptingKey,
}

impl AesCbc {
    pub(super) fn new(key: &[u8]) -> Result<Self, EncryptionError> {
        let algorithm = match key.len() {
            16 => &cipher::AES_128,
            24 => &cipher::AES_192,
            32 => &cipher::AES_256,
            length => return Err(EncryptionError::KeyLength(length)),
        };
        let unbound = || UnboundCipherKey::new(algorithm, key).map_err(|_| EncryptionError::Cipher);
        Ok(Self {
            encrypting: PaddedBlockEncryptingKey::cbc_pkcs7(unbound()?).map_err(|_| EncryptionError::Cipher)?,
            decrypting: DecryptingKey::cbc(unbound()?).map_err(|_| EncryptionError::Cipher)?,
        })
    }

    pub(super) fn decrypt(&self, data: &[u8]) -> Result<Vec<u8>, EncryptionError> {
        let (iv, data) = data.split_first_chunk::<BLOCK>().ok_or(TOO_SHORT)?;
        if !data.len().is_multiple_of(BLOCK) {
            let text = "the stored data is not a multiple of the block size";
            return Err(EncryptionError::Value(text));
        }
        let mut data = data.to_vec();
        let context = DecryptionContext::Iv128(FixedLength::from(iv));
        let decrypted = self.decrypting.decrypt(&mut data, context);
        decrypted.map_err(|_| EncryptionError::Cipher)?;
        let length = unpadded(&data)?.len();
        data.truncate(length);
        Ok(data)
    }

    pub(super) fn encrypt(&self, data: &[u8]) -> Result<Vec<u8>, EncryptionError> {
        let iv = random::<BLOCK>()?;
        let mut text = Vec::with_capacity(data.len().saturating_add(BLOCK));
        text.extend_from_slice(data);
        let context = EncryptionContext::Iv128(FixedLength::from(&iv));
        let encrypted = self.encrypting.less_safe_encrypt(&mut text, context);
        encrypted.map_err(|_| EncryptionError::Cipher)?;
        Ok([iv.as_slice(), &text].concat())
    }
}

/// The text before its padding. Under a wrong key this is what most often shows that it is wrong.
fn unpadded(data: &[u8]) -> Result<&[u8], EncryptionError> {
    let byte = data.last().copied().unwrap_or_default();
    let split = data.len().checked_sub(byte.into()).filter(|_| byte != 0);
    let parts = split.and_then(|at| data.split_at_checked(at));
    match parts {
        None => Err(EncryptionError::Value("invalid PKCS7 data (empty or not padded)")),
        Some((text, padding)) if padding.iter().all(|found| *found == byte) => Ok(text),
        Some(_) => Err(EncryptionError::Value("invalid padding on input")),
    }
}

/// `nonce || ciphertext || tag`. The value is bound to its key in the store.
pub(super) struct AesGcm(LessSafeKey);

impl AesGcm {
    pub(super) fn new(key: &[u8]) -> Result<Self, EncryptionError> {
        let algorithm = match key.len() {
            16 => &aead::AES_128_GCM,
            24 => &aead::AES_192_GCM,
            32 => &aead::AES_256_GCM,
            length => return Err(EncryptionError::KeyLength(length)),
        };
        let key = UnboundKey::new(algorithm, key).map_err(|_| EncryptionError::Cipher)?;
        Ok(Self::of(key))
    }

    /// By a key that was made for it.
    pub(super) fn of(key: UnboundKey) -> Self {
        Self(LessSafeKey::new(key))
    }

    pub(super) fn decrypt(&self, data: &[u8], place: &str) -> Result<Vec<u8>, EncryptionError> {
        let (nonce, data) = data.split_first_chunk::<NONCE_LEN>().ok_or(TOO_SHORT)?;
        let mut data = data.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let opened = self.0.open_in_place(nonce, Aad::from(place.as_bytes()), &mut data);
        let length = opened
            .map_err(|_| EncryptionError::Value("cipher: message authentication failed"))?
            .len();
        data.truncate(length);
        Ok(data)
    }

    pub(super) fn encrypt(&self, data: &[u8], place: &str) -> Result<Vec<u8>, EncryptionError> {
        let bytes = random::<NONCE_LEN>()?;
        let mut text = Vec::with_capacity(data.len().saturating_add(self.0.algorithm().tag_len()));
        text.extend_from_slice(data);
        let nonce = Nonce::assume_unique_for_key(bytes);
        let sealed = self
            .0
            .seal_in_place_append_tag(nonce, Aad::from(place.as_bytes()), &mut text);
        sealed.map_err(|_| EncryptionError::Cipher)?;
        Ok([bytes.as_slice(), &text].concat())
    }
}

/// Bytes of the operating system's generator.
pub(super) fn random<const LENGTH: usize>() -> Result<[u8; LENGTH], EncryptionError> {
    let mut bytes = [0; LENGTH];
    let filled = OsRng.try_fill_bytes(&mut bytes);
    filled.map_err(|_| EncryptionError::Value("unable to read sufficient random bytes"))?;
    Ok(bytes)
}
