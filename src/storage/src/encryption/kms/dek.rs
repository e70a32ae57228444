//! Data encryption keys: from which a value is encrypted.

use aws_lc_rs::{aead, hkdf};
use zeroize::Zeroizing;

use crate::encryption::{
    aes::{self, AesGcm},
    transform::EncryptionError,
};

/// The bytes of a seed that is made here, of the random bytes before a value, and of a key that is derived.
const SEED: usize = 32;
const INFO: usize = 32;
/// The most bytes that a seed may have: what the library's HKDF takes.
const LONGEST_SEED: usize = 64;

/// The meaning of what the plugin decrypts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum DekSourceType {
    /// The key itself, as servers before 1.29 wrote.
    AesGcmKey,
    /// A seed: each value has a key of its own, which HKDF derives from the seed and the 32 random bytes before the value.
    HkdfSeed,
}

impl DekSourceType {
    /// The number that is stored.
    pub(super) fn number(self) -> i32 {
        match self {
            Self::AesGcmKey => 0,
            Self::HkdfSeed => 1,
        }
    }

    pub(super) fn of(number: i32) -> Option<Self> {
        match number {
            0 => Some(Self::AesGcmKey),
            1 => Some(Self::HkdfSeed),
            _ => None,
        }
    }
}

/// A key or a seed that is ready to work.
pub(super) enum Dek {
    Key(Box<AesGcm>),
    Seed(hkdf::Prk),
}

impl Dek {
    /// Reads a source of keys as the plugin has decrypted it: a key, or a seed of keys.
    pub(super) fn new(kind: DekSourceType, bytes: &[u8]) -> Result<Self, EncryptionError> {
        match kind {
            DekSourceType::AesGcmKey => Ok(Self::Key(Box::new(AesGcm::new(bytes)?))),
            DekSourceType::HkdfSeed if (SEED..=LONGEST_SEED).contains(&bytes.len()) => {
                Ok(Self::Seed(hkdf::Prk::new_less_safe(hkdf::HKDF_SHA256, bytes)))
            }
            DekSourceType::HkdfSeed => Err(EncryptionError::SeedLength(bytes.len())),
        }
    }

    /// A new seed, and its bytes for the plugin.
    pub(super) fn generate() -> Result<(Self, Zeroizing<Vec<u8>>), EncryptionError> {
        let bytes = Zeroizing::new(aes::random::<SEED>()?.to_vec());
        Ok((Self::new(DekSourceType::HkdfSeed, &bytes)?, bytes))
    }

    /// Decrypts what was encrypted for a place.
    pub(super) fn decrypt(&self, data: &[u8], place: &str) -> Result<Vec<u8>, EncryptionError> {
        match self {
            Self::Key(cipher) => cipher.decrypt(data, place),
            Self::Seed(seed) => {
                let short = EncryptionError::Value("the stored data was shorter than the required size");
                let (info, data) = data.split_first_chunk::<INFO>().ok_or(short)?;
                derived(seed, info)?.decrypt(data, place)
            }
        }
    }

    /// Encrypts for a place.
    pub(super) fn encrypt(&self, data: &[u8], place: &str) -> Result<Vec<u8>, EncryptionError> {
        match self {
            Self::Key(cipher) => cipher.encrypt(data, place),
            Self::Seed(seed) => {
                let info = aes::random::<INFO>()?;
                let encrypted = derived(seed, &info)?.encrypt(data, place)?;
                Ok([info.as_slice(), &encrypted].concat())
            }
        }
    }
}

/// HKDF's expansion alone: the seed is random already.
fn derived(seed: &hkdf::Prk, info: &[u8; INFO]) -> Result<AesGcm, EncryptionError> {
    let info = [info.as_slice()];
    let key = seed.expand(&info, &aead::AES_256_GCM);
    let key = key.map_err(|_| EncryptionError::Cipher)?;
    Ok(AesGcm::of(aead::UnboundKey::from(key)))
}
